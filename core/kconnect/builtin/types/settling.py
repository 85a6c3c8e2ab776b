"""Rows made to fit the columns of a table by its contract: what does not fit moves, goes, or fails. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError
from kconnect.builtin.types.contracts import VARIANT, Contract, Contracts, DiscardedRowError
from kconnect.builtin.types.fitting import (
    KEPT,
    WIDENED,
    NotFittingError,
    as_mapping,
    as_text,
    elements_of,
    fit,
    with_elements,
)
from kconnect.builtin.types.leaf_columns import is_list, is_text
from kconnect.builtin.types.seen import is_untyped

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Settling:
    """How values are made to fit.

    `check(old, column, path)` raises a DataError for values that cannot be in a column of that type, which it would
    widen where it may. `moves`: whether evolve gives values a second column, or is an error. `fixed`: columns whose
    values are never left out or moved, as keys. `discarded(path, count, error)` hears of values that became null.
    """

    contracts: Contracts
    check: Callable[[pa.DataType, pa.Array, str], object]
    moves: bool
    fixed: Collection[str] = ()
    discarded: Callable[[str, int, DataError], object] = lambda path, count, error: None


Column = tuple[str, "pa.Array"]


class Came:
    """The values that a column was seen in, None where they are not known; gathered only when they are looked at.

    Few columns need them: only what becomes JSON text, or is looked at value by value.
    """

    def __init__(self, look: Callable[[], Sequence[Any] | None]) -> None:
        self._look = look

    @cached_property
    def values(self) -> Sequence[Any] | None:
        return self._look()

    def member(self, name: str) -> Came:
        return Came(lambda: self._of_each(lambda row: row.get(name) if isinstance(row, dict) else None))

    def items(self) -> Came:
        """What is in lists, as `elements_of` gives it of their column."""

        def look() -> Sequence[Any] | None:
            known = self.values
            return None if known is None else [item for one in known if isinstance(one, list) for item in one]

        return Came(look)

    def _of_each(self, part: Callable[[Any], Any]) -> Sequence[Any] | None:
        known = self.values
        return None if known is None else [part(one) for one in known]


_UNKNOWN: Final = Came(lambda: None)


def settled(
    rows: pa.RecordBatch, table: pa.Schema, rules: Settling, came: Sequence[Any] | None = None
) -> pa.RecordBatch:
    """The rows with columns that fit those of the table, or are new and allowed.

    `came`: the values that the rows were seen in. What becomes JSON text is one of these, not of its column: there
    `[1,"x"]` is a list of two texts, and a member that one struct lacks is null.

    Errors: DiscardedRowError for rows to leave out, DataError for those that are an error: ask for each row alone.
    """
    import pyarrow as pa

    known = {field.name: field.type for field in table}
    values = _UNKNOWN if came is None else Came(lambda: [as_mapping(value) for value in came])
    columns = _settled(list(zip(rows.schema.names, rows.columns, strict=True)), known, "", rules, values)
    return pa.RecordBatch.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def _settled(
    columns: Sequence[Column], known: Mapping[str, pa.DataType], path: str, rules: Settling, came: Came
) -> list[Column]:
    """The columns of rows, or the fields of a struct."""
    found: dict[str, pa.Array] = {}
    for name, column in columns:
        below = f"{path}.{name}" if path else name
        if name not in known and is_untyped(column.type):
            found[name] = column
        elif name not in known:
            if (made := _new(column, below, rules)) is not None:
                found[name] = made
        else:
            for place, made in _known(name, column, known, below, rules, came.member(name)):
                _put(found, place, made)
    return list(found.items())


def _new(column: pa.Array, path: str, rules: Settling) -> pa.Array | None:
    """A column that the table lacks; None where it is left out. Errors: as settled."""
    contract = rules.contracts.of(path)
    if contract is Contract.EVOLVE:
        return column
    hint = f"schema.contract is {contract} for it; evolve adds columns."
    if rules.contracts.fixed is not None:
        hint = "Add it to the table (spark.options.mergeSchema=true does), or set schema.contract=discard-value."
    error = DataError(f"Column {path} is not in the table, and its value is {_first(column)}", hint=hint)
    if contract is Contract.FREEZE:
        raise error
    if contract is Contract.DISCARD_ROW:
        raise DiscardedRowError(f"{error}")
    rules.discarded(path, len(column) - column.null_count, error)
    return None


def _known(
    name: str, column: pa.Array, known: Mapping[str, pa.DataType], path: str, rules: Settling, came: Came
) -> Sequence[Column]:
    import pyarrow as pa
    import pyarrow.compute as pc

    old = known[name]
    if pa.types.is_struct(old) and pa.types.is_struct(column.type):
        return [(name, _members(column, old, path, rules, came))]
    try:
        if (elements := _elements(column, old, path, rules, came)) is not None:
            return [(name, elements)]
        rules.check(old, column, path)
        return [(name, column)]
    except DiscardedRowError:
        raise
    except DataError as refusal:
        error = refusal
    contract = rules.contracts.of(path)
    if name in rules.fixed or contract is Contract.FREEZE or (contract is Contract.EVOLVE and not rules.moves):
        raise error
    if contract is Contract.DISCARD_ROW:
        raise DiscardedRowError(f"{error}") from error
    if contract is Contract.EVOLVE and pa.types.is_string(old):
        return [(name, _texts(column, came))]
    if contract is Contract.DISCARD_VALUE and (alone := _each_alone(column, old, path, rules, came)) is not None:
        rules.discarded(path, alone.null_count - column.null_count, error)
        return [(name, alone)]
    fits = _rows_that_fit(column, old, path, rules)
    is_any = pc.any(pc.and_(fits, column.is_valid())).as_py()
    kept = pc.if_else(fits, column, pa.nulls(len(column), column.type)) if is_any else None
    rest = column if kept is None else pc.if_else(fits, pa.nulls(len(column), column.type), column)
    own: list[Column] = [(name, pa.nulls(len(column), old) if kept is None else kept)]
    if contract is Contract.DISCARD_VALUE:
        rules.discarded(path, len(rest) - rest.null_count, error)
        return own
    return [*own, _variant(name, rest, known, path, rules, error, came)]


def _members(column: pa.StructArray, old: pa.StructType, path: str, rules: Settling, came: Came) -> pa.StructArray:
    import pyarrow as pa

    parts = list(zip([part.name for part in column.type], column.flatten(), strict=True))
    made = _settled(parts, {part.name: part.type for part in old}, path, rules, came)
    names, children = [part for part, _ in made], [child for _, child in made]
    return pa.StructArray.from_arrays(children, names=names, mask=column.is_null())


def _elements(column: pa.Array, old: pa.DataType, path: str, rules: Settling, came: Came) -> pa.Array | None:
    """Lists or maps of structs with settled structs; None for other columns.

    An element has no second column: what would need one is an error. Errors: as settled.
    """
    import pyarrow as pa

    if pa.types.is_map(old) and pa.types.is_map(column.type):
        kind = old.item_type
    elif is_list(old) and is_list(column.type):
        kind = old.value_type
    else:
        return None
    items = elements_of(column)
    if not (pa.types.is_struct(items.type) and pa.types.is_struct(kind)):
        return None
    discarded: list[tuple[str, int, DataError]] = []
    inner = replace(rules, moves=False, discarded=lambda *one: discarded.append(one))
    made = with_elements(column, _members(items, kind, f"{path}[]", inner, _of_elements(column, len(items), came)))
    for one in discarded:
        rules.discarded(*one)
    return made


def _of_elements(column: pa.Array, count: int, came: Came) -> Came:
    """Unknown where they are not those that the column was seen in."""

    def look() -> Sequence[Any] | None:
        known = came.items().values if is_list(column.type) else None
        return known if known is not None and len(known) == count else None

    return Came(look)


def with_texts(column: pa.Array, kind: pa.DataType, came: Sequence[Any] | None) -> pa.Array:
    """A column that was seen in values, with JSON texts where `kind` has text and it lists or structs, at any depth.

    `came`: as of `settled`.
    """
    return _with_texts(column, kind, Came(lambda: came))


def _with_texts(column: pa.Array, kind: pa.DataType, came: Came) -> pa.Array:
    import pyarrow as pa

    old = column.type
    if pa.types.is_string(kind) and pa.types.is_nested(old):
        return _texts(column, came)
    if is_list(kind) and is_list(old):
        return with_elements(column, _with_texts(elements_of(column), kind.value_type, came.items()))
    if not (pa.types.is_struct(kind) and pa.types.is_struct(old) and old.num_fields):
        return column
    wanted = {part.name: part.type for part in kind}
    parts = [
        _with_texts(child, wanted.get(part.name, part.type), came.member(part.name))
        for part, child in zip(old, column.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(parts, names=[part.name for part in old], mask=column.is_null())


def _texts(column: pa.Array, came: Came) -> pa.Array:
    """The column as JSON texts, and its texts as they are."""
    import pyarrow as pa

    known = came.values if pa.types.is_nested(column.type) else None
    if known is not None and len(known) == len(column):
        own = [
            value if is_there else None for value, is_there in zip(known, column.is_valid().to_pylist(), strict=True)
        ]
        if own.count(None) == column.null_count:  # else it is of the key, or a transformation's
            return pa.array([None if value is None else as_text(value) for value in own], pa.string())
    return fit(column, pa.string(), WIDENED)


def _each_alone(column: pa.Array, old: pa.DataType, path: str, rules: Settling, came: Came) -> pa.Array | None:
    """Values of several kinds, seen as text together, as each fits the column by itself; None where they are of one."""
    import pyarrow as pa

    known = came.values if is_text(column.type) else None
    if known is None or len(known) != len(column) or {*map(type, known)} <= {str, _NONE}:
        return None
    found: list[pa.Array] = []
    for value in known:
        try:
            one = pa.array([value])
            if value is not None:
                rules.check(old, one, path)
            found.append(kept(one, old, path))
        except (DataError, pa.ArrowException, OverflowError):
            found.append(pa.nulls(1, old))
    return pa.concat_arrays(found)


_NONE: Final = type(None)


def _variant(
    name: str,
    column: pa.Array,
    known: Mapping[str, pa.DataType],
    path: str,
    rules: Settling,
    error: DataError,
    came: Came,
) -> Column:
    """The second column for values that have no place in theirs. Errors: DataError where no column takes them."""
    import pyarrow as pa

    label = "json" if pa.types.is_nested(column.type) else next(a for is_it, a in _labels() if is_it(column.type))
    if label == "json":
        column = _texts(column, came)
    for kind in (label, "text"):
        place = f"{name}{VARIANT}{kind}"
        given = _texts(column, came) if kind == "text" else column
        if place not in known:
            return place, given
        try:
            rules.check(known[place], given, f"{path}{VARIANT}{kind}")
        except DataError:
            continue
        return place, given
    raise error


def _labels() -> Sequence[tuple[Callable[[pa.DataType], bool], str]]:
    import pyarrow as pa

    types = pa.types
    return (
        (types.is_boolean, "bool"),
        (types.is_integer, "bigint"),
        (types.is_floating, "double"),
        (types.is_decimal, "decimal"),
        (is_text, "text"),
        (types.is_timestamp, "timestamp"),
        (types.is_date, "date"),
        (types.is_time, "time"),
        (lambda _: True, "binary"),
    )


def _rows_that_fit(column: pa.Array, old: pa.DataType, path: str, rules: Settling) -> pa.Array:
    """Which rows the column takes, among them those that are null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type) and pa.types.is_int64(old):  # by far the most: 0.02 us a row, one by one 10
        near = pc.less(pc.abs(column), _EXACT)
        return pc.fill_null(pc.and_(near, pc.equal(pc.floor(column), column)), True)
    fits = []
    for row in range(len(column)):
        one = column.slice(row, 1)
        try:
            if one.null_count == 0:
                rules.check(old, one, path)
            fits.append(True)
        except DataError:
            fits.append(False)
    return pa.array(fits, pa.bool_())


_EXACT: Final = float(1 << 53)


def _put(found: dict[str, pa.Array], name: str, column: pa.Array) -> None:
    """Add a column; a variant may have come with the rows as well, as when they were read from such a table."""
    import pyarrow.compute as pc

    found[name] = pc.coalesce(found[name], column) if name in found and found[name].type == column.type else column


def kept(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    """A column with another type, if every value stays what it is. Errors: DataError."""
    if column.null_count == len(column):
        import pyarrow as pa

        return pa.nulls(len(column), kind)
    try:
        return fit(column, kind, KEPT, path)
    except NotFittingError as error:
        message = f"Column {error.path} is {error.given} in the record, and cannot be {error.kind}"
        raise DataError(f"{message}: {error.value or _first(column)}") from error


def _first(column: pa.Array) -> str:
    """The first value of a column, for sentences."""
    value = next((one for one in column if one.is_valid), None)
    text = repr(None if value is None else value.as_py())
    return text if len(text) <= 60 else text[:60] + ".."
