"""Says expressions of Spark's SQL in DuckDB's: operators, casts, conditions and paths; functions have their own table.

What differs in silence between the two is written so that it does not, or refused with a sentence. What decides is
Spark 4.3 with its defaults (ANSI mode): tests/golden/sql has what it gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from sqlglot import exp

from kconnect.api import ConfigError, DataError
from kconnect.builtin.sql.engine import UnfitTypesError
from kconnect.builtin.sql.generators import GENERATORS
from kconnect.builtin.sql.spark_arguments import taken
from kconnect.builtin.sql.spark_casts import (
    NULL_TYPE,
    WHOLE,
    Term,
    alike,
    cast_sql,
    comparable,
    quoted_text,
    require_no_decimals,
    shown,
    spark_type,
    struct_names,
    text_of,
    without_floats,
)
from kconnect.builtin.sql.spark_functions import FUNCTIONS

Path = tuple[str, ...]
"""A field of the value, or `_key` and the like, and the fields below it."""

_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
# What sqlglot says of these gives what Spark gives, whatever the types
_AS_SQLGLOT_SAYS: Final = (
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
    exp.BitwiseNot,
    exp.Paren,
    exp.Null,
)
_ARITHMETIC: Final[dict[type[exp.Expression], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_CASTS: Final = {
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INTEGER",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TEXT: "VARCHAR",
    exp.DType.VARCHAR: "VARCHAR",
    exp.DType.BINARY: "BLOB",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
    exp.DType.DECIMAL: "DECIMAL",
}
_INTERVALS: Final = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_LEAST: Final = {str(_INT_MAX + 1): "INTEGER", str(_LONG_MAX + 1): "BIGINT"}


class Columns(Protocol):
    """What the translation asks of the records at hand."""

    are_seen: bool
    """Whether the types are those of values without schema."""

    def sql(self, path: Path) -> str:
        """The column of a field, as DuckDB knows it. Errors: DataError when there is none."""
        ...

    def type_of(self, sql: str) -> str:
        """DuckDB's name for the type of an expression. Errors: DataError for one that it refuses."""
        ...


def path_of(node: exp.Expression) -> Path | None:
    """Returns the names of `a.b.c`; None for an expression that is no path."""
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = path_of(node.this)
        return None if before is None else (*before, node.expression.name)
    return None


def check(node: exp.Expression) -> None:
    """Errors: ConfigError for an expression with something in it that cannot be evaluated as Spark does."""
    if path_of(node) is not None:
        return
    if isinstance(node, exp.Anonymous):
        function = FUNCTIONS.get(node.name.lower())
        if function is None:
            raise ConfigError(_no_function(node.name))
        function.check(node.name.lower(), node.expressions)
    elif type(node) not in _NODES:
        raise ConfigError(f"{shown(node)} cannot be used here")
    elif problem := _NODES[type(node)].refused(node):
        raise ConfigError(f"{shown(node)}: {problem}")
    for child in _operands(node):
        check(child)


def _no_function(name: str) -> str:
    reason = _REASONS.get(name.lower(), "it is not among the functions that give what Spark gives")
    return f"{name}() cannot be used: {reason}"


_OF_GROUPS = "it needs more than one record"
_OTHER_EACH_TIME = "it gives something else each time, and a record may be transformed again after an error"
_SEVERAL = "it makes several rows of one, so it can only be a field of SELECT, with nothing around it"
_OF_FILES = "queries read records, never files"
_OTHER_TEXT = "DuckDB's gives another text than Spark's"
_REASONS: Final = {
    **dict.fromkeys(("count", "sum", "avg", "mean", "min", "max", "first", "last", "any_value"), _OF_GROUPS),
    **dict.fromkeys(("collect_list", "collect_set", "stddev", "variance", "median", "percentile"), _OF_GROUPS),
    **dict.fromkeys(GENERATORS, _SEVERAL),
    **dict.fromkeys(("rand", "randn", "random", "uuid", "monotonically_increasing_id"), _OTHER_EACH_TIME),
    **dict.fromkeys(("now", "current_timestamp", "current_date", "curdate", "localtimestamp"), _OTHER_EACH_TIME),
    **dict.fromkeys(("read_csv", "read_csv_auto", "read_json", "read_parquet", "read_text", "read_blob"), _OF_FILES),
    **dict.fromkeys(("glob", "read_files", "input_file_name", "parquet_scan"), _OF_FILES),
    **dict.fromkeys(("hash", "xxhash64", "crc32"), "DuckDB has another function of that kind"),
    **dict.fromkeys(("format_number", "format_string", "printf", "soundex", "url_encode"), _OTHER_TEXT),
    **dict.fromkeys(("levenshtein", "reverse"), "DuckDB counts letters with accents in another way"),
    **dict.fromkeys(("array_distinct", "array_union", "array_intersect"), "DuckDB gives another order"),
}


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """The expressions below a node; not the types, units and names that belong to it."""
    skipped = (exp.DataType, exp.Var, exp.Identifier)
    interval = node.expression if type(node) in _ARITHMETIC else None
    return [
        child
        for child in node.iter_expressions()
        if not isinstance(child, skipped) and not (child is interval and isinstance(child, exp.Interval))
    ]


