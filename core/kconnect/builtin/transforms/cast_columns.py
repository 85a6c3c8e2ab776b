"""A column as another type, where Arrow's kernels give what Java's casts give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, Schema, Type
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.transforms.cast_values import OUTPUTS, cast_value

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS = frozenset((Type.INT8, Type.INT16, Type.INT32, Type.INT64))
_FLOATS = frozenset((Type.FLOAT32, Type.FLOAT64))
# Digits that fit each type whatever they are; longer texts are read one by one.
_DIGITS = {Type.INT8: 2, Type.INT16: 4, Type.INT32: 9, Type.INT64: 18}
# A double holds 15 digits exactly, so that Arrow's reading and Java's cannot part.
_PLAIN_FLOAT = r"^-?[0-9]{1,12}(\.[0-9]{1,12})?$"


def cast_column(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    """The column as the target type; None when a value cannot be cast: records tell which one."""
    made = _by_kernel(schema, column, target)
    if made is not None:
        return made
    try:
        values = [cast_value(schema, value, target) for value in values_of(schema, column, len(column))]
        return column_of(Schema(target, is_optional=True), values)
    except ConnectError:
        return None


def _by_kernel(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    if schema.name is not None:
        return _from_moment(schema, column, target)
    if schema.type not in OUTPUTS:
        return None  # bytes: value by value
    if schema.type is target:
        return column
    wanted = arrow_type(Schema(target))
    if schema.type is Type.STRING:
        return _from_text(column, target, wanted)
    if schema.type in _FLOATS:
        return column.cast(wanted, safe=False) if target in _FLOATS else None
    if schema.type is Type.BOOLEAN:
        return column.cast(wanted)
    if target is Type.BOOLEAN:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.not_equal(column, pa.scalar(0, column.type))
    if target is Type.STRING:
        return column.cast(wanted)
    return column.cast(wanted, safe=False)  # too wide numbers are cut to their low bits, as in Java


def _from_moment(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    """Dates, times and timestamps by way of the number that stands for them; as text, and all else, value by value."""
    import pyarrow as pa

    plain = {"timestamp[ms, tz=UTC]": pa.int64(), "date32[day]": pa.int32(), "time32[ms]": pa.int32()}
    number = plain.get(str(column.type))
    if number is None or target is Type.STRING:
        return None
    return _by_kernel(Schema(schema.type), column.cast(number), target)


def _from_text(column: pa.Array, target: Type, wanted: Any) -> pa.Array | None:  # Any: pa.DataType
    import pyarrow.compute as pc

    if target is Type.BOOLEAN:
        return pc.equal(pc.ascii_lower(column), "true")
    pattern = rf"^-?[0-9]{{1,{_DIGITS[target]}}}$" if target in _INTEGERS else _PLAIN_FLOAT
    if not pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py():
        return None
    return column.cast(wanted)
