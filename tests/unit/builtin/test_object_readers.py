"""Objects as rows: each format from each row on, and what is wrong in one row."""

from __future__ import annotations

import datetime
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from kconnect.api import DataError
from kconnect.api.columns import values_of
from kconnect.builtin.connectors.objects.csv_text import CsvForm
from kconnect.builtin.connectors.objects.object_formats import compressed, compression_of, format_of
from kconnect.builtin.connectors.objects.object_readers import Reading, Rows, read_rows
from kconnect.builtin.types.fitting import as_mapping

ROWS = 25
TABLE = pa.table({"id": list(range(ROWS)), "name": [f"n{number}" for number in range(ROWS)]})
AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}


def _csv() -> bytes:
    out = io.BytesIO()
    pc.write_csv(TABLE, out)
    return out.getvalue()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE, out, row_group_size=7)
    return out.getvalue()


def _avro() -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, AVRO, TABLE.to_pylist(), sync_interval=30)
    return out.getvalue()


def _jsonl() -> bytes:
    return b"".join(b'{"id": %d, "name": "n%d"}\n' % (number, number) for number in range(ROWS))


BODIES: dict[str, Callable[[], bytes]] = {
    "lines": lambda: b"\n".join(b"n%d" % number for number in range(ROWS)),  # the last one without its end
    "jsonl": _jsonl,
    "json": lambda: b"[" + b",".join(_jsonl().splitlines()) + b"]",
    "csv": _csv,
    "parquet": _parquet,
    "avro": _avro,
}


def fail(row: int, held: Any, error: Exception, line: int | None = None) -> None:
    raise AssertionError(f"row {row}: {held!r}: {error}")


def read(body: bytes, format_: str, *, broken: Any = fail, **more: Any) -> list[Rows]:
    settings = {"compression": "none", "batch_rows": 4, **more}
    return list(read_rows(Reading(file=io.BytesIO(body), format=format_, broken=broken, **settings)))


def plain(found: list[Rows]) -> list[tuple[int, Any]]:
    """Row numbers and values."""
    pairs: list[tuple[int, Any]] = []
    for rows in found:
        values = rows.values if rows.column is None else values_of(rows.schema, rows.column, len(rows))
        pairs += zip(rows.row_numbers().to_pylist(), map(_dict, values or ()), strict=True)
        assert pairs[-1][0] == rows.row
    return pairs


def _dict(value: Any) -> Any:
    return {field.name: value.get(field.name) for field in value.schema.fields} if hasattr(value, "schema") else value


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "bz2", "lz4"])
@pytest.mark.parametrize("format_", BODIES)
def test_from_each_row_on_come_exactly_the_rows_behind_it(format_: str, compression: str) -> None:
    body = compressed(BODIES[format_](), compression)
    whole = plain(read(body, format_, compression=compression))
    assert [row for row, _ in whole] == list(range(1, ROWS + 1))
    assert [value if format_ == "lines" else value["name"] for _, value in whole] == TABLE["name"].to_pylist()
    for row in range(ROWS + 1):
        assert plain(read(body, format_, compression=compression, row=row)) == whole[row:], f"behind row {row}"


@pytest.mark.parametrize("format_", BODIES)
def test_members_of_gzip_are_one_object_and_zeros_behind_them_are_padding(format_: str) -> None:
    body = BODIES[format_]()
    half = len(body) // 2
    padded = gzip.compress(body[:half]) + bytes(100) + gzip.compress(body[half:]) + bytes(1000)
    assert plain(read(padded, format_, compression="gzip")) == plain(read(body, format_))


