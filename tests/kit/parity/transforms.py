"""Transformations of other people on the same records: what a sink of each side is given, with schemas and classes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from confluent_kafka import Producer

from kit.parity.sides import DUMP, Pair, Side, causes, totals_of
from kit.parity.table import Row
from kit.topics import create_topic
from kit.waiting import eventually

__all__ = ["CAMEL", "COMMON", "compare_transforms"]

_JC: Final = "com.github.jcustenborder.kafka.connect.transform.common"
_CAMEL: Final = "org.apache.camel.kafkaconnector.transforms"
Cases: TypeAlias = Mapping[str, tuple[str, Mapping[str, str], Mapping[str, str]]]
"""By what is reported: the class, its settings, and those of the connector beside it."""

_NESTED: Final = {
    "input.outer.field.name": "ship_to",
    "input.inner.field.name": "zip_code",
    "output.field.name": "zip",
}
_SCHEMALESS: Final = {f"{kind}.converter.schemas.enable": "false" for kind in ("key", "value")}
_STRINGS: Final = {f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")}
_BYTES: Final = {
    f"{kind}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for kind in ("key", "value")
}

COMMON: Final[Cases] = {
    f"{name}{f'${part}' if part else ''} {label}".strip(): (f"{_JC}.{name}{f'${part}' if part else ''}", settings, more)
    for name, parts, label, settings, more in (
        ("ChangeCase", ("Key", "Value"), "", {"from": "LOWER_UNDERSCORE", "to": "UPPER_CAMEL"}, {}),
        ("ChangeCase", ("Value",), "to hyphens", {"from": "LOWER_UNDERSCORE", "to": "LOWER_HYPHEN"}, {}),
        ("ChangeTopicCase", ("",), "", {"from": "LOWER_HYPHEN", "to": "UPPER_UNDERSCORE"}, {}),
        ("ExtractNestedField", ("Key", "Value"), "", _NESTED, {}),
        ("ExtractNestedField", ("Value",), "without schema", _NESTED, _SCHEMALESS),
        ("ExtractTimestamp", ("Value",), "", {"field.name": "placed_at"}, {}),
        ("ExtractTimestamp", ("Value",), "without schema", {"field.name": "order_id"}, _SCHEMALESS),
        ("ExtractTimestamp", ("Value",), "of a field that is not there", {"field.name": "nothing"}, {}),
        ("PatternRename", ("Key", "Value"), "", {"field.pattern": "^order_", "field.replacement": "o_"}, {}),
        ("PatternRename", ("Value",), "without schema", {"field.pattern": "_", "field.replacement": "-"}, _SCHEMALESS),
        (
            "PatternRename",
            ("Value",),
            "with flags",
            {
                "field.pattern": "ORDER",
                "field.replacement": "x",
                "field.pattern.flags": "CASE_INSENSITIVE,UNICODE_CASE",
            },
            {},
        ),
        ("ToJSON", ("Key", "Value"), "", {}, {}),
        ("ToJSON", ("Value",), "as bytes", {"output.schema.type": "BYTES", "schemas.enable": "true"}, {}),
        ("BytesToString", ("Key", "Value"), "", {"charset": "UTF-8"}, _BYTES),
        ("BytesToString", ("Value",), "of fields", {"fields": "raw"}, {}),
        ("BytesToString", ("Value",), "in a charset that does not exist", {"charset": "KLINGON"}, _BYTES),
    )
    for part in parts
}
"""Of jcustenborder's common package: all it has."""

CAMEL: Final[Cases] = {
    **{
        f"CamelTypeConverterTransform${part} to {target.rpartition('.')[2]}": (
            f"{_CAMEL}.CamelTypeConverterTransform${part}",
            {"target.type": target},
            more,
        )
        for part in ("Key", "Value")
        for target, more in (("java.lang.String", _BYTES), ("[B", _STRINGS), ("no.such.Class", _STRINGS))
    },
    **{
        f"FieldsToHeadersTransform${part} {label}".strip(): (
            f"{_CAMEL}.FieldsToHeadersTransform${part}",
            {"fields": "order_id,customer_name", "headers": "id,customer"},
            more,
        )
        for part in ("Key", "Value")
        for label, more in (("", {}), ("without schema", _SCHEMALESS))
    },
    "FieldsToHeadersTransform$Value without settings": (f"{_CAMEL}.FieldsToHeadersTransform$Value", {}, {}),
    "SchemaAndStructToJsonTransform": (f"{_CAMEL}.SchemaAndStructToJsonTransform", {}, {}),
    "SchemaAndStructToJsonTransform with schema": (
        f"{_CAMEL}.SchemaAndStructToJsonTransform",
        {"converter.schemas.enable": "true"},
        {},
    ),
    "SourcePojoToSchemaAndStructTransform": (f"{_CAMEL}.SourcePojoToSchemaAndStructTransform", {}, {}),
    "SinkPojoToSchemaAndStructTransform": (
        f"{_CAMEL}.SinkPojoToSchemaAndStructTransform",
        {"camel.sink.pojo.class": "java.lang.String"},
        {},
    ),
}


