"""Casts and texts of Spark's SQL, said in DuckDB's: where the two differ in silence it depends on the types.

Texts are JSON as Spark writes it, and patterns of dates, as far as both mean the same.

DuckDB's own to_json() keeps members that are null, and writes numbers and times in other ways.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
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

    def cast(self, kind: str) -> Term:
        """The same as one of DuckDB's types. Errors: as cast_sql."""
        made = Term(self.node, cast_sql(self, kind), self._type_of, self.name, is_seen=self.is_seen)
        made._type = kind
        return made


def shown(node: exp.Expression) -> str:
    """The node as a user may have written it, cut where it is long."""
    text = node.sql(dialect="spark")
    return text if len(text) <= 60 else f"{text[:57]}..."


def duckdb_type(kind: str) -> exp.DataType:
    """A type that DuckDB names, with those in it."""
    return exp.DataType.build(_NULL_IN_TYPE.sub("NULL", kind), dialect="duckdb")


def spark_type(kind: str) -> str:
    """A type that DuckDB names as Spark names it: ARRAY<BIGINT>, STRING."""
    return duckdb_type(kind).sql(dialect="spark").replace("TIMESTAMP_NTZ", "TIMESTAMP")


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
        raise DataError(f"{shown(term.node)} is {spark_type(from_type)}, which cannot be cast to {spark_type(kind)}")
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
    """The terms for a comparison: text beside something else is cast to that, numbers as BIGINT or DOUBLE.

    Errors: DataError for types that Spark does not compare, as DuckDB does with 1 and true.
    """
    others = [term.type for term in terms if term.type not in ("VARCHAR", NULL_TYPE)]
    _require_one_family(terms, others)
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
    _require_one_family(terms, kinds)
    are_seen = any(term.is_seen for term in terms)
    structs = {tuple(struct_names(kind)) for kind in kinds} if len(kinds) > 1 and not are_seen else set()
    if len(structs) > 1:
        raise _of_several(terms)
    if "FLOAT" in kinds and len(kinds) > 1:
        return [f"CAST({term.sql} AS DOUBLE)" for term in terms]
    return [term.sql for term in terms]


def _require_one_family(terms: Sequence[Term], kinds: Iterable[str]) -> None:
    if len({_family(kind) for kind in kinds}) > 1:
        raise _of_several(terms)


def _family(kind: str) -> str:
    """What types have in common that can stand side by side."""
    if is_number(kind):
        return "number"
    if kind in ("DATE", "TIMESTAMP"):
        return "time"
    return "[]" if kind.endswith("[]") else kind.partition("(")[0]


def _of_several(terms: Sequence[Term]) -> DataError:
    types = ", ".join(dict.fromkeys(spark_type(term.type) for term in terms if term.type != NULL_TYPE))
    return DataError(f"{shown(terms[0].node)} and the other values are of several types ({types}): cast them to one")


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
    raise DataError(f"{shown(term.node)} is {spark_type(kind)}, which has no text as in Spark")


def without_floats(terms: Sequence[Term], *, of_floats: bool = False) -> list[str]:
    """The operands of a calculation, doubles where a float meets another number. `of_floats`: floats alone too."""
    types = {term.type for term in terms}
    if "FLOAT" in types and (of_floats or len(types) > 1):
        return [f"CAST({term.sql} AS DOUBLE)" for term in terms]
    return [term.sql for term in terms]


def require_no_decimals(terms: Sequence[Term]) -> None:
    """Errors: DataError for a division of which Spark would derive the scale; beside a double a decimal is one too."""
    types = [term.type for term in terms]
    if any(is_fraction(kind) for kind in types) and not {"DOUBLE", "FLOAT"} & set(types):
        raise DataError("the scale of divided decimals is derived in Spark: write double(..) around one of them")


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
    raise DataError(f"a field of type {kind.sql(dialect='spark')} has no JSON as in Spark: leave it out")


def _of_struct(sql: str, kind: exp.DataType, depth: int) -> str:
    """Members that are null are left out: `||` makes null of them, which concat_ws skips."""
    members = []
    for field in kind.expressions:
        name = quoted_text(field.name)
        value = _json(f"struct_extract({sql}, {name})", field.args["kind"], depth)
        members.append(f"CAST(to_json({name}) AS VARCHAR) || ':' || {value}")
    joined = f"concat_ws(',', {', '.join(members)})" if members else "''"
    return f"CASE WHEN {sql} IS NOT NULL THEN '{{' || {joined} || '}}' END"


def _of_map(sql: str, kind: exp.DataType, depth: int) -> str:
    key, value = kind.expressions
    if key.this is not exp.DType.TEXT:
        raise DataError(f"a map with keys of type {key.sql(dialect='spark')} has no JSON as in Spark: make them text")
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
