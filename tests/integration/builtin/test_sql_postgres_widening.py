"""Columns of PostgreSQL that SqlSink makes wider with auto.evolve: no value is rounded or cut."""

from __future__ import annotations

import datetime
import decimal

import psycopg
import pytest

from kit.postgres_sink import rows, sink_into


def test_a_column_widens_for_numbers_and_no_value_is_changed_by_the_database(postgres_uri: str) -> None:
    """3.5 was rounded into a bigint, and "no" in a boolean was false."""
    with sink_into(postgres_uri, "seen", auto_evolve="true") as sink:
        sink.put({"id": 1, "price": 3, "big": 1, "ok": True})
        sink.put({"id": 2, "price": 3.5, "big": 2**63}, {"id": 3, "price": 2.5, "big": 0.5, "ok": "no"})
        sink.put({"id": 4, "price": "free", "big": 2**53 + 1})
        assert not sink.errant
    assert rows(postgres_uri, 'SELECT price, price__v_text, big, ok, ok__v_text FROM "seen" ORDER BY id') == [
        (3.0, None, 1, True, None),
        (3.5, None, 2**63, None, None),
        (2.5, None, decimal.Decimal("0.5"), None, "no"),
        (None, "free", 2**53 + 1, None, None),
    ]
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute('CREATE TABLE "fixed" (id int8, n int8, ok boolean, p numeric(5,2), at date, r real)')
    with sink_into(postgres_uri, "fixed", errors_tolerance="all") as sink:
        bad = [{"n": 3.5}, {"ok": "no"}, {"p": 1.255}, {"at": "2026-01-02T10:00"}, {"r": 0.123456789}, {"n": "01"}]
        good = [{"n": 3.0}, {"ok": True}, {"p": "1.25"}, {"at": "2026-01-02"}, {"r": 0.1}, {"n": "12"}]
        sink.put(*[{"id": number, **value} for number, value in enumerate(bad + good)])
        assert [letter.record.kafka_offset for letter in sink.errant] == list(range(6))
    assert rows(postgres_uri, 'SELECT max(n), bool_and(ok), max(p), max(at), max(r) FROM "fixed"') == [
        (12, True, decimal.Decimal("1.25"), datetime.date(2026, 1, 2), pytest.approx(0.1))
    ]


def test_postgres_does_not_narrow_a_column_that_another_task_has_widened(postgres_uri: str) -> None:
    """Its bigint made 4 of the 3.5 that the other had written into its double."""
    with (
        sink_into(postgres_uri, "shared", auto_evolve="true") as one,
        sink_into(postgres_uri, "shared", auto_evolve="true") as two,
    ):
        one.put({"id": 1, "n": 1, "v": "a"})
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute("ALTER TABLE shared ALTER n TYPE int, ALTER v TYPE varchar(3)")
        for sink in (one, two):
            sink.put({"id": 2, "n": 2, "v": "b"})
        one.put({"id": 3, "n": 3.5, "v": "long"})
        two.put({"id": 4, "n": 1 << 40, "v": "longer"})
        two.put({"id": 5, "n": decimal.Decimal("0.25"), "v": "c"})
    assert rows(postgres_uri, "SELECT n, v FROM shared WHERE id > 2 ORDER BY id") == [
        (3.5, "long"),
        (float(1 << 40), "longer"),
        (0.25, "c"),
    ]
