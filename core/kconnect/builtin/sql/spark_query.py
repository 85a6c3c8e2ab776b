"""Reads a query in Spark's dialect and refuses what makes no sense for one record after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from kconnect.api import ConfigError
from kconnect.builtin.sql.generators import Generator, generator_of
from kconnect.builtin.sql.spark_casts import shown
from kconnect.builtin.sql.spark_expressions import Path, check, path_of

TABLE: Final = "records"

_CLAUSES: Final = {
    "with_": "WITH",
    "joins": "JOIN",
    "laterals": "LATERAL VIEW",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "distinct": "DISTINCT",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "into": "INTO",
    "hint": "A hint",
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "kind": "SELECT AS",
    "operation_modifiers": "A modifier",
}


class _SparkNames(Spark):
    """Spark's grammar with CAST as strict as ANSI mode has it; functions keep the names they were written with."""

    class Parser(SparkParser):
        STRICT_CAST = True
        FUNCTIONS: ClassVar = {}
        FUNCTION_PARSERS: ClassVar = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM")
        }


@dataclass(frozen=True, slots=True)
class Output:
    """One field of what the query gives."""

    name: str
    expression: exp.Expression


@dataclass(frozen=True, slots=True)
class AllFields:
    """`*` or `a.b.*`, without the fields named in `EXCEPT (..)`."""

    left_out: frozenset[str]
    path: Path = ()


@dataclass(frozen=True, slots=True)
class SparkQuery:
    """`SELECT outputs FROM records WHERE condition`, checked as far as that goes without the records' schema."""

    outputs: tuple[Output | AllFields | Generator, ...]
    condition: exp.Expression | None

    @property
    def makes_several(self) -> bool:
        """Whether it may give several rows for one."""
        return any(isinstance(output, Generator) for output in self.outputs)


def parse_query(text: str) -> SparkQuery:
    """The query. Errors: ConfigError with line and column for what does not parse, with the reason for the rest."""
    select = _statement(text)
    if not isinstance(select, exp.Select):
        raise ConfigError(f"Only SELECT .. FROM {TABLE} WHERE .. can be evaluated for records, found: {shown(select)}")
    for clause, name in _CLAUSES.items():
        if select.args.get(clause):
            if clause == "laterals":
                raise ConfigError(
                    f"{name} cannot be used here: explode(items) AS item does the same as a field of SELECT"
                )
            raise ConfigError(f"{name} cannot be evaluated one record after the other")
    alias = _table_alias(select)
    where = select.args.get("where")
    condition = None if where is None else _without_alias(where.this, alias)
    if condition is not None:
        check(condition)
    outputs = tuple(_output(expression, alias) for expression in select.expressions)
    names = [output.name for output in outputs if isinstance(output, Output)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"Two fields of the result are named {twice}")
    generators = [output.name for output in outputs if isinstance(output, Generator)]
    if len(generators) > 1:
        raise ConfigError(f"A query can have one of {'(), '.join(generators)}(): each makes rows of its own")
    return SparkQuery(outputs, condition)


def parse_condition(text: str) -> exp.Expression:
    """The condition, as after WHERE. Errors: as `parse_query`; the columns of an error are those of the condition."""
    prefix = f"SELECT 1 AS x FROM {TABLE} WHERE "
    _require_text(text)
    try:
        select = _single(sqlglot.parse(prefix + text, read=_SparkNames))
    except (ParseError, TokenError, RecursionError) as err:
        raise _no_sql(err, prefix + text, len(prefix)) from err
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    if where is None or any(select.args.get(clause) for clause in _CLAUSES):
        raise ConfigError(f"A condition is what stands after WHERE in SELECT .. FROM {TABLE} WHERE .., no more")
    condition = _without_alias(where.this, TABLE)
    check(condition)
    return condition


def _statement(text: str) -> exp.Expression:
    _require_text(text)
    try:
        return _single(sqlglot.parse(text, read=_SparkNames))
    except (ParseError, TokenError, RecursionError) as err:
        raise _no_sql(err, text, 0) from err


def _require_text(text: str | None) -> None:
    if text is None or not text.strip():  # a validator is asked of what was left out, too
        raise ConfigError("It is empty")