@dataclass(frozen=True, slots=True)
class _Node:
    """One kind of expression: how it is translated, and what is wrong with one; empty when nothing is."""

    translate: Callable[[Translation, exp.Expression], str]
    problem: Callable[[exp.Expression], str] = lambda _: ""
    parts: frozenset[str] = frozenset({"this", "expression"})
    """What of it is translated: sqlglot notes rarer things in others, which must not get lost."""

    def refused(self, node: exp.Expression) -> str:
        """Why it cannot be used; empty if it can."""
        others = [name for name, part in node.args.items() if part and name not in self.parts]
        return f"{others[0].upper()} cannot be used here" if others else self.problem(node)


class Translation:
    """DuckDB's text for checked expressions over columns of known types."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def sql(self, node: exp.Expression) -> str:
        """The expression, in parentheses where it needs them. Errors: DataError for types that it is not made for."""
        path = path_of(node)
        if path is not None:
            return self._columns.sql(path)
        if isinstance(node, exp.Anonymous):
            terms = [self.term(argument) for argument in node.expressions]
            return FUNCTIONS[node.name.lower()].sql(node.name.lower(), terms)
        return _NODES[type(node)].translate(self, node)

    def term(self, node: exp.Expression) -> Term:
        """The expression with its type, which is asked for when it matters."""
        inner = node.this if isinstance(node, exp.Alias) else node
        sql = self.sql(inner)
        return Term(inner, sql, partial(self._type_of, inner), node.alias_or_name, is_seen=self._columns.are_seen)

    def _type_of(self, node: exp.Expression, sql: str) -> str:
        """Errors: DataError that names the part of the expression which is not made for the types in it."""
        try:
            return self._columns.type_of(sql)
        except UnfitTypesError as error:
            parts = [term for term in map(self.term, _operands(node)) if term.type]  # their error is of a smaller part
            named = [term for term in parts if not isinstance(term.node, exp.Literal)] or parts
            if not named:
                raise
            types = ", ".join(f"{shown(term.node)} is {spark_type(term.type)}" for term in named)
            raise DataError(f"{shown(node)} is not made for these types: {types}") from error

    def both(self, node: exp.Expression) -> tuple[Term, Term]:
        return self.term(node.this), self.term(node.expression)


def _literal(_: Translation, node: exp.Expression) -> str:
    """A whole number has a type of its own in Spark; in DuckDB it takes that of its neighbour."""
    text = node.name
    if node.is_string:
        return quoted_text(text)
    if not text.isdigit():
        return text
    number = int(text)
    if number > _LONG_MAX:
        return text
    return f"CAST({text} AS {'INTEGER' if number <= _INT_MAX else 'BIGINT'})"


def _negative(translation: Translation, node: exp.Expression) -> str:
    inner = node.this
    if isinstance(inner, exp.Literal) and inner.name in _LEAST:
        return f"CAST(-{inner.name} AS {_LEAST[inner.name]})"
    return f"(-{translation.sql(inner)})"


def _condition(translation: Translation, node: exp.Expression) -> str:
    """AND, OR, NOT, IS: Spark takes a text for a boolean there, and a number for none."""
    for part in _operands(node):
        _require_boolean(translation.term(part), node, "VARCHAR")
    return _by_sqlglot(translation, node)


def _is(translation: Translation, node: exp.Expression) -> str:
    return (_by_sqlglot if isinstance(node.expression, exp.Null) else _condition)(translation, node)


def _require_boolean(term: Term, within: exp.Expression, *others: str) -> None:
    if term.type not in ("BOOLEAN", NULL_TYPE, *others):
        raise DataError(f"{shown(within)}: {shown(term.node)} is {spark_type(term.type)}, and true or false is needed")


def _by_sqlglot(translation: Translation, node: exp.Expression) -> str:
    """What sqlglot says of the node, around what we say of the expressions in it."""
    parts = {name: translation.sql(part) for name, part in node.args.items() if isinstance(part, exp.Expression)}
    return _said(node, parts)


def _said(node: exp.Expression, parts: Mapping[str, str | Sequence[str]]) -> str:
    made = node.copy()
    for name, sql in parts.items():
        made.set(name, exp.Var(this=sql) if isinstance(sql, str) else [exp.Var(this=item) for item in sql])
    sql = made.sql(dialect="duckdb")
    return sql if isinstance(node, (exp.Paren, exp.Null)) else f"({sql})"


def _comparison(translation: Translation, node: exp.Expression) -> str:
    left, right = comparable(translation.both(node))
    return _said(node, {"this": left, "expression": right})


def _arithmetic(translation: Translation, node: exp.Expression) -> str:
    """Spark makes a double of a float that meets another number; dates stay dates when days are added."""
    if isinstance(node.expression, exp.Interval):
        return _with_interval(translation, node)
    left, right = translation.both(node)
    types = {left.type, right.type}
    if "VARCHAR" in types:
        raise DataError(f"{shown(node)} calculates with text: write CAST(.. AS DOUBLE) or the type that is meant")
    if types <= {"DATE", "TIMESTAMP"}:
        raise DataError(
            f"{shown(node)} is an interval in Spark: write datediff(.., ..), or seconds of unix_timestamp(..)"
        )
    return f"({f' {_ARITHMETIC[type(node)]} '.join(without_floats((left, right)))})"


def _with_interval(translation: Translation, node: exp.Expression) -> str:
    start, interval = translation.term(node.this), node.expression
    amount = f"INTERVAL {quoted_text(interval.this.name)} {interval.args['unit'].name}"
    sql = f"({start.sql} {_ARITHMETIC[type(node)]} {amount})"
    if start.type != "DATE":
        return sql
    if interval.args["unit"].name.upper() not in ("YEAR", "MONTH", "WEEK", "DAY"):
        return sql
    return f"CAST({sql} AS DATE)"


def _interval_problem(node: exp.Expression) -> str:
    interval = node.expression
    if not isinstance(interval, exp.Interval):
        return ""
    unit = interval.args.get("unit")
    is_plain = isinstance(interval.this, exp.Literal) and re.fullmatch(r"-?\d+", interval.this.name)
    if type(node) is exp.Mul or not is_plain or not isinstance(unit, exp.Var) or unit.name.upper() not in _INTERVALS:
        return f"an interval is written INTERVAL 2 DAY, with one of {', '.join(_INTERVALS)}"
    return ""


def _division(translation: Translation, node: exp.Expression) -> str:
    terms = translation.both(node)
    require_no_decimals(terms)
    left, right = without_floats(terms, of_floats=True)
    return f"({left} / {right})" if _is_not_zero(node.expression) else f"spark_divide({left}, {right})"


def _is_not_zero(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.name) != 0


def _whole_division(translation: Translation, node: exp.Expression) -> str:
    left, right = translation.both(node)
    if not {left.type, right.type} <= {*WHOLE, NULL_TYPE}:
        raise DataError(f"{shown(node)}: div is for whole numbers")
    return f"spark_div(CAST({left.sql} AS BIGINT), CAST({right.sql} AS BIGINT))"


def _remainder(translation: Translation, node: exp.Expression) -> str:
    left, right = without_floats(translation.both(node))
    return f"({left} % {right})" if _is_not_zero(node.expression) else f"spark_mod({left}, {right})"


def _cast(translation: Translation, node: exp.Expression) -> str:
    term, is_strict = translation.term(node.this), type(node) is exp.Cast
    kind = _CASTS[node.args["to"].this]
    if kind == "DECIMAL":
        sizes = [int(size.name) for size in node.args["to"].expressions] or [10, 0]
        kind = f"DECIMAL({sizes[0]},{sizes[1] if len(sizes) > 1 else 0})"
    return cast_sql(term, kind, is_strict=is_strict)


def _cast_problem(node: exp.Expression) -> str:
    to = node.args["to"]
    return "" if to.this in _CASTS else f"values cannot be cast to {to.sql(dialect='spark')}"


def _between(translation: Translation, node: exp.Expression) -> str:
    value, low, high = comparable([translation.term(node.args[part]) for part in ("this", "low", "high")])
    return _said(node, {"this": value, "low": low, "high": high})


def _in(translation: Translation, node: exp.Expression) -> str:
    value, *items = comparable([translation.term(item) for item in (node.this, *node.expressions)])
    return _said(node, {"this": value, "expressions": items})


def _is_problem(node: exp.Expression) -> str:
    return "" if isinstance(node.expression, (exp.Null, exp.Boolean)) else "IS takes NULL, TRUE or FALSE"


def _like(translation: Translation, node: exp.Expression) -> str:
    word = ("NOT " if node.args.get("negate") else "") + ("ILIKE" if isinstance(node, exp.ILike) else "LIKE")
    (text,) = taken("like", [translation.term(node.this)])
    return f"({text.sql} {word} {translation.sql(node.expression)} ESCAPE '\\')"


def _pattern_problem(node: exp.Expression) -> str:
    return "" if node.expression.is_string else "the pattern must be a text"


def _case(translation: Translation, node: exp.Expression) -> str:
    branches, default = node.args["ifs"], node.args.get("default")
    results = alike([translation.term(branch.args["true"]) for branch in branches] + _terms(translation, default))
    tests = [translation.term(branch.this) for branch in branches]
    given = _terms(translation, node.this)
    if not given:
        for term in tests:
            _require_boolean(term, node)
    compared = comparable([*given, *tests]) if given else [term.sql for term in tests]
    parts = ["CASE", *compared[: len(given)]]
    for test, result in zip(compared[len(given) :], results, strict=False):
        parts += ["WHEN", test, "THEN", result]
    return " ".join([*parts, *(["ELSE", results[-1]] if default is not None else []), "END"])


def _terms(translation: Translation, node: exp.Expression | None) -> list[Term]:
    return [] if node is None else [translation.term(node)]


def _if(translation: Translation, node: exp.Expression) -> str:
    results = alike([translation.term(node.args["true"]), *_terms(translation, node.args.get("false"))])
    test = translation.term(node.this)
    _require_boolean(test, node)
    return f"CASE WHEN {test.sql} THEN {' ELSE '.join(results)} END"


def _joined(translation: Translation, node: exp.Expression) -> str:
    return "(" + " || ".join(text_of(term) for term in translation.both(node)) + ")"


def _joined_texts(_: Translation, node: exp.Expression) -> str:
    return quoted_text("".join(item.name for item in node.expressions))


def _item(translation: Translation, node: exp.Expression) -> str:
    """`list[0]` and `map['key']`."""
    outer, (index,) = translation.term(node.this), node.expressions
    if index.is_string and (outer.type.startswith(("MAP(", "STRUCT(")) or outer.type == NULL_TYPE):
        return f"({outer.sql})[{quoted_text(index.name)}]"
    if index.is_string:
        raise DataError(f"{shown(node)}: {shown(node.this)} is {spark_type(outer.type)}, and a map is needed")
    if not outer.type.endswith("[]"):
        raise DataError(f"{shown(node)}: {shown(node.this)} is not an array")
    return f"spark_item({outer.sql}, {index.name})"


def _item_problem(node: exp.Expression) -> str:
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Literal):
        return ""
    return "the index must be a number from 0 on, or the text of a key"


def _field(translation: Translation, node: exp.Expression) -> str:
    """`f(..).name`: of a struct, of each struct in an array, or the value of a map's key."""
    outer, name = translation.term(node.this), node.expression.name
    if outer.type == NULL_TYPE:
        return "NULL"
    if outer.type.startswith("MAP("):
        return f"({outer.sql})[{quoted_text(name)}]"
    is_array = outer.type.endswith("[]")
    names = struct_names(outer.type.removesuffix("[]"))
    found = [name] if name in names else [other for other in names if other.lower() == name.lower()]
    if len(found) != 1:
        has = (
            f"has no field {name}; it has {', '.join(names)}"
            if names
            else f"is {spark_type(outer.type)}, which has no fields"
        )
        raise DataError(f"{shown(node.this)} {has}")
    if is_array:
        return f"list_transform({outer.sql}, lambda item: struct_extract(item, {quoted_text(found[0])}))"
    return f"struct_extract({outer.sql}, {quoted_text(found[0])})"


