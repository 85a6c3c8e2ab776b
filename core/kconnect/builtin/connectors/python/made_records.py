"""What a user's function gives, as records or a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kconnect.api import DataError, RecordBatch, SourceRecord
from kconnect.api.columns import arrow_type
from kconnect.builtin.connectors.arrow_schemas import schema_of
from kconnect.builtin.connectors.fitting_rows import ArrowRows, fitting

_SCALAR_FIELD = "offset"


class RecordMaker:
    """Makes records of items. With `has_offsets` a pair is (record, offset), else it is (key, value).

    `give_up` is called with rows of tables that no record can have, and raises or keeps them.
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

    def record(self, item: Any) -> SourceRecord:
        """One item as a record. Errors: DataError for a tuple that is no pair, and an offset that cannot be kept."""
        offset = None
        if self._has_offsets and isinstance(item, tuple):
            given, offset = self._pair(item, "(record, offset)")
            item, offset = given, self._offset(offset)
        if isinstance(item, SourceRecord):
            return item if offset is None else item.new_record(source_partition=self._partition, source_offset=offset)
        key, value = self._pair(item, "(key, value)") if isinstance(item, tuple) else (None, item)
        partition = self._partition if offset is not None else None
        return SourceRecord(partition, offset, self._topic, plain(value), key=plain(key))

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
        return self._has_offsets and isinstance(item, tuple) and len(item) == 2 and is_columns(item[0])

    def _batch_of_table(self, table: Any, offset: Mapping[str, Any] | None) -> RecordBatch:
        import pyarrow as pa

        whole = table.combine_chunks().to_batches() if isinstance(table, pa.Table) else [table]
        rows = whole[0] if whole else pa.RecordBatch.from_pylist([], schema=table.schema)
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
    """Whether it is a batch or an Arrow table; asked by name, so that pyarrow is not imported for it."""
    kind = type(item)
    return isinstance(item, RecordBatch) or (
        kind.__module__ == "pyarrow.lib" and kind.__name__ in ("Table", "RecordBatch")
    )


def plain(value: Any) -> Any:
    """Dataclasses as dicts; other values as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


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


def _shown(item: Any) -> str:
    text = repr(item)
    return text if len(text) <= 100 else text[:100] + ".."
