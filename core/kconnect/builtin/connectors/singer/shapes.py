"""Shapes of what a tap describes: JSON Schema as schemas of Connect, which grow by what comes beyond it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Context
from decimal import Decimal as Number
from typing import Any

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp
from kconnect.builtin.types.iso_text import clock_of_iso, moment_of_iso
from kconnect.builtin.types.seen import NOTHING, SEVERAL, Kind, Seen, see
from kconnect.builtin.types.seen_schemas import schema_of_seen

Convert = Callable[[Any], Any]


class Shape:
    """An optional schema, and what makes its values. Errors of `convert`: DataError.

    `learns`: whether values may have more than the shape, which `learn` adds; then schema and convert are other ones.
    """

    learns = False

    def __init__(self, schema: Schema, convert: Convert) -> None:
        self.schema, self.convert = schema, convert

    def learn(self, value: Any) -> bool:
        """Take in what the value has beyond the shape; whether that was anything."""
        return False


class ListShape(Shape):
    learns = True

    def __init__(self, items: Shape) -> None:
        self._items = items
        self.build()

    def learn(self, value: Any) -> bool:
        if not self._items.learns or not isinstance(value, list):
            return False
        return _learn(self, self._items, value)

    def build(self) -> None:
        self.learns = self._items.learns
        self.schema = SchemaBuilder.array(self._items.schema).optional().build()
        inner = self._items.convert

        def convert(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise DataError(f"{shown(value)} is not a list")
            return [None if part is None else inner(part) for part in value]

        self.convert = convert


class MapShape(Shape):
    """An object of any members, of one shape."""

    def __init__(self, values: Shape) -> None:
        self._values = values
        self.build()

    def learn(self, value: Any) -> bool:
        if not self._values.learns or not isinstance(value, dict):
            return False
        return _learn(self, self._values, value.values())

    def build(self) -> None:
        self.learns = self._values.learns
        self.schema = SchemaBuilder.map(Schema.STRING_SCHEMA, self._values.schema).optional().build()
        inner = self._values.convert

        def convert(value: Any) -> dict[str, Any]:
            if not isinstance(value, dict):
                raise DataError(f"{shown(value)} is not an object")
            return {name: None if part is None else inner(part) for name, part in value.items()}

        self.convert = convert


def _learn(outer: ListShape | MapShape, inner: Shape, values: Iterable[Any]) -> bool:
    has_learnt = False
    try:
        for part in values:
            has_learnt |= part is not None and inner.learn(part)
    finally:  # what was learnt before an error counts as known from now on
        if has_learnt:
            outer.build()
    return has_learnt


class StructShape(Shape):
    """An object. All fields are optional: taps leave out what they did not get.

    Fields that no schema names are added as they come: of the shape that it gives for others, or as they are seen.
    """

    learns = True

    def __init__(self, named: Mapping[str, Shape], more: Shape | None = None, name: str | None = None) -> None:
        self._name, self._more = name, more
        self._fields = dict(named)
        self.added: dict[str, Shape] = {}
        self._learning: list[str] = []  # fields whose shapes may grow
        self._build()

    def learn(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        has_learnt = False
        if "" in value:  # else this shape, and all records behind, would have a field that no schema takes
            raise DataError("A member has no name, and no field can be without one")
        for field in value.keys() - self._fields.keys():
            if value[field] is not None:
                shape = self._more or SeenShape()
                self._fields[field] = self.added[field] = shape
                self._learning = [*self._learning, field]
                has_learnt = True
        try:
            for field in self._learning:
                part = value.get(field)
                if part is not None and self._fields[field].learn(part):
                    has_learnt = True
        finally:  # what was learnt before an error counts as known from now on
            if has_learnt:
                self._build()
        return has_learnt

    def add(self, others: Mapping[str, Shape]) -> None:
        """Fields that were added to a former shape of the same values, but for those that are named now."""
        news = {field: shape for field, shape in others.items() if field not in self._fields}
        if news:
            self.added |= news
            self._fields |= news
            self._build()

    def _build(self) -> None:
        self._learning = [field for field, shape in self._fields.items() if shape.learns]
        builder = SchemaBuilder.struct()
        if self._name is not None:
            builder.name(self._name)
        else:
            builder.optional()
        for field, shape in self._fields.items():
            builder.field(field, shape.schema)
        self.schema = builder.build()
        schema, converts = self.schema, {field: shape.convert for field, shape in self._fields.items()}

        def convert(value: Any) -> Struct:
            if not isinstance(value, dict):
                raise DataError(f"{shown(value)} is not an object")
            made = Struct(schema)
            for field, inner in converts.items():
                part = value.get(field)
                if part is not None:
                    try:
                        made.put(field, inner(part))
                    except DataError as err:
                        raise DataError(f"{field}: {err}") from err
            return made

        self.convert = convert


class SeenShape(Shape):
    """Values that nobody describes, by the rules of values without schema; lists and objects are JSON text."""

    learns = True

    def __init__(self) -> None:
        self._seen: Seen = NOTHING
        self._build()

    def learn(self, value: Any) -> bool:
        if self._seen is SEVERAL or (self._seen.kind is Kind.TEXT and isinstance(value, str)):
            return False
        seen = SEVERAL if isinstance(value, list | dict) else see([value])
        self._seen = self._seen.join(seen)
        if schema_of_seen(self._seen) == self.schema:
            return False
        self._build()
        return True

    def _build(self) -> None:
        self.schema = schema_of_seen(self._seen)
        self.convert = _OF_SCHEMAS.get(self.schema, _string)
        if self.schema.name == Decimal.LOGICAL_NAME:
            self.convert = _decimal_of(Decimal.scale(self.schema))


def stream_shape(node: Mapping[str, Any], name: str) -> StructShape:
    """The shape of a stream's records; without properties it is what its records show."""
    return _object(_merged(node), name)