def _field_problem(node: exp.Expression) -> str:
    if isinstance(node.expression, exp.Identifier):
        return ""
    return "only the name of a field can have .* after it; write the fields that are meant, f(..).a AS a, f(..).b AS b"


def _trim(translation: Translation, node: exp.Expression) -> str:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
    removed = "" if node.expression is None else f", {translation.sql(node.expression)}"
    (text,) = taken("trim", [translation.term(node.this)])
    return f"{name}({text.sql}{removed})"


def _extract(translation: Translation, node: exp.Expression) -> str:
    unit = node.this.name.lower()
    return FUNCTIONS[unit].sql(unit, [translation.term(node.expression)])


def _extract_problem(node: exp.Expression) -> str:
    units = ("year", "quarter", "month", "day", "hour", "minute")
    return "" if node.this.name.lower() in units else f"EXTRACT is for {', '.join(units)}"


def _only_texts(node: exp.Expression) -> str:
    return "" if all(item.is_string for item in node.expressions) else "it cannot be used here"


def _no_query(node: exp.Expression) -> str:
    return "a query within the query cannot be evaluated" if node.args.get("query") or node.args.get("field") else ""


def _parts(*names: str) -> frozenset[str]:
    return frozenset(names)


_NODES: Final[Mapping[type[exp.Expression], _Node]] = {
    **dict.fromkeys(_COMPARISONS, _Node(_comparison)),
    **dict.fromkeys(_ARITHMETIC, _Node(_arithmetic, _interval_problem)),
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _Node(_condition)),
    **dict.fromkeys(_AS_SQLGLOT_SAYS, _Node(_by_sqlglot)),
    exp.Neg: _Node(_negative),
    exp.Literal: _Node(_literal, parts=_parts("this", "is_string")),
    exp.Boolean: _Node(lambda _, node: node.sql()),
    exp.Div: _Node(_division, parts=_parts("this", "expression", "safe", "typed")),
    exp.IntDiv: _Node(_whole_division),
    exp.Mod: _Node(_remainder),
    exp.Cast: _Node(_cast, _cast_problem, _parts("this", "to")),
    exp.TryCast: _Node(_cast, _cast_problem, _parts("this", "to", "safe")),
    exp.Between: _Node(_between, parts=_parts("this", "low", "high")),
    exp.In: _Node(_in, _no_query, _parts("this", "expressions", "query", "field")),
    exp.Is: _Node(_is, _is_problem),
    exp.Like: _Node(_like, parts=_parts("this", "expression", "negate")),
    exp.ILike: _Node(_like, parts=_parts("this", "expression", "negate")),
    exp.RegexpLike: _Node(_by_sqlglot, _pattern_problem),
    exp.Case: _Node(_case, parts=_parts("this", "ifs", "default")),
    exp.If: _Node(_if, parts=_parts("this", "true", "false")),
    exp.DPipe: _Node(_joined, parts=_parts("this", "expression", "safe")),
    exp.Concat: _Node(_joined_texts, _only_texts, _parts("expressions")),
    exp.Bracket: _Node(_item, _item_problem, _parts("this", "expressions")),
    exp.Dot: _Node(_field, _field_problem),
    exp.Trim: _Node(_trim, parts=_parts("this", "expression", "position")),
    exp.Extract: _Node(_extract, _extract_problem),
    exp.Alias: _Node(lambda translation, node: translation.sql(node.this), parts=_parts("this", "alias")),
}
