"""Writes Arrow columns as Avro, byte for byte as values_to_avro.py and fastavro do row by row.

A whole number in Avro has one byte for each seven bits, so its bytes are looked up in a table, fourteen bits at a
time, for the whole column at once; what a row consists of is joined at the end. Measured, a struct of six fields (a
long of any size, a double, a boolean, nullable text of 200 bytes, a timestamp, a nullable int): 4.1 us a row from
column to bytes, 23 us from struct to bytes by records, of which 10 us are fastavro's.
"""

from __future__ import annotations

from functools import cache
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.schema_registry.avro_names import AvroOptions, is_enum, is_fixed, is_union
from kconnect.schema_registry.avro_schema import AvroType

if TYPE_CHECKING:
    import pyarrow as pa

_BITS: Final = 14
_WHOLE: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64})


def avro_column(
    schema: Schema, avro: AvroType, column: pa.Array, head: bytes, options: AvroOptions
) -> pa.BinaryArray | NotImplementedType:
    """The bytes of each row with `head` before them; NotImplemented if it must go by records.

    Errors: DataError when a required row is null; by records it falls on that row.
    """
    import pyarrow.compute as pc

    if avro.kind in ("union", "bytes"):
        return NotImplemented  # at the top, null is a tombstone and bytes have no length
    pieces = _pieces(schema, avro, column, options)
    if pieces is None:
        return NotImplemented
    if column.null_count:
        raise DataError("Found null value for non-optional schema")
    return pc.binary_join_element_wise(_constant(head), *pieces, _constant(b""))


def _pieces(schema: Schema, avro: AvroType, column: pa.Array, options: AvroOptions) -> list[Any] | None:
    """What to join for each row, all without nulls; None if it must go by records."""
    if avro.kind == "union":
        return _nullable(schema, avro, column, options)
    if column.null_count:
        raise DataError("Found null value for non-optional schema")
    if schema.type is Type.STRUCT:
        return _struct(schema, avro, column, options)
    return _scalar(schema, avro, column)


def _struct(schema: Schema, avro: AvroType, column: pa.Array, options: AvroOptions) -> list[Any] | None:
    import pyarrow.types as types

    if not types.is_struct(column.type) or is_union(schema) or avro.kind != "record":
        return None
    names = [options.scrub_name(field.name) for field in schema.fields]
    if names != [entry.name for entry in avro.fields]:
        return None
    pieces: list[Any] = []
    for field, entry, child in zip(schema.fields, avro.fields, column.flatten(), strict=True):
        if field.schema.default is not None and child.null_count and not options.ignore_default_for_nullables:
            return None  # null is the default there
        found = _pieces(field.schema, entry.type, child, options)
        if found is None:
            return None
        pieces += found
    return pieces


def _nullable(schema: Schema, avro: AvroType, column: pa.Array, options: AvroOptions) -> list[Any] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = [branch.kind for branch in avro.branches]
    if is_union(schema) or len(kinds) != 2 or kinds.count("null") != 1:
        return None
    null = kinds.index("null")
    marks = {True: bytes([2 * null]), False: bytes([2 * (1 - null)])}
    inner = avro.branches[1 - null]
    if not column.null_count:
        pieces = _pieces(schema, inner, column, options)
        return None if pieces is None else [_constant(marks[False]), *pieces]
    if not schema.is_optional or schema.type is Type.STRUCT:
        return None
    is_null = column.is_null()
    filled = _filled(column)
    pieces = None if filled is None else _pieces(schema, inner, filled, options)
    if pieces is None:
        return None
    empty = pa.scalar(b"", pa.binary())
    mark = pc.if_else(is_null, _constant(marks[True]), _constant(marks[False]))
    return [mark, *(pc.if_else(is_null, empty, piece) for piece in pieces)]