def compare_transforms(pair: Pair, row: Row, label: str, cases: Cases) -> None:
    """Each case as a sink of its own on both sides: what it is given, how it ends, what it says of its settings."""
    topic = f"orders-{label}-{uuid.uuid4().hex[:6]}"
    create_topic(pair.bootstrap, topic)
    count = _produce(pair.bootstrap, topic)
    configs = {case: (f"{label}-{number}", _config(topic, *cases[case])) for number, case in enumerate(cases)}

    def validated(side: Side) -> dict[str, Any]:
        return {case: _validated(side, config) for case, (_, config) in configs.items()}

    def created(side: Side) -> dict[str, str]:
        return {
            case: side.create(name, {**config, "out": str(side.folder / name)})
            for case, (name, config) in configs.items()
        }

    row.compare("settings", *pair.each(validated), "validated")
    refused = pair.each(created)
    row.compare("errors", *refused, "created")
    running = [case for case in configs if not any(answers[case] for answers in refused)]

    def ended(side: Side) -> dict[str, tuple[list[str], dict[str, Any], str]]:
        return {case: _ended(side, configs[case][0], count) for case in running}

    java, ours = pair.each(ended)
    row.compare("records", *({case: seen[0] for case, seen in side.items()} for side in (java, ours)), "sinks")
    row.compare("statuses", *({case: seen[1] for case, seen in side.items()} for side in (java, ours)))
    failed = [case for case in running if java[case][2] or ours[case][2]]
    both = {case: causes(java[case][2], ours[case][2]) for case in failed}
    row.compare("errors", *({case: pair[at] for case, pair in both.items()} for at in (0, 1)), "failures")
    names = [configs[case][0] for case in running if case not in failed]
    row.compare("metrics", *totals_of(pair, names), "sinks")
    pair.each(lambda side: [side.delete(name) for name, _ in configs.values()])


def _config(topic: str, cls: str, settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": DUMP,
        "topics": topic,
        "transforms": "t",
        "transforms.t.type": cls,
        **{f"transforms.t.{key}": value for key, value in settings.items()},
        **more,
        "consumer.override.auto.offset.reset": "earliest",
    }


def _validated(side: Side, config: Mapping[str, str]) -> Any:
    """The transformation's settings as they are reported, and the errors of all others."""
    _, body = side.ask("PUT", f"/connector-plugins/{DUMP}/config/validate", {**config, "name": "x", "out": "x"})
    found = {one["definition"]["name"]: one for one in body.get("configs", [])}
    ours = tuple(f"transforms.t.{key}" for key in ("type", "plugin.version", "predicate", "negate"))  # Connect's own
    own = {key: one for key, one in found.items() if key.startswith("transforms.t.") and key not in ours}
    errors = {f"errors of {key}": one["value"]["errors"] for key, one in found.items() if one["value"]["errors"]}
    return {**own, **errors} if found else body


def _ended(side: Side, name: str, count: int) -> tuple[list[str], dict[str, Any], str]:
    """Its lines, its states and why it failed, once it has taken all records or failed."""
    out = side.folder / name
    lines: list[str] = []

    def over() -> bool:
        nonlocal lines
        lines = out.read_text("utf-8").splitlines() if out.exists() else []
        states = side.states(name)
        is_running = states.get("task 0") == "RUNNING" and len(lines) >= count
        assert is_running or "FAILED" in states.values(), f"{name}: {len(lines)} lines, {states}"
        return True

    eventually(over, 90, f"{name} has taken {count} records at {side.name}", pause_s=0.2)
    return [side.plain(line) for line in lines], side.states(name), side.trace(name)


_ORDER: Final = {
    "type": "struct",
    "name": "shop.Order",
    "version": 2,
    "optional": False,
    "fields": [
        {"field": "order_id", "type": "int64", "optional": False},
        {"field": "customer_name", "type": "string", "optional": True, "default": "nobody", "doc": "Whose it is"},
        {
            "field": "placed_at",
            "type": "int64",
            "name": "org.apache.kafka.connect.data.Timestamp",
            "version": 1,
            "optional": False,
        },
        {"field": "raw", "type": "bytes", "optional": True},
        {
            "field": "ship_to",
            "type": "struct",
            "name": "shop.Address",
            "optional": True,
            "fields": [
                {"field": "zip_code", "type": "string", "optional": True},
                {
                    "field": "lines_of",
                    "type": "array",
                    "items": {"type": "string", "optional": False},
                    "optional": True,
                },
            ],
        },
        {
            "field": "tags_of",
            "type": "map",
            "keys": {"type": "string", "optional": False},
            "values": {"type": "int32", "optional": False},
            "optional": True,
        },
    ],
}


def _orders() -> Sequence[Mapping[str, Any]]:
    return [
        {
            "order_id": number,
            "customer_name": ("Ann", None, "Zoë")[number],
            "placed_at": 1_700_000_000_000 + number,
            "raw": ("aGVsbG8=", None, "w6k=")[number],
            "ship_to": {"zip_code": f"1{number}", "lines_of": ["a", "b"]}
            if number
            else {"zip_code": None, "lines_of": None},
            "tags_of": {"x_y": number} if number else None,
        }
        for number in range(3)
    ]


def _produce(bootstrap: str, topic: str) -> int:
    """The orders as key and value; how many."""
    producer = Producer({"bootstrap.servers": bootstrap})
    documents = [json.dumps({"schema": _ORDER, "payload": order}).encode() for order in _orders()]
    for number, document in enumerate(documents):
        producer.produce(
            topic,
            document,
            document,
            headers=[("trace_id", b"7"), ("n", str(number).encode())],
            timestamp=1_700_000_000_000 + number,
        )
    producer.flush(30)
    return len(documents)
