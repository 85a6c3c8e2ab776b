"""Read what Java Connect recorded under tests/golden, as our schemas, values and records."""

from __future__ import annotations

import base64
import datetime
import json
import struct
from collections.abc import Mapping
from decimal import Context
from decimal import Decimal as PyDecimal
from typing import Any

from kconnect.api import (
    ConnectHeaders,
    Date,
    Schema,
    SchemaBuilder,
    SinkRecord,
    SourceRecord,
    Struct,
    Time,
    TimestampType,
    Type,
)
from kconnect.model import LogRecord
from kit.places import GOLDEN

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def load(name: str) -> Any:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def recorded_topic(name: str) -> list[LogRecord]:
    """What Java wrote into one of its topics: `configs`, `status`, `offsets`, `sep-offsets`."""
    return [log_record(record) for record in load(f"topics/dump-orc-{name}.json")]


def log_record(recorded: Mapping[str, Any]) -> LogRecord:
    """A record of one of Java's topics, as it was recorded."""
    value = recorded["value_b64"]
    return LogRecord(
        recorded["topic"],
        recorded["partition"],
        recorded["offset"],
        base64.b64decode(recorded["key_b64"]),
        None if value is None else base64.b64decode(value),
        recorded["timestamp"],
    )


def schema_of(recorded: dict[str, Any] | None) -> Schema | None:
    if recorded is None:
        return None
    kind = Type[recorded["type"]]
    if (kind is Type.ARRAY and recorded["items"] is None) or (
        kind is Type.MAP and None in (recorded["keys"], recorded["values"])
    ):
        # only Java's header parser makes these; no builder does
        parts = {"value_schema": schema_of(recorded.get("values"))}
        if kind is Type.MAP:
            parts["key_schema"] = schema_of(recorded["keys"])
        return Schema(kind, is_optional=recorded.get("optional", False), **parts)
    if kind is Type.ARRAY:
        builder = SchemaBuilder.array(schema_of(recorded["items"]))
    elif kind is Type.MAP:
        builder = SchemaBuilder.map(schema_of(recorded["keys"]), schema_of(recorded["values"]))
    else:
        builder = SchemaBuilder(kind)
    for field in recorded.get("fields", ()):
        builder.field(field["name"], schema_of(field["schema"]))
    if recorded.get("optional"):
        builder.optional()
    for part in ("name", "version", "doc", "parameters"):
        if part in recorded:
            getattr(builder, part)(recorded[part])
    if "default" in recorded:
        builder.default(value_of(recorded["default"], builder.build()))
    return builder.build()


def value_of(recorded: dict[str, Any], schema: Schema | None = None) -> Any:
    kind, value = recorded["t"], recorded.get("v")
    if kind == "null":
        return None
    if kind in ("float32", "float64"):
        return float(value)
    if kind == "bytes":
        raw = base64.b64decode(recorded["b64"])
        return memoryview(raw) if recorded.get("buffer") else raw  # java.nio.ByteBuffer
    if kind == "decimal":
        return PyDecimal(int(recorded["unscaled"])).scaleb(-recorded["scale"], Context(prec=1000))
    if kind == "date":
        return _date(recorded["millis"], schema)
    if kind == "bigint":
        return int(value)
    if kind == "list":
        items = schema.value_schema if schema is not None and schema.type is Type.ARRAY else None
        return [value_of(item, items) for item in value]
    if kind == "map":
        typed = schema is not None and schema.type is Type.MAP
        keys, values = (schema.key_schema, schema.value_schema) if typed else (None, None)
        return {value_of(key, keys): value_of(item, values) for key, item in value}
    if kind == "struct":
        return _struct(value, schema)
    if kind == "object":
        return object_of(recorded["class"], recorded["v"])
    return value


def object_of(class_name: str, text: str) -> Any:
    """An object of a class that Connect does not know, with that name and text."""
    module, _, name = class_name.rpartition(".")
    kind = type(name, (), {"__str__": lambda self: text, "__module__": module})
    return kind()


