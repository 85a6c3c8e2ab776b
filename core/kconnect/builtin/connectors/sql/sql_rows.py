"""Records as rows of a table: columns with values, the key among them, as the settings of SqlSink say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from kconnect.api import DataError, Schema, SinkRecord, Struct, Type
from kconnect.builtin.connectors.sql.sql_dialect import kind_of_schema
from kconnect.builtin.types.meaning import meant_value
from kconnect.builtin.types.seen import Kind, require_texts, see
from kconnect.builtin.types.seen_columns import NO_FIELD
from kconnect.builtin.types.seen_schemas import schema_of_seen

# Columns of pk.mode=kafka, named as in well-known JDBC sinks.
KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")


class Row(NamedTuple):
    """One statement's worth: `columns` in order with their values; `is_delete` has the key columns only.

    No dataclass, as one is made for each record: 0.5 us, not 1.5.
    """

    table: str
    columns: tuple[str, ...]
    values: tuple[Any, ...]
    keys: tuple[str, ...]
    kinds: tuple[str | None, ...]
    """The column that each value needs, as its schema says; None without one."""
    is_delete: bool = False
    schema: Schema | None = None
    """Holds the schema of the record's value."""

    @property
    def is_seen(self) -> bool:
        """Whether its values came without schema."""
        return self.schema is None and not self.is_delete

    @property
    def shape(self) -> tuple[str, tuple[str, ...], bool]:
        """Rows of one shape share one statement."""
        return self.table, self.columns, self.is_delete


MOST_WIDENED: Final = 2
"""Rows are made up to so many times as wide, with nulls: free-form maps have other members each."""

_SHAPE: Final = attrgetter("table", "columns", "is_delete")


def kind_of_values(values: Iterable[Any]) -> str | None:
    """The column that values without schema need, by what is seen in all of them; None if all are null."""
    seen = see(values)
    return None if seen.kind is Kind.NOTHING else kind_of_schema(schema_of_seen(seen))


def runs_of(rows: Sequence[Row]) -> Iterable[list[Row]]:
    """Neighbouring rows of one shape."""
    for _, run in groupby(rows, _SHAPE):
        yield list(run)


def cells_of_kind(values: Sequence[Any], kind: str) -> Sequence[Any]:
    """Values of a kind; a time of a clock on the wall has no zone that a session could change it by."""
    if kind != "timestamp_ntz":
        return values
    return [None if value is None else value.replace(tzinfo=None) for value in values]


def _cell(value: Any, kind: str) -> tuple[Any, str]:
    return cells_of_kind((value,), kind)[0], kind


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes a row of a record: table, columns, key columns. Pure; the fields are the settings that determine it."""

    table_format: str
    pk_mode: str
    pk_fields: Sequence[str]
    whitelist: Sequence[str]
    deletes: bool
    fills_defaults: bool = True

    def table_of(self, topic: str) -> str:
        return self.table_format.replace("${topic}", topic)

    def row(self, record: SinkRecord) -> Row:
        """Errors: DataError that names the unsuitable part of the record."""
        table = self.table_of(record.topic)
        if self.pk_mode == "none" and not self.whitelist and record.value_schema is None and record.value:
            # By far the most rows without schema: all of the value, as it is. 2.0 us, not 5.5
            value = record.value
            if type(value) is dict and all(type(name) is str for name in value):
                return Row(table, tuple(value), tuple(value.values()), (), (None,) * len(value))
        keys = self._keys(record)
        if record.value is None:
            if not self.deletes:
                raise DataError("A tombstone (null value) came, and delete.enabled is false")
            names = tuple(keys)
            return Row(
                table, names, tuple(v for v, _ in keys.values()), names, tuple(k for _, k in keys.values()), True
            )
        columns = dict(keys)
        wanted = set(self.whitelist)
        for name, cell in self._cells(record.value, record.value_schema, "value").items():
            if name not in columns and (not wanted or name in wanted):
                columns[name] = cell
        if not columns:
            raise DataError(
                f"No column is left of the record's value: fields.whitelist={','.join(self.whitelist)}"
                if self.whitelist
                else NO_FIELD
            )
        values, kinds = zip(*columns.values(), strict=True)
        return Row(table, tuple(columns), values, tuple(keys), kinds, schema=record.value_schema)

    def _cells(self, value: Any, schema: Schema | None, part: str) -> dict[str, tuple[Any, str | None]]:
        """Columns of a Struct or dict: name -> (value, kind)."""
        if isinstance(value, Struct):
            value = meant_value(value.schema, value, holds_wide=True)
            read = value.get if self.fills_defaults else value.get_without_default
            return {f.name: _cell(read(f.name), kind_of_schema(f.schema)) for f in value.schema.fields}
        if isinstance(value, Mapping) and (schema is None or schema.type is Type.MAP):
            require_texts(value)
            return {name: (item, None) for name, item in value.items()}
        raise DataError(f"The {part} is neither a Struct nor a map, but {type(value).__name__}: it has no columns")

    def _keys(self, record: SinkRecord) -> dict[str, tuple[Any, str | None]]:
        """The key columns with value and kind."""
        if self.pk_mode == "none":
            return {}
        if self.pk_mode == "kafka":
            names = self.pk_fields or KAFKA_COLUMNS
            values = (record.original_topic, record.original_kafka_partition, record.original_kafka_offset)
            return dict(zip(names, zip(values, ("text", "int32", "int64"), strict=True), strict=True))
        if self.pk_mode == "record_key":
            if record.key is None:
                raise DataError("The record has no key, and pk.mode is record_key")
            if not isinstance(record.key, Struct | Mapping):
                if len(self.pk_fields) != 1:
                    raise DataError(
                        f"The key is a plain {type(record.key).__name__}: pk.fields must name its one column, not "
                        f"{', '.join(self.pk_fields) or 'none'}"
                    )
                kind = kind_of_schema(record.key_schema) if record.key_schema else None
                return {self.pk_fields[0]: (record.key, kind)}
            cells = self._cells(record.key, record.key_schema, "key")
        else:
            if record.value is None:
                raise DataError("A tombstone (null value) has no key fields, and pk.mode is record_value")
            cells = self._cells(record.value, record.value_schema, "value")
        names = self.pk_fields or tuple(cells)
        missing = [name for name in names if name not in cells or cells[name][0] is None]
        if missing:
            raise DataError(f"The key fields {', '.join(missing)} are missing or null (pk.mode={self.pk_mode})")
        return {name: cells[name] for name in names}
