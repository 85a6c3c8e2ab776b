"""Settings of what we ship are Java's: names, types, defaults, order, groups, validators."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConfigDef
from kconnect.builtin.connectors import file_sink, file_source
from kconnect.builtin.converters import bytes_converter, header_converter, json_converter, string_converter
from kconnect.builtin.predicates import TOPIC_NAME_CONFIG
from kconnect.builtin.transforms import hoist_field, insert_field, regex_router
from kit.golden import load

TABLES = {
    "FileStreamSource": file_source.CONFIG,
    "FileStreamSink": file_sink.CONFIG,
    "JsonConverterConfig": json_converter.CONFIG,
    "StringConverterConfig": string_converter.CONFIG,
    "ByteArrayConverter": bytes_converter.CONFIG,
    "SimpleHeaderConverter": header_converter.CONFIG,
    "HoistField": hoist_field.CONFIG,
    "InsertField": insert_field.CONFIG,
    "RegexRouter": regex_router.CONFIG,
    "TopicNameMatches": TOPIC_NAME_CONFIG,
}


@pytest.mark.parametrize("name", TABLES)
def test_settings_are_those_of_java(name: str) -> None:
    recorded = load(f"configdefs/{name}.json")
    assert described(TABLES[name]) == [
        {part: key.get(part) for part in described_parts(key)} for key in recorded["keys"]
    ]
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