@pytest.mark.parametrize("json_schema", ["none", "infer"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_lines_go_on_at_a_byte(compression: str, json_schema: str) -> None:
    for format_ in ("lines", "jsonl"):
        body = compressed(BODIES[format_](), compression)
        whole = read(body, format_, compression=compression, json_schema=json_schema)
        positions = [position for rows in whole if rows.positions for position in rows.positions().to_pylist()]
        assert len(positions) == ROWS
        for row, position in enumerate(positions, 1):
            rest = read(body, format_, compression=compression, json_schema=json_schema, row=row, position=position)
            assert plain(rest) == plain(whole)[row:]


def test_what_is_no_json_is_left_out_with_its_number_and_blank_lines_are_no_rows() -> None:
    broken: list[tuple[int, Any]] = []
    body = b'{"a": 1}\n\noh no\n{"a": 2}\n'
    for schema in ("none", "infer"):
        broken.clear()
        found = read(body, "jsonl", broken=lambda row, held, _: broken.append((row, held)), json_schema=schema)
        assert plain(found) == [(1, {"a": 1}), (4, {"a": 2})]
        assert broken == [(3, b"oh no")]


@pytest.mark.parametrize("format_", ["jsonl", "json"])
@pytest.mark.parametrize("json_schema", ["none", "infer"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}{"a": 2}{"a": 3}',  # as Firehose writes them
        b'{"a": 1}\r{"a": 2}\r{"a": 3}\r',
        b'{"a": 1}, {"a": 2},\n{"a": 3},\n',
        b'\xef\xbb\xbf{"a": 1}{"a": 2}\r\n \r\n\xef\xbb\xbf{"a": 3}',
    ],
)
def test_each_object_of_a_line_is_a_row(body: bytes, json_schema: str, format_: str) -> None:
    if format_ == "json" and body.count(b"\xef") > 1:
        body = body.replace(b"\n\xef\xbb\xbf", b"\n")  # a mark in the middle of a document is none
    found = plain(read(body, format_, json_schema=json_schema))
    assert [value for _, value in found] == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_objects_over_several_lines_are_rows_of_a_document() -> None:
    body = b'{\n "a": 1\n}\n{\n "a": 2\n}\n[{"a": 3},\n{"a": 4}]\n'
    assert [value["a"] for _, value in plain(read(body, "json"))] == [1, 2, 3, 4]


@pytest.mark.parametrize("json_schema", ["none", "infer"])
def test_a_line_is_behind_the_last_of_its_rows_alone(json_schema: str) -> None:
    body = b'{"a": 1}\n{"a": 2}{"a": 3}\n\n{"a": 4}\n'
    found = read(body, "jsonl", json_schema=json_schema)
    rows = [number for number, _ in plain(found)]
    ends = [end for one in found for end in one.positions().to_pylist()]
    assert rows == [1, 1, 2, 4]
    assert ends == [9, 9, 26, 36]
    for row, end in zip(rows, ends, strict=True):
        again = [value["a"] for _, value in plain(read(body, "jsonl", json_schema=json_schema, row=row, position=end))]
        assert again == {1: [2, 3, 4], 2: [4], 4: []}[row]


@pytest.mark.parametrize("json_schema", ["none", "infer"])
def test_what_stands_behind_a_value_and_is_none_is_the_error_of_the_line(json_schema: str) -> None:
    broken: list[tuple[int, str]] = []
    body = b'{"a": 1}\n{"a": 2} x\n' + b"[" * 100_000 + b'\n{"a": 3}\n'
    found = read(body, "jsonl", json_schema=json_schema, broken=lambda row, _, error: broken.append((row, str(error))))
    assert plain(found) == [(1, {"a": 1}), (4, {"a": 3})]
    reported = list(dict.fromkeys(broken))
    assert [row for row, _ in reported] == [2, 3]
    assert reported[0][1].startswith("Expecting value")
    assert reported[1][1] == "It is nested too deeply"


@pytest.mark.parametrize("json_schema", ["none", "infer"])
def test_objects_without_members_are_rows_and_lines_of_blanks_are_none(json_schema: str) -> None:
    assert plain(read(b" \r\n{}\n{}\n", "jsonl", json_schema=json_schema)) == [(2, {}), (3, {})]
    assert read(b"{}\n{}\n", "jsonl", json_schema=json_schema)[0].row == 2
    assert read(b" \r\n \n", "jsonl", json_schema=json_schema) == []


@pytest.mark.parametrize("json_schema", ["none", "infer"])
def test_numbers_that_only_jackson_reads_are_floats_as_all_others(json_schema: str) -> None:
    found = plain(read(b'{"a": 01.5}\n{"a": 2.5},\n', "jsonl", json_schema=json_schema))
    assert [value["a"] for _, value in found] == [1.5, 2.5]
    assert {type(value["a"]) for _, value in found} == {float}


def test_inferred_columns_widen_and_get_new_fields_and_texts_stay_texts() -> None:
    body = b'{"a": 1, "at": "2026-01-01 00:00:00"}\n{"a": 2.5, "new": [1]}\n{"a": "text"}\n'
    broken: list[int] = []
    found = read(body, "jsonl", broken=lambda row, *_: broken.append(row), json_schema="infer")
    assert plain(found) == [
        (1, {"a": 1.0, "at": "2026-01-01 00:00:00", "new": None}),
        (2, {"a": 2.5, "at": None, "new": [1]}),
    ]
    assert broken == [3]


def test_long_numbers_keep_their_digits_in_inferred_columns() -> None:
    big = 2**63 + 1
    body = b"".join(b'{"a": %d, "b": %s}\n' % (a, b) for a, b in ((1, b"0.5"), (big, b"1"), (2, b"9007199254740993")))
    found = plain(read(body, "jsonl", json_schema="infer"))
    assert [row["a"] for _, row in found] == [1, big, 2]
    assert [row["b"] for _, row in found] == [Decimal("0.5"), 1, Decimal(2**53 + 1)]


def test_a_json_document_that_is_no_list_is_one_row_and_long_numbers_keep_their_digits() -> None:
    assert plain(read(b'{"id": 12345678901234567890123}', "json")) == [(1, {"id": 12345678901234567890123})]
    assert plain(read(b" ", "json")) == []
    with pytest.raises(DataError, match="It is not JSON"):
        read(b"[1,", "json")


def test_a_csv_row_with_other_columns_is_reported_and_the_numbers_behind_it_stay() -> None:
    broken: list[tuple[int, Any]] = []
    body = b'a,b\n1,"x\ny"\n3\n4,\n5,""\n'
    found = read(body, "csv", broken=lambda row, held, *_: broken.append((row, held)))
    assert plain(found) == [(1, {"a": 1, "b": "x\ny"}), (3, {"a": 4, "b": None}), (4, {"a": 5, "b": ""})]
    assert broken == [(2, "3")]
    rest = read(body, "csv", broken=lambda *_: None, row=3)
    assert plain(rest) == [(4, {"a": 5, "b": ""})]


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (b",a,b", ["f0", "a", "b"]),  # as pandas writes its index
        (b"a,b,", ["a", "b", "f2"]),
        (b"a,a,a", ["a", "a_1", "a_2"]),
        (b"a,a_1,a", ["a", "a_1", "a_2"]),
        (b"a,a,a_1", ["a", "a_2", "a_1"]),
        (b",f0,", ["f0_1", "f0", "f2"]),
    ],
)
def test_each_column_of_csv_has_a_name_of_its_own(header: bytes, names: list[str]) -> None:
    found = plain(read(header + b"\n1,2,3\n4,5,6\n", "csv"))
    assert [list(value.items()) for _, value in found] == [
        list(zip(names, numbers, strict=True)) for numbers in ([1, 2, 3], [4, 5, 6])
    ]


