"""Lines of JSON as rows: plain values, or columns with types inferred as they come."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.builtin.types.exact_numbers import doubles
from kconnect.builtin.types.seen import is_untyped, joined_schemas, see, turns_to_text
from kconnect.builtin.types.seen_columns import seen_table, widened_table
from kconnect.java.compat import jackson

if TYPE_CHECKING:
    import pyarrow as pa

Broken = Callable[[int, Any, Exception], None]


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """What a block of lines held. `lines` counts all; `rows` are the numbers of those that are rows.

    `positions` are the bytes of the block behind each row. The rows are `values`, or `column`.
    """

    lines: int
    rows: list[int]
    positions: list[int]
    values: list[Any] | None = None
    column: pa.RecordBatch | None = None


class JsonRows:
    """Each line as a plain value; blank lines are left out. `parse`: as `parsed`."""

    def __init__(self, broken: Broken, parse: Callable[[bytes], Any] | None = None) -> None:
        self._broken = broken
        self._parse = parse or parsed

    def read(self, block: bytes, row: int) -> JsonBlock:
        """The rows of a block whose first line is behind `row`."""
        values, rows, positions = [], [], []
        position = 0
        lines = block.split(b"\n")[:-1]
        for number, line in enumerate(lines, row + 1):
            position += len(line) + 1
            if not line or line.isspace():
                continue
            try:
                values.append(self._parse(line))
            except ValueError as err:
                self._broken(number, line, err)
                continue
            rows.append(number)
            positions.append(position)
        return JsonBlock(len(lines), rows, positions, values=values)

    @staticmethod
    def document(content: bytes, parse: Callable[[bytes], Any] | None = None) -> list[Any]:
        """The items of a document: those of its list, or itself. Errors: DataError if it is not JSON."""
        try:
            found = (parse or parsed)(content)
        except ValueError as err:
            raise DataError(f"It is not JSON: {err}") from err
        return found if isinstance(found, list) else [found]


class JsonColumns:
    """Blocks as columns. Types are those of the object's first block, and only widen; new fields are added.

    A row with a value that has nothing in common with those before it is broken.
    """

    def __init__(self, broken: Broken, head: bytes) -> None:
        self._rows = JsonRows(broken)
        self._broken = broken
        self._types: pa.Schema | None = None
        _, values = self._objects(JsonRows(lambda *_: None).read(_ended(head), 0), lambda _: False)
        if values and not see(values).is_mixed:
            self._widened(values)

    def read(self, block: bytes, row: int) -> JsonBlock:
        import pyarrow as pa

        lines = block.split(b"\n")[:-1]
        try:
            if b"" not in lines:
                table = self._by_arrow(block)
                if len(table) == len(lines) and not _may_be_rounded(table):
                    self._types = table.schema
                    return self._made(table, lines, list(range(row + 1, row + len(lines) + 1)), len(lines))
        except pa.ArrowInvalid:
            pass
        return self._by_values(block, lines, row)

    def _by_arrow(self, text: bytes) -> pa.RecordBatch:
        """Rows with the types so far; fields that are new come behind. Errors: ArrowInvalid."""
        import pyarrow as pa
        import pyarrow.json as pj

        known = None if self._types is None else pa.schema([part for part in self._types if not is_untyped(part.type)])
        options = pj.ParseOptions(explicit_schema=known, unexpected_field_behavior="infer")
        read = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        table = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
        plain = _without_times(table.schema)
        if plain != table.schema:
            options = pj.ParseOptions(explicit_schema=plain, unexpected_field_behavior="infer")
            table = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
        return table.combine_chunks().to_batches()[0]

    def _by_values(self, block: bytes, lines: list[bytes], row: int) -> JsonBlock:
        """A block with something unusual: broken rows are reported, types widened."""
        read = self._rows.read(block, row)
        rows, values = self._objects(read, lambda number: self._no_object(number, lines[number - row - 1]))
        if not rows:
            return JsonBlock(read.lines, [], [])
        if see(values).is_mixed or (table := self._widened(values)) is None:
            kept = [pair for pair in zip(rows, values, strict=True) if self._fits(*pair, lines[pair[0] - row - 1])]
            rows = [number for number, _ in kept]
            table = self._widened([value for _, value in kept]) if kept else None
        return JsonBlock(read.lines, [], []) if table is None else self._made(table, lines, rows, read.lines, row)

    def _widened(self, values: list[Any]) -> pa.RecordBatch | None:
        """Rows with the types so far, as wide as these need them; None if that loses a digit, or makes them text."""
        import pyarrow as pa

        try:
            found = seen_table(values)
            types = found.schema if self._types is None else joined_schemas([self._types, found.schema])
            if self._types is not None and turns_to_text(self._types, types):
                return None
            table = widened_table(pa.Table.from_batches([found]), types)
        except DataError:  # NotFittingError among them
            return None
        self._types = types
        return table.to_batches()[0]

    def _fits(self, number: int, value: Any, line: bytes) -> bool:
        if self._widened([value]) is not None:
            return True
        self._broken(number, line, DataError("It does not fit the rows before: their types have nothing in common"))
        return False

    def _objects(self, read: JsonBlock, is_reported: Callable[[int], Any]) -> tuple[list[int], list[Any]]:
        """Numbers and values of the rows that are objects."""
        pairs = list(zip(read.rows, read.values or (), strict=True))
        for number, value in pairs:
            if not isinstance(value, dict):
                is_reported(number)
        kept = [pair for pair in pairs if isinstance(pair[1], dict)]
        return [number for number, _ in kept], [value for _, value in kept]

    def _no_object(self, number: int, line: bytes) -> None:
        self._broken(number, line, DataError("It is not a JSON object, and has no columns"))

    def _made(self, table: pa.RecordBatch, lines: list[bytes], rows: list[int], count: int, row: int = -1) -> JsonBlock:
        ends, position = [], 0
        for line in lines:
            position += len(line) + 1
            ends.append(position)
        first = rows[0] - 1 if row < 0 else row
        return JsonBlock(count, rows, [ends[number - first - 1] for number in rows], column=table)


def are_lines(head: bytes) -> bool:
    """Whether a text that begins so is a document a line, as Spark and S3 sinks write to .json, and not one in all."""
    line, _, _ = head.lstrip().partition(b"\n")
    try:
        return line.startswith(b"{") and isinstance(parsed(line), dict)
    except ValueError:
        return False


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def parsed(text: bytes) -> Any:
    """Parses as JsonConverter does without a schema: fractions are floats. Errors: ValueError."""
    found = jackson.parse(text)
    return _floats(found) if len(text) > _SHORTEST_EXACT and _LONG_NUMBER.search(text) else found


def parsed_exactly(text: bytes) -> Any:
    """The same, but fractions that no double holds are Decimals: what a declared type needs. Errors: ValueError."""
    found = jackson.parse(text)
    return doubles(found) if len(text) > _SHORTEST_EXACT and _LONG_NUMBER.search(text) else found


# What jackson.parse reads exactly, which gives Decimals
_LONG_NUMBER = re.compile(rb"[0-9.]{17}")
_SHORTEST_EXACT = 16


def _floats(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _floats(part) for name, part in value.items()}
    return [_floats(part) for part in value] if isinstance(value, list) else value


def _may_be_rounded(table: pa.RecordBatch) -> bool:
    """Whether a whole number with more digits than a double has may be among fractions, where Arrow rounds it."""
    return any(_has_long(column) for column in table.columns)


def _has_long(column: pa.Array) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float64(column.type):
        return bool(pc.any(pc.greater_equal(pc.abs(column), _EXACT)).as_py())
    parts = column.flatten() if column.type.num_fields else []
    return any(map(_has_long, parts if isinstance(parts, list) else [parts]))


# Below all whole numbers are doubles
_EXACT = float(1 << 53)


def _without_times(fields: pa.Schema) -> pa.Schema:
    """Texts that look like times stay texts: Arrow takes them for times in some blocks and not in others."""
    import pyarrow as pa

    def plain(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.string()
        if pa.types.is_struct(kind):
            return pa.struct([pa.field(part.name, plain(part.type)) for part in kind])
        return pa.list_(plain(kind.value_type)) if pa.types.is_list(kind) else kind

    return pa.schema([pa.field(field.name, plain(field.type)) for field in fields])