def _single(statements: Sequence[object]) -> exp.Expression:
    found = [statement for statement in statements if isinstance(statement, exp.Expression)]
    if len(found) != 1:
        raise ConfigError(f"There must be one statement, found {len(found)}")
    return found[0]


def _no_sql(err: ParseError | TokenError | RecursionError, text: str, skipped: int) -> ConfigError:
    """The place is that of the token that it did not expect; a text that is not closed, only that it is not."""
    if isinstance(err, RecursionError):
        return ConfigError("It is nested too deeply")
    if isinstance(err, TokenError):
        found = next((sign for sign in "'\"`" if text.count(sign) % 2), None)
        at = text.find(found) if found else len(text) - 1
        reason = f"no {found} closes the one that opens here" if found else str(err)
    else:
        first = err.errors[0]
        token = first.get("highlight") or ""
        at = len(first.get("start_context") or "")
        if len(text) > at and not text.startswith(token, at):  # the context is cut off on the left
            at = _offset_of(text, first["line"], first["col"]) - len(token)
        reason = f"{_sentence(str(first['description']))} near {token!r}" if token else str(first["description"])
    before = text[skipped:at]
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return ConfigError(f"It does not parse at line {line}, column {column}: {reason}")


def _sentence(description: str) -> str:
    """The parser's own words, save those that name its classes."""
    return "something is missing" if "sqlglot" in description else description[0].lower() + description[1:]


def _offset_of(text: str, line: int, column: int) -> int:
    return sum(len(part) + 1 for part in text.split("\n")[: line - 1]) + column


def _table_alias(select: exp.Select) -> str:
    """The name before the columns of `records`. Errors: ConfigError for another table."""
    source = select.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise ConfigError(f"The query has to read FROM {TABLE}" + (f", found: {shown(table)}" if table else ""))
    others = {key for key, value in table.args.items() if value and key not in ("this", "alias")}
    if table.name.lower() != TABLE or others:
        raise ConfigError(f"The query can read FROM {TABLE} alone, found: {shown(table)}")
    return table.alias or TABLE


def _output(expression: exp.Expression, alias: str) -> Output | AllFields | Generator:
    star, outer = _star(expression, alias)
    if star is not None:
        if star.args.get("replace") or star.args.get("rename"):
            raise ConfigError("* can be followed by EXCEPT (..) only")
        return AllFields(frozenset(column.name.lower() for column in star.args.get("except_") or ()), outer)
    generator = generator_of(expression)
    if generator is not None:
        argument = _without_alias(generator.argument, alias)
        check(argument)
        return replace(generator, argument=argument)
    named = expression.this if isinstance(expression, exp.Alias) else expression
    inner = _without_alias(named, alias)
    path = path_of(inner)
    check(inner)
    if not isinstance(expression, exp.Alias) and path is None:
        raise ConfigError(f"{shown(inner)} needs a name: {shown(inner)} AS ..")
    return Output(expression.alias if isinstance(expression, exp.Alias) else (path or ("",))[-1], inner)


def _star(expression: exp.Expression, alias: str) -> tuple[exp.Star | None, Path]:
    """The star and the struct before it, `a.b` in `records.a.b.*`; no star in what is another expression."""
    star: object = expression
    outer: Path | None = ()
    if isinstance(expression, exp.Column):
        star, outer = expression.this, tuple(part.name for part in expression.parts[:-1])
    elif isinstance(expression, exp.Dot):
        star, outer = expression.expression, path_of(expression.this)
    if outer is None or not isinstance(star, exp.Star):
        return None, ()
    is_alias = bool(outer) and outer[0].lower() == alias.lower()
    return star, outer[1:] if is_alias else outer


def _without_alias(expression: exp.Expression, alias: str) -> exp.Expression:
    """The same with `records.a.b` as `a.b`."""

    def stripped(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and len(node.parts) > 1 and node.parts[0].name.lower() == alias.lower():
            names = [part.copy() for part in node.parts[1:]]
            slots = ("this", "table", "db", "catalog")
            return exp.Column(**dict(zip(slots, reversed(names), strict=False)))
        return node

    return expression.transform(stripped)
