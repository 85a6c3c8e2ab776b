"""Settings of what we ship are Java's: names, types, defaults, order, groups, validators."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConfigError
from kconnect.builtin.connectors import file_sink, file_source
from kconnect.builtin.converters import (
    boolean_converter,
    bytes_converter,
    header_converter,
    json_converter,
    number_converters,
    string_converter,
)
from kconnect.builtin.predicates import HEADER_NAME_CONFIG, TOMBSTONE_CONFIG, TOPIC_NAME_CONFIG
from kconnect.builtin.transforms import (
    cast,
    extract_field,
    flatten,
    header_from,
    headers,
    hoist_field,
    insert_field,
    mask_field,
    regex_router,
    replace_field,
    set_schema_metadata,
    timestamp_converter,
    timestamp_router,
    value_to_key,
)
from kconnect.builtin.transforms import filter as filter_transform
from kconnect.runtime.pipeline.java_chain import BEYOND_JAVA, KNOWS_IN_JAVA
from kconnect.runtime.plugins.aliases import BUILTINS, BuiltinPlugin
from kconnect.runtime.plugins.python_classes import load_builtin
from kit.differences import hold_alike
from kit.golden import GOLDEN, load

TABLES = {
    "FileStreamSource": file_source.CONFIG,
    "FileStreamSink": file_sink.CONFIG,
    "JsonConverterConfig": json_converter.CONFIG,
    "StringConverterConfig": string_converter.CONFIG,
    "ByteArrayConverter": bytes_converter.CONFIG,
    "SimpleHeaderConverter": header_converter.CONFIG,
    "NumberConverterConfig": number_converters.CONFIG,
    "LongConverter": number_converters.CONFIG,
    "BooleanConverterConfig": boolean_converter.CONFIG,
    "Cast": cast.CONFIG,
    "DropHeaders": headers.DROP_CONFIG,
    "ExtractField": extract_field.CONFIG,
    "Filter": filter_transform.CONFIG,
    "Flatten": flatten.CONFIG,
    "HeaderFrom": header_from.CONFIG,
    "HoistField": hoist_field.CONFIG,
    "InsertField": insert_field.CONFIG,
    "InsertHeader": headers.INSERT_CONFIG,
    "RegexRouter": regex_router.CONFIG,
    "MaskField": mask_field.CONFIG,
    "ReplaceField": replace_field.CONFIG,
    "SetSchemaMetadata": set_schema_metadata.CONFIG,
    "TimestampConverter": timestamp_converter.CONFIG,
    "TimestampRouter": timestamp_router.CONFIG,
    "ValueToKey": value_to_key.CONFIG,
    "HasHeaderKey": HEADER_NAME_CONFIG,
    "RecordIsTombstone": TOMBSTONE_CONFIG,
    "TopicNameMatches": TOPIC_NAME_CONFIG,
}


# What else was recorded: of Connect itself, and what there is no table of ours for.
CONNECTS_OWN = {
    *("ConnectorConfig", "SinkConnectorConfig", "SourceConnectorConfig", "TopicCreationConfig"),
    *(
        "DistributedConfig",
        "RestServerConfig",
        "StandaloneConfig",
    ),  # tests/unit/runtime/config/test_golden_configdefs.py
    *("validate", "worker-config-constructor"),  # tests/unit/runtime/config/test_golden_validate.py
}
WITHOUT_TABLE = {
    **dict.fromkeys(
        ("MirrorCheckpointConnector", "MirrorHeartbeatConnector", "MirrorSourceConnector"),
        "MirrorMaker is not shipped",
    ),
    "TaskConfig": "one row, task.class, which no user sets: the worker adds it to what task_configs gave",
    "missing": "the recorder's list of tables it could not find: it is empty",
}


def test_every_recorded_table_is_compared_or_said_why_not() -> None:
    recorded = {file.stem for file in (GOLDEN / "configdefs").glob("*.json")}
    assert recorded == TABLES.keys() | CONNECTS_OWN | WITHOUT_TABLE.keys()
    assert load("configdefs/missing.json") == {}


NAME_FIELDS = {
    *("Cast", "ExtractField", "HeaderFrom", "InsertField", "MaskField", "ReplaceField", "TimestampConverter"),
    "ValueToKey",
}
# Paths to nested fields are known to every transformation that names fields, in Java to ExtractField alone; KIP-301 is
# not in Java
OURS = {
    name: {
        key
        for key in BEYOND_JAVA.keys() & table.config_keys.keys()
        if not KNOWS_IN_JAVA.get(key, "").endswith(f".{name}")
    }
    for name, table in TABLES.items()
}
# Patterns of dates are looked at by validate; Java says what is wrong with one when a task starts, or its first record.
CHECKED_EARLIER = {("TimestampConverter", "format"), ("TimestampRouter", "timestamp.format")}


def test_nested_fields_are_known_wherever_a_field_is_named() -> None:
    assert {name for name, table in TABLES.items() if "field.syntax.version" in table.config_keys} == NAME_FIELDS


def test_settings_are_those_of_java() -> None:
    assert hold_alike([(name, name) for name in TABLES], compare_settings) == len(TABLES)


def compare_settings(name: str) -> None:
    recorded = load(f"configdefs/{name}.json")
    ours = [row for row in described(TABLES[name]) if row["name"] not in OURS[name]]
    for row in ours:
        if (name, row["name"]) in CHECKED_EARLIER:
            row["validator"] = None
    assert ours == [{part: key.get(part) for part in described_parts(key)} for key in recorded["keys"]]
    assert list(TABLES[name].groups) == recorded["groups"]


def described_parts(key: dict[str, Any]) -> list[str]:
    return [part for part in key if part not in ("recommender", "default")]


def described(table: ConfigDef) -> list[dict[str, Any]]:
    rows = []
    for key in table.config_keys.values():
        row = {
            "name": key.name,
            "type": key.type.value,
            "required": not key.has_default,
            "importance": key.importance.value,
            "group": key.group,
            "order_in_group": key.order,
            "width": key.width.value,
            "display_name": key.display_name,
            "dependents": list(key.dependents),
            "validator": None if key.validator is None else str(key.validator),
            "internal": key.internal,
        }
        if key.has_default:
            row["default_string"] = key.default_string
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("spec", "is_taken"), [("\x1f f\x00: \x01int8 ", True), ("f:\xa0int8", False), ("f:int8\u3000", False)]
)
def test_spaces_around_a_type_are_those_that_java_trims(spec: str, is_taken: bool) -> None:
    with nullcontext() if is_taken else pytest.raises(ConfigError, match="No enum constant"):
        cast.CastValue().configure({"spec": spec})


@pytest.mark.parametrize("plugin", BUILTINS, ids=lambda plugin: plugin.java_name)
def test_no_setting_that_is_null_or_left_out_ends_a_validation(plugin: BuiltinPlugin) -> None:
    """Validators are asked of these too, as in Java: one that raises anything else is an error 500."""
    table = load_builtin(plugin)().config()
    for props in ({}, dict.fromkeys(table.config_keys)):
        found = {value.name: value for value in table.validate(props)}
        missing = {name for name, key in table.config_keys.items() if not key.has_default and not props}
        assert missing <= {name for name, value in found.items() if value.error_messages}
