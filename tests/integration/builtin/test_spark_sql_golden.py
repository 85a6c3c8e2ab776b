"""Expressions of Spark's SQL give what Spark 4.3 gave for them, or are refused: none differs in silence."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from kconnect.api import ConfigError, DataError
from kconnect.builtin.sql.engine import Engine
from kconnect.builtin.sql.plan import for_duckdb
from kconnect.builtin.sql.spark_expressions import Translation
from kconnect.builtin.sql.spark_functions import FUNCTIONS
from kconnect.builtin.sql.spark_query import Output, parse_query
from kit.places import GOLDEN
from kit.sql_rows import ROWS, plain

RECORDED = json.loads((GOLDEN / "sql/spark.json").read_text("utf-8"))["expressions"]
TABLE = pa.table({name: for_duckdb(ROWS[name]) for name in ROWS.column_names})
TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "double": pa.float64(),
    "float": pa.float32(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}
# Spark gives a value for these; we refuse the row, which nobody can overlook
REFUSED_ROWS = {"cast('1d' as double)", "unhex('zz')", "unbase64('!!')", "lpad('abc', 5, '')"}
# DuckDB has no type for it, and a record no field of that kind
WITHOUT_TYPE = {"'a' || null"}


class Columns:
    """The columns by their own names."""

    are_seen = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sql(self, path: tuple[str, ...]) -> str:
        if path[0] not in TABLE.column_names:
            raise DataError(f"no field {path[0]}")
        return ".".join(f'"{name}"' for name in path)

    def type_of(self, sql: str) -> str:
        return self._engine.type_of(sql)


@pytest.fixture(scope="module")
def engine() -> Any:
    made = Engine()
    made.use(TABLE)
    yield made
    made.close()


def translated(engine: Engine, expression: str) -> str | None:
    """DuckDB's text; None for an expression that is refused."""
    try:
        (output,) = parse_query(f"SELECT {expression} AS r FROM records").outputs
        assert isinstance(output, Output)
        return Translation(Columns(engine)).sql(output.expression)
    except (ConfigError, DataError):
        return None


def row_by_row(engine: Engine, sql: str) -> tuple[list[Any], pa.DataType | None]:
    found, kind = [], None
    for index in range(len(TABLE)):
        engine.use(TABLE.slice(index, 1))
        try:
            made = engine.evaluate(f"SELECT {sql} AS r FROM records")
        except DataError as err:
            found.append(f"ERROR {err}")
        else:
            kind = made.schema.field("r").type
            found += [plain(value) for value in made["r"].to_pylist(maps_as_pydicts="strict")]
    engine.use(TABLE)
    return found, kind


def answers(engine: Engine, texts: dict[str, str]) -> dict[str, tuple[list[Any], pa.DataType | None]]:
    """All that have no error in one query; the others one row after the other."""
    fine = [text for text in texts if not any(str(row).startswith("ERROR") for row in RECORDED[text]["rows"])]
    fine = [text for text in fine if text not in REFUSED_ROWS]
    made = engine.evaluate(
        "SELECT " + ", ".join(f"{texts[text]} AS r{n}" for n, text in enumerate(fine)) + " FROM records"
    )
    found: dict[str, Any] = {}
    for number, text in enumerate(fine):
        column = made[f"r{number}"]
        found[text] = ([plain(value) for value in column.to_pylist(maps_as_pydicts="strict")], column.type)
    return found | {text: row_by_row(engine, sql) for text, sql in texts.items() if text not in found}


def is_same(given: Any, wanted: Any) -> bool:
    """Errors are equal whatever they say; of a calculated double the last digit may be another."""
    if str(given).startswith("ERROR") or str(wanted).startswith("ERROR"):
        return str(given).startswith("ERROR") and str(wanted).startswith("ERROR")
    try:
        return given == wanted or (isinstance(given, str) and float(given) == pytest.approx(float(wanted), rel=4e-16))
    except (ValueError, TypeError):
        return False


