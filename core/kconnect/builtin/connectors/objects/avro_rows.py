"""Objects of Avro as rows: their values as they are in the file, of which Arrow makes columns.

fastavro makes Python's dates and times of numbers, and gives up an object for one that these cannot be. So it is given
a schema without logical types. A union of several types becomes a struct with a field for each, as AvroConverter's; for
fastavro its branches are records of one field, which have the very bytes of that field.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.avro_codecs import add_codecs
from kconnect.builtin.schema_registry.avro.avro_names import INTERNAL_TYPE, MAP_ENTRY, NAMESPACE

if TYPE_CHECKING:
    import pyarrow as pa

Plain = Callable[[Any], Any]
_FAILURES = (ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError, MemoryError, RecursionError)


class AvroObject:
    """An open object. `fields` are its columns: those of its records, or one with the name `value`."""

    def __init__(self, content: Any) -> None:
        """Errors: DataError for what is no Avro, or of a type that no column has."""
        import fastavro

        add_codecs()
        try:
            self._blocks = fastavro.block_reader(content)
            self._part = _AvroTypes().of(self._blocks.writer_schema)
            self._schema = fastavro.parse_schema({"type": "array", "items": self._part.raw})
        except _FAILURES as err:
            raise _unreadable(err) from err
        self.fields = self._columns()

    def _columns(self) -> pa.Schema:
        import pyarrow as pa

        kind = self._part.kind
        self._has_columns = pa.types.is_struct(kind) and not self._part.is_nullable and not self._part.is_union
        return pa.schema(list(kind) if self._has_columns else [pa.field("value", kind, self._part.is_nullable)])

    def blocks(self) -> Iterator[AvroBlock]:
        """Blocks of records as they are in the object. Errors: DataError for one that cannot be read."""
        while True:
            try:
                block = next(self._blocks, None)
            except _FAILURES as err:
                raise _unreadable(err) from err
            if block is None:
                return
            yield AvroBlock(block.num_records, partial(self._rows, block))

    def _rows(self, block: Any) -> list[dict[str, Any]]:
        """All at once: an array of Avro is the number of its items, these, and a zero."""
        import fastavro

        items = io.BytesIO(_long(block.num_records) + block.bytes_.read() + b"\0")
        try:
            # Bytes that are no text are the error of their row, when it becomes a column
            found: Any = fastavro.schemaless_reader(items, self._schema, None, handle_unicode_errors="surrogateescape")
        except _FAILURES as err:
            raise _unreadable(err) from err
        plain = self._part.plain
        rows = found if plain is None else [plain(row) for row in found]
        return rows if self._has_columns else [{"value": row} for row in rows]


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """Records that the object has side by side; read when they are asked for."""

    count: int
    rows: Callable[[], list[dict[str, Any]]]


def _unreadable(error: Exception) -> DataError:
    return error if isinstance(error, DataError) else DataError(f"{type(error).__name__}: {error}")


def _long(number: int) -> bytes:
    """A number as Avro writes it."""
    number, made = number << 1, bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a schema: its Arrow type, the same without logical types, and what makes a value plain for Arrow."""

    kind: pa.DataType
    raw: Any
    plain: Plain | None = None
    is_nullable: bool = False
    is_union: bool = False