def shape_of(node: Any) -> Shape:
    """The shape of values that are described so; those that may be of several kinds become JSON text."""
    if not isinstance(node, Mapping):
        return _TEXT
    node = _merged(node)
    for word in ("anyOf", "oneOf"):
        if isinstance(node.get(word), list):
            return _one_of([part for part in node[word] if isinstance(part, Mapping) and part.get("type") != "null"])
    given = node.get("type")
    kinds = {given} if isinstance(given, str) else set(given or ())
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) != 1:
        return _TEXT
    (kind,) = kinds
    if kind == "string":
        return Shape(*_STRINGS.get(str(node.get("format")), _STRING))
    if kind == "number" and (scale := _scale(node.get("multipleOf"))) is not None:
        return Shape(Decimal.builder(scale).optional().build(), _decimal_of(scale))
    if kind == "object" and node.get("properties"):
        return _object(node)
    if kind == "object" and isinstance(node.get("additionalProperties"), Mapping) and node["additionalProperties"]:
        return MapShape(shape_of(node["additionalProperties"]))
    if kind == "array" and isinstance(node.get("items"), Mapping) and node["items"]:
        return ListShape(shape_of(node["items"]))
    return Shape(*_SIMPLE.get(kind, _STRING))


def _object(node: Mapping[str, Any], name: str | None = None) -> StructShape:
    more = node.get("additionalProperties")
    named = {field: shape_of(part) for field, part in (node.get("properties") or {}).items()}
    return StructShape(named, shape_of(more) if isinstance(more, Mapping) and more else None, name)


