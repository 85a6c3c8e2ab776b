"""Objects as rows: lines, JSON, CSV, Parquet and Avro, from any row on, in batches.

Each reader is a generator of Rows. It begins behind the row it is given, so that a task that was killed continues
inside an object. What is wrong in one row goes to `Reading.broken`, which raises or keeps count.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError, Schema
from kconnect.builtin.connectors.arrow_schemas import column_with, schema_of
from kconnect.builtin.connectors.file_tail import split_lines
from kconnect.builtin.connectors.objects.avro_types import arrow_fields
from kconnect.builtin.connectors.objects.json_rows import JsonColumns, JsonRows
from kconnect.builtin.connectors.objects.object_formats import decompressed

if TYPE_CHECKING:
    import pyarrow as pa

Broken = Callable[[int, Any, Exception], None]
"""Told of the number of a row that cannot be read (the first is 1), what it holds as far as known, and why."""

# 100 B lines cost 0.16 us each in blocks of 1 MiB and 0.48 us in a twentieth of it (FileStreamSourceTask)
_BLOCK_BYTES = 1 << 20
_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Neighbouring rows: a column with its schema, or plain values. `row` is the number of the last one in the object.

    `rows` are the numbers of all, where some between were left out. `positions` are the bytes behind each.
    """

    row: int
    column: pa.Array | None = None
    schema: Schema | None = None
    values: list[Any] | None = None
    rows: list[int] | None = None
    positions: Callable[[], pa.Int64Array] | None = None

    def __len__(self) -> int:
        return len(self.column) if self.column is not None else len(self.values or ())

    def row_numbers(self) -> pa.Int64Array:
        import pyarrow as pa

        numbers = self.rows if self.rows is not None else range(self.row - len(self) + 1, self.row + 1)
        return pa.array(numbers, pa.int64())


@dataclass(frozen=True, slots=True)
class Reading:
    """How an object is read. `row` and `position` (bytes of the content, -1: unknown) are where to go on."""

    file: io.BufferedIOBase
    format: str
    compression: str
    broken: Broken
    row: int = 0
    position: int = -1
    json_schema: str = "none"
    csv_delimiter: str = ","
    csv_header: bool = True
    csv_types: str = "infer"
    batch_rows: int = _BATCH_ROWS


def read_rows(reading: Reading) -> Iterator[Rows]:
    """The rows behind `reading.row`. Errors: DataError for content that is not of the format; those of the store."""
    return _READERS[reading.format](reading)


def _lines(reading: Reading) -> Iterator[Rows]:
    row = reading.row
    for block, start in _blocks(reading):
        lines = split_lines(block, start)
        row += len(lines.text)
        yield Rows(row, lines.text, Schema.STRING_SCHEMA, positions=lines.positions)


def _json_lines(reading: Reading) -> Iterator[Rows]:
    rows = JsonRows(reading.broken) if reading.json_schema == "none" else JsonColumns(reading.broken, _head(reading))
    row = reading.row
    for block, start in _blocks(reading):
        found = rows.read(block, row)
        row += found.lines
        if not found.rows:
            continue
        numbers, positions = found.rows, found.positions

        def behind(start: int = start, positions: list[int] = positions) -> pa.Int64Array:
            import pyarrow as pa

            return pa.array([start + position for position in positions], pa.int64())

        if found.column is not None:
            table = found.column
            schema = schema_of(table.schema)
            yield Rows(numbers[-1], column_with(schema, table), schema, rows=numbers, positions=behind)
        else:
            yield Rows(numbers[-1], values=found.values, rows=numbers, positions=behind)


def _json_document(reading: Reading) -> Iterator[Rows]:
    content = decompressed(reading.file, reading.compression).read()
    if not content.strip():
        return
    items = JsonRows.document(content)
    for start in range(reading.row, len(items), reading.batch_rows):
        part = items[start : start + reading.batch_rows]
        yield Rows(start + len(part), values=part)


