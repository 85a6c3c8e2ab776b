"""CSV as text: blocks of whole rows, and the rows whose quotes do not say where they end.

Arrow takes all that comes behind an unclosed quote for one value, and a few rows behind a quote within a value. So rows
are distinguished here first, and Arrow reads what is left. Where a quote is wrong, its line is given up, and the next
line begins a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.object_text import Utf8Stream

BLOCK_BYTES = 1 << 20
# What a row can have, and what is kept of the text at most. Kafka takes records of 1 MiB by default
LONGEST_ROW = 16 << 20
# Of a row that was given up, for a message and a dead letter
_HELD_BYTES = 1 << 20
_QUOTES_HINT = (
    "A quote in a quoted value is written twice; csv.escape names what else stands before one, and csv.quote= takes "
    "quotes as they stand."
)


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


@dataclass(frozen=True, slots=True)
class BrokenText:
    """A line that is no row: what it holds, its number (the first is 1), and what is wrong."""

    held: str
    line: int
    error: DataError


@dataclass
class RowBlock:
    """Neighbouring rows as text: between two pieces is a broken one. `line` is that of the first piece's beginning."""

    line: int
    grammar: CsvGrammar
    pieces: list[bytes] = field(default_factory=lambda: [b""])
    broken: list[BrokenText] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces)) + sum(len(one.held) for one in self.broken)

    def text(self, stand_in: bytes) -> bytes:
        """All pieces, with this line for each row that is broken."""
        return stand_in.join(self.pieces)

    @cached_property
    def lines(self) -> list[int]:
        """The line that each row begins in, broken ones among them; blank lines are no rows."""
        found: list[int] = []
        line = self.line
        for number, piece in enumerate(self.pieces):
            for blanks, row in self.grammar.rows(piece):
                line += count_lines(blanks)
                found.append(line)
                line += count_lines(row)
            if number < len(self.broken):
                found.append(self.broken[number].line)
                line = self.broken[number].line + 1
        return found


