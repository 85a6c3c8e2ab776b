"""Blocks of rows that share their columns, made of a batch or of maps without schema, column by column. Pure.

The fast way of SqlSink for what is as simple as most records are. Where it gives None, `sql_rows.py` makes the rows one
by one, and says of each what is wrong: it is the plain twin. Measured with maps of five members: 1.4 us a row, by rows
5 and more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError, RecordBatch, Schema, SinkRecord, Type
from kconnect.api.columns import values_of
from kconnect.api.plain_columns import plain_members
from kconnect.builtin.connectors.sql.sql_dialect import kind_of_schema
from kconnect.builtin.connectors.sql.sql_rows import KAFKA_COLUMNS, MOST_WIDENED, RowMaker, cells_of_kind
from kconnect.builtin.types.meaning import meant_values

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one table. `columns`: the values of each in all rows, those of the key first."""

    table: str
    columns: Mapping[str, Sequence[Any]]
    keys: tuple[str, ...]
    is_seen: bool
    """Whether the values came without schema."""
    lacking: frozenset[str] = frozenset()
    """Columns that some of the rows do not have."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


@dataclass(frozen=True, slots=True)
class _Part:
    """The members of all keys, or of all values."""

    columns: Mapping[str, Sequence[Any]]
    lacking: frozenset[str] = frozenset()


def block_of_batch(maker: RowMaker, batch: RecordBatch) -> Block | None:
    """The rows of a batch as one block; None where they are made one by one."""
    if not len(batch):
        return None
    value = _part_of_column(batch.value, batch.value_schema, maker)
    if value is None:
        return None
    key = _key_of_batch(maker, batch) if maker.pk_mode == "record_key" else None
    place = None
    if maker.pk_mode == "kafka" and batch.kafka_offsets is not None:
        topic, partition = batch.original_topic, batch.original_kafka_partition
        place = [[topic] * len(batch), [partition] * len(batch), batch.kafka_offsets.to_pylist()]
    return _block(maker, batch.topic, value, key, place, is_seen=batch.value_schema is None)


def _key_of_batch(maker: RowMaker, batch: RecordBatch) -> _Part | Sequence[Any] | None:
    import pyarrow as pa

    if batch.key is None or batch.key.null_count:
        return None
    if pa.types.is_struct(batch.key.type):
        return _part_of_column(batch.key, batch.key_schema, maker)
    return None if pa.types.is_nested(batch.key.type) else values_of(batch.key_schema, batch.key, len(batch))


def block_of_records(maker: RowMaker, records: Sequence[SinkRecord]) -> Block | None:
    """The rows of records with maps of one topic as one block; None where they are made one by one."""
    if not records or maker.pk_mode == "record_key":
        return None
    topic = records[0].topic
    if any(record.value_schema is not None or record.topic != topic for record in records):
        return None
    value = _part_of_maps([record.value for record in records])
    if value is None:
        return None
    place = None
    if maker.pk_mode == "kafka":
        places = [(one.original_topic, one.original_kafka_partition, one.original_kafka_offset) for one in records]
        place = [list(column) for column in zip(*places, strict=True)]
    return _block(maker, topic, value, None, place, is_seen=True)


def _block(
    maker: RowMaker,
    topic: str,
    value: _Part,
    key: _Part | Sequence[Any] | None,
    place: Sequence[Sequence[Any]] | None,
    *,
    is_seen: bool,
) -> Block | None:
    keys = _keys(maker, value, key, place)
    if keys is None:
        return None
    wanted = set(maker.whitelist)
    others = {
        name: cells for name, cells in value.columns.items() if name not in keys and (not wanted or name in wanted)
    }
    columns = {**keys, **others}
    lacking = value.lacking & {*others}
    if not columns or (len(lacking) == len(columns) and _has_empty_row(columns)):
        return None  # a record without columns is its own error
    return Block(maker.table_of(topic), columns, tuple(keys), is_seen, lacking)


def _has_empty_row(columns: Mapping[str, Sequence[Any]]) -> bool:
    return any(all(cell is None for cell in row) for row in zip(*columns.values(), strict=True))


def _keys(
    maker: RowMaker, value: _Part, key: _Part | Sequence[Any] | None, place: Sequence[Sequence[Any]] | None
) -> dict[str, Sequence[Any]] | None:
    """The columns of the key; None where a row may have none."""
    if maker.pk_mode == "none":
        return {}
    if maker.pk_mode == "kafka":
        return None if place is None else dict(zip(maker.pk_fields or KAFKA_COLUMNS, place, strict=True))
    part = value if maker.pk_mode == "record_value" else key
    if part is None:
        return None
    if not isinstance(part, _Part):
        found = {name: part for name in maker.pk_fields} if len(maker.pk_fields) == 1 else {}
    else:
        names = maker.pk_fields or tuple(part.columns)
        found = {name: part.columns[name] for name in names if name in part.columns}
        if len(found) < len(names):
            return None
    return found if found and all(None not in cells for cells in found.values()) else None


def _part_of_column(column: pa.Array | None, schema: Schema | None, maker: RowMaker) -> _Part | None:
    import pyarrow as pa

    if column is None or column.null_count or not pa.types.is_struct(column.type):
        return None
    if schema is None:
        members, lacking = plain_members(column)
        return _Part(members, lacking) if members else None
    if schema.type is not Type.STRUCT or [field.name for field in column.type] != [f.name for f in schema.fields]:
        return None
    try:
        made = {
            field.name: _cells(field.schema, child, maker)
            for field, child in zip(schema.fields, column.flatten(), strict=True)
        }
    except DataError:
        return None
    return _Part(made) if made else None


def _cells(schema: Schema, column: pa.Array, maker: RowMaker) -> Sequence[Any]:
    """The values of a field. Errors: DataError for one that does not mean what its schema says."""
    values: Sequence[Any] = values_of(schema, column, len(column))
    meant, values = meant_values(schema, values, holds_wide=True)
    schema = meant or schema
    if maker.fills_defaults and schema.default is not None and column.null_count:
        values = [schema.default if value is None else value for value in values]
    return cells_of_kind(values, kind_of_schema(schema))


def _part_of_maps(values: Sequence[Any]) -> _Part | None:
    """Values without schema; None unless all are maps whose members are much the same."""
    shapes = dict.fromkeys(tuple(value) if type(value) is dict else None for value in values)
    if None in shapes or not all(type(name) is str for shape in shapes for name in shape or ()):
        return None
    if len(shapes) == 1:
        (names,) = shapes
        return _Part(dict(zip(names or (), zip(*(value.values() for value in values), strict=True), strict=True)))
    union = tuple(dict.fromkeys(name for shape in shapes for name in shape or ()))
    if len(union) > MOST_WIDENED * max(len(shape or ()) for shape in shapes):
        return None
    lacking = frozenset(name for name in union if any(name not in (shape or ()) for shape in shapes))
    return _Part({name: [value.get(name) for value in values] for name in union}, lacking)