def _merged(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """A node with what all of its `allOf` say."""
    parts = [part for part in node.get("allOf") or () if isinstance(part, Mapping)]
    if not parts:
        return node
    merged: dict[str, Any] = {}
    for part in (*parts, {word: value for word, value in node.items() if word != "allOf"}):
        properties = {**merged.get("properties", {}), **(part.get("properties") or {})}
        merged |= part
        if properties:
            merged["properties"] = properties
    return merged


def _one_of(parts: list[Mapping[str, Any]]) -> Shape:
    """What values are that are one of these: numbers of both kinds, texts of any format, or JSON text."""
    if len(parts) == 1:
        return shape_of(parts[0])
    kinds = {kind for part in parts for kind in _kinds(part)} - {"null"}
    if kinds == {"integer", "number"} or kinds == {"integer"} or kinds == {"number"}:
        return shape_of({"type": sorted(kinds)})
    if kinds == {"string"} and len({part.get("format") for part in parts}) == 1:
        return shape_of(parts[0])
    if kinds == {"object"} and all(part.get("properties") for part in parts):
        names = [set(part["properties"]) for part in parts]
        together: dict[str, Any] = {}
        for name in dict.fromkeys(name for part in parts for name in part["properties"]):
            nodes = [part["properties"][name] for part in parts if name in part["properties"]]
            together[name] = nodes[0] if all(node == nodes[0] for node in nodes) else {"anyOf": nodes}
        return _object({"properties": together}) if names else _TEXT
    return _TEXT


def _kinds(node: Mapping[str, Any]) -> set[str]:
    given = node.get("type")
    return {given} if isinstance(given, str) else set(given or ("any",))


def _scale(multiple: Any) -> int | None:
    """How many digits are behind the point of multiples of this: 2 for 0.01; None if it is no power of ten."""
    if isinstance(multiple, bool) or not isinstance(multiple, int | float | Number):
        return None
    sign, digits, exponent = Number(repr(multiple) if isinstance(multiple, float) else multiple).normalize().as_tuple()
    is_power = digits == (1,) and not sign and isinstance(exponent, int) and -38 <= exponent < 0
    return -int(exponent) if is_power else None


def _integer(value: Any) -> int:
    if isinstance(value, Number) and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        raise DataError(f"{shown(value)} is not an integer")
    if not -(2**63) <= value < 2**63:
        raise DataError(f"{shown(value)} has more than 64 bits")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise DataError(f"{shown(value)} is not a number")
    try:
        given = _number_in(value) if isinstance(value, str) else value
        found = float(given)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{shown(value)} is not a number") from None
    if found != given if isinstance(given, int) else isinstance(given, Number) and Number(repr(found)) != given:
        raise DataError(f"{value} has more digits than a double; multipleOf of the schema would make it a decimal")
    return found


def _decimal_of(scale: int) -> Convert:
    unit = Number(1).scaleb(-scale)

    def convert(value: Any) -> Number:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Number):
            raise DataError(f"{shown(value)} is not a number")
        try:
            given = _number_in(value) if isinstance(value, str) else value
            found = Number(repr(given) if isinstance(given, float) else given)
            fitted = found.quantize(unit, context=_EXACT)
        except (ArithmeticError, ValueError):
            raise DataError(f"{shown(value)} is not a number of {scale} digits behind the point") from None
        if fitted != found:
            raise DataError(f"{value} has more than {scale} digits behind the point")
        return fitted

    return convert


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise DataError(f"{shown(value)} is neither true nor false")
    return value


def _string(value: Any) -> str:
    """Taps are generous: a number where a text is described becomes its text."""
    return value if isinstance(value, str) else json_text(value)


def _timestamp(value: Any) -> datetime:
    found: datetime = _iso(value, moment_of_iso, "a time in ISO 8601")
    if found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC)
    except OverflowError:  # 0001-01-01T00:00:00+01:00, as .NET writes a time that is not there
        raise DataError(f"{shown(value)} is outside the years 1 to 9999 of UTC") from None


def _date(value: Any) -> date:
    """A date, also with a time that is midnight: another time of day would be lost."""
    found: datetime = _iso(value, moment_of_iso, "a date in ISO 8601")
    if found.time() != time():
        raise DataError(f"{shown(value)} has a time of day, and a date has none")
    return found.date()


def _time(value: Any) -> time:
    found: time = _iso(value, clock_of_iso, "a time of day in ISO 8601")
    if found.tzinfo is not None and found.utcoffset():
        raise DataError(f"{shown(value)} has a zone, and a time of day is in UTC")
    return found.replace(tzinfo=None)


def _number_in(text: str) -> Number:
    """The number that a text is, by all of its digits. Errors: ValueError if it is none, as 1_000 to all but Python."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(text)
    return Number(text.strip())


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_EXACT = Context(prec=1000)


def _iso(value: Any, read: Callable[[str], Any], wanted: str) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise DataError(f"{shown(value)} is not {wanted}") from None


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except TypeError:  # a Decimal, with more digits than a double
        if isinstance(value, Number):
            return str(value)
        if isinstance(value, dict):
            return "{" + ",".join(f"{json_text(name)}:{json_text(part)}" for name, part in value.items()) + "}"
        return "[" + ",".join(map(json_text, value)) + "]"


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + ".."


_STRING = (Schema.OPTIONAL_STRING_SCHEMA, _string)
_TEXT = Shape(*_STRING)
_SIMPLE: dict[str, tuple[Schema, Convert]] = {
    "integer": (Schema.OPTIONAL_INT64_SCHEMA, _integer),
    "number": (Schema.OPTIONAL_FLOAT64_SCHEMA, _number),
    "boolean": (Schema.OPTIONAL_BOOLEAN_SCHEMA, _boolean),
}
_OF_SCHEMAS: dict[Schema, Convert] = {schema: convert for schema, convert in _SIMPLE.values()}
_STRINGS: dict[str, tuple[Schema, Convert]] = {
    "date-time": (Timestamp.builder().optional().build(), _timestamp),
    "date": (Date.builder().optional().build(), _date),
    "time": (Time.builder().optional().build(), _time),
}
