"""Objects as rows: lines, JSON, CSV, Parquet and Avro, from any row on, in batches.

Each reader is a generator of Rows. It begins behind the row it is given, so that a task that was killed continues
inside an object. What is wrong in one row goes to `Reading.broken`, which raises or keeps count.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import DataError, Schema
from kconnect.builtin.connectors.arrow_schemas import column_with, schema_of
from kconnect.builtin.connectors.file_tail import LINE_END, split_lines
from kconnect.builtin.connectors.fitting_rows import ArrowRows, FoundRows, PlainRows, fitting
from kconnect.builtin.connectors.objects.avro_rows import AvroObject
from kconnect.builtin.connectors.objects.csv_rows import ENCODING_SETTING, CsvRows
from kconnect.builtin.connectors.objects.csv_text import CsvForm
from kconnect.builtin.connectors.objects.json_lists import ListPieces
from kconnect.builtin.connectors.objects.json_rows import JsonColumns, JsonRows, parsed_exactly
from kconnect.builtin.connectors.objects.object_formats import decompressed
from kconnect.builtin.connectors.objects.object_text import (
    UTF_8,
    Utf8Stream,
    encoding_of,
    misread,
    not_of,
    without_marks,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Broken(Protocol):
    """Reported of a row that cannot be read: its number (the first is 1), what it holds as far as known, and why.

    `line` is that where it begins, if this is another number.
    """

    def __call__(self, row: int, held: Any, error: Exception, line: int | None = None, /) -> None: ...


# 100 B lines cost 0.16 us each in blocks of 1 MiB and 0.48 us in a twentieth of it (FileStreamSourceTask)
_BLOCK_BYTES = 1 << 20
_BATCH_ROWS = 10_000
# A document up to here is read as a whole, some 200 MB in memory: none of its rows is given where it breaks off
_WHOLE_BYTES = 1 << 24


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


@dataclass(slots=True)
class Reached:
    """How far a reader has come: rows that were given up, and lines without a row, are behind it, too."""

    row: int = 0
    position: int = -1


@dataclass(frozen=True, slots=True)
class Reading:
    """How an object is read. `row` and `position` (bytes of the content, -1: unknown) are where to go on.

    `holds_last`: a last line without its end is left out, as it may be half of one.
    """

    file: io.BufferedIOBase
    format: str
    compression: str
    broken: Broken
    row: int = 0
    position: int = -1
    json_schema: str = "none"
    csv: CsvForm = field(default_factory=CsvForm)
    is_declared: bool = False
    """A schema is declared, which each value is made to fit later: numbers keep their digits until then."""
    batch_rows: int = _BATCH_ROWS
    encoding: str = UTF_8
    holds_last: bool = False
    path: str = ""
    """The object's, for messages."""
    reached: Reached = field(default_factory=Reached)


def read_rows(reading: Reading) -> Iterator[Rows]:
    """The rows behind `reading.row`. Errors: DataError for content that is not of the format; those of the store."""
    return _READERS[reading.format](reading)


def _lines(reading: Reading) -> Iterator[Rows]:
    row = reading.row
    for block in _blocks(reading):
        if not block.is_readable:
            before, row = row, row + len(LINE_END.findall(block.text))
            reading.reached.row = row
            yield from _readable_lines(block, before, reading)
            continue
        lines = split_lines(block.text, block.start)
        row += len(lines.text)
        reading.reached.row = row
        yield Rows(row, lines.text, Schema.STRING_SCHEMA, positions=lines.positions if block.has_positions else None)


def _readable_lines(block: _Block, row: int, reading: Reading) -> Iterator[Rows]:
    """The lines of a block behind `row`, but for those that hold bytes of no character, which are reported."""
    import pyarrow as pa

    kept: list[tuple[int, str, int]] = []
    at = 0
    for number, match in enumerate(LINE_END.finditer(block.text), row + 1):
        line = block.text[at : match.start()]
        error = block.misread(line, at)
        if error is None:
            kept.append((number, line.decode(), block.start + match.end()))
        else:
            reading.broken(number, _shown(line, block), error)
        at = match.end()
    if kept:
        numbers, texts, ends = zip(*kept, strict=True)
        positions = (lambda: pa.array(ends, pa.int64())) if block.has_positions else None
        yield Rows(
            numbers[-1], pa.array(texts, pa.string()), Schema.STRING_SCHEMA, rows=list(numbers), positions=positions
        )