_TIMES = pa.timestamp("us", "UTC")


def _parquet_of(values: list[Any], kind: pa.DataType) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array(values, kind)}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "nest"),
    [
        (_TIMES, lambda value: value),
        (pa.struct([("a", _TIMES)]), lambda value: {"a": value}),
        (pa.list_(_TIMES), lambda value: [value, None]),
        (pa.map_(pa.string(), _TIMES), lambda value: {"k": value}),
        (pa.list_(pa.struct([("a", _TIMES)])), lambda value: [None, {"a": value}]),
    ],
)
def test_times_before_1970_are_cut_alike_however_deep_they_lie(kind: pa.DataType, nest: Callable[[Any], Any]) -> None:
    given, wanted = (datetime.datetime(1969, 12, 31, 23, 59, 59, us, datetime.UTC) for us in (999_999, 999_000))
    body = _parquet_of([nest(given), None], kind)
    assert [as_mapping(value["x"]) for _, value in plain(read(body, "parquet"))] == [nest(wanted), None]


def test_csv_without_names_of_texts_only_and_of_nothing() -> None:
    form = CsvForm(header=False, delimiter=";")
    assert plain(read(b"1;x\n", "csv", csv=form)) == [(1, {"f0": 1, "f1": "x"})]
    assert plain(read(b"1;x\n", "csv", csv=replace(form, names=("id", "n")))) == [(1, {"id": 1, "n": "x"})]
    assert plain(read(b"a,b\n1,x\n", "csv", csv=CsvForm(names=("id", "n")))) == [(1, {"id": 1, "n": "x"})]
    assert plain(read(b"a\n1\n", "csv", csv=CsvForm(infers=False))) == [(1, {"a": "1"})]
    assert read(b"", "csv") == []
    assert read(b"a,b\n", "csv") == []


