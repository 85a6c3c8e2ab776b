"""Lines of JSON as rows: plain values, or columns with types inferred as they come."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
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
    """Each line as a plain value; blank lines are left out."""

    def __init__(self, broken: Broken) -> None:
        self._broken = broken

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
                values.append(_parsed(line))
            except ValueError as err:
                self._broken(number, line, err)
                continue
            rows.append(number)
            positions.append(position)
        return JsonBlock(len(lines), rows, positions, values=values)

    @staticmethod
    def document(content: bytes) -> list[Any]:
        """The items of a document: those of its list, or itself. Errors: DataError if it is not JSON."""
        try:
            found = _parsed(content)
        except ValueError as err:
            raise DataError(f"It is not JSON: {err}") from err
        return found if isinstance(found, list) else [found]


class JsonColumns:
    """Blocks as columns. Types are those of the object's first block, and only widen; new fields are added.

    A row that does not fit them is broken.
    """

    def __init__(self, broken: Broken, head: bytes) -> None:
        import pyarrow as pa

        self._rows = JsonRows(broken)
        self._broken = broken
        self._types: pa.Schema | None = None
        lines = self._usable(JsonRows(lambda *_: None).read(_ended(head), 0), _ended(head))
        if lines:
            with contextlib.suppress(pa.ArrowInvalid):  # rows that differ are reported as they are read
                self._infer(b"\n".join(lines))

    def read(self, block: bytes, row: int) -> JsonBlock:
        import pyarrow as pa

        lines = block.split(b"\n")[:-1]
        try:
            if b"" not in lines:
                table = self._columns(block)
                if len(table) == len(lines):
                    return self._made(table, lines, list(range(row + 1, row + len(lines) + 1)), len(lines))
        except pa.ArrowInvalid:
            pass
        return self._slowly(block, row)

    def _slowly(self, block: bytes, row: int) -> JsonBlock:
        """A block with something unusual: broken rows are told, types widened where they can be."""
        import pyarrow as pa

        read = self._rows.read(block, row)
        lines = block.split(b"\n")[:-1]
        kept = [(number, lines[number - row - 1]) for number in read.rows]
        kept = [pair for pair in kept if self._is_object(*pair)]
        if not kept:
            return JsonBlock(read.lines, [], [])
        try:
            self._infer(b"\n".join(line for _, line in kept))
            table = self._columns(b"\n".join(line for _, line in kept))
        except pa.ArrowInvalid:
            kept = [pair for pair in kept if self._fits(*pair)]
            if not kept:
                return JsonBlock(read.lines, [], [])
            table = self._columns(b"\n".join(line for _, line in kept))
        return self._made(table, lines, [number for number, _ in kept], read.lines, row)

    def _made(self, table: pa.RecordBatch, lines: list[bytes], rows: list[int], count: int, row: int = -1) -> JsonBlock:
        ends, position = [], 0
        for line in lines:
            position += len(line) + 1
            ends.append(position)
        first = rows[0] - 1 if row < 0 else row
        return JsonBlock(count, rows, [ends[number - first - 1] for number in rows], column=table)

    def _columns(self, text: bytes) -> pa.RecordBatch:
        """Rows with the types so far; fields that are new come behind. Errors: ArrowInvalid."""
        import pyarrow as pa
        import pyarrow.json as pj

        options = pj.ParseOptions(explicit_schema=self._types, unexpected_field_behavior="infer")
        read = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        table = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
        plain = _without_times(table.schema)
        if plain != table.schema:
            options = pj.ParseOptions(explicit_schema=plain, unexpected_field_behavior="infer")
            table = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
        self._types = table.schema
        return table.combine_chunks().to_batches()[0]

    def _infer(self, text: bytes) -> None:
        """Widen the types so that they fit this text as well. Errors: ArrowInvalid."""
        import pyarrow as pa

        known, self._types = self._types, None
        try:
            self._columns(text)
            if known is not None and self._types is not None:
                self._types = pa.unify_schemas([known, self._types], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as err:
            self._types = known
            raise pa.ArrowInvalid(f"{err}") from err

    def _fits(self, number: int, line: bytes) -> bool:
        import pyarrow as pa

        try:
            self._infer(line)
        except pa.ArrowInvalid as err:
            self._broken(number, line, DataError(f"It does not fit the rows before: {err}"))
            return False
        return True

    def _is_object(self, number: int, line: bytes) -> bool:
        if line.lstrip()[:1] == b"{":
            return True
        self._broken(number, line, DataError("It is not a JSON object, and has no columns"))
        return False

    def _usable(self, read: JsonBlock, block: bytes) -> list[bytes]:
        lines = block.split(b"\n")
        return [lines[number - 1] for number in read.rows if lines[number - 1].lstrip()[:1] == b"{"]


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") else text + b"\n"


def _parsed(text: bytes) -> Any:
    """As JsonConverter reads it without a schema: fractions are floats."""
    found = jackson.parse(text)
    return _floats(found) if len(text) > _SHORTEST_EXACT and _LONG_NUMBER.search(text) else found


# What jackson.parse reads exactly, which gives Decimals
_LONG_NUMBER = re.compile(rb"[0-9.]{17}")
_SHORTEST_EXACT = 16


def _floats(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _floats(part) for name, part in value.items()}
    return [_floats(part) for part in value] if isinstance(value, list) else value


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
