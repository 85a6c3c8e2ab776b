"""Headers: the ordered multi-map that accompanies a record's key and value."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kconnect.api.schema import Schema, Struct
from kconnect.api.schema_types import Type
from kconnect.errors import DataError


class Header(NamedTuple):
    """One header: a key, a value, and the value's schema (None if schemaless). Source: ConnectHeader."""

    key: str
    value: Any  # any Connect value
    schema: Schema | None = None

    def with_key(self, key: str) -> Header:
        """The same value under another key (Java: rename). Errors: DataError for a key that is None."""
        return self if key == self.key else _with_key(self._replace(key=key))

    def with_value(self, value: Any, schema: Schema | None = None) -> Header:
        """Another value under the same key (Java: with). Errors: DataError when it does not fit the schema."""
        if schema is not None:
            _check_fits(schema, value)
        return Header(self.key, value, schema)


class Headers:
    """The headers of one record, in order; the same key may occur more than once.

    Every method that changes it returns the object, so that calls chain.
    Threads: belongs to the thread that handles its record. Source: o.a.k.connect.header.ConnectHeaders.
    """

    __slots__ = ("_items",)

    def __init__(self, original: Iterable[Header] | None = None) -> None:
        self._items: list[Header] = [] if original is None else list(original)

    def add(self, key: str | Header, value: Any = None, schema: Schema | None = None) -> Headers:
        """Append a header, or a ready `Header`. Errors: DataError when the value does not fit the schema.

        Shape: as in Java only the outermost type is checked here; converters check the rest.
        """
        if isinstance(key, Header):
            self._items.append(_with_key(key))
            return self
        if schema is not None:
            _check_fits(schema, value)
        self._items.append(_with_key(Header(key, value, schema)))
        return self

    def add_string(self, key: str, value: str | None) -> Headers:
        """Append text; None becomes an optional string."""
        return self._append(key, value, Schema.OPTIONAL_STRING_SCHEMA if value is None else Schema.STRING_SCHEMA)

    def add_bytes(self, key: str, value: bytes | None) -> Headers:
        """Append bytes; None becomes optional bytes."""
        return self._append(key, value, Schema.OPTIONAL_BYTES_SCHEMA if value is None else Schema.BYTES_SCHEMA)

    def add_boolean(self, key: str, value: bool) -> Headers:
        """Append a boolean."""
        return self.add(key, value, Schema.BOOLEAN_SCHEMA)

    def add_int8(self, key: str, value: int) -> Headers:
        """Append an 8-bit integer (Java: addByte)."""
        return self.add(key, value, Schema.INT8_SCHEMA)

    def add_int16(self, key: str, value: int) -> Headers:
        """Append a 16-bit integer (Java: addShort)."""
        return self.add(key, value, Schema.INT16_SCHEMA)

    def add_int32(self, key: str, value: int) -> Headers:
        """Append a 32-bit integer (Java: addInt)."""
        return self.add(key, value, Schema.INT32_SCHEMA)

    def add_int64(self, key: str, value: int) -> Headers:
        """Append a 64-bit integer (Java: addLong)."""
        return self.add(key, value, Schema.INT64_SCHEMA)

    def add_float32(self, key: str, value: float) -> Headers:
        """Append a single-precision float (Java: addFloat)."""
        return self.add(key, value, Schema.FLOAT32_SCHEMA)

    def add_float64(self, key: str, value: float) -> Headers:
        """Append a double-precision float (Java: addDouble)."""
        return self.add(key, value, Schema.FLOAT64_SCHEMA)

    def add_list(self, key: str, value: list[Any] | None, schema: Schema) -> Headers:
        """Append a list with its ARRAY schema; None becomes a schemaless null."""
        return self._append_checked(key, value, schema, Type.ARRAY)

    def add_map(self, key: str, value: dict[Any, Any] | None, schema: Schema) -> Headers:
        """Append a dict with its MAP schema; None becomes a schemaless null."""
        return self._append_checked(key, value, schema, Type.MAP)

    def add_struct(self, key: str, value: Struct | None) -> Headers:
        """Append a struct with its own schema; None becomes a schemaless null."""
        return self._append(key, value, None if value is None else value.schema)

    def add_decimal(self, key: str, value: decimal.Decimal | None) -> Headers:
        """Append a decimal with its own scale; None becomes a schemaless null."""
        from kconnect.api.logical import Decimal

        return self._append(key, value, None if value is None else Decimal.schema(Decimal.scale_of(value)))

    def add_date(self, key: str, value: datetime.date) -> Headers:
        """Append a date."""
        from kconnect.api.logical import Date

        return self.add(key, value, Date.SCHEMA)

    def add_time(self, key: str, value: datetime.time) -> Headers:
        """Append a time of day."""
        from kconnect.api.logical import Time

        return self.add(key, value, Time.SCHEMA)

    def add_timestamp(self, key: str, value: datetime.datetime) -> Headers:
        """Append an instant; the datetime must have a time zone."""
        from kconnect.api.logical import Timestamp

        return self.add(key, value, Timestamp.SCHEMA)

    def last_with_name(self, key: str) -> Header | None:
        """The last header of that key, or None."""
        return next((header for header in reversed(self._items) if header.key == key), None)

    def all_with_name(self, key: str) -> Iterator[Header]:
        """All headers of that key, in order."""
        return (header for header in self._items if header.key == key)

    def remove(self, key: str) -> Headers:
        """Drop all headers of that key."""
        self._items = [header for header in self._items if header.key != key]
        return self

    def clear(self) -> Headers:
        """Drop all headers."""
        self._items = []
        return self

    def retain_latest(self, key: str | None = None) -> Headers:
        """Keep only the last header of that key, or of each key without an argument; their order is kept."""
        seen: set[str] = set()
        kept = []
        for header in reversed(self._items):
            if (key is None or header.key == key) and header.key in seen:
                continue
            seen.add(header.key)
            kept.append(header)
        self._items = kept[::-1]
        return self

    def apply(self, transform: Callable[[Header], Header | None], key: str | None = None) -> Headers:
        """Replace each header (of that key, if given) by the function's result; None drops it."""
        changed = (transform(header) if key is None or header.key == key else header for header in self._items)
        self._items = [header for header in changed if header is not None]
        return self

    def duplicate(self) -> Headers:
        """An independent copy."""
        return Headers(self._items)

    def _append(self, key: str, value: Any, schema: Schema | None) -> Headers:
        self._items.append(_with_key(Header(key, value, schema)))
        return self

    def _append_checked(self, key: str, value: Any, schema: Schema, expected: Type) -> Headers:
        if value is None:
            return self._append(key, None, None)
        if schema.type is not expected:
            raise DataError(f"Expecting {expected} but instead found {schema.type}")
        return self._append(key, value, schema)

    def __iter__(self) -> Iterator[Header]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Headers):
            return NotImplemented
        return self._items == other._items

    __hash__ = None  # type: ignore[assignment]  # headers change

    def __repr__(self) -> str:
        shown = ", ".join(f"ConnectHeader(key={h.key}, value={h.value}, schema={h.schema})" for h in self._items)
        return f"ConnectHeaders(headers=[{shown}])" if self._items else "ConnectHeaders(headers=)"


ConnectHeaders = Headers
"""Java's name for `Headers`, to ease porting."""


def headers_of(given: Headers | Mapping[str, Any] | Iterable[tuple[Any, ...]] | None) -> Headers | None:
    """Headers, also of a mapping or of pairs of a key and a value. Errors: TypeError for anything else."""
    if given is None or isinstance(given, Headers):
        return given
    made = Headers()
    try:
        for pair in given.items() if isinstance(given, Mapping) else given:
            key, value, *schema = pair if isinstance(pair, tuple | list) else ()
            made.add(key, value, *schema)
    except (TypeError, ValueError) as error:
        wanted = "headers must be Headers, a mapping, or pairs of a key and a value"
        raise TypeError(f"{wanted}; found {given!r}") from error
    return made


def _with_key(header: Header) -> Header:
    """The header, if it has a name. Source: ConnectHeader; there a NullPointerException with these words."""
    if header.key is None:
        raise DataError("Null header keys are not permitted")
    return header


def _check_fits(schema: Schema, value: Any) -> None:
    if value is None:
        if not schema.is_optional:
            raise DataError(f"A null value requires an optional schema but was {schema}")
    elif not schema._check(value):
        raise DataError(f"The value {value} is not compatible with the schema {schema}")
