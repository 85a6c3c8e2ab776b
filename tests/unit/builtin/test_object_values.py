"""Values of Parquet and Avro objects: those that a record has, and those that none can have."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kconnect.api import DataError
from kconnect.api.columns import values_of
from kconnect.builtin.connectors.objects.object_readers import Reading, read_rows
from kconnect.builtin.types.fitting import as_mapping

Broken = list[tuple[int, str, str]]


def read(body: bytes, format_: str, row: int = 0) -> tuple[dict[int, Any], Broken]:
    """The values of column x by the number of their row; of broken rows the number, what they hold, and why."""
    broken: Broken = []

    def tell(number: int, held: Any, error: Exception, line: int | None = None) -> None:
        broken.append((number, held, str(error)))

    reading = Reading(file=io.BytesIO(body), format=format_, compression="none", broken=tell, row=row, batch_rows=4)
    found: dict[int, Any] = {}
    for rows in read_rows(reading):
        for number, value in zip(
            rows.row_numbers().to_pylist(), values_of(rows.schema, rows.column, len(rows)), strict=True
        ):
            found[number] = as_mapping(value["x"])
        assert rows.row == number
    return found, broken


def parquet(values: pa.Array, **more: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(len(values))), "x": values}), out, **more)
    return out.getvalue()


def avro(kind: Any, values: Sequence[Any], as_written: Any = None) -> bytes:
    """An object whose schema says `kind`, with values that were written as `as_written`."""
    fields = [{"name": "id", "type": "long"}, {"name": "x", "type": as_written or kind}]
    written = fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})
    block, out, sync = io.BytesIO(), io.BytesIO(), b"0123456789abcdef"
    for number, value in enumerate(values):
        fastavro.schemaless_writer(block, written, {"id": number, "x": value})
    said = {"type": "record", "name": "R", "fields": [fields[0], {"name": "x", "type": kind}]}
    out.write(b"Obj\x01")
    head = {"avro.schema": json.dumps(said).encode(), "avro.codec": b"null"}
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, head)
    out.write(sync)
    fastavro.schemaless_writer(out, "long", len(values))
    fastavro.schemaless_writer(out, "bytes", block.getvalue())
    return out.getvalue() + sync


_LONG = pa.uint64()
_BIG = 2**64 - 1


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        (_LONG, [1, _BIG, 3], "Column x: Integer value 18446744073709551615 not in range: 0 to 9223372036854775807"),
        (pa.list_(_LONG), [[1], [2, _BIG], [3]], "Column x[] is 18446744073709551615, the column int64"),
        (
            pa.struct([("a", _LONG)]),
            [{"a": 1}, {"a": _BIG}, None],
            "Column x.a is 18446744073709551615, the column int64",
        ),
        (
            pa.decimal256(76, 2),
            [Decimal(1), Decimal(10) ** 60, Decimal("1.5")],
            "Column x: Decimal value does not fit in precision 38",
        ),
    ],
)
def test_a_value_that_no_record_can_have_is_the_error_of_its_row(kind: pa.DataType, values: Any, error: str) -> None:
    body = parquet(pa.array([*values, *values, *values], kind))
    found, broken = read(body, "parquet")
    assert found == {number + 1: values[number % 3] for number in range(9) if number % 3 != 1}
    assert [(row, why) for row, _, why in broken] == [(2, error), (5, error), (8, error)]
    assert json.loads(broken[0][1])["id"] == 1
    for row in range(9):
        rest, again = read(body, "parquet", row)
        assert rest == {number: value for number, value in found.items() if number > row}
        assert [number for number, *_ in again] == [number for number in (2, 5, 8) if number > row]


def test_bytes_that_are_no_text_are_the_error_of_their_row() -> None:
    error = "Column x: Invalid UTF8 sequence at string index 0"
    column = pa.Array.from_buffers(pa.string(), 3, pa.array([b"ok", b"\xff", b"yes"]).buffers())
    held = json.dumps({"id": 1, "x": '"\ufffd"'}, ensure_ascii=False, separators=(",", ":"))
    assert read(parquet(column), "parquet") == ({1: "ok", 3: "yes"}, [(2, held, error)])
    body = avro("string", [b"ok", b"\xff", b"yes"], "bytes")
    assert read(body, "avro") == (
        {1: "ok", 3: "yes"},
        [(2, '{"id":1,"x":"?"}', "Column x: bytes of a text are not UTF-8")],
    )


def test_times_of_int96_far_from_today_are_those_that_spark_wrote() -> None:
    times = [
        datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC),
        datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
        datetime.datetime(2026, 1, 1, 1, 2, 3, 456000, tzinfo=datetime.UTC),
    ]
    body = parquet(pa.array(times, pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    assert read(body, "parquet")[0] == dict(enumerate(times, 1))


def test_more_digits_than_a_decimal_has_are_text_and_durations_are_numbers() -> None:
    big = Decimal("12345678901234567890.12345678901234567890123456789012345678")
    body = parquet(pa.array([big], pa.decimal256(76, 38)))
    assert read(body, "parquet") == ({1: str(big)}, [])
    for unit in ("s", "ms", "us", "ns"):
        kind = pa.duration(unit)
        assert read(parquet(pa.array([[5, None]], pa.list_(kind))), "parquet") == ({1: [5, None]}, []), unit
        assert read(parquet(pa.array([90_061_001], kind)), "parquet") == ({1: 90_061_001}, []), unit


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


FIXED = {"type": "fixed", "name": "ids.Id", "size": 16}
POINT = {"type": "record", "name": "geo.Point", "fields": [{"name": "at", "type": ["null", logical("int", "date")]}]}


@pytest.mark.parametrize(
    ("kind", "as_written", "given", "wanted"),
    [
        (logical("bytes", "decimal", precision=4, scale=2), "bytes", b"\xff", Decimal("-0.01")),
        (logical("bytes", "decimal", precision=60, scale=2), "bytes", b"\x01", Decimal("0.01")),
        (logical("bytes", "decimal", precision=76, scale=38), "bytes", b"\x01", "1E-38"),
        (logical("bytes", "decimal", precision=90, scale=3), "bytes", b"\x01", "0.001"),
        (logical("bytes", "decimal"), "bytes", b"\x01", b"\x01"),
        (logical("int", "date"), "int", 1, datetime.date(1970, 1, 2)),
        (
            logical("long", "timestamp-micros"),
            "long",
            -1,
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, datetime.UTC),
        ),
        (logical("string", "uuid"), "string", "no uuid", "no uuid"),
        ({**FIXED, "logicalType": "uuid"}, FIXED, b"\0" * 15 + b"\1", "00000000-0000-0000-0000-000000000001"),
        (["null", "int", "string"], None, 5, {"int": 5, "string": None}),
        (["int", "string", "null"], None, "a", {"int": None, "string": "a"}),
        (["null", "int", "string"], None, None, None),
        (["string"], None, "a", "a"),
        (["null", POINT, "long"], ["null", POINT, "long"], {"at": None}, {"Point": {"at": None}, "long": None}),
        (
            {"type": "array", "items": ["null", POINT]},
            None,
            [{"at": datetime.date(1970, 1, 3)}, None],
            [{"at": datetime.date(1970, 1, 3)}, None],
        ),
        (
            {"type": "map", "values": logical("bytes", "decimal", precision=3)},
            None,
            {"k": Decimal(7)},
            {"k": Decimal(7)},
        ),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, None, "B", "B"),
    ],
)
def test_avro_of_any_type_is_read(kind: Any, as_written: Any, given: Any, wanted: Any) -> None:
    assert read(avro(kind, [given], as_written), "avro") == ({1: wanted}, [])


def test_a_named_type_is_read_wherever_it_is_named() -> None:
    twice = {
        "type": "record",
        "name": "geo.Line",
        "fields": [{"name": "a", "type": POINT}, {"name": "b", "type": "geo.Point"}],
    }
    day = datetime.date(1970, 1, 2)
    assert read(avro(twice, [{"a": {"at": day}, "b": {"at": None}}]), "avro")[0] == {
        1: {"a": {"at": day}, "b": {"at": None}}
    }


@pytest.mark.parametrize(
    ("kind", "as_written", "given", "error"),
    [
        (logical("int", "time-millis"), "int", 2**30, r"Column x: time32\[ms\] 1073741824 is not within"),
        (
            logical("bytes", "decimal", precision=4),
            "bytes",
            b"\1" * 9,
            r"Column x is .*18519084246547628289.*decimal128\(4, 0\)",
        ),
        (
            logical("bytes", "decimal", precision=60),
            "bytes",
            b"\1" * 20,
            "Column x: Decimal value does not fit in precision 38",
        ),
    ],
)
def test_a_value_of_avro_that_no_record_can_have_is_the_error_of_its_row(
    kind: Any, as_written: Any, given: Any, error: str
) -> None:
    found, [(row, held, why)] = read(avro(kind, [given, type(given)(), given][1:], as_written), "avro")
    assert (list(found), row, json.loads(held)["id"]) == ([1], 2, 1)
    with pytest.raises(AssertionError, match=error):
        raise AssertionError(why)


def test_a_type_of_avro_that_has_itself_in_it_is_the_error_of_the_object() -> None:
    fields = [{"name": "next", "type": ["null", "Node"]}]
    with pytest.raises(DataError, match="Avro type Node has itself in it, and cannot be a column"):
        read(avro({"type": "record", "name": "Node", "fields": fields}, []), "avro")
