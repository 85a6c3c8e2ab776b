"""explode and its like: a row for each item of an array or map, said with DuckDB's unnest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from kconnect.api import ConfigError, DataError
from kconnect.builtin.sql.spark_casts import NULL_TYPE, Term, quoted_text, shown, spark_type, struct_names

GENERATORS: Final = ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer")


@dataclass(frozen=True, slots=True)
class Generator:
    """`explode(items) AS item`, `posexplode(items) AS (pos, item)`; without `names`, Spark's."""

    name: str
    argument: exp.Expression
    names: tuple[str, ...]

    @property
    def is_outer(self) -> bool:
        """Whether a record without items stays, with nulls."""
        return self.name.endswith("_outer")


def generator_of(expression: exp.Expression) -> Generator | None:
    """The generator that a field of SELECT is; None for another expression. Errors: ConfigError for its arguments."""
    named = expression.this if isinstance(expression, (exp.Alias, exp.Aliases)) else expression
    if not isinstance(named, exp.Anonymous) or named.name.lower() not in GENERATORS:
        return None
    if len(named.expressions) != 1:
        raise ConfigError(f"{named.name}() takes one argument, found {len(named.expressions)}")
    names: tuple[str, ...] = ()
    if isinstance(expression, exp.Alias):
        names = (expression.alias,)
    elif isinstance(expression, exp.Aliases):
        names = tuple(name.name for name in expression.expressions)
    return Generator(named.name.lower(), named.expressions[0], names)


def generated(generator: Generator, items: Term) -> list[tuple[str, str]]:
    """The names and expressions of the fields; DuckDB unnests all of them side by side.

    Errors: DataError for what has no items, and for another number of names.
    """
    kind, sql = items.type, items.sql
    if kind == NULL_TYPE:
        kind, sql = "INTEGER[]", "CAST(NULL AS INTEGER[])"
    is_map = kind.startswith("MAP(")
    if generator.name.startswith("inline"):
        found = _of_structs(generator, items, kind, sql)
    elif is_map:
        found = [("key", f"map_keys({sql})"), ("value", f"map_values({sql})")]
    elif kind.endswith("[]"):
        found = [("col", sql)]
    else:
        raise DataError(f"{generator.name}() takes an array or a map, and {shown(items.node)} is {spark_type(kind)}")
    count = f"cardinality({sql})" if is_map else f"len({sql})"
    if generator.name.startswith("pos"):
        found.insert(0, ("pos", f"CAST(range(CAST({count} AS BIGINT)) AS INTEGER[])"))
    if generator.is_outer:
        found = [(name, f"CASE WHEN {count} > 0 THEN {lists} ELSE [NULL] END") for name, lists in found]
    names = generator.names or tuple(name for name, _ in found)
    if len(names) != len(found):
        gives = ", ".join(name for name, _ in found)
        raise DataError(f"{generator.name}({shown(items.node)}) gives {gives}, and is named AS ({', '.join(names)})")
    return [(name, f"unnest({lists})") for name, (_, lists) in zip(names, found, strict=True)]


def _of_structs(generator: Generator, items: Term, kind: str, sql: str) -> list[tuple[str, str]]:
    fields = struct_names(kind.removesuffix("[]"))
    problem = f"{generator.name}() takes an array of structs, and {shown(items.node)} is {spark_type(kind)}"
    if items.is_seen and not fields and kind.endswith("[]"):  # an empty array, or null, tells no names
        checked = f"CASE WHEN len({sql}) > 0 THEN error({quoted_text(problem)}) ELSE {sql} END"
        unnamed = () if generator.is_outer else ("col",)  # of which there is no row
        return [(name, checked) for name in generator.names or unnamed]
    if not kind.endswith("[]") or not fields:
        raise DataError(problem)
    return [(name, f"list_transform({sql}, lambda item: struct_extract(item, {quoted_text(name)}))") for name in fields]
