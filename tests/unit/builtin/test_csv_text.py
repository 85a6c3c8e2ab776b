"""CSV as text: which of it are rows, and what becomes of quotes that are not closed."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

import pytest

from kconnect.api import DataError
from kconnect.api.columns import values_of
from kconnect.builtin.connectors.objects.csv_text import LONGEST_ROW, CsvForm, RowBlock, RowBlocks
from kconnect.builtin.connectors.objects.object_readers import Reading, read_rows
from kconnect.builtin.connectors.objects.object_text import Utf8Stream


def blocks(body: bytes, form: CsvForm | None = None, **more: Any) -> list[RowBlock]:
    return list(RowBlocks(Utf8Stream(io.BytesIO(body), "utf-8"), form or CsvForm(), **more))


def read(body: bytes, form: CsvForm | None = None, **more: Any) -> tuple[dict[int, list[Any]], list[tuple[Any, ...]]]:
    """The values of rows by their number; of broken ones the number, the line, what it holds and what is wrong."""
    broken: list[tuple[Any, ...]] = []
    reading = Reading(
        file=io.BytesIO(body),
        format="csv",
        compression="none",
        broken=lambda row, held, error, line=None: broken.append((row, line, held, str(error))),
        csv=form or CsvForm(infers=False),
        **more,
    )
    found: dict[int, list[Any]] = {}
    for rows in read_rows(reading):
        values = values_of(rows.schema, rows.column, len(rows))
        for number, value in zip(rows.row_numbers().to_pylist(), values, strict=True):
            found[number] = [value.get(field.name) for field in value.schema.fields]
    return found, broken


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_an_unclosed_quote_costs_its_own_line_alone(line_end: str) -> None:
    body = line_end.join(["id,name", "1,ada", '2,"grace', "3,bob", '4,"x ""y"""', "5,eve", ""]).encode()
    found, broken = read(body)
    assert found == {1: ["1", "ada"], 3: ["3", "bob"], 4: ["4", 'x "y"'], 5: ["5", "eve"]}
    assert broken == [
        (2, 3, '2,"grace', "The quote that opens column 2 closes in line 5 before 'x', which is no delimiter")
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('1,"ada', "The quote that opens column 2 is not closed"),
        ('"ada,1', "The quote that opens column 1 is not closed"),
        ('"a,""b"" ","ada""', "The quote that opens column 2 is not closed"),
        ('1,"ada "x" y"', "The quote that opens column 2 closes before 'x', which is no delimiter"),
        ('1,"ada"é', "The quote that opens column 2 closes before 'é', which is no delimiter"),
    ],
)
@pytest.mark.parametrize("at_end", [True, False])
def test_what_is_wrong_with_a_quote_is_said_with_its_column_and_line(line: str, problem: str, at_end: bool) -> None:
    text = "id,name\n\n0,zoë\n" + line + ("" if at_end else "\n2,bob\n")
    found, broken = read(text.encode())
    assert found == {1: ["0", "zoë"]} if at_end else {1: ["0", "zoë"], 3: ["2", "bob"]}
    assert broken == [(2, 4, line, problem)]


def test_quotes_in_the_middle_of_a_value_and_blanks_behind_closed_ones_are_as_they_were() -> None:
    found, broken = read(b'a,b\n5" pipe,x"y"\n"a" ,"b"\t\n "c", "d"\n')
    assert found == {1: ['5" pipe', 'x"y"'], 2: ["a ", "b\t"], 3: [' "c"', ' "d"']}
    assert broken == []


def test_an_escape_takes_the_meaning_of_quotes_and_line_ends() -> None:
    form = CsvForm(escape="\\", infers=False)
    assert read(b'a,b\n1,"x \\" y"\n2,z\\\nz\n3,"w\n', form) == (
        {1: ["1", 'x " y'], 2: ["2", "z\nz"]},
        [(3, 5, '3,"w', "The quote that opens column 2 is not closed")],
    )
    assert read(b"a\n1\nx\\", form) == ({1: ["1"]}, [(2, 3, "x\\", "Nothing follows csv.escape at the end")])


