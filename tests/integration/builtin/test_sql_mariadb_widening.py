"""Columns of MariaDB that SqlSink makes wider with auto.evolve: no value is rounded or cut."""

from __future__ import annotations

import decimal

import pytest

from kit.mariadb import MariaDb, sink_into

WIDE = """CREATE TABLE wide (id int PRIMARY KEY, v varchar(3) CHARACTER SET latin1 NOT NULL DEFAULT '-',
    n int NOT NULL DEFAULT 7 COMMENT 'of `n` int, 1', u bigint unsigned, d decimal(5,2), f float, `%t` smallint,
    big bigint, z int zerofill, fixed char(2))"""


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_column_widens_and_keeps_what_its_table_says_of_it(maria: MariaDb, schema: str, guarantee: str) -> None:
    """Blanks that did not fit were cut off without a word, and numbers went to a second column."""
    maria.run(WIDE, f"INSERT INTO wide (id, big, u) VALUES (0, {(1 << 63) - 1}, {(1 << 64) - 1})", schema=schema)
    more = {"auto_evolve": "true", "delivery_guarantee": guarantee}
    with (
        sink_into(maria, schema, "wide", **more) as sink,
        sink_into(maria, schema, "wide", topics="w2") as other,
    ):
        sink.put({"id": 1, "v": "a  ", "n": 1})
        other.put({"id": 2, "n": 2}, topic="wide")
        sink.put({"id": 3, "v": "a    ", "n": 5.5, "u": -1, "d": 1.234, "f": 0.1234567891, "%t": 70000, "big": 0.5})
        sink.put({"id": 4, "n": 1 << 40, "d": "12345.5", "z": -1, "fixed": "abc"}, {"id": 5, "z": -2})
        assert not sink.errant
    found = maria.run("SELECT id, v, n, u, d, f, `%t`, big FROM wide ORDER BY id", schema=schema)
    most, half, number = (1 << 63) - 1, decimal.Decimal("0.5"), decimal.Decimal
    assert found == [
        (0, "-", 7, (1 << 64) - 1, None, None, None, most),
        (1, "a  ", 1, None, None, None, None, None),
        (2, "-", 2, None, None, None, None, None),
        (3, "a    ", 5.5, -1, number("1.234"), 0.1234567891, 70000, half),
        (4, "-", 1 << 40, None, number("12345.500"), None, None, None),
        (5, "-", 7, None, None, None, None, None),
    ]
    beside = maria.run("SELECT z__v_bigint, fixed__v_text FROM wide WHERE id > 3 ORDER BY id", schema=schema)
    assert beside == [(-1, "abc"), (-2, None)], "columns that stay as they are"
    [(_, created)] = maria.run("SHOW CREATE TABLE wide", schema=schema)
    assert "`n` double NOT NULL DEFAULT 7 COMMENT 'of `n` int, 1'" in created
    assert "`v` longtext CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL DEFAULT '-'" in created


def test_a_text_that_would_lose_its_blanks_is_an_error_of_its_record(maria: MariaDb, schema: str) -> None:
    maria.run("CREATE TABLE cut (id int, v varchar(3))", schema=schema)
    with sink_into(maria, schema, "cut", errors_tolerance="all") as sink:
        sink.put({"id": 1, "v": "abc "}, {"id": 2, "v": "ab "}, {"id": 3, "v": 1234})
        assert [letter.record.kafka_offset for letter in sink.errant] == [0, 2]
    assert maria.run("SELECT * FROM cut", schema=schema) == [(2, "ab ")]


def test_mariadb_does_not_narrow_a_column_that_another_task_has_widened(maria: MariaDb, schema: str) -> None:
    maria.run("CREATE TABLE shared (id int, n int)", schema=schema)
    one, two = (sink_into(maria, schema, "shared", auto_evolve="true") for _ in range(2))
    with one as first, two as second:
        for sink in (first, second):
            sink.put({"id": 1, "n": 1})
        first.put({"id": 2, "n": 3.5})
        second.put({"id": 3, "n": 1 << 40})
    assert maria.run("SELECT n FROM shared WHERE id > 1 ORDER BY id", schema=schema) == [(3.5,), (float(1 << 40),)]
