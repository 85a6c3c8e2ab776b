"""Schemas, and values that have no columns, as the JSON of Connect's JsonConverter between Python and Java."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from kconnect.api import Schema
from kconnect.errors import DataError
from kconnect.java.compat.json_reader import JsonReader
from kconnect.java.compat.json_writer import JsonWriter

_MOST_SCHEMAS = 500
_READER = JsonReader(replace_null_with_default=False)
_WRITER = JsonWriter(numeric_decimals=False, replace_null_with_default=False, cache_size=_MOST_SCHEMAS)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@lru_cache(maxsize=_MOST_SCHEMAS)
def read_schema(text: str | None) -> Schema | None:
    """The schema of a text; each is read once."""
    return None if text is None else _READER.schema(json.loads(text))


def schema_text(schema: Schema | None) -> str | None:
    """The text of a schema; each is written once."""
    return None if schema is None else _WRITER.schema(schema)


def read_value(schema: Schema, text: bytes | str) -> Any:
    """A value with a schema, out of its text."""
    return _READER.value(schema, json.loads(text))


def value_text(schema: Schema, value: Any) -> bytes:
    """The text of a value with a schema."""
    return _WRITER.value(schema, value).encode()


def read_plain(text: bytes | str) -> Any:
    """A value without a schema (Java: PlainJson)."""
    return _revived(orjson.loads(text))


def plain_text(value: Any) -> bytes:
    """The text of a value without a schema. Errors: DataError for one that Java has no form for."""
    return orjson.dumps(_reported(value))


def _revived(value: Any) -> Any:
    if isinstance(value, list):
        return [_revived(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name == "$bytes":
            return base64.b64decode(inner)
        if name == "$date":
            return _EPOCH + datetime.timedelta(milliseconds=inner)
        if name == "$decimal":
            return decimal.Decimal(inner)
        if name == "$double":
            return float(inner)
        if name == "$map":
            return {_revived(key): _revived(one) for key, one in inner}
    return {name: _revived(one) for name, one in value.items()}


def _reported(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$double": _java_double(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, decimal.Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"$date": (value - _EPOCH) // datetime.timedelta(milliseconds=1)}
    if isinstance(value, list | tuple):
        return [_reported(one) for one in value]
    if isinstance(value, Mapping):
        if all(isinstance(name, str) and not name.startswith("$") for name in value):
            return {name: _reported(one) for name, one in value.items()}
        return {"$map": [[_reported(name), _reported(one)] for name, one in value.items()]}
    raise DataError(f"A value of type {type(value).__name__} has no schema and cannot be given to Java")


def _java_double(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
