"""Plugins of the same plugin.path as a Java worker and ours show, describe and validate them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.java.plugins import JavaSettings
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.validation.config_infos import key_info
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.plugin_config import plugin_config_keys
from kconnect.runtime.plugins import PluginRegistry
from kit.debezium import debezium_plugin_path
from kit.java_connect import JavaConnect
from kit.java_finding import found_folder

_TICKER = "found.Found$Ticker"
_POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_WORKER = {"key.converter": _STRING, "value.converter": _STRING}
_OWN = ("found.", "io.debezium.")
_CONVERTERS = ("value.converter", "header.converter")


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("found-rest")
    found_folder(path / "old", "1.0.0")
    found_folder(path / "new", "2.5.0")
    found_folder(path / "stamps", "3.1.0", only=("Stamp",))
    (path / "debezium").symlink_to(debezium_plugin_path() / "debezium-connector-postgres")
    return str(path)


@pytest.fixture(scope="module")
def java(plugin_path: str, broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaConnect]:
    folder = tmp_path_factory.mktemp("java-rest")
    path = f"{plugin_path},{folder / 'plugins'}"
    with JavaConnect(folder, broker.bootstrap, worker={"plugin.path": path}) as running:
        yield running


@pytest.fixture(scope="module")
def ours(plugin_path: str) -> Iterator[PluginRegistry]:
    java = JavaSettings(heap="256m", discovery="service_load")
    with closing(PluginRegistry.load(plugin_path, java=java)) as made:
        made.connector_class(_TICKER)().version()  # the JVM is up
        yield made


def test_the_same_plugins_in_the_same_order(java: JavaConnect, ours: PluginRegistry) -> None:
    status, listed = java.request("GET", "/connector-plugins?connectorsOnly=false")
    assert status == 200
    mine = [info.to_json() for info in ours.describe() if info.class_name.startswith(_OWN)]
    assert [plugin for plugin in listed if plugin["class"].startswith(_OWN)] == mine
    every = {(info.class_name, str(info.type)) for info in ours.describe()}
    assert {(plugin["class"], plugin["type"]) for plugin in listed} - every == set(), "Kafka's own are here, too"


def test_a_version_of_a_class_in_two_folders_is_one_row(tmp_path: Path, broker: DevBroker) -> None:
    for name in ("one", "two"):
        found_folder(tmp_path / "path" / name, "1.0.0", only=("Ticker", "Words"))
    with JavaConnect(tmp_path / "java", broker.bootstrap, worker={"plugin.path": str(tmp_path / "path")}) as java:
        _, listed = java.request("GET", "/connector-plugins?connectorsOnly=false")
    with closing(PluginRegistry.load(str(tmp_path / "path"), java=JavaSettings(heap="128m"))) as plugins:
        plugins.connector_class(_TICKER)().version()  # the JVM is up
        mine = [info for info in plugins.describe() if info.class_name.startswith("found.")]
        assert [info.to_json() for info in mine] == [row for row in listed if row["class"].startswith("found.")]
        assert mine[0].location == f"{tmp_path / 'path' / 'one'}, {tmp_path / 'path' / 'two'}"
        validator = ConnectorValidator(plugins, _WORKER, Variables())
        config = {"name": "r", "connector.class": _TICKER, "topic": "t", "transforms": "a"}
        for info in validator.validate(config).configs:
            offered = info.value.recommended_values if info.value else []
            assert len(offered) == len(set(map(str, offered))), info


@pytest.mark.parametrize(
    ("plugin", "version"),
    [
        (_TICKER, None),
        (_TICKER, "1.0.0"),
        ("Ticker", "[2,3)"),
        (_TICKER, "latest"),
        (_TICKER, "[7,8)"),
        (_TICKER, "(1"),
        ("found.Found$Stamp", "(,2]"),
        ("found.Found$Words", None),
        ("found.Found$Nothing", None),
        (_POSTGRES, None),
        ("io.debezium.transforms.ExtractNewRecordState", None),
        ("io.debezium.transforms.outbox.EventRouter", None),
    ],
)
def test_the_same_settings_of_a_plugin(
    java: JavaConnect, ours: PluginRegistry, plugin: str, version: str | None
) -> None:
    asked = "" if version is None else f"?version={version.replace('[', '%5B').replace(']', '%5D')}"
    status, reported = java.request("GET", f"/connector-plugins/{plugin.replace('$', '%24')}/config{asked}")
    found = answer(lambda: [key_info(key) for key in plugin_config_keys(ours, plugin, version)])
    if isinstance(found, ConnectError):
        wanted = {"NotFoundError": 404, "BadRequestError": 400}[type(found).__name__]
        assert (status, reported["message"]) == (wanted, str(found))
        return
    mine: list[dict[str, Any]] = found
    common = {key["name"] for key in mine} & {"connector.plugin.version"}
    theirs = {key["name"]: key for key in reported}
    own = ours.any_plugin(plugin, version)().config().names()
    for key in mine:
        if key["name"] in own:
            assert key == theirs[key["name"]]
        elif key["name"] in common:
            assert key["default_value"] == theirs[key["name"]]["default_value"]
    assert own <= set(theirs)


def answer(ask: Callable[[], Any]) -> Any:
    """What it gives, or what it raises."""
    try:
        return ask()
    except ConnectError as err:
        return err


def random_config(random: Random) -> dict[str, str]:
    """A connector's config with what may be missing, wrong or of another version."""
    versions = ("1.0.0", "2.5.0", "3.1.0", "[1,3)", "(2,)", "latest", "9.9")
    config = {"name": "r", "connector.class": random.choice((_TICKER, "Ticker")), "transforms": "a"}
    config["transforms.a.type"] = random.choice(
        (*("found.Found$Stamp", "found.Found$Stamp", "found.Found$Always"), "Words", "DropHeaders")
    )
    for key, values in {
        "topic": ("t",),
        "count": ("1", "9", "0", "x", ""),
        "made.by": ("me",),
        "secret": ("s3cret",),
        "connector.plugin.version": versions,
        "transforms.a.plugin.version": versions,
        "transforms.a.ink": ("blue",),
        "value.converter": ("found.Found$Words", _STRING, "Words", "Json", "Stamp", "\xa0Words", ""),
        "header.converter": (_STRING, "String", "DropHeaders", "nobody"),
        "value.converter.plugin.version": ("1.0.0", "[2,3)", "9.9"),
        "tasks.max": ("1", "0", "many"),
    }.items():
        if random.random() < 0.5:
            config[key] = random.choice(values)
    if "value.converter" not in config:
        config.pop("value.converter.plugin.version", None)
    return config


