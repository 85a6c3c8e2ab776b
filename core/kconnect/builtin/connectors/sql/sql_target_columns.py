"""The columns of a table as each database describes them: what asks for them, and what the answer means. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kconnect.builtin.connectors.sql.sql_fit import CLOCKS, TableColumn, fitted
from kconnect.builtin.connectors.sql.sql_targets import (
    Make,
    array_target,
    mysql_target,
    plain_target,
    postgres_target,
)

_POSTGRES: Final = {
    "boolean": "bool",
    "bigint": "int64",
    "smallint": "int16",
    "integer": "int32",
    "oid": "int32",
    "money": "money",
    "real": "float32",
    "double precision": "float64",
    "numeric": "decimal",
    **dict.fromkeys(("text", "character", "character varying", '"char"'), "text"),
    "bytea": "bytes",
    "date": "date",
    "time without time zone": "time",
    **dict.fromkeys(("timestamp without time zone", "timestamp with time zone"), "timestamp"),
}
_MYSQL: Final = {
    "tinyint": "int8",
    "smallint": "int16",
    "mediumint": "int24",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "decimal": "decimal",
    "year": "year",
    **dict.fromkeys(("enum", "set"), "member"),
    "date": "date",
    "time": "time",
    "datetime": "timestamp",
    "timestamp": "timestamp",
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), "text"),
}


# A domain is what it is made of. What a view leaves out, its table may fill
POSTGRES_COLUMNS: Final = (
    "SELECT a.attname, format_type(CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END, "
    "CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END), "
    "c.relkind IN ('r', 'p') AND t.typtype <> 'd' AND NOT a.attnotnull AND NOT a.atthasdef, "
    "EXISTS (SELECT 1 FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary "
    "AND a.attnum = ANY (i.indkey)) "
    "FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid "
    "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
    "WHERE a.attrelid = to_regclass({table}) AND a.attnum > 0 AND NOT a.attisdropped"
)


def postgres_columns(rows: Sequence[Sequence[Any]], zone: datetime.tzinfo) -> list[TableColumn]:
    """Reads what POSTGRES_COLUMNS selects. `zone`: of times in columns that have none."""
    found = []
    for name, type_name, is_null, is_key in rows:
        column = _postgres_column(name, type_name, zone)
        found.append(replace(column, is_null_if_left_out=is_null, is_key=is_key))
    return found


def _postgres_column(name: str, type_name: str, zone: datetime.tzinfo) -> TableColumn:
    """An array has elements that fit a column of their type."""
    if type_name.endswith("[]"):
        inner = type_name[:-2]
        element = _postgres_column(f"{name}[]", inner, zone)
        target = array_target(inner, element.target, partial(fitted, element, is_seen=True), zone)
        return TableColumn(name, "", type_name, target=target)
    kind = _POSTGRES.get(re.sub(r"\([^)]*\)", "", type_name), "")
    digits = re.search(r"\((\d+)(?:,(-?\d+))?\)", type_name)
    column = TableColumn(name, kind, type_name, target=postgres_target(type_name, zone))
    if kind == "money":
        return replace(column, precision=19, scale=2)
    if kind == "text":
        return replace(column, length=int(digits[1]) if digits else 1 if type_name == '"char"' else None)
    if type_name == "oid":
        return replace(column, is_unsigned=True)
    if digits is None or kind not in ("decimal", *CLOCKS):
        return column
    return replace(column, precision=int(digits[1]), scale=int(digits[2] or 0))


MYSQL_COLUMNS: Final = (
    "SELECT c.column_name, c.data_type, c.column_type, c.numeric_precision, c.numeric_scale, c.datetime_precision, "
    "CASE WHEN c.data_type IN ('char', 'varchar') THEN c.character_maximum_length END, "
    "t.table_type = 'BASE TABLE' AND c.is_nullable = 'YES' AND c.extra = '' "
    "AND (c.column_default IS NULL OR c.column_default = 'NULL'), "  # MariaDB writes the latter
    "c.column_key = 'PRI' "
    "FROM information_schema.columns c JOIN information_schema.tables t "
    "ON t.table_schema = c.table_schema AND t.table_name = c.table_name "
    "WHERE c.table_schema = coalesce({schema}, database()) AND c.table_name = {table}"
)


def mysql_columns(rows: Sequence[Sequence[Any]], adapt: Make) -> list[TableColumn]:
    """Reads what MYSQL_COLUMNS selects. A BOOLEAN is a tinyint(1), and takes true and false."""
    found = []
    for name, data_type, column_type, digits, scale, fraction, length, is_null, is_key in rows:
        kind = _MYSQL.get(str(data_type).lower(), "")
        if str(column_type).lower() == "tinyint(1)":
            kind = ""
        if kind in ("float32", "float64") and scale is not None:  # FLOAT(7,2), which rounds as a decimal does
            kind = "decimal"
        precision = digits if kind == "decimal" else fraction if kind in CLOCKS else None
        is_unsigned = "unsigned" in str(column_type).lower()
        target = mysql_target(str(column_type), adapt)
        column = TableColumn(name, kind, str(column_type), precision, scale or 0, is_unsigned, target=target)
        column = replace(column, length=int(length) if length is not None else None)
        found.append(replace(column, is_null_if_left_out=bool(is_null), is_key=bool(is_key)))
    return found


def sqlite_columns(rows: Sequence[Sequence[Any]], adapt: Make) -> list[TableColumn]:
    """Reads PRAGMA table_info. Source: sqlite.org/datatype3.html, 3.1: a type's name says what becomes of values."""
    target = plain_target(adapt)
    found = []
    for _, name, declared, is_required, default, key in rows:
        column = TableColumn(name, *_affinity(str(declared or "")), is_null_for_nan=True)
        is_null = not is_required and default is None and not key
        found.append(replace(column, target=target, is_null_if_left_out=is_null, is_key=bool(key)))
    return found


def _affinity(declared: str) -> tuple[str, str, int | None, int, bool, bool]:
    name = declared.upper()
    kind, is_loose = "", False
    if "INT" in name:
        kind, is_loose = "int64", True
    elif "CHAR" in name or "CLOB" in name or "TEXT" in name:
        kind = "text"
    elif "REAL" in name or "FLOA" in name or "DOUB" in name:
        kind = "float64"
    elif "BOOL" in name:
        kind = "bool"
    return kind, declared, None, 0, False, is_loose
