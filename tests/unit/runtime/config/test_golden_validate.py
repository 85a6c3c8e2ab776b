"""ConfigDef.validate, ConfigDef.parse and the worker configs against Java 4.3.0's answers (tests/golden/configdefs)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, NotFoundError
from kconnect.runtime.config.connector_keys import CONNECTOR_CONFIG, SINK_CONFIG, SOURCE_CONFIG, topic_creation_table
from kconnect.runtime.config.worker_config import (
    DISTRIBUTED_CONFIG,
    STANDALONE_CONFIG,
    DistributedConfig,
    StandaloneConfig,
)
from kconnect.runtime.plugins import PluginRegistry
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN

RECORDED = json.loads((GOLDEN / "configdefs/validate.json").read_text())
CONSTRUCTED = json.loads((GOLDEN / "configdefs/worker-config-constructor.json").read_text())
OWN = {
    "ConnectorConfig": CONNECTOR_CONFIG,
    "DistributedConfig": DISTRIBUTED_CONFIG,
    "SinkConnectorConfig": SINK_CONFIG,
    "SourceConnectorConfig": SOURCE_CONFIG,
    "StandaloneConfig": STANDALONE_CONFIG,
    "TopicCreationConfig": topic_creation_table("default"),
}
PLUGINS = {
    "Cast": "transformation",
    "DropHeaders": "transformation",
    "ExtractField": "transformation",
    "FileStreamSink": "connector_class",
    "FileStreamSource": "connector_class",
    "HasHeaderKey": "predicate",
    "Flatten": "transformation",
    "HeaderFrom": "transformation",
    "HoistField": "transformation",
    "InsertField": "transformation",
    "InsertHeader": "transformation",
    "JsonConverterConfig": "converter",
    "MaskField": "transformation",
    "RegexRouter": "transformation",
    "ReplaceField": "transformation",
    "SetSchemaMetadata": "transformation",
    "StringConverterConfig": "converter",
    "TimestampConverter": "transformation",
    "TimestampRouter": "transformation",
    "TopicNameMatches": "predicate",
    "ValueToKey": "transformation",
}
OF_KEY_OR_VALUE = {
    *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField"),
    *("MaskField", "ReplaceField", "SetSchemaMetadata", "TimestampConverter"),
}
# Only a JVM has these lists of algorithms.
ALGORITHMS = "the supported algorithms are: ["
# Classes of the JVM that stand for "some class that is there".
JVM_CLASSES = {"java.lang.String"}


def find_class(name: str) -> object:
    """What Java's class path had when the answers were recorded."""
    if name.startswith("org.apache.kafka.") or name in JVM_CLASSES:
        return name
    raise NotFoundError(name)


def table_of(name: str) -> ConfigDef:
    if name in OWN:
        return OWN[name]
    alias = {"JsonConverterConfig": "JsonConverter", "StringConverterConfig": "StringConverter"}.get(name, name)
    alias += "$Value" if name in OF_KEY_OR_VALUE else ""
    plugin: Any = getattr(PluginRegistry.load(), PLUGINS[name])(alias)
    definition: ConfigDef = plugin().config()
    return definition


def known(message: str) -> str:
    """A message, cut before a list that only a JVM has."""
    if ALGORITHMS in message:
        return message.split(": the algorithm is not supported")[0]
    return message


# Java's validators of partitions and replication factors crash on a value that is missing or no number.
CRASHES = [case for case in RECORDED if "NullPointerException" in json.dumps(case.get("validate_exception", ""))]
# Java says so at the first record.
REFUSED_EARLIER = [case for case in RECORDED if case["input"].get("timestamp.format") == "bbb"]
CASES = numbered(
    (case for case in RECORDED if case not in CRASHES and case not in REFUSED_EARLIER),
    lambda case: f"{case['configdef']}-{case['input']}",
)


def test_every_recorded_table_is_compared_or_named() -> None:
    assert {case["configdef"] for case in RECORDED} == {*OWN, *PLUGINS}


def test_validate_finds_what_java_finds() -> None:
    assert hold_alike(CASES, compare_validated) == 125


def compare_validated(case: dict[str, Any]) -> None:
    found = table_of(case["configdef"]).validate_all(case["input"], find_class)

    ours = {
        value.name: (value.value, [known(text) for text in value.error_messages], value.visible)
        for value in found.values()
        if value.error_messages
    }
    assert ours == {
        error["name"]: (error["value"], [known(text) for text in error["messages"]], error["visible"])
        for error in case["errors"]
    }


def test_parse_gives_what_java_gives() -> None:
    assert hold_alike(CASES, compare_parsed) == 125


def compare_parsed(case: dict[str, Any]) -> None:
    table = table_of(case["configdef"])
    if "parse_exception" in case:
        with pytest.raises(ConfigError) as refused:
            table.parse(case["input"], find_class)
        assert known(str(refused.value)) == known(case["parse_exception"]["message"])
        return

    parsed = table.parse(case["input"], find_class)

    assert {key: parsed[key] for key in case["parsed_given_keys"]} == case["parsed_given_keys"]


@pytest.mark.parametrize("case", CRASHES, ids=lambda case: case["configdef"])
def test_what_crashes_javas_validate_is_an_error_of_the_setting_here(case: dict[str, Any]) -> None:
    found = table_of(case["configdef"]).validate(case["input"], find_class)

    assert [value.name for value in found if value.error_messages]


@pytest.mark.parametrize("case", REFUSED_EARLIER, ids=lambda case: case["configdef"])
def test_a_pattern_of_dates_is_refused_by_validate(case: dict[str, Any]) -> None:
    (found,) = (
        value for value in table_of(case["configdef"]).validate(case["input"], find_class) if value.error_messages
    )

    assert found.name == "timestamp.format"
    assert "Illegal pattern character 'b'" in found.error_messages[0]


def test_worker_configs_accept_and_refuse_as_java() -> None:
    cases = numbered(CONSTRUCTED, lambda case: f"{case['config']}-{case['input']}"[-100:])
    assert hold_alike(cases, compare_constructed) == 62


def compare_constructed(case: dict[str, Any]) -> None:
    config = StandaloneConfig if case["config"] == "StandaloneConfig" else DistributedConfig
    if "exception" not in case:
        assert config.parse(case["input"], find_class).originals == case["input"]
        return

    with pytest.raises(ConfigError) as refused:
        config.parse(case["input"], find_class)

    assert known(str(refused.value)) == known(case["exception"]["message"])
