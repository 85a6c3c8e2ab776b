"""CSV as rows: the columns as texts, then as what the first of them are, or were declared to be, each value exactly."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.objects.csv_text import CsvForm, RowBlock, RowBlocks, count_lines
from kconnect.builtin.connectors.objects.object_text import MARK, Utf8Stream, misread, without_marks

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

Broken = Callable[[int, Any, Exception, int], None]
"""Reported of the number of a row, what it holds, what is wrong, and the line that it begins in."""
ENCODING_SETTING = "object.encoding"
INFER, STRING = "infer", "string"
# The line from which Excel knows what separates columns, before all others, whatever the settings of the machine
_OF_EXCEL, _OF_EXCEL_BYTES = re.compile(rb'sep=([^\w"\r\n])(?:\r\n|\n|\r(?!\Z))'), len(b"sep=;\r\n")
_DELIMITERS = ",;\t|"
_HINT = "csv.types=string reads each column as text."


def csv_form(config: Mapping[str, Any]) -> CsvForm:
    """The form that the connector's settings tell; its delimiter is empty where the name of the object tells it."""
    return CsvForm(
        delimiter=config["csv.delimiter"],
        quote=config["csv.quote"],
        escape=config["csv.escape"],
        nulls=tuple(config["csv.null"]),
        header=config["csv.header"],
        names=tuple(config["csv.columns"]),
        infers=config["csv.types"] != STRING,
    )


def delimiter_of(path: str) -> str:
    """What separates columns in an object of this name."""
    return "\t" if ".tsv" in path.rsplit("/", 1)[-1].lower() else ","


@dataclass(frozen=True, slots=True)
class CsvBlock:
    """Neighbouring rows, by the numbers that they have in the object."""

    rows: list[int]
    table: pa.RecordBatch


