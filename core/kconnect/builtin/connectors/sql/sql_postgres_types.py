"""The columns of PostgreSQL, by the numbers of their types: arrays as arrays, what Connect lacks as PostgreSQL's text.

Source: the types that its driver for Java gives these. Differs: that leaves most of them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.builtin.connectors.sql.sql_columns import Column

if TYPE_CHECKING:
    import sqlalchemy as sa

KINDS: Final[Mapping[int, str]] = {
    16: "bool",
    17: "bytes",
    20: "int64",
    21: "int16",
    23: "int32",
    26: "int64",  # oid
    700: "float32",
    701: "float64",
    790: "money",
    1700: "decimal",
    1082: "date",
    1083: "time",
    1114: "timestamp",
    1184: "timestamptz",
    # "char", name, text, json, xml, unknown, bpchar, varchar, uuid, jsonb
    **dict.fromkeys((18, 19, 25, 114, 142, 705, 1042, 1043, 2950, 3802), "string"),
}
_BIT, _NUMERIC, _MONEY = 1560, 1700, 790
# The elements of the arrays that PostgreSQL has by itself, of those that its catalog need not be asked for
_ELEMENTS: Final[Mapping[int, int]] = dict(
    [
        *(
            (1000, 16),
            (1001, 17),
            (1002, 18),
            (1003, 19),
            (1005, 21),
            (1007, 23),
            (1009, 25),
            (1014, 1042),
            (1015, 1043),
        ),
        *((1016, 20), (1021, 700), (1022, 701), (1028, 26), (1115, 1114), (1182, 1082), (1183, 1083), (1185, 1184)),
        *((1231, 1700), (199, 114), (2951, 2950), (3807, 3802)),
    ]
)

_ATTRIBUTES = (
    "SELECT a.attrelid, a.attnum, a.attnotnull, a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE "
    "'nextval(%%', false), a.attndims FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d "
    "ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = ANY(%s)"
)
# A domain is what it is made of; an array of domains has its own number
_TYPES = (
    "SELECT t.oid, t.typname, t.typtype = 'd', t.typbasetype, t.typcategory = 'A', t.typelem, t.typtypmod, t.typndims "
    "FROM pg_catalog.pg_type t WHERE t.oid = ANY(%s)"
)


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of the catalog."""

    name: str
    base: int
    element: int
    modifier: int
    dimensions: int


def described(connection: sa.Connection, nothing: str) -> tuple[tuple[Column, ...], str | None]:
    """The columns of a select that gives no row, and the first that counts up by itself. Errors: the database's."""
    result = connection.execution_options(no_parameters=True).exec_driver_sql(nothing)
    cursor: Any = result.cursor  # the driver's
    described = list(cursor.description)
    sources = _sources(cursor, len(described))
    modifiers = _modifiers(cursor, described)
    result.close()
    types = _catalog(connection, {column[1] for column in described if column[1] not in KINDS})
    known = {
        (relation, number): more
        for relation, number, *more in (
            connection.exec_driver_sql(_ATTRIBUTES, (sorted({r for r, _ in sources if r}),)) if sources else ()
        )
    }
    columns, autoincrement = [], None
    for index, column in enumerate(described):
        is_required, counts, dimensions = known.get(sources[index], (False, False, 0)) if sources else (False, False, 0)
        columns.append(_column(column[0], column[1], types, modifiers[index], dimensions, not is_required))
        if counts and autoincrement is None:
            autoincrement = column[0]
    return tuple(columns), autoincrement


def text_types(known: Sequence[int]) -> list[int]:
    """The types that are read as their text, since a driver would make values of its own of them."""
    return [number for number in known if number not in KINDS or KINDS[number] == "string" or number == _MONEY]


def _column(
    name: str, number: int, types: Mapping[int, _Type], modifier: int, dimensions: int, is_optional: bool
) -> Column:
    """The column of a type. `modifier`: what stands in brackets behind the type, as PostgreSQL codes it, or -1."""
    found = types.get(number)
    if found is not None and found.base:
        return _column(name, found.base, types, found.modifier, dimensions or found.dimensions, is_optional)
    element = found.element if found is not None else _ELEMENTS.get(number, 0)
    if element:
        inner = _column(f"{name}[]", element, types, modifier, 0, True)
        for _ in range(max(1, dimensions) - 1):
            inner = Column(inner.name, "array", True, type_name="array", element=inner)
        return Column(name, "array", is_optional, type_name="array", element=inner)
    kind = KINDS.get(number, "string")
    if number == _BIT and modifier == 1:
        kind = "bool"  # as Java has it
    digits = _digits(modifier) if number == _NUMERIC else (0, 0)
    return Column(name, kind, is_optional, *digits, found.name if found is not None else f"type {number}")


def _digits(modifier: int) -> tuple[int, int]:
    """Precision and scale of a NUMERIC. Source: numeric_precision, numeric_scale of PostgreSQL's numeric.c."""
    if modifier < 4:
        return 0, 0
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16 & 0xFFFF, (scale ^ 1024) - 1024


def _catalog(connection: sa.Connection, numbers: set[int]) -> dict[int, _Type]:
    """What the catalog has of these types, and of those that they are made of."""
    found: dict[int, _Type] = {}
    wanted = {number for number in numbers if number not in _ELEMENTS}  # no statement for usual tables
    while wanted:
        rows = connection.exec_driver_sql(_TYPES, (sorted(wanted),)).fetchall()
        for number, name, is_domain, base, is_array, element, modifier, dimensions in rows:
            found[number] = _Type(name, base if is_domain else 0, element if is_array else 0, modifier, dimensions)
        parts = {part for one in rows for part in (found[one[0]].base, found[one[0]].element)}
        wanted = {part for part in parts if part and part not in KINDS and part not in _ELEMENTS and part not in found}
    return found


def _modifiers(cursor: Any, described: Sequence[Any]) -> list[int]:  # the driver's cursor
    """For each column what its type has in brackets, or -1."""
    result = getattr(cursor, "pgresult", None)
    if result is not None:
        return [result.fmod(index) for index in range(len(described))]
    return [((one[4] << 16 | (one[5] or 0) & 0x7FF) + 4) if one[4] else -1 for one in described]


def _sources(cursor: Any, count: int) -> list[tuple[int, int]]:  # the driver's cursor
    """For each column its table and number in it, zeros for an expression; empty if the driver does not tell."""
    result = getattr(cursor, "pgresult", None)
    return [(result.ftable(index), result.ftablecol(index)) for index in range(count)] if result is not None else []
