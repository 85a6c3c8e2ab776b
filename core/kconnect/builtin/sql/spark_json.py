"""to_json() as Spark writes it: DuckDB's own keeps members that are null and writes numbers and times in other ways."""

from __future__ import annotations

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
    if kind.this not in _NESTED:
        raise DataError(f"it takes a struct, array or map, found {term.type}: write to_json(struct(.. AS name))")
    return _json(term.sql, kind, 0)


def _json(sql: str, kind: exp.DataType, depth: int) -> str:
    """Null for null. `depth` tells the variables of lambdas apart."""
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