def test_a_value_of_another_type_late_in_a_csv_is_the_error_of_its_row() -> None:
    body = b"a,b\n" + b"1,x\n" * (1 << 19) + b"01,y\n2,z\n3\n4,w\n"
    broken: list[tuple[int, str]] = []
    found = read(body, "csv", broken=lambda row, held, error, _: broken.append((row, f"{held}: {error}")))
    last = (1 << 19) + 4
    assert found[-1].row == last
    assert plain(found[-1:])[-2:] == [(last - 2, {"a": 2, "b": "z"}), (last, {"a": 4, "b": "w"})]
    assert broken == [
        (last - 3, "01,y: column a: '01' is not a whole number, as the first rows are"),
        (last - 1, "3: it has 1 column instead of 2"),
    ]


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["1", "-2", None], [1, -2, None]),
        (["01234", "00501"], ["01234", "00501"]),
        (["+49", "1"], ["+49", "1"]),
        (["1", "2.50", "1e3"], [1.0, 2.5, 1000.0]),
        (["1.5", "007.5"], ["1.5", "007.5"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["0.30000000000000004", "1"], [0.30000000000000004, 1.0]),
        (["0.12345678901234567890", "1"], ["0.12345678901234567890", "1"]),
        (["true", "False"], [True, False]),
        (["NaN", "1.5"], ["NaN", "1.5"]),
        (["2026-01-02", None], ["2026-01-02", None]),
        (["NULL", "NA"], ["NULL", "NA"]),
        ([" 1", "2"], [" 1", "2"]),
    ],
)
def test_a_text_is_a_number_only_if_that_says_all_that_it_says(texts: list[str | None], wanted: list[Any]) -> None:
    body = "a,b\n" + "".join(f"{text or ''},x\n" for text in texts)
    found = [value["a"] for _, value in plain(read(body.encode(), "csv"))]
    assert [repr(value) for value in found] == [repr(value) for value in wanted]


def test_csv_of_any_form_is_read_as_it_was_meant() -> None:
    body = b'id,name,note\n1,"x, ""y""","multi\nline"\n2,,""\n3," sp ",NULL\n'
    rows = [{"id": 1, "name": 'x, "y"', "note": "multi\nline"}, {"id": 2, "name": None, "note": ""}]
    assert [value for _, value in plain(read(body, "csv"))] == [*rows, {"id": 3, "name": " sp ", "note": "NULL"}]
    found = plain(read(body, "csv", csv=CsvForm(nulls=("NULL", "\\N"))))
    assert [value for _, value in found] == [*rows, {"id": 3, "name": " sp ", "note": None}]
    found = plain(read(b"a|b\n'it''s'|x\\|y\n", "csv", csv=CsvForm(delimiter="|", quote="'", escape="\\")))
    assert found == [(1, {"a": "it's", "b": "x|y"})]
    found = plain(read(b'a,b\n5" pipe,"x\n', "csv", csv=CsvForm(quote="")))
    assert found == [(1, {"a": '5" pipe', "b": '"x'})]


TEXTS = "id,name\n1,Jürgen\n2,Zoë €\n"


@pytest.mark.parametrize(
    ("encoding", "chosen"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-8"),
        ("cp1252", "cp1252"),
        ("iso8859-15", "latin9"),
    ],
)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_texts_of_any_encoding_are_read(encoding: str, chosen: str, compression: str) -> None:
    body = compressed(TEXTS.encode(encoding), compression)
    settings = {"encoding": chosen, "compression": compression}
    assert plain(read(body, "csv", **settings)) == [(1, {"id": 1, "name": "Jürgen"}), (2, {"id": 2, "name": "Zoë €"})]
    assert [value for _, value in plain(read(body, "lines", **settings))] == TEXTS.splitlines()
    documents = [json.dumps({"name": name}, ensure_ascii=False) for name in ("Jürgen", "Zoë €")]
    for format_, text in (("jsonl", "\n".join(documents)), ("json", f"[{','.join(documents)}]")):
        body = compressed(text.encode(encoding), compression)
        for row in (0, 1):
            found = plain(read(body, format_, row=row, **settings))
            assert found == [(1, {"name": "Jürgen"}), (2, {"name": "Zoë €"})][row:]


