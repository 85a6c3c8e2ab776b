"""What a user's function gives, as records or a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.api import DataError, RecordBatch, SourceRecord
from kconnect.api.columns import arrow_type
from kconnect.api.natural_values import is_named_tuple, natural
from kconnect.builtin.connectors.arrow_schemas import schema_of
from kconnect.builtin.connectors.fitting_rows import ArrowRows, fitting

_SCALAR_FIELD = "offset"
_PAIRS = (("key", "value"), ("record", "offset"))


class RecordMaker:
    """Makes records of items. With `has_offsets` a pair is (record, offset), else it is (key, value).

    `give_up` is called with what no record can have, and raises or keeps it.
    """

    def __init__(
        self,
        name: str,
        topic: str,
        partition: Mapping[str, Any],
        *,
        has_offsets: bool,
        give_up: Callable[[SourceRecord, DataError], None],
    ) -> None:
        self._name, self._topic, self._partition, self._has_offsets = name, topic, partition, has_offsets
        self._give_up = give_up

    def record(self, item: Any) -> SourceRecord | None:
        """One item as a record; None for one that was given up: a tuple that is no pair, a value that holds itself.

        Errors: DataError for an offset that cannot be kept; those of `give_up`.
        """
        offset = None
        if self._has_offsets and _is_pair(item):
            given, offset = self._pair(item, "(record, offset)")
            item, offset = given, self._offset(offset)
        if isinstance(item, SourceRecord):
            return item if offset is None else item.new_record(source_partition=self._partition, source_offset=offset)
        partition = self._partition if offset is not None else None
        try:
            key, value = self._pair(item, "(key, value)") if _is_pair(item) else (None, item)
            return SourceRecord(partition, offset, self._topic, natural(value), key=natural(key))
        except DataError as error:
            self._give_up(SourceRecord(partition, offset, self._topic, _shown(item)), error)
            return None

    def has_columns(self, item: Any) -> bool:
        """Whether the item is a batch or an Arrow table, also in a pair with its offset."""
        return is_columns(item) or self._is_pair_of_columns(item)

    def batch(self, item: Any) -> RecordBatch:
        """The batch of an item that has columns. Errors: DataError; those of `give_up`."""
        offset = None
        if self._is_pair_of_columns(item):
            item, offset = item[0], self._offset(item[1])
        return item if isinstance(item, RecordBatch) else self._batch_of_table(item, offset)

    def _is_pair_of_columns(self, item: Any) -> bool:
        return self._has_offsets and _is_pair(item) and len(item) == 2 and is_columns(item[0])

    def _batch_of_table(self, table: Any, offset: Mapping[str, Any] | None) -> RecordBatch:
        import pyarrow as pa

        rows = table
        if not isinstance(table, pa.RecordBatch):
            whole = _table(table).combine_chunks()
            rows = next(iter(whole.to_batches()), None) or pa.RecordBatch.from_pylist([], schema=whole.schema)
        schema, found = schema_of(rows.schema), ArrowRows(rows)
        made, partition = fitting(found, schema), self._partition if offset else None
        for row, error in made.misfits:
            record = SourceRecord(partition, offset, self._topic, found.text(row))
            self._give_up(record, DataError(f"Row {row + 1} of a table of {self._name}: {error}"))
        offsets = {name: pa.array([value] * len(made.rows)) for name, value in (offset or {}).items()}
        return RecordBatch(
            self._topic,
            value=pa.nulls(0, arrow_type(schema)) if made.column is None else made.column,
            value_schema=schema,
            source_partition=partition,
            source_offsets=offsets if offset else None,
        )

    def _pair(self, item: tuple[Any, ...], wanted: str) -> tuple[Any, Any]:
        if len(item) != 2:
            raise DataError(f"{self._name} gave a tuple of {len(item)}: {_shown(item)}; a pair is {wanted}")
        return item[0], item[1]

    def _offset(self, offset: Any) -> dict[str, Any] | None:
        """Gives the offset as it is kept: a dict of plain values, or one such value."""
        if offset is None:
            return None
        kept = dict(offset) if isinstance(offset, Mapping) else {_SCALAR_FIELD: offset}
        for name, value in kept.items():
            if not isinstance(value, str | int | float | bool | None):
                raise DataError(
                    f"{self._name} gave the offset {_shown(offset)}: {name} is a {type(value).__name__}",
                    hint="An offset is a text, a number, or a dict of these.",
                )
        return kept


def given_offset(kept: Mapping[str, Any] | None) -> Any:
    """A kept offset as the function gave it: None if there is none."""
    if kept is None:
        return None
    return kept[_SCALAR_FIELD] if list(kept) == [_SCALAR_FIELD] else dict(kept)


def is_columns(item: Any) -> bool:
    """Whether it is a batch, or gives its columns to Arrow: a table, a data frame, a relation of DuckDB."""
    return isinstance(item, RecordBatch) or hasattr(type(item), "__arrow_c_stream__")


def materialized(item: Any) -> Any:
    """The item with a data frame or relation in it read into a table; others as they are. For the function's thread.

    A relation of DuckDB reads when it is asked for its columns, on a connection that the function uses further.
    """
    if isinstance(item, tuple) and len(item) == 2 and _is_lazy(item[0]):
        return _table(item[0]), item[1]
    return _table(item) if _is_lazy(item) else item


def _is_lazy(item: Any) -> bool:
    return is_columns(item) and not isinstance(item, RecordBatch) and type(item).__module__ != "pyarrow.lib"


def _table(given: Any) -> Any:
    """Errors: DataError for a column alone, which gives itself to Arrow likewise."""
    import pyarrow as pa

    try:
        return pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as err:
        raise DataError(f"A {type(given).__qualname__} is not a table: {err}") from err


def table_of(batch: RecordBatch) -> Any:
    """The values of a batch as an Arrow table: their fields are its columns, or there is the one column `value`."""
    import pyarrow as pa

    column = batch.value if batch.value is not None else pa.nulls(len(batch))
    if pa.types.is_struct(column.type):
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])
    return pa.table({"value": column})


def table_of_records(values: Sequence[Any]) -> Any:
    """The same of values without a schema."""
    import pyarrow as pa

    rows = [value if isinstance(value, Mapping) else {"value": value} for value in values]
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowException, TypeError) as err:
        raise DataError(f"The values cannot be a table: {err}") from err


def _is_pair(item: Any) -> bool:
    """Whether it is meant as a pair: a named tuple is a value with fields, unless these are those of a pair."""
    return isinstance(item, tuple) and (not is_named_tuple(item) or item._fields in _PAIRS)  # type: ignore[attr-defined]


def _shown(item: Any) -> str:
    try:
        text = repr(item)
    except Exception as error:  # the user's own __repr__, or one that is nested too deeply
        return f"a {type(item).__qualname__}, whose repr() raises {type(error).__name__}"
    return text if len(text) <= 100 else text[:100] + ".."
