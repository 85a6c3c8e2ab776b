"""Casts of Spark's SQL, said in DuckDB's: where the two differ in silence it depends on the types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from sqlglot import exp

from kconnect.api import DataError

WHOLE: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_SAME_TEXT: Final = (*WHOLE, "BOOLEAN", "DATE", "TIMESTAMP")


NULL_TYPE: Final = '"NULL"'
"""DuckDB's name for the type of what is always null, such as a field that a value without schema lacks."""
_NULL_IN_TYPE: Final = re.compile(r'"NULL"(?=[\[),]|$)')  # a field of that name has its type behind it


class Term:
    """An expression in DuckDB's dialect, and its type there, which is asked for when it matters."""

    __slots__ = ("_type", "_type_of", "is_seen", "name", "node", "sql")

    def __init__(
        self, node: exp.Expression, sql: str, type_of: Callable[[str], str], name: str = "", *, is_seen: bool = False
    ) -> None:
        """`is_seen`: types are those of the values at hand, not of a schema."""
        self.node = node
        self.is_seen = is_seen
        self.sql = sql
        self.name = name
        self._type_of = type_of
        self._type: str | None = None

    @property
    def type(self) -> str:
        if self._type is None:
            self._type = self._type_of(self.sql)
        return self._type


def shown(node: exp.Expression) -> str:
    """The node as a user may have written it, cut where it is long."""
    text = node.sql(dialect="spark")
    return text if len(text) <= 60 else f"{text[:57]}..."


def duckdb_type(kind: str) -> exp.DataType:
    """A type that DuckDB names, with those in it."""
    return exp.DataType.build(_NULL_IN_TYPE.sub("NULL", kind), dialect="duckdb")


def struct_names(kind: str) -> list[str]:
    """The fields of a struct, as DuckDB names its type; none of another type."""
    return [field.name for field in duckdb_type(kind).expressions] if kind.startswith("STRUCT(") else []


def quoted_text(text: str) -> str:
    """A text as DuckDB reads it."""
    return "'" + text.replace("'", "''") + "'"


def cast_sql(term: Term, kind: str, *, is_strict: bool = True) -> str:
    """A cast to one of DuckDB's types as Spark casts. Errors: DataError for types that Spark casts in another way."""
    cast = "CAST" if is_strict else "TRY_CAST"
    suffix = "" if is_strict else "_or_null"
    from_type = term.type
    if from_type in (kind, NULL_TYPE):
        return f"CAST({term.sql} AS {kind})"
    if kind == "VARCHAR":
        return text_of(term)
    if kind == "BLOB" and from_type == "VARCHAR":
        return f"encode({term.sql})"
    if kind in WHOLE and from_type == "VARCHAR":
        return f"{cast}(spark_whole_text{suffix}({term.sql}) AS {kind})"
    if kind in WHOLE and is_fraction(from_type):
        return f"{cast}(trunc({term.sql}) AS {kind})"
    if kind in WHOLE and from_type == "TIMESTAMP":
        return f"{cast}(spark_seconds({term.sql}) AS {kind})"
    if kind == "TIMESTAMP" and from_type in WHOLE:
        return f"make_timestamp(CAST({term.sql} AS BIGINT) * 1000000)"
    if kind == "FLOAT" and from_type == "DOUBLE":
        return f"spark_float({term.sql})"
    if kind.startswith("DECIMAL") and from_type in ("DOUBLE", "FLOAT"):
        return f"{cast}(CASE WHEN NOT isnan({term.sql}) THEN CAST({term.sql} AS VARCHAR) END AS {kind})"
    if from_type == "VARCHAR" and is_fraction(kind):
        return f"{cast}(spark_number_text{suffix}({term.sql}) AS {kind})"
    if from_type == "VARCHAR" and kind == "BOOLEAN":
        return f"{cast}(trim({term.sql}) AS BOOLEAN)"
    if from_type == "VARCHAR" and kind == "TIMESTAMP":  # only the type with a zone reads one
        return f"CAST({cast}({term.sql} AS TIMESTAMPTZ) AS TIMESTAMP)"
    if not _is_cast_alike(from_type, kind):
        raise DataError(f"{shown(term.node)} of type {from_type} cannot be cast to {kind} as Spark does")
    return f"{cast}({term.sql} AS {kind})"


def is_fraction(kind: str) -> bool:
    """Whether the type has digits behind the point."""
    return kind in ("DOUBLE", "FLOAT") or (kind.startswith("DECIMAL(") and kind.endswith(")"))


def is_number(kind: str) -> bool:
    return kind in WHOLE or is_fraction(kind)


def _is_cast_alike(from_type: str, kind: str) -> bool:
    if is_number(kind) or kind == "BOOLEAN":
        return is_number(from_type) or from_type == "BOOLEAN"
    return kind in ("DATE", "TIMESTAMP") and from_type in ("VARCHAR", "DATE", "TIMESTAMP")


def comparable(terms: Sequence[Term]) -> list[str]:
    """The terms for a comparison: text beside something else is cast to that, numbers as BIGINT or DOUBLE."""
    others = [term.type for term in terms if term.type not in ("VARCHAR", NULL_TYPE)]
    if not others:
        return [term.sql for term in terms]
    kind = others[0]
    if is_number(kind):
        kind = "DOUBLE" if any(is_fraction(other) for other in others) else "BIGINT"
    return [cast_sql(term, kind) if term.type == "VARCHAR" else term.sql for term in terms]


def alike(terms: Sequence[Term]) -> list[str]:
    """The terms as possible values of one expression. Errors: DataError for text beside something else, and structs
    with other fields.

    A float beside another number makes all of them doubles. Structs of values without schema may have other fields
    each: DuckDB makes one with all of them, as the type that is seen in several values has all members.
    """
    kinds = {term.type for term in terms} - {NULL_TYPE}
    are_seen = any(term.is_seen for term in terms)
    structs = {tuple(struct_names(kind)) for kind in kinds} if len(kinds) > 1 and not are_seen else set()
    if ("VARCHAR" in kinds and len(kinds) > 1) or len(structs) > 1:
        raise DataError(f"{shown(terms[0].node)} and the other values are of several types: cast them to one")
    if "FLOAT" in kinds and len(kinds) > 1:
        return [f"CAST({term.sql} AS DOUBLE)" for term in terms]
    return [term.sql for term in terms]


def text_of(term: Term) -> str:
    """The term as Spark writes it as text. Errors: DataError for lists, maps and structs."""
    kind = term.type
    if kind in ("VARCHAR", NULL_TYPE):
        return term.sql
    if kind in ("DOUBLE", "FLOAT"):
        return f"spark_double_text(CAST({term.sql} AS VARCHAR))"
    if kind == "BLOB":
        return f"decode({term.sql})"
    if kind in _SAME_TEXT or is_fraction(kind):
        return f"CAST({term.sql} AS VARCHAR)"
    raise DataError(f"{shown(term.node)} of type {kind} has no text as in Spark")


def require_no_decimals(terms: Sequence[Term]) -> None:
    """Errors: DataError for a division of which Spark would derive the scale; beside a double a decimal is one too."""
    types = [term.type for term in terms]
    if any(is_fraction(kind) for kind in types) and not {"DOUBLE", "FLOAT"} & set(types):
        raise DataError("the scale of divided decimals is derived in Spark: write double(..) around one of them")
