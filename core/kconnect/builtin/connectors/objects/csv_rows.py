"""CSV as rows: the columns as texts, then as what the first of them are, or were declared to be, each value exactly."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.objects.object_text import MARK, Utf8Stream, misread, without_marks

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 1 << 20
Broken = Callable[[int, Any, Exception], None]
ENCODING_SETTING = "object.encoding"
INFER, STRING = "infer", "string"
_HINT = "csv.types=string reads each column as text."


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How CSV is written. `names`: of the columns, instead of the header's; without `infers` all are texts."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    nulls: tuple[str, ...] = ()
    header: bool = True
    names: tuple[str, ...] = ()
    infers: bool = True


def csv_form(config: Mapping[str, Any]) -> CsvForm:
    """The form that the connector's settings tell; its delimiter is empty where the name of the object tells it."""
    return CsvForm(
        delimiter=config["csv.delimiter"].replace("\\t", "\t"),
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

    `content` gives the object's text from its beginning, each time it is called. `holds_last`: the last row is left out
    if no line end is behind it. Errors: DataError for what is no CSV.
    """

    def __init__(
        self, content: Callable[[], Utf8Stream], form: CsvForm, broken: Broken, row: int, *, holds_last: bool = False
    ) -> None:
        self._content, self._form, self._broken = content, form, broken
        self._row, self._holds_last = row, holds_last
        self.reached = row
        """The last row that was read, whatever became of it."""
        self._left_out: list[tuple[int, str, DataError]] = []  # of what pyarrow has parsed

    def __iter__(self) -> Iterator[CsvBlock]:
        import pyarrow as pa

        try:
            yield from self._blocks()
        except pa.ArrowInvalid as err:
            if "Empty CSV file" in str(err):
                return
            raise DataError(f"{err}") from err

    def _blocks(self) -> Iterator[CsvBlock]:
        names = self._names()
        if self._row:
            first = next(iter(self._opened(names, 0, lambda _: "skip", self._content())), None)
            types = self._types(first) if first is not None else None
        else:
            types = None
        text = self._content()
        ahead: CsvBlock | None = None
        for batch in self._opened(names, self._row, self._invalid, text):
            if len(batch):
                if types is None:
                    types = self._types(batch)
                if ahead is not None:
                    yield from self._typed(ahead, types, text)
                ahead = CsvBlock(_without(self._row, len(batch), [number for number, *_ in self._left_out]), batch)
                self._row = ahead.rows[-1]
        if self._holds_last and text.last not in (b"\n", b""):
            ahead = self._without_last(ahead)
        if ahead is not None and types is not None:
            yield from self._typed(ahead, types, text)
        self._tell([], None, text)

    def _without_last(self, ahead: CsvBlock | None) -> CsvBlock | None:
        if self._left_out and (ahead is None or self._left_out[-1][0] > ahead.rows[-1]):
            del self._left_out[-1]
            return ahead
        if ahead is None or len(ahead.rows) == 1:
            return None
        return CsvBlock(ahead.rows[:-1], ahead.table.slice(0, len(ahead.table) - 1))

    # --- what pyarrow reads ---

    def _opened(self, names: list[str], skip: int, handler: Any, text: Utf8Stream) -> pa.RecordBatchReader:
        import pyarrow as pa
        import pyarrow.csv as pc

        form = self._form
        return pc.open_csv(
            text,
            read_options=pc.ReadOptions(
                use_threads=False,
                block_size=BLOCK_BYTES,
                skip_rows_after_names=skip,
                autogenerate_column_names=not form.header and not form.names,
                column_names=list(form.names) or None,
                skip_rows=int(form.header and bool(form.names)),
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
                column_types=dict.fromkeys(names, pa.string()),
                null_values=["", *form.nulls],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _names(self) -> list[str]:
        text = self._content()
        names: list[str] = self._opened([], 0, lambda _: "skip", text).schema.names
        for name in names:
            if MARK in name:
                raise misread(name, text.encoding, ENCODING_SETTING) or AssertionError
        return names

    def _invalid(self, found: Any) -> str:  # pyarrow.csv.InvalidRow
        number = (found.number or 0) - int(self._form.header)
        problem = f"it has {pluralize(found.actual_columns, 'column')} instead of {found.expected_columns}"
        self._left_out.append((number, found.text, DataError(problem)))
        return "skip"

    # --- types ---

    def _types(self, first: pa.RecordBatch) -> pa.Schema:
        """The columns' types by the rows of the object's first block."""
        import pyarrow as pa

        pairs = zip(_distinct(first.schema.names), first.columns, strict=True)
        return pa.schema([(name, inferred(column) if self._form.infers else pa.string()) for name, column in pairs])

    def _typed(self, block: CsvBlock, types: pa.Schema, text: Utf8Stream) -> Iterator[CsvBlock]:
        import pyarrow as pa

        bad: dict[int, DataError] = {}
        columns = []
        for field, column in zip(types, block.table.columns, strict=True):
            if text.has_misread:
                _note_misread(column, text.encoding, bad)
            made, misfits = typed(column, field.type, field.name)
            for row, error in misfits.items():
                bad.setdefault(row, error)
            columns.append(made)
        self._tell([(block.rows[row], _shown_row(block.table, row), error) for row, error in bad.items()], block, text)
        table = pa.RecordBatch.from_arrays(columns, schema=types)
        rows = block.rows
        if bad:
            kept = [row for row in range(len(rows)) if row not in bad]
            table, rows = table.take(pa.array(kept, pa.int64())), [rows[row] for row in kept]
        if rows:
            yield CsvBlock(rows, table)

    def _tell(self, bad: list[tuple[int, str, DataError]], block: CsvBlock | None, text: Utf8Stream) -> None:
        """Tell of the rows of a block, and of those among them that had another number of columns."""
        end = None if block is None else block.rows[-1]
        before = [one for one in self._left_out if end is None or one[0] <= end]
        self._left_out = self._left_out[len(before) :]
        self.reached = max(self.reached, end or 0, *(number for number, *_ in before))
        for number, held, error in sorted([*bad, *before], key=lambda one: one[0]):
            why = misread(held, text.encoding, ENCODING_SETTING) if text.has_misread else None
            self._broken(number, without_marks(held) if text.has_misread else held, why or error)


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


class CsvLines:
    """In which line of an object a row begins, for messages. Rows are asked for in order; each line is read once."""

    def __init__(self, text: Utf8Stream, form: CsvForm) -> None:
        self._rows = csv.reader(
            _text_lines(text),
            delimiter=form.delimiter,
            quotechar=form.quote or None,
            quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
            escapechar=form.escape or None,
        )
        self._row = -1 if form.header else 0
        self._begins = 0

    def line_of(self, row: int) -> int | None:
        """The first is 1; None where the two readers do not agree on what a row is."""
        try:
            while self._row < row:
                self._begins = self._rows.line_num + 1
                if next(self._rows):  # blank lines are no rows
                    self._row += 1
        except (csv.Error, StopIteration):
            return None
        return self._begins if self._row == row else None


def _text_lines(text: Utf8Stream) -> Iterator[str]:
    rest = ""
    while block := text.read(BLOCK_BYTES):
        *lines, rest = (rest + block.decode(errors="replace")).split("\n")
        yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


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
