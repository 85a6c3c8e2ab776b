"""JSON as Spark writes it, and its patterns of dates as those of DuckDB, as far as both mean the same.

DuckDB's own to_json() keeps members that are null, and writes numbers and times in other ways.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from sqlglot import exp

from kconnect.api import DataError
from kconnect.builtin.sql.spark_casts import Term, duckdb_type, quoted_text

_AS_THEY_ARE: Final = (
    exp.DType.TINYINT,
    exp.DType.SMALLINT,
    exp.DType.INT,
    exp.DType.BIGINT,
    exp.DType.BOOLEAN,
)
_FRACTIONS: Final = (exp.DType.DOUBLE, exp.DType.FLOAT)
_BYTES: Final = (exp.DType.BLOB, exp.DType.VARBINARY)
_TIMES: Final = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ)
_NESTED: Final = (exp.DType.STRUCT, exp.DType.MAP, exp.DType.ARRAY)


def json_of(term: Term) -> str:
    """The text of a struct, list or map. Errors: DataError for other types, and for one in it that has no JSON."""
    kind = duckdb_type(term.type)
    if kind.this not in (*_NESTED, exp.DType.NULL):
        raise DataError(f"it takes a struct, array or map, found {term.type}: write to_json(struct(.. AS name))")
    return _json(term.sql, kind, 0)


def _json(sql: str, kind: exp.DataType, depth: int) -> str:
    """Null for null. `depth` tells the variables of lambdas apart."""
    if kind.this is exp.DType.NULL:
        return "CAST(NULL AS VARCHAR)"
    if kind.this in _AS_THEY_ARE:
        return f"CAST({sql} AS VARCHAR)"
    if kind.this is exp.DType.DECIMAL:
        return f"spark_json_decimal(CAST({sql} AS VARCHAR), {kind.expressions[1].name})"
    if kind.this in _FRACTIONS:
        return f"spark_json_number(CAST({sql} AS VARCHAR))"
    if kind.this is exp.DType.TEXT:
        return f"CAST(to_json({sql}) AS VARCHAR)"
    if kind.this in _BYTES:
        return f"'\"' || base64({sql}) || '\"'"
    if kind.this is exp.DType.DATE:
        return f"'\"' || CAST({sql} AS VARCHAR) || '\"'"
    if kind.this in _TIMES:
        return f"strftime({sql}, '\"%Y-%m-%dT%H:%M:%S.%gZ\"')"
    if kind.this is exp.DType.STRUCT:
        return _of_struct(sql, kind, depth)
    if kind.this is exp.DType.ARRAY:
        return f"spark_json_list({_each(sql, kind.expressions[0], depth)})"
    if kind.this is exp.DType.MAP:
        return _of_map(sql, kind, depth)
    raise DataError(f"a field of type {kind.sql(dialect='duckdb')} has no JSON as in Spark: leave it out")


def _of_struct(sql: str, kind: exp.DataType, depth: int) -> str:
    """Members that are null are left out: `||` makes null of them, which concat_ws skips."""
    members = []
    for field in kind.expressions:
        name = quoted_text(field.name)
        value = _json(f"struct_extract({sql}, {name})", field.args["kind"], depth)
        members.append(f"CAST(to_json({name}) AS VARCHAR) || ':' || {value}")
    return f"CASE WHEN {sql} IS NOT NULL THEN '{{' || concat_ws(',', {', '.join(members)}) || '}}' END"


def _of_map(sql: str, kind: exp.DataType, depth: int) -> str:
    key, value = kind.expressions
    if key.this is not exp.DType.TEXT:
        raise DataError(f"a map with keys of type {key.sql(dialect='duckdb')} has no JSON as in Spark: make them text")
    entry = f"e{depth}"
    text = _json(f"{entry}.value", value, depth + 1)
    members = f"CAST(to_json({entry}.key) AS VARCHAR) || ':' || coalesce({text}, 'null')"
    return f"spark_json_map(list_transform(map_entries({sql}), lambda {entry}: {members}))"


def _each(sql: str, kind: exp.DataType, depth: int) -> str:
    text = _json(f"e{depth}", kind, depth + 1)
    return f"list_transform({sql}, lambda e{depth}: coalesce({text}, 'null'))"


_BOTH: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g"}
_WRITTEN: Final = _BOTH | {"yy": "%y", "MMM": "%b", "EEE": "%a", "d": "%-d", "M": "%-m", "H": "%-H", "DDD": "%j"}
_PARTS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'")


def strftime_pattern(pattern: str) -> tuple[str, str]:
    """The pattern for writing, and what is wrong with the given one; empty when nothing is."""
    return _translated(pattern, _WRITTEN)


def strptime_pattern(pattern: str) -> tuple[str, str]:
    """The pattern for reading, likewise."""
    return _translated(pattern, _BOTH)


def _translated(pattern: str, letters: dict[str, str]) -> tuple[str, str]:
    made = []
    for match in _PARTS.finditer(pattern):
        part = match.group()
        if match.group(2):
            if part not in letters:
                return "", f"has {part}, which cannot be used here; there are {', '.join(letters)}"
            made.append(letters[part])
        elif part == "'":
            return "", "has a quote that is not closed"
        else:
            plain = part if match.group(1) is None else match.group(1).replace("''", "'") or "'"
            made.append(plain.replace("%", "%%"))
    is_digits = [text[:1] == "%" and text != "%%" for text in made]
    if letters is _BOTH and any(one and other for one, other in itertools.pairwise(is_digits)):
        return "", "needs something between its numbers, so that each can be distinguished from the next"
    return "".join(made), ""
