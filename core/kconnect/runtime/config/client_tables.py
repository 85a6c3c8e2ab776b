"""Settings of Java's producers, consumers and admin clients as tables, to describe what a connector overrides.

`client_settings.json` is what tests/kit/java_programs/ClientSettings.java printed from kafka-clients 4.3.0; the test
beside it compares the two. Our clients are librdkafka's: see `client_config.py` for what each setting becomes.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from kconnect.api.config_key import NO_DEFAULT, Importance
from kconnect.api.config_parse import ConfigType
from kconnect.api.configdef import ConfigDef

ClientKind = Literal["admin", "consumer", "producer"]
_DOCUMENTATION: Final = "https://kafka.apache.org/43/documentation.html"
_ANCHORS: Final = {"admin": "adminclientconfigs", "consumer": "consumerconfigs", "producer": "producerconfigs"}


@cache
def client_table(client: ClientKind) -> ConfigDef:
    """The table of one client, in the order of names. Threads: any; the file is read once.

    Source: ProducerConfig, ConsumerConfig, AdminClientConfig (Kafka 4.3).
    Differs: rows have no validators, as Connect does not validate overrides with them; their text is a link.
    """
    table = ConfigDef()
    for name, row in _rows()[client].items():
        is_internal = len(row) > 3
        table.define(
            name,
            ConfigType[row[0]],
            row[2] if len(row) > 2 else NO_DEFAULT,
            None,
            Importance[row[1]],
            f"Setting of Kafka's {client} clients, see {_DOCUMENTATION}#{_ANCHORS[client]}_{name}.",
            group="" if is_internal else None,
            internal=is_internal,
        )
    return table


@cache
def _rows() -> dict[str, dict[str, list[Any]]]:
    text = files(__package__).joinpath("client_settings.json").read_text("utf-8")
    found: dict[str, dict[str, list[Any]]] = json.loads(text)
    return found