def _filled(column: pa.Array) -> pa.Array | None:
    """Something in the place of nulls, which are cut out afterwards."""
    import pyarrow as pa
    import pyarrow.types as types

    kind = column.type
    if types.is_boolean(kind):
        return column.fill_null(False)
    if types.is_integer(kind) or types.is_floating(kind):
        return column.fill_null(pa.scalar(0, kind))
    if types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return column.cast(whole).fill_null(0).cast(kind)
    if types.is_string(kind) or types.is_binary(kind):
        return column.fill_null(pa.scalar("" if types.is_string(kind) else b"", kind))
    return None


def _scalar(schema: Schema, avro: AvroType, column: pa.Array) -> list[Any] | None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    kind, arrow = schema.type, column.type
    if schema.name == Decimal.LOGICAL_NAME or is_fixed(schema) or (is_enum(schema) and avro.kind == "enum"):
        return None
    if schema.name in (Date.LOGICAL_NAME, Time.LOGICAL_NAME, Timestamp.LOGICAL_NAME):
        if avro.kind not in ("int", "long") or not types.is_temporal(arrow):
            return None
        return _whole(column.cast(pa.int32() if arrow.bit_width == 32 else pa.int64()))
    if kind in _WHOLE and avro.kind in ("int", "long") and types.is_signed_integer(arrow):
        return _whole(column)
    if kind is Type.BOOLEAN and types.is_boolean(arrow):
        return [pc.if_else(column, _constant(b"\x01"), _constant(b"\x00"))]
    if kind is Type.FLOAT64 and avro.kind == "double" and types.is_float64(arrow):
        return [_raw(column, 8)]
    if kind is Type.FLOAT32 and avro.kind == "float" and types.is_float32(arrow):
        return [_raw(column, 4)]
    is_text = kind is Type.STRING and avro.kind == "string" and types.is_string(arrow)
    if is_text or (kind is Type.BYTES and avro.kind == "bytes" and types.is_binary(arrow)):
        data = column.cast(pa.binary())
        return [*_whole(pc.binary_length(data)), data]
    return None


def _whole(column: pa.Array) -> list[Any]:
    """Zigzag and seven bits a byte, of signed whole numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wide = column.cast(pa.int64())
    # not shift_right(wide, 63): Arrow leaves a signed number as it is when the shift is its whole width
    sign = pc.if_else(pc.less(wide, 0), pa.scalar(-1, pa.int64()), pa.scalar(0, pa.int64()))
    left = pc.bit_wise_xor(pc.shift_left(wide, 1), sign).view(pa.uint64())
    last, more = _tables()
    pieces: list[Any] = []
    done = None  # rows whose bytes are complete
    shift, mask = pa.scalar(_BITS, pa.uint64()), pa.scalar((1 << _BITS) - 1, pa.uint64())
    while True:
        low = pc.bit_wise_and(left, mask)
        left = pc.shift_right(left, shift)
        top = pc.max(left).as_py() if len(left) else 0
        ends = pc.equal(left, pa.scalar(0, pa.uint64()))
        piece = last.take(low) if not top else pc.if_else(ends, last.take(low), more.take(low))
        pieces.append(piece if done is None else pc.if_else(done, _constant(b""), piece))
        if not top:
            return pieces
        done = ends


@cache
def _tables() -> tuple[pa.Array, pa.Array]:
    """The bytes of each number of fourteen bits: when it is the last of a number, and when more follow."""
    import pyarrow as pa

    numbers = range(1 << _BITS)
    last = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in numbers]
    more = [bytes([n & 127 | 128, n >> 7 | 128]) for n in numbers]
    return pa.array(last, pa.binary()), pa.array(more, pa.binary())


def _raw(column: pa.Array, width: int) -> pa.Array:
    """The bytes of floats, as they are: Arrow and Avro both have the lowest first."""
    import pyarrow as pa

    return column.view(pa.binary(width)).cast(pa.binary())


def _constant(data: bytes) -> pa.Scalar:
    import pyarrow as pa

    return pa.scalar(data, pa.binary())
