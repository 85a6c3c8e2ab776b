"""The JSON Schema of a Singer stream as a Connect schema, and its records as values of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from kconnect.api import DataError, Date, Schema, SchemaBuilder, Struct, Timestamp

Convert = Callable[[Any], Any]


def stream_type(node: Mapping[str, Any], name: str) -> tuple[Schema, Convert]:
    """The schema of a stream's records, and what makes a Struct of one. Errors: DataError; of the latter, too."""
    schema, convert = _struct(node.get("properties") or {}, name)
    return schema, convert


def _struct(properties: Mapping[str, Any], name: str | None = None) -> tuple[Schema, Convert]:
    """All fields are optional: taps leave out what they did not get."""
    builder = SchemaBuilder.struct()
    if name is not None:
        builder.name(name)
    converts: dict[str, Convert] = {}
    for field, node in properties.items():
        kind, converts[field] = _type(node if isinstance(node, Mapping) else {})
        builder.field(field, kind)
    schema = builder.build() if name is not None else builder.optional().build()

    def convert(value: Any) -> Struct:
        if not isinstance(value, dict):
            raise DataError(f"{_shown(value)} is not an object")
        made = Struct(schema)
        for field, inner in converts.items():
            part = value.get(field)
            if part is not None:
                try:
                    made.put(field, inner(part))
                except DataError as err:
                    raise DataError(f"{field}: {err}") from err
        return made

    return schema, convert


def _type(node: Mapping[str, Any]) -> tuple[Schema, Convert]:
    """An optional schema for values that are described so; those that may be of several kinds become JSON text."""
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            others = [part for part in node[word] if isinstance(part, Mapping) and part.get("type") != "null"]
            return _type(others[0]) if len(others) == 1 else _TEXT
    given = node.get("type")
    kinds = {given} if isinstance(given, str) else set(given or ())
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) != 1:
        return _TEXT
    (kind,) = kinds
    if kind == "string":
        return _STRINGS.get(str(node.get("format")), _STRING)
    if kind == "object" and node.get("properties"):
        return _struct(node["properties"])
    if kind == "array" and isinstance(node.get("items"), Mapping) and node["items"]:
        items, inner = _type(node["items"])
        return SchemaBuilder.array(items).optional().build(), lambda value: _list(value, inner)
    return _SIMPLE.get(kind, _TEXT)


def _list(value: Any, inner: Convert) -> list[Any]:
    if not isinstance(value, list):
        raise DataError(f"{_shown(value)} is not a list")
    return [None if part is None else inner(part) for part in value]


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise DataError(f"{_shown(value)} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise DataError(f"{_shown(value)} has more than 64 bits")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise DataError(f"{_shown(value)} is not a number")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"{_shown(value)} is not a number") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{_shown(value)} is neither true nor false")
    return value


def _string(value: Any) -> str:
    """Taps are generous: a number where a text is described becomes its text."""
    return value if isinstance(value, str) else _json(value)


def _timestamp(value: Any) -> datetime:
    found: datetime = _iso(value, datetime.fromisoformat, "a time in ISO 8601")
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _date(value: Any) -> date:
    found: date = _iso(value[:10] if isinstance(value, str) else value, date.fromisoformat, "a date in ISO 8601")
    return found


def _iso(value: Any, read: Callable[[str], Any], wanted: str) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise DataError(f"{_shown(value)} is not {wanted}") from None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + ".."


_STRING = (Schema.OPTIONAL_STRING_SCHEMA, _string)
_TEXT = (Schema.OPTIONAL_STRING_SCHEMA, _string)
_SIMPLE: dict[str, tuple[Schema, Convert]] = {
    "integer": (Schema.OPTIONAL_INT64_SCHEMA, _integer),
    "number": (Schema.OPTIONAL_FLOAT64_SCHEMA, _number),
    "boolean": (Schema.OPTIONAL_BOOLEAN_SCHEMA, _boolean),
}
_STRINGS: dict[str, tuple[Schema, Convert]] = {
    "date-time": (Timestamp.builder().optional().build(), _timestamp),
    "date": (Date.builder().optional().build(), _date),
}
