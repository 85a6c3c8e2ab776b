"""Lines of JSON as rows: plain values, or columns with types inferred as they come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise
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
    """What a block of lines held. `lines` counts all; the rows are `values`, or `column`.

    `rows` are the numbers of the last lines that each row has behind it, `positions` the bytes of the block up to
    there. A line may have several rows: it is behind the last of them only, so that none is lost in a kill.
    """

    lines: int
    rows: list[int]
    positions: list[int]
    values: list[Any] | None = None
    column: pa.RecordBatch | None = None


class JsonRows:
    """Each value of a line as a plain value; blank lines are left out. `parse`: as `parsed`."""

    def __init__(self, broken: Broken, parse: Callable[[bytes], list[Any]] | None = None) -> None:
        self._broken = broken
        self._parse = parse or parsed

    def read(self, block: bytes, row: int) -> JsonBlock:
        """The rows of a block whose first line is behind `row`."""
        lines = block.split(b"\n")[:-1]
        numbers, values = self.values(lines, row)
        rows, positions = _behind(numbers, lines, row)
        return JsonBlock(len(lines), rows, positions, values=values)

    def values(self, lines: list[bytes], row: int) -> tuple[list[int], list[Any]]:
        """The values of lines, the first of which is behind `row`, and the number of the line of each."""
        numbers: list[int] = []
        values: list[Any] = []
        for number, line in enumerate(lines, row + 1):
            if not line or line.isspace():
                continue
            try:
                found = self._parse(line)
            except ValueError as err:
                self._broken(number, line, err)
                continue
            values += found
            numbers += [number] * len(found)
        return numbers, values

    @staticmethod
    def document(content: bytes, parse: Callable[[bytes], list[Any]] | None = None) -> list[Any]:
        """The items of a document: those of its list, or itself; of several documents, those of each.

        Errors: DataError if it is not JSON.
        """
        try:
            found = (parse or parsed)(content)
        except ValueError as err:
            raise DataError(f"It is not JSON: {err}") from err
        return [item for one in found for item in (one if isinstance(one, list) else [one])]


def _behind(numbers: list[int], lines: list[bytes], row: int) -> tuple[list[int], list[int]]:
    """For each row, by the number of its line: the last line that is behind it, and the bytes up to there."""
    ends = [0, *accumulate(len(line) + 1 for line in lines)]
    last = [number != after for number, after in pairwise(numbers)] + [True] * bool(numbers)
    rows = [number if is_last else number - 1 for number, is_last in zip(numbers, last, strict=True)]
    return rows, [ends[number - row] for number in rows]


class JsonColumns:
    """Blocks as columns. Types are those of the object's first block, and only widen; new fields are added.

    A row with a value that has nothing in common with those before it is broken.
    """

    def __init__(self, broken: Broken, head: bytes) -> None:
        self._rows = JsonRows(broken)
        self._broken = broken
        self._types: pa.Schema | None = None
        _, values = self._objects(*JsonRows(lambda *_: None).values(_ended(head).split(b"\n")[:-1], 0), lambda _: False)
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
                    return _block(table, lines, list(range(row + 1, row + len(lines) + 1)), row)
        except pa.ArrowInvalid:
            pass
        return self._by_values(lines, row)

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
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)  # of blank lines alone

    def _by_values(self, lines: list[bytes], row: int) -> JsonBlock:
        """A block with something unusual: broken rows are reported, types widened."""
        found = self._rows.values(lines, row)
        rows, values = self._objects(*found, lambda number: self._no_object(number, lines[number - row - 1]))
        if not rows:
            return JsonBlock(len(lines), [], [])
        if see(values).is_mixed or (table := self._widened(values)) is None:
            kept = [pair for pair in zip(rows, values, strict=True) if self._fits(*pair, lines[pair[0] - row - 1])]
            rows = [number for number, _ in kept]
            table = self._widened([value for _, value in kept]) if kept else None
        return JsonBlock(len(lines), [], []) if table is None else _block(table, lines, rows, row)

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

    @staticmethod
    def _objects(
        numbers: list[int], values: list[Any], is_reported: Callable[[int], Any]
    ) -> tuple[list[int], list[Any]]:
        """Numbers and values of the rows that are objects."""
        pairs = list(zip(numbers, values, strict=True))
        for number, value in pairs:
            if not isinstance(value, dict):
                is_reported(number)
        kept = [pair for pair in pairs if isinstance(pair[1], dict)]
        return [number for number, _ in kept], [value for _, value in kept]

    def _no_object(self, number: int, line: bytes) -> None:
        self._broken(number, line, DataError("It is not a JSON object, and has no columns"))


def _block(table: pa.RecordBatch, lines: list[bytes], numbers: list[int], row: int) -> JsonBlock:
    return JsonBlock(len(lines), *_behind(numbers, lines, row), column=table)


def are_lines(head: bytes) -> bool:
    """Whether a text that begins so is a document a line, as Spark and S3 sinks write to .json, and not one in all."""
    line, _, _ = head.lstrip().partition(b"\n")
    try:
        return line.startswith(b"{") and all(isinstance(one, dict) for one in parsed(line))
    except ValueError:
        return False


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def parsed(text: bytes) -> list[Any]:
    """Each value as JsonConverter reads it without a schema: fractions are floats. Errors: ValueError.

    Differs: that ignores what follows the first value. Firehose writes objects without a line end between them.
    """
    return jackson.parse_all(text, _floats)


def parsed_exactly(text: bytes) -> list[Any]:
    """The same, but fractions that no double holds are Decimals: what a declared type needs. Errors: ValueError."""
    return jackson.parse_all(text, doubles)


def _floats(value: Any) -> Any:
    if isinstance(value, Decimal):
        double = float(value)
        return double if math.isfinite(double) else value
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