def test_types_are_those_of_the_rows_around_a_broken_one() -> None:
    found, broken = read(b'a,b\n1,x\n2,"y\n3.5,z\n4\n', CsvForm())
    assert found == {1: [1.0, "x"], 3: [3.5, "z"]}
    assert [(row, line) for row, line, *_ in broken] == [(2, 3), (4, 5)]


def test_a_restart_behind_any_row_gives_the_rest_and_reports_what_is_behind_it() -> None:
    body = b'a,b\n1,x\n2,"y\n3,z\n4\n5,"u\nv"\n6,"w\n'
    whole, broken = read(body)
    assert sorted([*whole, *(row for row, *_ in broken)]) == [1, 2, 3, 4, 5, 6]
    for row in range(7):
        found, again = read(body, row=row)
        assert found == {number: value for number, value in whole.items() if number > row}
        assert again == [one for one in broken if one[0] > row]


def test_what_an_open_quote_takes_waits_while_the_object_grows() -> None:
    assert read(b'a,b\n1,x\n2,"y\n3,z\n', holds_last=True) == ({1: ["1", "x"]}, [])
    assert read(b'a,b\n1,x\n2,"y\n3,z"\n', holds_last=True) == ({1: ["1", "x"], 2: ["2", "y\n3,z"]}, [])


def test_a_header_with_an_unclosed_quote_is_the_error_of_the_object() -> None:
    with pytest.raises(DataError, match="Line 2, which names the columns: The quote that opens column 2 is not closed"):
        read(b'\na,"b\n1,x\n')


def test_objects_of_broken_rows_alone_have_no_others() -> None:
    found, broken = read(b'"1,x\n"2,y\n', CsvForm(header=False, infers=False))
    assert (found, [row for row, *_ in broken]) == ({}, [1, 2])
    assert read(b'a\n"1')[1] == [(1, 2, '"1', "The quote that opens column 1 is not closed")]


def test_a_row_may_be_longer_than_a_block_and_a_longer_one_than_is_kept_is_given_up() -> None:
    long = "x" * (3 << 20)
    assert read(f'a,b\n1,"{long}\n{long}"\n2,y\n'.encode())[0] == {1: ["1", f"{long}\n{long}"], 2: ["2", "y"]}
    endless = b"y" * (3 * LONGEST_ROW)
    found, broken = read(b"a,b\n1,x\n2," + endless + b"\n3,z\n")
    assert found == {1: ["1", "x"], 3: ["3", "z"]}
    assert [(row, line, error) for row, line, _, error in broken] == [(2, 3, "It is longer than 16 MiB")]


def test_no_more_is_kept_of_an_object_than_the_longest_row() -> None:
    body = b'a\n"1\n' + b"22222\n" * 2000
    found = blocks(body, block_bytes=100, longest_row=1000)
    assert max(len(block.text(b"")) for block in found) < 4000
    assert b"".join(block.text(b"") for block in found) == b"a\n" + b"22222\n" * 2000
    [broken] = [one for block in found for one in block.broken]
    assert (broken.held, broken.line) == ('"1', 2)
    assert str(broken.error) == "It is longer than 0 MiB: The quote that opens column 1 is not closed"


def test_rows_of_any_text_are_those_that_csv_reads_in_blocks_of_any_size() -> None:
    chance = random.Random(29)
    for _ in range(300):
        rows = [["".join(chance.choices('ab",\n\r é', k=chance.randint(0, 6))) for _ in range(3)] for _ in range(6)]
        out = io.StringIO()
        csv.writer(out, lineterminator=chance.choice(["\n", "\r\n"]), quoting=csv.QUOTE_ALL).writerows(rows)
        text = out.getvalue().encode()
        found = blocks(text, block_bytes=chance.randint(1, 60))
        assert b"".join(block.text(b"?") for block in found) == text
        made = [row for block in found for piece in block.pieces for _, row in block.grammar.rows(piece)]
        assert [next(csv.reader(io.StringIO(row.decode(), newline=""))) for row in made] == rows
        lines = [line for block in found for line in block.lines]
        ends = [0, *(len(row.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) - 1 for row in made)]
        assert lines == [1 + sum(ends[: number + 1]) for number in range(len(rows))]