@pytest.mark.parametrize("chosen", ["utf-8", "ascii"])
@pytest.mark.parametrize("json_schema", ["none", "infer"])
@pytest.mark.parametrize("format_", ["csv", "lines", "jsonl"])
def test_bytes_of_no_character_are_the_error_of_their_row_with_their_position(
    format_: str, json_schema: str, chosen: str
) -> None:
    bodies = {
        "csv": b"id,name\n1,a\n2,J\xfcrgen\n3,c\n4\xe4,d,e\n5,f\n",
        "lines": b"one\n1,a\nJ\xfcrgen\n3,c\n\xe4\n5,f\n",
        "jsonl": b'{"n": 0}\n{"n": 1}\n{"n":"J\xfcrgen"}\n{"n": 3}\n{"n":"\xe4"}\n{"n": 5}\n',
    }
    body, broken = bodies[format_], list[tuple[int, str]]()
    first = 0 if format_ == "csv" else 1

    def tell(row: int, held: Any, error: Exception, line: int | None = None) -> None:
        broken.append((row - first, str(error)))

    found = plain(read(body, format_, broken=tell, json_schema=json_schema, encoding=chosen))
    assert [row - first for row, _ in found if row - first > 0] == [1, 3, 5]
    assert broken == [
        (row, f"Byte 0x{byte:02x} at position {body.index(byte)} is not {chosen} (object.encoding)")
        for row, byte in ((2, 0xFC), (4, 0xE4))
    ]


def test_a_whole_document_or_header_of_another_encoding_is_refused_with_the_position() -> None:
    with pytest.raises(DataError, match=r"Byte 0xfc at position 3 is not utf-8 \(object.encoding\)"):
        read(b'{"J\xfc": 1}', "json")
    with pytest.raises(DataError, match="Byte 0xfc at position 1 is not utf-8"):
        read(b"J\xfc\n1\n", "csv")
    with pytest.raises(DataError, match="no byte order mark"):
        read(b"a\n", "csv", encoding="utf-16")


def test_a_last_line_without_its_end_is_left_out_where_it_may_be_half_of_one() -> None:
    for format_, body in (("lines", b"1\n2"), ("jsonl", b"1\n2"), ("csv", b"a,b\n1,x\n2,")):
        assert [row for row, _ in plain(read(body, format_, holds_last=True))] == [1]
        assert [row for row, _ in plain(read(body + b"\n", format_, holds_last=True))] == [1, 2]
    assert [row for row, _ in plain(read(b"a,b\n1,x\n2", "csv", holds_last=True))] == [1]


@pytest.mark.parametrize("format_", ["parquet", "avro", "csv", "jsonl"])
def test_content_of_another_kind_is_an_error_and_a_cut_archive_too(format_: str) -> None:
    if format_ in ("parquet", "avro"):
        with pytest.raises(DataError):
            read(b"\x00\x01 no such thing", format_)
    else:
        with pytest.raises(EOFError, match="ended before"):
            read(gzip.compress(BODIES[format_]())[:-12], format_, compression="gzip")


def test_format_and_compression_are_reported_by_the_name() -> None:
    names = ("a.txt", "b/x.jsonl.gz", "c.NDJSON.zst", "d.json", "e.tsv", "f.parquet", "g.avro", "noname", "h.log.gz")
    found = [(format_of(name), compression_of(name)) for name in names]
    assert found == [
        ("lines", "none"),
        ("jsonl", "gzip"),
        ("jsonl", "zstd"),
        ("json", "none"),
        ("csv", "none"),
        ("parquet", "none"),
        ("avro", "none"),
        ("lines", "none"),
        ("lines", "gzip"),
    ]
    assert (format_of("a.csv", "lines"), compression_of("a.gz", "none")) == ("lines", "none")
