"""Rows of a source as the Arrow columns of a DataFrame: which columns there are, and each value made to fit.

Columns are named as in Spark's Kafka format: key, value, topic, partition, timestamp, headers. Values with a schema
have its type; those without become JSON text, since nothing promises that the next one looks the same. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import Type
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.api.plain_values import plain
from kconnect.builtin.types.fitting import FitRules, NotFittingError, build, fit
from kconnect.builtin.types.seen import NOTHING, Kind, Seen, see
from kconnect.errors import ConfigError, DataError
from kconnect.spark.datasource.chain import Part, Rows

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_COLUMNS: Final = ("key", "value", "topic", "partition", "timestamp", "headers")


@dataclass(frozen=True)
class Columns:
    """The columns of a DataFrame, and how records become its rows.

    `is_record`: one of RECORD_COLUMNS each; else each is a field of the value. `is_strict`: the columns were inferred
    from the first records, so that a field which none of them had is an error, and not left out in silence.
    """

    schema: pa.Schema
    is_record: bool
    is_strict: bool = False

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """The rows with exactly this schema. Errors: DataError naming column, record and type."""
        import pyarrow as pa

        if self.is_record:
            arrays = [_RECORD_PARTS[field.name](rows, field.type, self.is_strict) for field in self.schema]
        else:
            row_type = pa.struct(list(self.schema))
            arrays = _typed(rows, rows.value, row_type, "value", is_strict=self.is_strict).flatten()
        for field, array in zip(self.schema, arrays, strict=True):
            _refuse_nulls(array, field, field.name)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def inferred(rows: Iterable[Rows], *, is_record: bool) -> pa.Schema:
    """The columns that fit these rows, each nullable. Errors: DataError if values have no fields to be columns."""
    import pyarrow as pa

    runs = list(rows)
    value = _common([one.value for one in runs])
    if is_record:
        key = _common([one.key for one in runs])
        types = {"key": key, "value": value, **_fixed_types()}
        return pa.schema([pa.field(name, types[name]) for name in RECORD_COLUMNS])
    if value is None or not pa.types.is_struct(value):
        raise DataError(
            "kconnect.columns=value makes a column of each field of the value, and the values have no fields with a "
            "schema",
            hint='Give the columns: .schema("id BIGINT, name STRING"), or leave kconnect.columns out.',
        )
    return pa.schema(list(value))


def _refuse_nulls(array: pa.Array, field: pa.Field, place: str) -> None:
    """Spark reads a column of NOT NULL without looking for nulls: what it finds there is an error of Java's, or 0.

    Errors: DataError naming the column.
    """
    import pyarrow as pa

    if not field.nullable and array.null_count:
        raise DataError(
            f"{place} is NOT NULL in the schema of the DataFrame, and a record has no value for it",
            hint="Leave NOT NULL out of .schema(..), or give the source what has a value in each record.",
        )
    if pa.types.is_struct(field.type):
        there = array.drop_null()
        for index, inner in enumerate(field.type):
            _refuse_nulls(there.field(index), inner, f"{place}.{inner.name}")
    elif pa.types.is_list(field.type):
        _refuse_nulls(array.flatten(), field.type.value_field, f"{place}[]")
    elif pa.types.is_map(field.type):
        _refuse_nulls(array.items, field.type.item_field, f"{place}[]")


def is_record_schema(names: Sequence[str]) -> bool:
    """Whether columns of these names are those of records, and not fields of the value."""
    return "value" in names and set(names) <= set(RECORD_COLUMNS)


def check_record_columns(schema: pa.Schema) -> None:
    """Refuse, while Spark plans, columns whose type does not fit the part of a record that they name.

    Keys and values may have any type.
    Errors: ConfigError with column and type.
    """
    for field in schema:
        takes, are = _TAKEN.get(field.name, (None, ""))
        if takes is not None and not takes(field.type):
            raise ConfigError(
                f"The column {field.name} is {field.type}, and the {field.name} of a record must be {are}",
                hint='Cast it; where it is a field of the value, .option("kconnect.columns", "value") says so.',
            )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind))


def _is_time(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _are_headers(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        return False
    fields = {field.name: field.type for field in kind.value_type}
    return (
        set(fields) == {"key", "value"}
        and _is_text(fields["key"])
        and (pa.types.is_binary(fields["value"]) or _is_text(fields["value"]))
    )


_TAKEN: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "topic": (_is_text, "text"),
    "partition": (_is_number, "a number"),
    "timestamp": (_is_time, "a timestamp, or a bigint of milliseconds"),
    "headers": (_are_headers, "array<struct<key: string, value: binary>>, where value may also be string"),
}


def _fixed_types() -> dict[str, pa.DataType]:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    return {
        "topic": pa.string(),
        "partition": pa.int32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "headers": pa.list_(pa.field("element", header)),
    }


def _common(parts: Sequence[Part]) -> pa.DataType:
    """The one type of several runs of rows; text if they differ or nothing is known.

    Values without schema are seen together: where a run ends makes no difference.
    """
    import pyarrow as pa

    seen = reduce(Seen.join, (see(part.data) for part in parts if _is_plain(part)), NOTHING)  # type: ignore[arg-type]  # lists
    found = [kind for part in parts if not _is_plain(part) and (kind := _natural(part)) is not None]
    if seen.kind is not Kind.NOTHING:
        found.append(pa.string() if pa.types.is_nested(seen.type) else _of_spark(seen.type))
    return found[0] if found and all(kind == found[0] for kind in found) else pa.string()


def _is_plain(part: Part) -> bool:
    """Whether it is a list of values without schema."""
    return part.schema is None and not part.is_bytes and isinstance(part.data, list | tuple)


def _natural(part: Part) -> pa.DataType | None:
    """The type that a part has by itself; None if all of it is null."""
    import pyarrow as pa

    if part.is_bytes:
        return pa.binary()
    if part.schema is not None:
        return _of_spark(arrow_type(part.schema))
    if part.data is None:
        return None
    kind = part.data.type  # type: ignore[union-attr]  # an Arrow column: lists are plain
    return pa.string() if pa.types.is_nested(kind) else _of_spark(kind)


def _of_spark(kind: pa.DataType) -> pa.DataType:
    """The type that Spark has for it: times of day are ms, as Connect counts them."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _of_spark(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_of_spark(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_of_spark(kind.key_type), _of_spark(kind.item_type))
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