def test_what_can_be_used_gives_what_spark_gives(engine: Engine) -> None:
    texts = {text: translated(engine, text) for text, known in RECORDED.items() if "rows" in known}
    used = {text: sql for text, sql in texts.items() if sql is not None}
    assert len(used) > 600

    different, louder = {}, set()
    for text, (rows, kind) in answers(engine, used).items():
        wanted = RECORDED[text]
        if all(is_same(*pair) for pair in zip(rows, wanted["rows"], strict=True)):
            if kind is not None and wanted["type"] in TYPES and kind != TYPES[wanted["type"]]:
                different[text] = (kind, wanted["type"])
        elif all(is_same(*pair) or str(pair[0]).startswith("ERROR") for pair in zip(rows, wanted["rows"], strict=True)):
            louder.add(text)
        else:
            different[text] = (rows, wanted["rows"])

    assert different.keys() == WITHOUT_TYPE, different
    assert louder == REFUSED_ROWS


# Days are whole numbers of 64 bits where they come from JSON; maps are compared by DuckDB as by everybody
TAKEN_BY_US = {"date_add(d, l)", "date_sub(d, l)", "m <=> m"}
# A null that is written out has any type here
TAKEN_BY_US |= {"array_contains(arr, null)", "case when null then 1 else 2 end"}


def test_what_spark_refuses_is_refused_in_words_of_spark(engine: Engine) -> None:
    taken, foreign = set(), {}
    for text in (text for text, known in RECORDED.items() if "refused" in known):
        try:
            (output,) = parse_query(f"SELECT {text} AS r FROM records").outputs
            assert isinstance(output, Output)
            assert Translation(Columns(engine)).term(output.expression).type
            taken.add(text)
        except (ConfigError, DataError) as error:
            if re.search(r"Error:|VARCHAR|BLOB|\[\]", str(error)):
                foreign[text] = str(error)
    assert (taken - TAKEN_BY_US, foreign) == (set(), {})


# What sqlglot says of these gives the same for the recorded rows; the reason why it is said here all the same
ALIKE_AND_YET_OURS = {
    **dict.fromkeys(("double", "float", "string", "boolean", "date"), "the cast that CAST has, which is strict"),
    **dict.fromkeys(("nvl", "ifnull", "nvl2", "greatest", "least", "array", "map"), "values of several types"),
    **dict.fromkeys(("lcase", "substr"), "another name of lower, substring"),
    **dict.fromkeys(("encode", "decode", "sha2"), "only what DuckDB has: UTF-8, 256 bits"),
    **dict.fromkeys(("lpad", "rpad"), "two arguments, which sqlglot gives to DuckDB as two"),
    "shiftright": "numbers of bits that Java takes modulo 32",
    "nullif": "text beside a number is cast",
    "split": "an empty pattern, which Spark splits into letters",
    "regexp_extract": "a group that is an expression",
    "log2": "zero, of which the logarithm is null",
    "sqrt": "of a negative number it is NaN",
    "named_struct": "names that are expressions",
    "try_element_at": "maps, and 0",
    **dict.fromkeys(("last_day", "date_trunc"), "text, which is cast as Spark casts it"),
}


def by_sqlglot(name: str) -> Any:
    def make(terms: Any) -> str:
        given = [term.node.copy() if isinstance(term.node, exp.Literal) else exp.Var(this=term.sql) for term in terms]
        return exp.func(name, *given, dialect="spark").sql(dialect="duckdb")

    return make


def differs(engine: Engine, text: str) -> bool:
    sql = translated(engine, text)
    assert sql is not None
    rows, kind = row_by_row(engine, sql)
    wanted = RECORDED[text]
    is_other_type = kind is not None and kind != TYPES.get(wanted["type"], kind)
    return is_other_type or not all(is_same(*pair) for pair in zip(rows, wanted["rows"], strict=True))


def test_what_sqlglot_can_say_is_left_to_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function of our own has an expression of which sqlglot's translation gives something else, or a reason."""
    found = set()
    for name, function in FUNCTIONS.items():
        if function.make.__qualname__.startswith("_by_sqlglot"):
            continue
        texts = [text for text, known in RECORDED.items() if "rows" in known and f"{name}(" in text.lower()]
        used = [text for text in texts if text not in REFUSED_ROWS and translated(engine, text) is not None]
        with monkeypatch.context() as patch:
            patch.setitem(FUNCTIONS, name, replace(function, make=by_sqlglot(name)))
            if not any(differs(engine, text) for text in used):
                found.add(name)
    assert found == ALIKE_AND_YET_OURS.keys()


def test_each_function_that_can_be_used_is_compared() -> None:
    named = {
        name for text, known in RECORDED.items() if "rows" in known for name in re.findall(r"(\w+)\(", text.lower())
    }
    assert FUNCTIONS.keys() - named == set()