def values_of(infos: Mapping[str, Any]) -> dict[str, Any]:
    """Value, errors, recommended values and visibility of the settings that plugins bring or choose plugins."""
    found = {}
    for info in infos["configs"]:
        value = info["value"]
        name = str(value["name"])
        if name in (
            "topic",
            "count",
            "made.by",
            "secret",
            "connector.class",
            "tasks.max",
            *_CONVERTERS,
        ) or name.startswith(("transforms.", "connector.plugin", "value.converter.plugin")):
            found[name] = {key: value[key] for key in ("value", "errors", "visible")}
            if name.endswith(".plugin.version") or name == "secret":
                found[name]["recommended_values"] = value["recommended_values"]
    return found


def test_random_configs_are_validated_alike(java: JavaConnect, ours: PluginRegistry) -> None:
    validator = ConnectorValidator(ours, _WORKER, Variables())
    random, compared = Random(7), 0
    for _ in range(60):
        config = random_config(random)
        status, reported = java.request(
            "PUT", f"/connector-plugins/{config['connector.class'].replace('$', '%24')}/config/validate", config
        )
        mine = answer(lambda config=config: validator.validate(config).to_json())
        if isinstance(mine, ConnectError):
            assert (status, reported["message"]) == (400, str(mine)), config
            continue
        if status == 500:  # a fault of Java's: an invalid version that was asked for before
            assert "VersionedPluginLoadingException.availableVersions()" in reported["message"]
            continue
        assert status == 200, (config, reported)
        assert values_of(mine) == values_of(reported), config
        assert mine["error_count"] == reported["error_count"], config
        compared += 1
    assert compared > 40
