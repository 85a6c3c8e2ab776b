"""Queries in Spark's dialect: what is refused and where, and what DuckDB may not reach."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest

from kconnect.api import ConfigError, DataError
from kconnect.builtin.sql.engine import CAPITALS, Engine
from kconnect.builtin.sql.spark_query import parse_condition, parse_query


@pytest.fixture(scope="module")
def engine() -> Any:
    made = Engine()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("hash(i)", "hash() cannot be used: DuckDB has another function of that kind"),
        (
            "from_utc_timestamp(ts, s)",
            "from_utc_timestamp(): s must be a time zone written out, such as 'Europe/Berlin'",
        ),
        ("from_utc_timestamp(ts, 'europe/berlin')", "must be a time zone written out"),
        (
            "coalesce(st, st).*",
            "(st, st).*: only the name of a field can have .* after it; write the fields",
        ),
        ("reverse(s)", "reverse() cannot be used: DuckDB counts letters with accents in another way"),
        ("array_distinct(arr)", "array_distinct() cannot be used: DuckDB gives another order"),
        ("current_timestamp()", "it gives something else each time"),
        ("count(*)", "count() cannot be used: it needs more than one record"),
        ("upper(explode(arr))", "explode() cannot be used: it makes several rows of one, so it can only be a field of"),
        ("explode(explode(arr))", "explode() cannot be used: it makes several rows of one"),
        ("explode(arr, 1)", "explode() takes one argument, found 2"),
        ("read_csv('/etc/passwd')", "read_csv() cannot be used: queries read records, never files"),
        ("getenv('HOME')", "it is not among the functions that give what Spark gives"),
        ("row_number() OVER (ORDER BY i)", "cannot be used here"),
        ("(SELECT 1)", "cannot be used here"),
        ("i IN (SELECT 1)", "a query within the query cannot be evaluated"),
        ("date_format(ts, 'u')", "date_format(): 'u' has u, which cannot be used here"),
        ("to_date(s, 'yyyyMMdd')", "needs something between its numbers"),
        ("substring(s)", "substring() takes 2 to 3 arguments here, found 1"),
        ("cast(arr AS ARRAY<STRING>)", "values cannot be cast to ARRAY<STRING>"),
        ("s RLIKE j", "the pattern must be a text"),
        ("arr[i]", "the index must be a number from 0 on"),
        ("s LIKE 'a' ESCAPE '!'", "cannot be used here"),
    ],
)
def test_what_could_differ_or_makes_no_sense_is_refused_with_a_reason(expression: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_query(f"SELECT {expression} AS r FROM records")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "It is empty"),
        ("SELECT upper(a FROM records", "It does not parse at line 1, column 16: expecting ) near 'FROM'"),
        ("SELECT a,\n  b c d FROM records", "It does not parse at line 2, column 7: "),
        ("SELECT 'abc FROM records", "It does not parse at line 1, column 8: no ' closes the one that opens here"),
        ("SELECT a FROM records WHERE >", "It does not parse at line 1, column 29: something is missing near '>'"),
        ("SELECT a FROM records; SELECT b FROM records", "There must be one statement, found 2"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS a FROM records", "It is nested too deeply"),
        ("SELECT a", "The query has to read FROM records"),
        ("SELECT a FROM orders", "The query can read FROM records alone, found: orders"),
        ("SELECT a FROM '/etc/passwd'", "The query"),
        ("SELECT a FROM read_csv('/etc/passwd')", "The query has to read FROM records"),
        ("SELECT a FROM csv.`/etc/passwd`", "The query can read FROM records alone"),
        ("SELECT a FROM (SELECT 1 AS a)", "The query has to read FROM records"),
        ("SELECT a FROM records JOIN other ON true", "JOIN cannot be evaluated one record after the other"),
        (
            "SELECT a, b FROM records LATERAL VIEW explode(a) t AS b",
            "LATERAL VIEW cannot be used here: explode(items) AS item does the same",
        ),
        ("SELECT a FROM records, records b", "cannot be evaluated one record after the other"),
        ("SELECT a FROM records ORDER BY a", "ORDER BY cannot be evaluated"),
        ("SELECT a FROM records LIMIT 3", "LIMIT cannot be evaluated"),
        ("SELECT DISTINCT a FROM records", "DISTINCT cannot be evaluated"),
        ("SELECT a FROM records GROUP BY a", "GROUP BY cannot be evaluated"),
        ("WITH x AS (SELECT 1) SELECT a FROM records", "WITH cannot be evaluated"),
        ("SELECT a FROM records UNION ALL SELECT a FROM records", "Only SELECT .. FROM records WHERE .."),
        ("COPY records TO '/tmp/x'", "Only SELECT .. FROM records WHERE .."),
        ("ATTACH '/tmp/x.db'", "It does not parse at line 1, column 8: "),
        ("SET threads = 4", "Only SELECT .. FROM records WHERE .."),
        ("DROP TABLE records", "Only SELECT .. FROM records WHERE .."),
        ("SELECT a + 1 FROM records", "a + 1 needs a name: a + 1 AS .."),
        ("SELECT a, b AS a FROM records", "Two fields of the result are named a"),
    ],
)
def test_a_query_that_is_none_for_records_is_refused(query: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_query(query)
    assert str(caught.value).startswith(why) or why in str(caught.value)


def test_the_place_in_a_long_query_is_right() -> None:
    query = "SELECT " + ", ".join(f"field_{n} AS f{n}" for n in range(60)) + ",\n upper(x AS y FROM records"
    with pytest.raises(ConfigError, match=r"It does not parse at line 2, column 15: .* near 'FROM'"):
        parse_query(query)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("a >", "It does not parse at line 1, column 3: "),
        ("a > 1 ORDER BY a", "A condition is what stands after WHERE"),
        ("a > 1; DROP TABLE records", "There must be one statement"),
        ("count(*) > 1", "count() cannot be used"),
    ],
)
def test_a_condition_is_checked_likewise(condition: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_condition(condition)
    assert str(caught.value).startswith(why)


def test_letters_become_capitals_as_in_java(engine: Engine) -> None:
    """Python's tables are those of Unicode, as Java's."""
    words = ["".join(CAPITALS), "straße", "ﬁx Ωmega é", "plain", "ΟΔΟΣ ΣΑΣ.", "İz"]
    engine.use(pa.table({"s": words}))
    made = engine.evaluate("SELECT spark_upper(s) AS u, spark_lower(s) AS l FROM records")
    assert made["u"].to_pylist() == [word.upper() for word in words]
    assert made["l"].to_pylist() == [word.lower() for word in words]


def test_each_nan_is_nan(engine: Engine) -> None:
    """DuckDB writes a sign before a NaN whose bits have one."""
    negative = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_0001))[0]
    engine.use(pa.table({"x": pa.array([negative, math.nan, -0.0, 1.5e7, -2.5e-4, None], pa.float64())}))
    made = engine.evaluate("SELECT spark_double_text(CAST(x AS VARCHAR)) AS t FROM records")
    assert made["t"].to_pylist() == ["NaN", "NaN", "-0.0", "1.5E7", "-2.5E-4", None]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "ATTACH '/tmp/kconnect-never.db'",
        "COPY (SELECT 1) TO '/tmp/kconnect-never'",
        "SET enable_external_access = true",
        "SET threads = 8",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM TABLE",
    ],
)
def test_duckdb_itself_reaches_nothing_outside(engine: Engine, query: str) -> None:
    """Even a query that no check has seen: no file is read or written, no setting changed."""
    with pytest.raises(DataError, match=r"disabled|locked|Parser Error"):
        engine.evaluate(query)


def test_a_python_variable_is_no_table(engine: Engine) -> None:
    secrets = pa.table({"password": ["p"]})
    with pytest.raises(DataError, match="secrets does not exist"):
        engine.evaluate("SELECT * FROM secrets")
    assert len(secrets) == 1
