"""JSON of values without schema by orjson, where that writes what JsonWriter writes: byte for byte as Jackson."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from kconnect.api.plain_columns import plain_values
from kconnect.api.plain_values import LEAST_SHORT, MOST_SHORT, SIMPLE, is_plain, is_short
from kconnect.builtin.converters.json_columns import FOUR_BYTE_LEADS, SEPARATOR
from kconnect.java.compat.jackson import write_double

if TYPE_CHECKING:
    import pyarrow as pa


def plain_json(value: Any) -> bytes | None:
    """The JSON text of a value; None if JsonWriter must write or refuse it.

    Measured, a dict of four fields: 0.9 us, by JsonWriter 2.4 us.
    """
    try:
        raw = orjson.dumps(value if is_plain(value) else _with_javas_floats(value))
    except (
        orjson.JSONEncodeError,
        _NotPlainError,
        RecursionError,
    ):  # beyond 64 bits, lone surrogates, deep nests
        return None
    return as_jackson_spells(b"%b" % raw)  # orjson leaves its 1 KB buffer behind each short text: 1.5 us a record kept


class _NotPlainError(Exception):
    """A value has a type that JSON does not have."""


def _with_javas_floats(value: Any) -> Any:
    """The value with the texts of those floats that Java spells in its own way: 1.79E9, "NaN". Errors: _NotPlainError.

    Measured, a record of a log with seconds since 1970: 9.7 us, by JsonWriter 14.6, on a busy machine.
    """
    kind = type(value)
    if kind in SIMPLE:
        return value
    if kind is float:
        return value if is_short(value) else orjson.Fragment(write_double(value))
    if kind is list:
        return [_with_javas_floats(item) for item in value]
    if kind is dict and all(type(name) is str for name in value):
        return {name: item if type(item) in SIMPLE else _with_javas_floats(item) for name, item in value.items()}
    raise _NotPlainError


def plain_json_texts(column: pa.Array) -> list[bytes | None] | None:
    """The JSON text of each row of a column without schema, None for a null row; None if only records will do.

    Measured, rows of four and five members: 2.0 us, by records 5.2.
    """
    if not (_has_plain_types(column.type) and _has_short_floats(column)):
        return None
    values: list[Any] = plain_values(column)
    texts = _joined_texts(values)
    if texts is None or not column.null_count:
        return texts  # type: ignore[return-value]  # a list that has no None
    return [None if value is None else text for value, text in zip(values, texts, strict=True)]


def plain_json_list(values: Sequence[Any]) -> list[bytes] | None:
    """The JSON text of each value; None if one of them must be written alone.

    Measured, objects of four members: 0.9 us a value, by plain_json 1.6.
    """
    try:
        return _joined_texts([value if is_plain(value) else _with_javas_floats(value) for value in values])
    except (_NotPlainError, RecursionError):
        return None


def _joined_texts(values: Sequence[Any]) -> list[bytes] | None:
    if not values:
        return []
    rows: list[Any] = [SEPARATOR] * (2 * len(values) - 1)
    rows[::2] = values
    try:
        joined = as_jackson_spells(orjson.dumps(rows)[1:-1])
    except orjson.JSONEncodeError:  # beyond 64 bits, lone surrogates, deep nests
        return None
    if joined.count(SEPARATOR.encode()) != len(values) - 1:  # a text has it, too
        return None
    return joined.split(_BETWEEN)


_BETWEEN = f',"{SEPARATOR}",'.encode()


def as_jackson_spells(raw: bytes) -> bytes:
    r"""What orjson wrote as Jackson writes it: \u001B, not \u001b, and characters beyond the BMP as two surrogates."""
    if b"\\u00" in raw or (not raw.isascii() and any(lead in raw for lead in FOUR_BYTE_LEADS)):
        return _ODD.sub(_respelled, raw)
    return raw


# An escape is taken whole: what follows an escaped backslash is none
_ODD = re.compile(rb"\\(?:u00..|.)|[\xf0-\xf4]...", re.DOTALL)


def _respelled(found: re.Match[bytes]) -> bytes:
    text = found[0]
    if len(text) == len(b"\\n"):
        return text
    if text.startswith(b"\\"):
        return text[:2] + text[2:].upper()
    code = ord(text.decode()) - 0x10000
    return b"\\u%04X\\u%04X" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))


def _has_plain_types(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind) or pa.types.is_list(kind):
        return all(_has_plain_types(kind.field(index).type) for index in range(kind.num_fields))
    leaves = (pa.types.is_string, pa.types.is_integer, pa.types.is_float64, pa.types.is_boolean, pa.types.is_null)
    return any(is_kind(kind) for is_kind in leaves)


def _has_short_floats(column: pa.Array) -> bool:
    """Whether `is_short` holds for all floats in a column of plain types."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_struct(kind):
        return all(_has_short_floats(part) for part in column.flatten())
    if pa.types.is_list(kind):
        return _has_short_floats(column.flatten())
    if not pa.types.is_float64(kind):
        return True
    size = pc.abs(column)
    short = pc.and_(pc.greater_equal(size, LEAST_SHORT), pc.less(size, MOST_SHORT))
    return bool(pc.all(pc.or_(short, pc.equal(size, 0.0))).as_py() is not False)  # None: no value