class CsvRows:
    """The rows behind `row` of one object. Those that do not fit are reported to `broken`, in order.

    `text` is the object's from its beginning. `holds_last`: the last row is left out if no line end is behind it.
    Errors: DataError for what is no CSV.
    """

    def __init__(
        self, text: Utf8Stream, form: CsvForm, broken: Broken, row: int, *, holds_last: bool = False, path: str = ""
    ) -> None:
        """`path` is the object's, for messages."""
        if (found := text.taken(_OF_EXCEL, _OF_EXCEL_BYTES)) is not None:
            form = replace(form, delimiter=found[1].decode())
        self._text, self._form, self._broken = text, form, broken
        self._blocks = RowBlocks(text, form, holds_last=holds_last, line=1 if found is None else 2)
        self._row, self._path = row, path
        self.reached = row
        """The last row that was read, whatever became of it."""
        self._names = list(form.names)
        self._types: pa.Schema | None = None

    def __iter__(self) -> Iterator[CsvBlock]:
        import pyarrow as pa

        behind, has_header = 0, self._form.header
        for block in self._blocks:
            if has_header:
                header = _taken_header(block)
                if header is None:
                    continue
                has_header = False
                self._names = self._names or self._names_of(header)
                self._look_at_delimiter()
            try:
                parsed = self._parsed(block, behind)
            except pa.ArrowInvalid as err:
                raise DataError(f"{err}") from err
            behind = parsed.last
            if behind > self._row:
                yield from self._typed(parsed)

    # --- what pyarrow reads ---

    def _names_of(self, row: bytes) -> list[str]:
        names: list[str] = self._table(row, None, None).schema.names
        for name in names:
            if MARK in name:
                raise misread(name, self._text.encoding, ENCODING_SETTING) or AssertionError
        return names

    def _look_at_delimiter(self) -> None:
        others = [sign for sign in _DELIMITERS if sign != self._form.delimiter]
        if len(self._names) == 1 and (other := next((sign for sign in others if sign in self._names[0]), None)):
            said = "The header of %s has one column, %r. If %r separates columns, set csv.delimiter"
            log.warning(said, self._path, self._names[0], other)

    def _parsed(self, block: RowBlock, behind: int) -> _Parsed:
        """The rows of a block, whose first is behind this number."""
        row = next((row for piece in block.pieces for _, row in block.grammar.rows(piece)), None)
        if row is None:  # no row is whole
            left_out = [_LeftOut(number, one.held, one.error) for number, one in enumerate(block.broken, behind + 1)]
            return _Parsed(block, behind, behind + len(left_out), [], None, left_out)
        if not self._names:
            self._names = [f"f{place}" for place in range(self._table(row, [], None).num_columns)]
        stand_in = self._form.delimiter * len(self._names) + MARK  # it has a column too many
        broken, left_out = iter(block.broken), []

        def leave_out(found: Any) -> str:  # pyarrow.csv.InvalidRow
            if found.text == stand_in and (one := next(broken, None)) is not None:
                left_out.append(_LeftOut(behind + found.number, one.held, one.error))
                return "skip"
            problem = f"it has {pluralize(found.actual_columns, 'column')} instead of {found.expected_columns}"
            left_out.append(_LeftOut(behind + found.number, found.text, DataError(problem)))
            return "skip"

        table = self._table(block.text(f"{stand_in}\n".encode()), self._names, leave_out)
        if self._types is None and len(table):
            self._types = self._types_of(table)
        numbers = _without(behind, len(table), [one.row for one in left_out])
        return _Parsed(block, behind, behind + len(table) + len(left_out), numbers, table, left_out)

    def _table(self, text: bytes, names: list[str] | None, handler: Any) -> pa.RecordBatch:
        """The columns as texts. `names`: empty to have none, None where the text begins with them."""
        import pyarrow as pa
        import pyarrow.csv as pc

        form = self._form
        table = pc.read_csv(
            pa.BufferReader(text),
            read_options=pc.ReadOptions(
                use_threads=False,
                block_size=len(text) + 1,
                autogenerate_column_names=names == [],
                column_names=names or None,
            ),
            parse_options=pc.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote or False,
                double_quote=bool(form.quote),
                escape_char=form.escape or False,
                newlines_in_values=bool(form.quote or form.escape),
                invalid_row_handler=handler,
            ),
            convert_options=pc.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names or [], pa.string()),
                null_values=["", *form.nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    # --- types ---

    def _types_of(self, first: pa.RecordBatch) -> pa.Schema:
        """The columns' types by the rows of the object's first block."""
        import pyarrow as pa

        pairs = zip(_distinct(first.schema.names), first.columns, strict=True)
        return pa.schema([(name, inferred(column) if self._form.infers else pa.string()) for name, column in pairs])

    def _typed(self, parsed: _Parsed) -> Iterator[CsvBlock]:
        """The rows of a block that are behind `row`."""
        import pyarrow as pa

        done = bisect_right(parsed.rows, self._row)
        rows = parsed.rows[done:]
        left_out = [one for one in parsed.left_out if one.row > self._row]
        if parsed.table is None or self._types is None or not rows:
            self._tell(left_out, parsed)
            return
        bad: dict[int, DataError] = {}
        columns, given = [], parsed.table.slice(done)
        for field, column in zip(self._types, given.columns, strict=True):
            if self._text.has_misread:
                _note_misread(column, self._text.encoding, bad)
            made, misfits = typed(column, field.type, field.name)
            for row, error in misfits.items():
                bad.setdefault(row, error)
            columns.append(made)
        left_out += [_LeftOut(rows[row], _shown_row(given, row), error) for row, error in bad.items()]
        self._tell(left_out, parsed)
        table = pa.RecordBatch.from_arrays(columns, schema=self._types)
        if bad:
            kept = [row for row in range(len(rows)) if row not in bad]
            table, rows = table.take(pa.array(kept, pa.int64())), [rows[row] for row in kept]
        if rows:
            yield CsvBlock(rows, table)

    def _tell(self, left_out: list[_LeftOut], parsed: _Parsed) -> None:
        self.reached = parsed.last
        for one in sorted(left_out, key=lambda one: one.row):
            held, error = one.held, one.error
            if self._text.has_misread:
                error = misread(held, self._text.encoding, ENCODING_SETTING) or error
                held = without_marks(held)
            self._broken(one.row, held, error, parsed.block.lines[one.row - parsed.behind - 1])


@dataclass(frozen=True, slots=True)
class _LeftOut:
    row: int
    held: str
    error: DataError


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A block with its rows as columns of texts. Their numbers are `rows`; all of the block are behind `behind`."""

    block: RowBlock
    behind: int
    last: int
    rows: list[int]
    table: pa.RecordBatch | None
    left_out: list[_LeftOut]


def _taken_header(block: RowBlock) -> bytes | None:
    """The first row, which is taken out of the block; None if that has none. Errors: DataError if it is broken."""
    for blanks, row in block.grammar.rows(block.pieces[0]):
        block.pieces[0] = block.pieces[0][len(blanks) + len(row) :]
        block.line += count_lines(blanks) + count_lines(row)
        return row
    for one in block.broken:
        raise DataError(f"Line {one.line}, which names the columns: {one.error}", hint=one.error.hint)
    return None


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, each another: f0, f1, .. by its place for one that is empty, a_1 for a second a."""
    given, found = set(names), dict[str, None]()
    for place, name in enumerate(names):
        made, number = name or f"f{place}", 0
        while made in found or (made != name and made in given):
            number += 1
            made = f"{name or f'f{place}'}_{number}"
        found[made] = None
    return list(found)


def inferred(column: pa.Array) -> pa.DataType:
    """What texts are: whole numbers, numbers, true and false, or texts. Only what a number writes again is one.

    So 01234 and +49 stay texts, and numbers with more digits than a double has; times are texts, as everywhere.
    """
    import pyarrow as pa

    if column.null_count == len(column):
        return pa.string()
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        if _READERS[str(kind)](column, kind) is not None:
            return kind
    return pa.string()


def typed(column: pa.Array, kind: pa.DataType, name: str) -> tuple[pa.Array, dict[int, DataError]]:
    """Texts as values of a type, null where they are none; and what is wrong with these, by row."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return column, {}
    found = _READERS[str(kind)](column, kind)
    if found is not None:
        return found, {}
    if len(column) == 1:
        message = f"column {name}: {column[0].as_py()!r} is not {_NAMES[str(kind)]}"
        return pa.nulls(1, kind), {0: DataError(message, hint=_HINT)}
    half = len(column) // 2
    first, bad = typed(column.slice(0, half), kind, name)
    second, more = typed(column.slice(half), kind, name)
    return pa.concat_arrays([first, second]), {**bad, **{half + row: error for row, error in more.items()}}


def _whole(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    made = _cast(column, kind)
    if made is None:
        return None
    odd = _odd(column, "1")
    same = odd is None or pc.all(pc.equal(made.filter(odd).cast(pa.string()), column.filter(odd))).as_py()
    return made if same else None


# With a sign in front, a zero only where a point comes behind it
_NUMBER = r"^-?(0|[1-9]\d*)?(\.\d*)?([eE][+-]?\d+)?$"
_EXACT_DIGITS = 15


def _number(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    import pyarrow.compute as pc

    made = _cast(column, kind)
    if made is None or pc.all(pc.is_finite(made)).as_py() is False:
        return None
    odd = _odd(column, "1")
    if odd is not None and not pc.all(pc.match_substring_regex(column.filter(odd), _NUMBER)).as_py():
        return None
    long = pc.greater(pc.binary_length(column), _EXACT_DIGITS)
    if pc.any(long).as_py():
        for text in column.filter(long).to_pylist():
            if Decimal(repr(float(text))) != Decimal(text):
                return None
    return made


def _truth(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    return None if _odd(column, "A") is not None else _cast(column, kind)  # 0 and 1 would be cast, too


def _odd(column: pa.Array, first: str) -> pa.Array | None:
    """Which texts stand before this one, such as those with a sign or zero in front before 1; None if none does.

    A look at these alone costs 3 ns a value; all numbers written again 18, or matched with a pattern 34.
    """
    import pyarrow.compute as pc

    found = pc.less(column, first)
    return found if pc.any(found).as_py() else None


_PROBE_ROWS = 64


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Returns None if a value cannot be cast. Arrow takes 300 ns for each of these, so the first are tried alone."""
    import pyarrow as pa

    try:
        column.slice(0, _PROBE_ROWS).cast(kind)
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None


_READERS: dict[str, Callable[[Any, Any], Any]] = {"int64": _whole, "double": _number, "bool": _truth}
_NAMES = {"int64": "a whole number, as the first rows are", "double": "a number, as the first rows are"}
_NAMES |= {"bool": "true or false, as the first rows are"}


def _note_misread(column: pa.Array, encoding: str, bad: dict[int, DataError]) -> None:
    import pyarrow.compute as pc

    for row in pc.indices_nonzero(pc.fill_null(pc.match_substring(column, MARK), False)).to_pylist():
        error = misread(column[row].as_py(), encoding, ENCODING_SETTING)
        if error is not None:
            bad.setdefault(row, error)


def _shown_row(table: pa.RecordBatch, row: int) -> str:
    return ",".join("" if part[row].as_py() is None else str(part[row].as_py()) for part in table.columns)


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