def _csv(reading: Reading) -> Iterator[Rows]:
    import pyarrow as pa
    import pyarrow.csv as pc

    left_out: list[int] = []

    def invalid(found: Any) -> str:  # pyarrow.csv.InvalidRow
        number = (found.number or 0) - int(reading.csv_header)
        problem = f"it has {found.actual_columns} columns where {found.expected_columns} are expected"
        reading.broken(number, found.text, DataError(problem))
        left_out.append(number)
        return "skip"

    def opened(skip: int, types: pa.Schema | None, handler: Any) -> pc.CSVStreamingReader:
        convert = pc.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
        return pc.open_csv(
            decompressed(reading.file, reading.compression),
            read_options=pc.ReadOptions(
                use_threads=False,
                block_size=_BLOCK_BYTES,
                skip_rows_after_names=skip,
                autogenerate_column_names=not reading.csv_header,
            ),
            parse_options=pc.ParseOptions(
                delimiter=reading.csv_delimiter, newlines_in_values=True, invalid_row_handler=handler
            ),
            convert_options=convert,
        )

    try:
        first = opened(0, None, lambda _: "skip").schema
        if reading.csv_types == "string":
            first = pa.schema([(field.name, pa.string()) for field in first])
        reader = opened(reading.row, first, invalid)
        schema = schema_of(first)
        row = reading.row
        for batch in reader:
            if len(batch):
                numbers = _without(row, len(batch), left_out)
                row = numbers[-1]
                yield Rows(row, column_with(schema, batch), schema, rows=numbers)
    except pa.ArrowInvalid as err:
        if "Empty CSV file" in str(err):
            return
        raise DataError(f"{err}", hint="csv.types=string reads each column as text.") from err


def _parquet(reading: Reading) -> Iterator[Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(reading.file) as file:
            schema = schema_of(file.schema_arrow)
            row, groups = 0, file.metadata.num_row_groups
            first = 0
            while first < groups and row + file.metadata.row_group(first).num_rows <= reading.row:
                row += file.metadata.row_group(first).num_rows
                first += 1
            for batch in file.iter_batches(reading.batch_rows, row_groups=range(first, groups), use_threads=False):
                skipped = max(0, min(len(batch), reading.row - row))
                row += len(batch)
                rest = batch.slice(skipped)
                if len(rest):
                    yield Rows(row, column_with(schema, rest), schema)
    except pa.ArrowInvalid as err:
        raise DataError(f"{err}") from err


def _avro(reading: Reading) -> Iterator[Rows]:
    import fastavro
    import pyarrow as pa

    try:
        content = decompressed(reading.file, reading.compression)
        blocks = fastavro.block_reader(content if reading.compression == "none" else io.BytesIO(content.read()))
        fields, plain = arrow_fields(blocks.writer_schema)
        schema = schema_of(fields)
        row = 0
        for block in blocks:
            if row + block.num_records <= reading.row:
                row += block.num_records
                continue
            records = [plain(record) for record in block]
            kept = records[max(0, reading.row - row) :]
            row += len(records)
            if kept:
                table = pa.RecordBatch.from_pylist(kept, schema=fields)
                yield Rows(row, column_with(schema, table), schema)
    except (ValueError, EOFError, KeyError, TypeError, pa.ArrowException) as err:
        raise DataError(f"{type(err).__name__}: {err}") from err


_READERS: dict[str, Callable[[Reading], Iterator[Rows]]] = {
    "lines": _lines,
    "jsonl": _json_lines,
    "json": _json_document,
    "csv": _csv,
    "parquet": _parquet,
    "avro": _avro,
}


def _without(row: int, count: int, left_out: list[int]) -> list[int]:
    """The numbers of the next `count` rows behind `row`, those left out excepted."""
    gaps = {number for number in left_out if number > row}
    if not gaps:
        return list(range(row + 1, row + count + 1))
    numbers: list[int] = []
    while len(numbers) < count:
        row += 1
        if row not in gaps:
            numbers.append(row)
    return numbers


def _blocks(reading: Reading) -> Iterator[tuple[bytes, int]]:
    """The content from the position, or behind the row, in blocks of whole lines; each with where it begins.

    The last line gets its end if it has none.
    """
    content = decompressed(reading.file, reading.compression)
    start = 0
    if reading.position > 0:
        start = reading.position
        _skip_bytes(content, start, reading.compression)
    left = 0 if reading.position >= 0 else reading.row
    rest = b""
    while True:
        block = content.read(_BLOCK_BYTES)
        whole, rest = _cut(rest + block) if block else (rest, b"")
        if not block and whole:
            whole += b"\n"
        while left and whole:
            line, _, whole = whole.partition(b"\n")
            start += len(line) + 1
            left -= 1
        if whole:
            yield whole, start
            start += len(whole)
        if not block:
            return


def _cut(block: bytes) -> tuple[bytes, bytes]:
    end = block.rfind(b"\n") + 1
    return block[:end], block[end:]


def _skip_bytes(content: Any, count: int, compression: str) -> None:
    if compression == "none":
        content.seek(count)
        return
    while count:
        block = content.read(min(count, _BLOCK_BYTES))
        if not block:
            return
        count -= len(block)


def _head(reading: Reading) -> bytes:
    """The first block of the content, whatever the position: types are inferred from it."""
    block = decompressed(reading.file, reading.compression).read(_BLOCK_BYTES)
    whole, rest = _cut(block)
    return whole or rest
