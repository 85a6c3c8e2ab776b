"""What share of the settings in connector files, written in the manner of public ones, is accepted unchanged.

    PYTHONPATH=tests python -m kit.accepted_settings

Each file is validated as `POST /connectors` would. Settings of Java's connectors and steps, such as Debezium's, are
theirs to judge once they are installed: they are counted apart.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError
from kconnect.java.plugins import Hosted
from kconnect.runtime.config.connector_keys import DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.dropins import load_folder
from kconnect.runtime.config.misspelt import unknown_settings
from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry

__all__ = ["FOLDER", "Count", "counted_settings"]

FOLDER: Final = Path(__file__).parents[1] / "connector_files"
_WORKER: Final = {
    "bootstrap.servers": "kafka:9092",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}
_STEP: Final = re.compile(r"((?:transforms|predicates)\.[^.]+\.)")
_OF_CONNECT: Final = re.compile(
    r"(?:transforms|predicates)(?:\.|$)|(?:key|value|header)\.converter(?:\.|$)|(?:producer|consumer|admin)\.override\."
    r"|topic\.creation\."
)


@dataclass
class Count:
    files: int = 0
    accepted: int = 0
    elsewhere: int = 0
    """Of plugins that are not included."""
    refused: dict[str, str] = field(default_factory=dict)
    """File and setting, and why."""

    @property
    def share(self) -> float:
        return self.accepted / (self.accepted + len(self.refused))

    def __str__(self) -> str:
        known = self.accepted + len(self.refused)
        lead = f"{self.accepted} of {known} settings ({self.share:.1%}) in {self.files} files"
        return f"{lead}; {self.elsewhere} more are of plugins to be installed"


def counted_settings(folder: Path = FOLDER) -> Count:
    """Every setting of every file below the folder, judged."""
    plugins = PluginRegistry.load()
    validator = ConnectorValidator(plugins, _WORKER)
    count = Count()
    for file in load_folder(folder):
        count.files += 1
        judged, elsewhere = _judged(file.config, plugins)
        count.elsewhere += elsewhere
        try:
            found = _complaints(judged, validator.validate(judged))
        except ConnectError as err:
            found = {"connector.class": str(err)}
        own = {key for key in judged if key in file.config}
        refused = {key: found[key] for key in own & found.keys()}
        count.accepted += len(own) - len(refused)
        count.refused |= {f"{file.path.name}: {key}": why for key, why in refused.items()}
    return count


def _judged(config: Mapping[str, str], plugins: PluginRegistry) -> tuple[dict[str, str], int]:
    """What can be judged without plugins that are not included, and how many settings that leaves out."""
    absent = {
        found[0]
        for key, name in config.items()
        if (found := _STEP.match(key)) and key == f"{found[0]}type" and not _is_there(plugins, found[0], name)
    }
    kept = {key: value for key, value in config.items() if not key.startswith(tuple(absent) or ("\0",))}
    aliases = [prefix.split(".")[1] for prefix in absent]
    for key in ("transforms", "predicates"):
        if key in kept:
            kept[key] = ",".join(alias for alias in kept[key].split(",") if alias not in aliases)
    for key in ("key.converter", "value.converter", "header.converter"):
        if key in kept and not _has_converter(plugins, key, kept[key]):
            kept = {name: value for name, value in kept.items() if not name.startswith(key)}
    if not _is_ours(plugins, config["connector.class"]):
        is_sink = not config.keys().isdisjoint({"topics", "topics.regex"}) and "Source" not in config["connector.class"]
        names = {*(SINK_CONFIG if is_sink else SOURCE_CONFIG).config_keys, *DEAD_LETTER_KEYS} - {"connector.class"}
        kept = {key: value for key, value in kept.items() if key in names or _OF_CONNECT.match(key)}
        left_out = len(config) - len(kept)
        stand_in = {"file": "/f"} if is_sink else {"file": "/f", "topic": "t"}
        return {**kept, **stand_in, "connector.class": f"FileStream{'Sink' if is_sink else 'Source'}"}, left_out
    return kept, len(config) - len(kept)


def _is_ours(plugins: PluginRegistry, name: str) -> bool:
    """Whether the connector is included, and no Java's."""
    try:
        return not issubclass(plugins.connector_class(name), Hosted)
    except ConnectError:
        return False


def _is_there(plugins: PluginRegistry, prefix: str, name: str) -> bool:
    find = plugins.predicate if prefix.startswith("predicates.") else plugins.transformation
    try:
        find(name)
    except ConnectError:
        return False
    return True


def _has_converter(plugins: PluginRegistry, key: str, name: str) -> bool:
    try:
        (plugins.header_converter if key == "header.converter" else plugins.converter)(name)
    except ConnectError:
        return False
    return True


def _complaints(config: Mapping[str, str], infos: ConfigInfos) -> dict[str, str]:
    """Settings with an error, and those that mean nothing."""
    values = [info.value for info in infos.configs if info.value is not None]
    known = {*OWN_OF_CONNECTORS, *DEAD_LETTER_KEYS, *(value.name for value in values)}
    errors = {
        value.name: "; ".join(value.error_messages)
        for value in values
        # Of the setting, not of a database that is not there
        if value.error_messages and not value.error_messages[0].startswith("The database ")
    }
    return {**unknown_settings(config, known, of_clients=True), **errors}


if __name__ == "__main__":
    result = counted_settings()
    for place, why in result.refused.items():
        sys.stdout.write(f"{place}: {why.splitlines()[0]}\n")
    sys.stdout.write(f"{result}\n")