class CsvGrammar:
    """What rows of a form look like, in UTF-8. Line ends are LF, CRLF or CR, as Arrow has them."""

    def __init__(self, form: CsvForm) -> None:
        self._delimiter, self._quote = form.delimiter.encode(), form.quote.encode()
        self._special = [part.encode() for part in (form.quote, form.escape) if part]
        between, quote, escape = (re.escape(part.encode()) for part in (form.delimiter, form.quote, form.escape))
        escaped = [escape + b"."] if escape else []
        ordinary = b"[^%b%b\r\n]++" % (quote, escape)
        outside = list(escaped)
        self._quoted: re.Pattern[bytes] | None = None
        if quote:
            plain = b"[^%b%b]*+" % (quote, escape)
            inside = b"%b(?:(?:%b)%b)*+" % (plain, b"|".join([quote + quote, *escaped]), plain)
            blanks = b"".join(blank for blank in (b" ", b"\t") if blank != self._delimiter)
            behind = b"[%b]*+" % blanks
            begins = b"(?<![^%b\r\n])%b" % (between, quote)
            outside.append(b"%b%b%b%b(?=[%b\r\n])" % (begins, inside, quote, behind, between))
            outside.append(b"(?<=[^%b\r\n])%b" % (between, quote))  # in the middle of a value it is one of its letters
            self._quoted = _compiled(b"%b%b(?:(?P<closed>%b)%b)?" % (quote, inside, quote, behind))
        # A CR at the end may be half of a line end
        line_end, parts = b"(?:\r\n|\n|\r(?!\\Z))", b"|".join([ordinary, *outside])
        self._lines: re.Pattern[bytes] | None = None
        if quote and not escape:
            # Line ends are not noted: 0.6 us a row of ten columns, a third of them in quotes, instead of 0.9
            self._lines = _compiled(b"%b(?:(?:%b)%b)*+" % (plain, b"|".join(outside), plain))
        self._whole = _compiled(b"(?:%b|%b())*+" % (parts, line_end))
        self._row = _compiled(b"([\r\n]*+)((?:%b)*+(?:\r\n|\n|\r))" % parts)

    def whole(self, text: bytes, at: int) -> tuple[int, int]:
        """How far whole rows go in a text from there on, where one begins, and how far it is understood."""
        end = max(text.rfind(b"\n", at), text.rfind(b"\r", at, -1), at - 1) + 1
        if all(text.find(part, at, end) < 0 for part in self._special):
            return end, len(text)
        match = self._lines.match(text, at, end) if self._lines is not None else None
        if match is not None and match.end() == end:
            return end, len(text)
        match = self._whole.match(text, at)
        assert match is not None  # as nothing matches it, too
        return max(match.end(1), at), match.end()

    def rows(self, text: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Each row of a text of whole ones, with the blank lines before it."""
        at = 0
        while (match := self._row.match(text, at)) is not None:
            yield match[1], match[2]
            at = match.end()

    def problem(self, text: bytes, row: int, at: int, line: int, *, is_over: bool) -> DataError | None:
        """What is wrong with the quote that stands at a place, in the row that begins at another, in this line.

        None if more text can tell, or if no quote is there.
        """
        match = self._quoted.match(text, at) if self._quoted is not None and at < len(text) else None
        if match is None or (match.end() == len(text) and not is_over):
            return None
        outside = self._quoted.sub(b"", text[row:at]) if self._quoted is not None else b""
        begins = f"The quote that opens column {outside.count(self._delimiter) + 1}"
        if match["closed"] is None:
            return DataError(f"{begins} is not closed", hint=_QUOTES_HINT)
        closes = line + count_lines(text[row : match.start("closed")])
        where = "closes" if closes == line else f"closes in line {closes}"
        behind = text[match.end() : match.end() + 4].decode(errors="ignore")[:1]
        return DataError(f"{begins} {where} before {behind!r}, which is no delimiter", hint=_QUOTES_HINT)


def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


class RowBlocks:
    """The text in blocks of whole rows, of about BLOCK_BYTES each; a longer row makes its block longer.

    The last row gets its line end if it has none, or is left out with `holds_last`, as is all that an open quote takes.
    Threads: one.
    """

    def __init__(
        self,
        text: Utf8Stream,
        form: CsvForm,
        *,
        holds_last: bool = False,
        line: int = 1,
        block_bytes: int = BLOCK_BYTES,
        longest_row: int = LONGEST_ROW,
    ) -> None:
        """`line` is that in which the text begins."""
        self._text, self._holds_last = text, holds_last
        self._block_bytes, self._longest_row = block_bytes, longest_row
        self._grammar = CsvGrammar(form)
        self._line = line
        self._rest = b""  # of the text, from the beginning of a row on
        self._is_over = False

    def __iter__(self) -> Iterator[RowBlock]:
        block = RowBlock(self._line, self._grammar)
        while not self._is_over:
            self._read()
            self._split(block)
            # Rows behind a broken one may be read much later, and tell the types no less than those before it
            if block.size >= self._block_bytes // 2 or (self._is_over and block.size):
                yield block
                block = RowBlock(self._line, self._grammar)

    def _read(self) -> None:
        more = self._text.read(max(self._block_bytes, len(self._rest)))
        self._is_over = not more
        self._rest += more
        if self._is_over and self._rest and not self._holds_last and not self._rest.endswith(b"\n"):
            self._rest += b"\n"

    def _split(self, block: RowBlock) -> None:
        text, at = self._rest, 0
        while True:
            end, understood = self._grammar.whole(text, at)
            block.pieces[-1] += text[at:end]
            self._line += count_lines(text[at:end])
            at = end
            error = self._error(text, at, understood)
            line_end = _LINE_END.search(text, at) if error is not None else None
            if error is None or (line_end is None and len(text) - at < self._longest_row):
                break
            behind = line_end.end() if line_end is not None else len(text)
            held = text[at : min(behind, at + _HELD_BYTES)].decode(errors="ignore").rstrip("\r\n")
            block.broken.append(BrokenText(held, self._line, error))
            block.pieces.append(b"")
            self._line += 1
            at = behind
            if line_end is None:
                text, at = self._behind_line(), 0
        self._rest = text[at:]

    def _error(self, text: bytes, at: int, understood: int) -> DataError | None:
        """What is wrong with the row that begins there; None if it is not there as a whole yet."""
        is_over = self._is_over and not self._holds_last
        if at < len(text):
            error = self._grammar.problem(text, at, understood, self._line, is_over=is_over)
            if error is not None:
                return error
            if is_over:
                return DataError("Nothing follows csv.escape at the end")
        if len(text) - at < self._longest_row:
            return None
        error = self._grammar.problem(text, at, understood, self._line, is_over=True)
        message = f"It is longer than {self._longest_row >> 20} MiB"
        return DataError(message if error is None else f"{message}: {error}", hint=_QUOTES_HINT if error else None)

    def _behind_line(self) -> bytes:
        """What comes behind a line that does not end in what was read."""
        while more := self._text.read(self._block_bytes):
            line_end = _LINE_END.search(more)
            if line_end is not None:
                return more[line_end.end() :]
        self._is_over = True
        return b""


_LINE_END = _compiled(b"\r\n|\n|\r(?!\\Z)")


def count_lines(text: bytes) -> int:
    """How many line ends a text has."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