def repaired(case: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """The input of a case as it was, where the recorder wrote it down wrongly.

    A lone surrogate became `?` in the recording, and buffers were recorded after the converter had read them.
    """
    return REPAIRS.get(case["id"], recorded)


REPAIRS: dict[str, dict[str, Any]] = {
    "prim_43_STRING": {"t": "string", "v": "lone\ud800x"},
    "null_schema_bytebuffer": {"t": "bytes", "b64": "AQI=", "buffer": True},
    "prim_47_BYTES": {"t": "bytes", "b64": "YnVm", "buffer": True},
}


def java_words(message: str | None) -> str | None:
    """A recorded message without the class of list that the recorder happened to make its input with."""
    return None if message is None else message.replace("java.util.Arrays$ArrayList", "java.util.ArrayList")


def record_of(recorded: dict[str, Any]) -> SourceRecord | SinkRecord:
    key_schema, value_schema = schema_of(recorded["keySchema"]), schema_of(recorded["valueSchema"])
    key, value = value_of(recorded["key"], key_schema), value_of(recorded["value"], value_schema)
    headers = ConnectHeaders()
    for header in recorded["headers"]:
        schema = schema_of(header["schema"])
        headers.add(header["key"], value_of(header["value"], schema), schema)
    if recorded["kind"] == "source":
        return SourceRecord(
            value_of(recorded["sourcePartition"]),
            value_of(recorded["sourceOffset"]),
            recorded["topic"],
            value,
            kafka_partition=recorded["partition"],
            key=key,
            key_schema=key_schema,
            value_schema=value_schema,
            timestamp=recorded["timestamp"],
            headers=headers,
        )
    kinds = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
    return SinkRecord(
        recorded["topic"],
        recorded["partition"],
        key_schema,
        key,
        value_schema,
        value,
        recorded["offset"],
        timestamp=recorded["timestamp"],
        timestamp_type=kinds.get(recorded["timestampType"], TimestampType.NO_TIMESTAMP_TYPE),
        headers=headers,
    )


def _struct(fields: list[list[Any]], schema: Schema | None) -> Struct:
    names = set() if schema is None else {field.name for field in schema.fields}
    if schema is None or schema.type is not Type.STRUCT or not names.issuperset(name for name, _ in fields):
        # recorded without its schema, which is not the one beside it: guess one from the values
        builder = SchemaBuilder.struct()
        for name, item in fields:
            builder.field(name, SchemaBuilder(Type[item["t"].upper()]).optional().build())
        schema = builder.build()
    by_name = {field.name: field.schema for field in schema.fields}
    values = {name: value_of(item, by_name.get(name)) for name, item in fields}
    return Struct.from_values(schema, [values.get(field.name) for field in schema.fields])


def _date(millis: int, schema: Schema | None) -> Any:
    instant = EPOCH + datetime.timedelta(milliseconds=millis)
    if schema is not None and schema.name == Date.LOGICAL_NAME and instant.time() == datetime.time():
        return instant.date()
    if schema is not None and schema.name == Time.LOGICAL_NAME and instant.date() == EPOCH.date():
        return instant.time()
    return instant


def same(ours: Any, theirs: Any, schema: Schema | None = None) -> bool:
    """Equal in type and value, all the way down: True is not 1, NaN is NaN, 0.0 is not -0.0; FLOAT32 as 32 bits."""
    if isinstance(ours, float) and isinstance(theirs, float):
        if ours != ours and theirs != theirs:
            return True
        if schema is not None and schema.type is Type.FLOAT32:
            return struct.pack("f", ours) == struct.pack("f", theirs)
        return repr(ours) == repr(theirs)
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, Struct):
        return ours.schema == theirs.schema and all(
            same(ours.get_without_default(field), theirs.get_without_default(field), field.schema)
            for field in ours.schema.fields
        )
    if isinstance(ours, list):
        items = schema.value_schema if schema is not None else None
        return len(ours) == len(theirs) and all(same(a, b, items) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, dict):
        values = schema.value_schema if schema is not None and schema.type is Type.MAP else None
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key], values) for key in ours)
    return bool(ours == theirs)