class _AvroTypes:
    """Threads: one."""

    def __init__(self) -> None:
        self._named: dict[str, _Part | None] = {}  # None of a type whose own parts are looked at
        self._names = 0
        self._entries: set[str] = set()

    def of(self, schema: Any) -> _Part:
        """Errors: DataError for a type that no column has."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._primitive(schema)
        kind = schema["type"]
        if kind not in _NAMED:
            return _logical(schema, self._container(schema) if kind in ("array", "map") else self.of(kind))
        self._named[schema["name"]] = None
        made = _logical(schema, self._record(schema) if kind == "record" else self._bytes_or_symbols(schema))
        self._named[schema["name"]] = replace(made, raw=made.raw["name"])
        return made

    def _primitive(self, name: str) -> _Part:
        import pyarrow as pa

        if name in self._named:
            known = self._named[name]
            if known is None:
                raise DataError(f"Avro type {name} has itself in it, and cannot be a column")
            return known
        found = _PRIMITIVES.get(name)
        if found is None:
            raise DataError(f"Avro type {name} cannot be a column")
        return _Part(found(pa), name, is_nullable=name == "null")

    def _union(self, schema: list[Any]) -> _Part:
        others = [part for part in schema if part != "null"]
        is_nullable = len(others) < len(schema)
        if not others:
            return replace(self._primitive("null"), raw=schema)
        parts = [self.of(part) for part in others]
        made, raws = parts[0], [part.raw for part in parts]
        if len(parts) > 1:
            members = dict(zip(_member_names(others), parts, strict=True))
            raws = [self._branch(name, part) for name, part in members.items()]
            made = _struct({name: replace(part, is_nullable=True) for name, part in members.items()})
        of_others = iter(raws)
        raw = [part if part == "null" else next(of_others) for part in schema]
        return _Part(made.kind, raw, made.plain, is_nullable, len(parts) > 1)

    def _branch(self, name: str, part: _Part) -> Any:
        return {"type": "record", "name": self._name(), "fields": [{"name": name, "type": part.raw}]}

    def _record(self, schema: Any) -> _Part:
        name = self._name()
        parts = {field["name"]: self.of(field["type"]) for field in schema["fields"]}
        fields = [{"name": field, "type": part.raw} for field, part in parts.items()]
        return replace(_struct(parts), raw={"type": "record", "name": name, "fields": fields})

    def _bytes_or_symbols(self, schema: Any) -> _Part:
        import pyarrow as pa

        raw = {"type": schema["type"], "name": self._name()}
        if schema["type"] == "enum":
            return _Part(pa.string(), {**raw, "symbols": schema["symbols"]})
        return _Part(pa.binary(), {**raw, "size": schema["size"]})

    def _container(self, schema: Any) -> _Part:
        import pyarrow as pa

        if schema["type"] == "array":
            item = self.of(schema["items"])
            if pa.types.is_struct(item.kind) and self._is_entry(schema["items"]):
                return _map_of_entries(item)
            kind = pa.list_(pa.field("item", item.kind, item.is_nullable))
            return _Part(kind, {"type": "array", "items": item.raw}, item.plain and _of_items(item.plain))
        item = self.of(schema["values"])
        kind = pa.map_(pa.string(), pa.field("value", item.kind, item.is_nullable))
        return _Part(kind, {"type": "map", "values": item.raw}, item.plain and _of_values(item.plain))

    def _is_entry(self, item: Any) -> bool:
        """Whether a list of them is a map, as AvroConverter writes one whose keys are no texts."""
        if isinstance(item, dict) and _is_map_entry(item):
            self._entries.add(item["name"])
        name = item if isinstance(item, str) else item.get("name") if isinstance(item, dict) else None
        return name in self._entries

    def _name(self) -> str:
        """Names without a namespace, as nothing else has to find the type."""
        self._names += 1
        return f"type{self._names}"


def _struct(parts: dict[str, _Part]) -> _Part:
    import pyarrow as pa

    kind = pa.struct([pa.field(name, part.kind, part.is_nullable) for name, part in parts.items()])
    plain = {name: part.plain for name, part in parts.items() if part.plain is not None}
    return _Part(kind, None, _of_fields(plain) if plain else None)


def _is_map_entry(schema: dict[str, Any]) -> bool:
    if schema["type"] != "record" or [field["name"] for field in schema["fields"]] != ["key", "value"]:
        return False
    return schema["name"] == f"{NAMESPACE}.{MAP_ENTRY}" or schema.get(INTERNAL_TYPE) == MAP_ENTRY


def _map_of_entries(entry: _Part) -> _Part:
    """A column of maps, for Arrow as pairs. Its keys are never null."""
    import pyarrow as pa

    plain = entry.plain

    def pairs(value: Any) -> Any:
        return value and [(one["key"], one["value"]) for one in (map(plain, value) if plain else value)]

    kind = pa.map_(entry.kind.field("key").type, entry.kind.field("value"))
    return _Part(kind, {"type": "array", "items": entry.raw}, pairs)


def _member_names(types: list[Any]) -> list[str]:
    """What the fields of a union are called: as AvroConverter calls them, by type, or by the name of that."""
    whole = [part if isinstance(part, str) else part.get("name", part["type"]) for part in types]
    short = [name.rsplit(".", 1)[-1] for name in whole]
    return short if len(set(short)) == len(short) else whole


def _of_fields(plain: dict[str, Plain]) -> Plain:
    def made(value: Any) -> Any:
        return value and {name: plain[name](part) if name in plain else part for name, part in value.items()}

    return made


def _of_items(plain: Plain) -> Plain:
    return lambda value: value and [plain(item) for item in value]


def _of_values(plain: Plain) -> Plain:
    return lambda value: value and {name: plain(item) for name, item in value.items()}


def _logical(schema: Any, made: _Part) -> _Part:
    """Gives the values as they are where the logical type is none for them."""
    import pyarrow as pa

    logical = schema.get("logicalType")
    if made.raw in ("int", "long"):
        kind = _TIMES.get((made.raw, logical))
        return made if kind is None else replace(made, kind=kind(pa))
    if not pa.types.is_binary(made.kind):
        return made
    if logical == "decimal" and "precision" in schema:
        return _decimal(schema, made)
    if logical == "uuid" and schema.get("size") == 16:
        return replace(made, kind=pa.string(), plain=lambda value: value and str(uuid.UUID(bytes=value)))
    return made


def _decimal(schema: Any, made: _Part) -> _Part:
    """Gives the column that Parquet has for these digits; one of texts where Arrow has no decimal of them."""
    import pyarrow as pa

    digits, scale = schema["precision"], schema.get("scale", 0)

    def number(value: bytes | None) -> Decimal | None:
        return None if value is None else _EXACT.scaleb(int.from_bytes(value, "big", signed=True), -scale)

    if digits > _MOST_DIGITS:
        return replace(made, kind=pa.string(), plain=lambda value: None if value is None else f"{number(value):f}")
    kind = pa.decimal128 if digits <= _MOST_SHORT_DIGITS else pa.decimal256
    return replace(made, kind=kind(digits, scale), plain=number)


_EXACT = Context(prec=10_000)
_MOST_SHORT_DIGITS, _MOST_DIGITS = 38, 76  # of decimal128 and decimal256
_NAMED = ("record", "enum", "fixed")
_PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "null": lambda pa: pa.null(),
    "boolean": lambda pa: pa.bool_(),
    "int": lambda pa: pa.int32(),
    "long": lambda pa: pa.int64(),
    "float": lambda pa: pa.float32(),
    "double": lambda pa: pa.float64(),
    "bytes": lambda pa: pa.binary(),
    "string": lambda pa: pa.string(),
}
_TIMES: dict[tuple[str, Any], Callable[[Any], Any]] = {
    ("int", "date"): lambda pa: pa.date32(),
    ("int", "time-millis"): lambda pa: pa.time32("ms"),
    ("long", "time-micros"): lambda pa: pa.time64("us"),
    ("long", "timestamp-millis"): lambda pa: pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): lambda pa: pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): lambda pa: pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): lambda pa: pa.timestamp("us"),
}