def _json_lines(reading: Reading) -> Iterator[Rows]:
    if reading.is_declared:
        rows: JsonRows | JsonColumns = JsonRows(reading.broken, parsed_exactly)
    elif reading.json_schema == "none":
        rows = JsonRows(reading.broken)
    else:
        rows = JsonColumns(reading.broken, _head(reading))
    row = reading.row
    for block in _blocks(reading):
        found = rows.read(block.text if block.is_readable else _with_blanks(block, row, reading), row)
        row += found.lines
        reading.reached.row = row
        if not found.rows:
            continue
        numbers, positions = found.rows, found.positions

        def behind(start: int = block.start, positions: list[int] = positions) -> pa.Int64Array:
            import pyarrow as pa

            return pa.array([start + position for position in positions], pa.int64())

        ends = behind if block.has_positions else None
        if found.column is not None:
            table = found.column
            schema = schema_of(table.schema)
            yield Rows(numbers[-1], column_with(schema, table), schema, rows=numbers, positions=ends)
        else:
            yield Rows(numbers[-1], values=found.values, rows=numbers, positions=ends)


def _with_blanks(block: _Block, row: int, reading: Reading) -> bytes:
    """The block with blanks for lines that hold bytes of no character, which are reported."""
    lines, at = block.text.split(b"\n"), 0
    for index, line in enumerate(lines):
        error = block.misread(line, at)
        if error is not None:
            reading.broken(row + index + 1, _shown(line, block), error)
            lines[index] = b" " * len(line)
        at += len(line) + 1
    return b"\n".join(lines)


def _shown(line: bytes, block: _Block) -> str:
    return without_marks(line.decode(errors="replace")) if block.encoding != UTF_8 else line.decode(errors="replace")


def _json_document(reading: Reading) -> Iterator[Rows]:
    text = Utf8Stream(decompressed(reading.file, reading.compression), reading.encoding)
    content = b""
    while len(content) <= _WHOLE_BYTES and (more := text.read(_WHOLE_BYTES)):
        content += more
    is_long = len(content) > _WHOLE_BYTES and content.lstrip().startswith(b"[")
    row = 0
    for piece in ListPieces(text, content) if is_long else [content + text.read()]:
        if text.has_misread and (error := misread(piece.decode(), text.encoding, ENCODING_SETTING)) is not None:
            raise error
        items = JsonRows.document(piece, parsed_exactly if reading.is_declared else None) if piece.strip() else []
        for start in range(max(0, reading.row - row), len(items), reading.batch_rows):
            part = items[start : start + reading.batch_rows]
            yield Rows(row + start + len(part), values=part)
        row += len(items)


def _csv(reading: Reading) -> Iterator[Rows]:
    schema: Schema | None = None
    text = Utf8Stream(decompressed(reading.file, reading.compression), reading.encoding)
    path, holds_last = reading.path, reading.holds_last
    rows = CsvRows(text, reading.csv, reading.broken, reading.row, holds_last=holds_last, path=path)
    for block in rows:
        if schema is None:
            schema = schema_of(block.table.schema)
        yield Rows(block.rows[-1], column_with(schema, block.table), schema, rows=block.rows)
    reading.reached.row = rows.reached


