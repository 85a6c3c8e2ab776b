"""Rows with types, of which some have a value that no record can have: these are found, the others become columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import DataError, Schema
from kconnect.builtin.connectors.arrow_schemas import column_with
from kconnect.builtin.types.fitting import json_text

if TYPE_CHECKING:
    import pyarrow as pa


class FoundRows(Protocol):
    """Rows as an object has them."""

    def __len__(self) -> int: ...

    def table(self, start: int, count: int) -> pa.RecordBatch:
        """So many rows from one on. Errors: DataError for a value that is none of its column's type."""
        ...

    def text(self, row: int) -> str:
        """What a row holds, for a message and a dead letter."""
        ...


@dataclass(frozen=True, slots=True)
class Fitting:
    """The rows that are a column of the schema, by their places, and of the others what is wrong."""

    column: pa.StructArray | None
    rows: Sequence[int]
    misfits: list[tuple[int, DataError]]


def fitting(found: FoundRows, schema: Schema) -> Fitting:
    """All rows at once; where one does not fit, halves of them, down to itself."""
    import pyarrow as pa

    try:
        return Fitting(_column(found, 0, len(found), schema), range(len(found)), [])
    except DataError:
        pass
    columns, rows, misfits = [], list[int](), list[tuple[int, DataError]]()
    for start, count, made in _halves(found, 0, len(found), schema):
        if isinstance(made, DataError):
            misfits.append((start, made))
        else:
            columns.append(made)
            rows += range(start, start + count)
    return Fitting(pa.concat_arrays(columns) if columns else None, rows, misfits)


def _halves(
    found: FoundRows, start: int, count: int, schema: Schema
) -> Iterator[tuple[int, int, pa.StructArray | DataError]]:
    try:
        yield start, count, _column(found, start, count, schema)
    except DataError as err:
        if count == 1:
            yield start, 1, err
            return
        yield from _halves(found, start, count // 2, schema)
        yield from _halves(found, start + count // 2, count - count // 2, schema)


def _column(found: FoundRows, start: int, count: int, schema: Schema) -> pa.StructArray:
    """Errors: DataError, as for texts that are none, which Arrow does not look at: 20 ns each."""
    import pyarrow as pa

    rows = found.table(start, count)
    for field, column in zip(rows.schema, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as err:
            raise DataError(f"Column {field.name}: {err}") from err
    return column_with(schema, rows)


@dataclass(frozen=True, slots=True)
class ArrowRows:
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.batch)

    def table(self, start: int, count: int) -> pa.RecordBatch:
        return self.batch.slice(start, count)

    def text(self, row: int) -> str:
        columns = zip(self.batch.schema.names, self.batch.columns, strict=True)
        return json_text({name: _value(column.slice(row, 1)) for name, column in columns})


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Mappings of plain values, and the columns that they are meant for."""

    rows: Sequence[dict[str, Any]]
    fields: pa.Schema

    def __len__(self) -> int:
        return len(self.rows)

    def table(self, start: int, count: int) -> pa.RecordBatch:
        import pyarrow as pa

        columns = []
        for field in self.fields:
            values = [row[field.name] for row in self.rows[start : start + count]]
            try:
                columns.append(pa.array(values, field.type))
            except UnicodeEncodeError as err:
                raise DataError(f"Column {field.name}: bytes of a text are not UTF-8") from err
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as err:
                raise DataError(f"Column {field.name} is {json_text(values[0])}, and not {field.type}") from err
        return pa.RecordBatch.from_arrays(columns, schema=self.fields)

    def text(self, row: int) -> str:
        return json_text(self.rows[row]).encode(errors="replace").decode()


def _value(column: pa.Array) -> Any:
    """The one value of a column; as Arrow shows it where Python has none for it."""
    try:
        return column[0].as_py(maps_as_pydicts="lossy")
    except (ValueError, OverflowError):
        return str(column)[1:-1].strip()