def _typed(rows: Rows, part: Part, kind: pa.DataType, name: str, *, is_strict: bool) -> pa.Array:
    """Keys or values as a column of this type. Errors: DataError naming the record that does not fit."""
    import pyarrow as pa

    if part.data is None:
        return pa.nulls(rows.length, kind)
    try:
        if pa.types.is_string(kind) and _needs_text(part):
            return pa.array(_texts(part, rows.length), kind)
        if not isinstance(part.data, list | tuple):
            return fit(part.data, kind, _rules(is_strict))
        if part.schema is not None:
            return fit(column_of(part.schema, part.data), kind, _rules(is_strict))
        return build(part.data, kind, _rules(is_strict))
    except (NotFittingError, DataError) as error:
        topic = rows.topic if isinstance(rows.topic, str) else rows.topic[getattr(error, "row", 0)]
        hint = (
            f'Give a schema that fits, .schema("{name} STRING, topic STRING") for JSON text, or '
            f'.option("{name}.converter", "JsonConverter") for the bytes as a topic would have them.'
        )
        if name == "value":
            hint += ' With .option("value.schema", ..) and errors.tolerance=all, records that do not fit are skipped.'
        raise DataError(f"A {name} of topic {topic} does not fit the DataFrame: {error}", hint=hint) from error


def _rules(is_strict: bool) -> FitRules:
    """Types that were seen in the first records do not say how to read: "01" is not 1 there."""
    return FitRules(reads=not is_strict, is_strict=is_strict)


def _needs_text(part: Part) -> bool:
    """Whether values become text by being written as JSON."""
    if part.is_bytes:
        return False
    if isinstance(part.data, list | tuple):
        return part.schema is None or part.schema.type is not Type.STRING
    kind = part.data.type  # type: ignore[union-attr]  # not None: asked before
    return not _is_text(kind)


def _texts(part: Part, length: int) -> list[str | None]:
    is_list = isinstance(part.data, list | tuple)
    values: Sequence[Any] = part.data if is_list else values_of(part.schema, part.data, length)  # type: ignore[assignment]  # not None
    return [value if value is None or isinstance(value, str) else _json(value) for value in values]


def _json(value: Any) -> str:
    return json.dumps(plain(value, is_data=True), ensure_ascii=False, separators=(",", ":"))


def _topics(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    return _spread(rows.topic, rows.length, kind)


def _partitions(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    return _spread(rows.partition, rows.length, kind)


def _times(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    """Times are ms; a column of integers keeps them so."""
    import pyarrow as pa

    ms = _spread(rows.timestamp, rows.length, pa.int64())
    return ms.cast(pa.timestamp("ms", tz="UTC")).cast(kind) if pa.types.is_timestamp(kind) else ms.cast(kind)


def _headers(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    import pyarrow as pa

    if rows.headers is None:
        return pa.nulls(rows.length, kind)
    made = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows.headers]
    return pa.array(made, kind)


def _spread(value: Any, length: int, kind: pa.DataType) -> pa.Array:
    """One value for all rows, or a column."""
    import pyarrow as pa

    if value is None:
        return pa.nulls(length, kind)
    if isinstance(value, str | int):
        return pa.repeat(pa.scalar(value, kind), length)
    return pa.array(value, kind) if isinstance(value, list | tuple) else value.cast(kind)


def _keys(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    return _typed(rows, rows.key, kind, "key", is_strict=is_strict)


def _values(rows: Rows, kind: pa.DataType, is_strict: bool) -> pa.Array:
    return _typed(rows, rows.value, kind, "value", is_strict=is_strict)


_RECORD_PARTS: Final[dict[str, Callable[[Rows, Any, bool], Any]]] = {
    "key": _keys,
    "value": _values,
    "topic": _topics,
    "partition": _partitions,
    "timestamp": _times,
    "headers": _headers,
}