def _parquet(reading: Reading) -> Iterator[Rows]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        content: Any = reading.file
        if reading.compression != "none" and reading.file.read(4) != b"PAR1":  # around what is compressed inside
            content = io.BytesIO(decompressed(reading.file, reading.compression).read())
        # As nanoseconds, which is Arrow's default, the year 9999 of Spark's int96 would become 1816
        with pq.ParquetFile(content, coerce_int96_timestamp_unit="us") as file:
            schema = schema_of(file.schema_arrow)
            row, groups = 0, file.metadata.num_row_groups
            first = 0
            while first < groups and row + file.metadata.row_group(first).num_rows <= reading.row:
                row += file.metadata.row_group(first).num_rows
                first += 1
            for batch in file.iter_batches(reading.batch_rows, row_groups=range(first, groups), use_threads=False):
                skipped = max(0, min(len(batch), reading.row - row))
                rest = batch.slice(skipped)
                yield from _fitting(ArrowRows(rest), schema, row + skipped, reading)
                row += len(batch)
    except pa.ArrowInvalid as err:
        raise DataError(f"{err}") from err


def _avro(reading: Reading) -> Iterator[Rows]:
    content = decompressed(reading.file, reading.compression)
    found = AvroObject(content if reading.compression == "none" else io.BytesIO(content.read()))
    schema, row = schema_of(found.fields), 0
    for block in found.blocks():
        if row + block.count > reading.row:
            skipped = max(0, reading.row - row)
            yield from _fitting(PlainRows(block.rows()[skipped:], found.fields), schema, row + skipped, reading)
        row += block.count


def _fitting(found: FoundRows, schema: Schema, behind: int, reading: Reading) -> Iterator[Rows]:
    """The rows behind this number whose values a record can have; the others are reported."""
    made = fitting(found, schema)
    for row, error in made.misfits:
        reading.broken(behind + row + 1, found.text(row), error)
    reading.reached.row = behind + len(found)
    if made.column is not None and made.rows:
        numbers = [behind + row + 1 for row in made.rows] if made.misfits else None
        yield Rows(behind + made.rows[-1] + 1, made.column, schema, rows=numbers)


_READERS: dict[str, Callable[[Reading], Iterator[Rows]]] = {
    "lines": _lines,
    "jsonl": _json_lines,
    "json": _json_document,
    "csv": _csv,
    "parquet": _parquet,
    "avro": _avro,
}


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines, as UTF-8. `start` is where they begin in the content, in bytes, if they are as they are there."""

    text: bytes
    start: int
    encoding: str = UTF_8
    is_readable: bool = True

    @property
    def has_positions(self) -> bool:
        return self.encoding == UTF_8

    def misread(self, line: bytes, at: int) -> DataError | None:
        """What is wrong with the line that begins there; None if nothing is."""
        if self.encoding != UTF_8:
            return misread(line.decode(), self.encoding, ENCODING_SETTING)
        try:
            line.decode()
        except UnicodeDecodeError as err:
            return not_of(UTF_8, line[err.start : err.end], self.start + at + err.start, ENCODING_SETTING)
        return None


def _blocks(reading: Reading) -> Iterator[_Block]:
    """The content from the position, or behind the row, in blocks of whole lines.

    The last line gets its end if it has none, or is left out as `holds_last` says.
    """
    content = decompressed(reading.file, reading.compression)
    encoding, start = encoding_of(content.read(4), reading.encoding)
    content = decompressed(reading.file, reading.compression)
    text = Utf8Stream(content, reading.encoding) if encoding != UTF_8 else None
    is_known = text is None and reading.position > 0
    if text is None:
        start = reading.position if is_known else start
        _skip_bytes(content, start, reading.compression)
    left = 0 if is_known else reading.row
    reading.reached.row = reading.row
    rest = b""
    while True:
        block = (text or content).read(_BLOCK_BYTES)
        whole, rest = _cut(rest + block) if block else (rest, b"")
        if not block and whole:
            if reading.holds_last:
                return
            whole += b"\n"
        while left and whole:
            line, _, whole = whole.partition(b"\n")
            start += len(line) + 1
            left -= 1
        if whole:
            if text is None:
                reading.reached.position = start + len(whole)
            is_readable = whole.isascii() or (_is_utf8(whole) if text is None else not text.has_misread)
            yield _Block(whole, start, encoding, is_readable)
            start += len(whole)
        if not block:
            return


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


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
    block = Utf8Stream(decompressed(reading.file, reading.compression), reading.encoding).read(_BLOCK_BYTES)
    whole, rest = _cut(block)
    return whole or rest
