"""Types seen in values that come without schema, and the type that holds what two types hold. Pure.

One set of rules for all: null tells nothing, whole numbers are bigint, with fractions double, and decimal or text where
those would lose a digit; structs have the members of both, lists elements of a type for all; what has nothing in common
is JSON text. Texts are never dates or times here: a declared type says so.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import DataError, Struct
from kconnect.builtin.types.fitting import as_mapping
from kconnect.builtin.types.leaf_columns import exact_decimal, is_bytes, is_list, is_text

if TYPE_CHECKING:
    import pyarrow as pa


class Kind(Enum):
    """What values are; each may be null too."""

    NOTHING = "nothing"
    BOOL = "bool"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    LIST = "list"
    STRUCT = "struct"
    SEVERAL = "several"
    """Kinds that no column but one of JSON text holds."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known of numbers: digits in front of and behind the point, of the longest of each."""

    whole: int
    scale: int
    has_floats: bool = False
    is_long: bool = True
    """All whole ones have 64 bits at most."""
    is_double: bool = True
    """Each is a double, to the last digit."""

    def join(self, other: Numbers) -> Numbers:
        return Numbers(
            max(self.whole, other.whole),
            max(self.scale, other.scale),
            self.has_floats or other.has_floats,
            self.is_long and other.is_long,
            self.is_double and other.is_double,
        )

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        if self.has_floats and self.is_double:
            return pa.float64()
        if not self.has_floats and not self.scale and self.is_long:
            return pa.int64()
        return pa.decimal128(_DIGITS, self.scale) if self.whole + self.scale <= _DIGITS else pa.string()


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen in values. `join` gives the same in any order and any grouping of the values."""

    kind: Kind
    numbers: Numbers | None = None
    item: Seen | None = None
    members: Mapping[str, Seen] = field(default_factory=dict)

    def join(self, other: Seen) -> Seen:
        """What was seen in the values of both."""
        if other.kind is Kind.NOTHING or other is self:
            return self
        if self.kind is Kind.NOTHING:
            return other
        if self.kind is not other.kind:
            return SEVERAL
        if self.numbers is not None and other.numbers is not None:
            return Seen(Kind.NUMBER, self.numbers.join(other.numbers))
        if self.item is not None and other.item is not None:
            return Seen(Kind.LIST, item=self.item.join(other.item))
        if self.kind is Kind.STRUCT:
            members = dict(self.members)
            for name, seen in other.members.items():
                members[name] = members[name].join(seen) if name in members else seen
            return Seen(Kind.STRUCT, members=members)
        return self

    @property
    def is_mixed(self) -> bool:
        """Whether some values have nothing in common but their JSON text."""
        if self.kind is Kind.SEVERAL or (self.item is not None and self.item.is_mixed):
            return True
        return any(member.is_mixed for member in self.members.values())

    @property
    def type(self) -> pa.DataType:
        """The narrowest type that holds them all: null for nothing, a struct of no fields for empty structs."""
        import pyarrow as pa

        if self.numbers is not None:
            return self.numbers.type
        if self.item is not None:
            return pa.list_(self.item.type)
        if self.kind is Kind.STRUCT:
            return pa.struct([(name, seen.type) for name, seen in self.members.items()])
        return _arrow_types()[self.kind]


NOTHING: Final = Seen(Kind.NOTHING)
SEVERAL: Final = Seen(Kind.SEVERAL)
# Of Arrow's decimals, and of those of Spark, Delta and Iceberg
_DIGITS: Final = 38
# Digits behind the point of doubles of which only the type is known: more than a decimal has
ANY_SCALE: Final = _DIGITS + 1
_EXACT: Final = 1 << 53


# Arrow, Parquet and those who read them go down by recursion, as the functions here do
_DEEPEST: Final = 100


def require_depth(depth: int) -> None:
    """Errors: DataError for a value that is nested more deeply than columns can be."""
    if depth > _DEEPEST:
        raise DataError(f"A value is nested more than {_DEEPEST} levels deep, and no column is")


def require_names(names: Iterable[str]) -> None:
    """Errors: DataError for a name with a null sign, at which formats and databases cut it, in silence."""
    if cut := next((name for name in names if "\x00" in name), None):
        raise DataError(f"A member has the name {cut!r}, and no column can have a null sign in its name")


def see(values: Iterable[Any], depth: int = 0) -> Seen:
    """What is seen in values of JSON or Python. Errors: DataError for one of a kind that no column holds."""
    require_depth(depth)
    present = [value for value in values if value is not None]
    kinds = set(map(_kind_of, set(map(type, present))))
    if len(kinds) != 1:
        return SEVERAL if kinds else NOTHING
    (kind,) = kinds
    if kind is Kind.NUMBER:
        return Seen(kind, reduce(Numbers.join, map(_numbers_of, _telling_numbers(present))))
    if kind is Kind.LIST:
        return Seen(kind, item=see((item for items in present for item in items), depth + 1))
    if kind is Kind.STRUCT:
        rows = [as_mapping(value) if isinstance(value, Struct) else value for value in present]
        names = member_names(rows)
        return Seen(kind, members={name: see((row.get(name) for row in rows), depth + 1) for name in names})
    return Seen(kind)


def telling_apart(seen: Seen) -> Callable[[Any], Hashable]:
    """Gives of each value what tells it from others that it has nothing in common with; `seen` is mixed.

    Values of which it gives the same make a column in which each is what it is in a column of its own.
    """
    if seen.kind is not Kind.STRUCT:
        return _shape_of
    parts = [(name, telling_apart(member)) for name, member in seen.members.items() if member.is_mixed]

    def tell(value: Any) -> Hashable:
        row = as_mapping(value) if isinstance(value, Struct) else value
        return None if row is None else tuple([part(row.get(name)) for name, part in parts])

    return tell


def _shape_of(value: Any) -> Hashable:
    if type(value) is int:
        return "long" if -(1 << 63) <= value < 1 << 63 else "wide"
    return _SHAPES.get(type(value)) or _shape(see([value]))


# Of values that need no look, by far the most. Numbers beside other kinds widen no column but their own
_SHAPES: Final[Mapping[type, str]] = {type(None): "nothing", bool: "bool", float: "double", str: "text"}


def _shape(seen: Seen) -> Hashable:
    members = frozenset((name, _shape(member)) for name, member in seen.members.items())
    item = None if seen.item is None else _shape(seen.item)
    return seen.kind, None if seen.numbers is None else str(seen.numbers.type), item, members


def member_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of all members, in the order in which they come. Errors: DataError for one that is not a text."""
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    require_texts(names)
    require_names(names)
    return names


def require_texts(names: Iterable[Any]) -> None:
    """Errors: DataError for a name that is not a text."""
    if strange := [name for name in names if not isinstance(name, str)]:
        raise DataError(f"A member has the name {strange[0]!r}, and only texts are names of columns")


def joined(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type for columns of both, as if all their values had been seen together.

    Where values have to show whether a digit is lost (bigint into double), they are taken for such as fit.
    """
    import pyarrow as pa

    if first == second or pa.types.is_null(second):
        return first
    if pa.types.is_null(first):
        return second
    if pa.types.is_dictionary(first) or pa.types.is_dictionary(second):
        return joined(_plain(first), _plain(second))
    if pa.types.is_struct(first) and pa.types.is_struct(second):
        fields = {part.name: part.type for part in first}
        for part in second:
            fields[part.name] = joined(fields[part.name], part.type) if part.name in fields else part.type
        return pa.struct(list(fields.items()))
    if pa.types.is_map(first) and pa.types.is_map(second) and first.key_type == second.key_type:
        return pa.map_(first.key_type, joined(first.item_type, second.item_type))
    if is_list(first) and is_list(second):
        return pa.list_(joined(first.value_type, second.value_type))
    if pa.types.is_signed_integer(first) and pa.types.is_signed_integer(second):
        return max(first, second, key=lambda kind: int(kind.bit_width))
    if pa.types.is_timestamp(first) and pa.types.is_timestamp(second) and (first.tz is None) is (second.tz is None):
        return max(first, second, key=lambda kind: _UNITS.index(kind.unit))
    return _of_type(first).join(_of_type(second)).type


def joined_schemas(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of all, each with a type that holds what it has in each."""
    import pyarrow as pa

    merged = reduce(joined, (pa.struct(list(schema)) for schema in schemas))
    return pa.schema(list(merged))


def with_members(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The old type with the fields, at any depth, that the new one has beside; those of no type are left out."""
    import pyarrow as pa

    if pa.types.is_struct(old) and pa.types.is_struct(new):
        fields = {part.name: part.type for part in old}
        for part in new:
            if part.name in fields:
                fields[part.name] = with_members(fields[part.name], part.type)
            elif not is_untyped(part.type):
                fields[part.name] = part.type
        made = pa.struct(list(fields.items()))
        return old if [part.type for part in made] == [part.type for part in old] else made
    if pa.types.is_map(old) and pa.types.is_map(new):
        item = with_members(old.item_type, new.item_type)
        return old if item == old.item_type else pa.map_(old.key_type, item)
    if is_list(old) and is_list(new):
        item = with_members(old.value_type, new.value_type)
        return old if item == old.value_type else pa.list_(item)
    return old


def turns_to_text(old: pa.Schema | pa.StructType, new: pa.Schema | pa.StructType) -> bool:
    """Whether a field, at any depth, is JSON text in `new`, which was joined with `old`, and something else in that.

    Fields of no type may have gone from `new`.
    """
    kinds = {part.name: part.type for part in new}
    return any(_turns_to_text(part.type, kinds[part.name]) for part in old if part.name in kinds)


def _turns_to_text(old: pa.DataType, new: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_string(new):
        return not (is_text(old) or is_untyped(old))
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        return turns_to_text(old, new)
    if pa.types.is_map(new) and pa.types.is_map(old):
        return _turns_to_text(old.item_type, new.item_type)
    return bool(pa.types.is_list(new) and is_list(old) and _turns_to_text(old.value_type, new.value_type))


def is_untyped(kind: pa.DataType) -> bool:
    """Whether nothing is known of what it holds: nulls, lists of nulls, structs of nothing."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return all(is_untyped(part.type) for part in kind)
    return bool(pa.types.is_null(kind) or (is_list(kind) and is_untyped(kind.value_type)))


_UNITS: Final = ("s", "ms", "us", "ns")


def without_empty(kind: pa.DataType) -> pa.DataType:
    """The type without structs that have no fields, which few formats have: null in their place."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        parts = [(part.name, without_empty(part.type)) for part in kind]
        kept = [part for part, old in zip(parts, kind, strict=True) if part[1] == old.type or not is_untyped(part[1])]
        return pa.struct(kept) if kept else pa.null()
    return pa.list_(without_empty(kind.value_type)) if is_list(kind) else kind


def _kind_of(given: type) -> Kind:
    """The kind of values of a type."""
    found = _KINDS.get(given)
    if found is not None:
        return found
    for kind, types in _SUBCLASSES:
        if issubclass(given, types):
            return kind
    raise DataError(f"A value of type {given.__name__} has no column")


_KINDS: Final[Mapping[type, Kind]] = {
    bool: Kind.BOOL,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    decimal.Decimal: Kind.NUMBER,
    str: Kind.TEXT,
    bytes: Kind.BYTES,
    list: Kind.LIST,
    tuple: Kind.LIST,
    dict: Kind.STRUCT,
    Struct: Kind.STRUCT,
    datetime.datetime: Kind.TIMESTAMP,
    datetime.date: Kind.DATE,
    datetime.time: Kind.TIME,
}
_SUBCLASSES: Final = (
    (Kind.NUMBER, (int, float, decimal.Decimal)),
    (Kind.TEXT, str),
    (Kind.BYTES, (bytes, bytearray, memoryview)),
    (Kind.STRUCT, (Mapping, Struct)),
    (Kind.TIMESTAMP, datetime.datetime),
    (Kind.DATE, datetime.date),
    (Kind.TIME, datetime.time),
)


def _telling_numbers(values: Sequence[Any]) -> Iterable[Any]:
    """Gives of whole numbers those that tell as much as all: both ends, and what a double may not hold."""
    if set(map(type, values)) != {int}:
        return values
    return {min(values), max(values), *(value for value in values if not -_EXACT <= value <= _EXACT)}


def _numbers_of(value: Any) -> Numbers:
    if isinstance(value, int):
        is_double = -_EXACT <= value <= _EXACT or (abs(value) < _TOO_LARGE and int(float(value)) == value)
        return Numbers(_digits(value), 0, False, -(1 << 63) <= value < 1 << 63, is_double)
    number = exact_decimal(value) if isinstance(value, float) else value
    if not number.is_finite():
        return Numbers(0, ANY_SCALE, has_floats=True)
    _, digits, exponent = number.as_tuple()
    scale = max(0, -int(exponent))
    whole = max(0, len(digits) + int(exponent))
    if isinstance(value, float):
        return Numbers(whole, scale, has_floats=True)
    return Numbers(whole, scale, is_long=False, is_double=False)


def _digits(value: int) -> int:
    """Digits of a whole number; of one with more than a decimal has, some number beyond."""
    return len(str(abs(value))) if abs(value) < _TOO_LONG else ANY_SCALE


_TOO_LONG: Final = 10**_DIGITS
# Beyond all doubles
_TOO_LARGE: Final = 1 << 1023


def _of_type(kind: pa.DataType) -> Seen:
    """What may be in a column of this type."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind):
        return Seen(Kind.BOOL)
    if types.is_integer(kind):
        return Seen(Kind.NUMBER, Numbers(20 if types.is_uint64(kind) else 19, 0, is_long=not types.is_uint64(kind)))
    if types.is_floating(kind):
        return Seen(Kind.NUMBER, Numbers(0, ANY_SCALE, has_floats=True))
    if types.is_decimal(kind):
        return Seen(Kind.NUMBER, Numbers(kind.precision - kind.scale, kind.scale, is_long=False, is_double=False))
    if is_text(kind):
        return Seen(Kind.TEXT)
    if is_bytes(kind):
        return Seen(Kind.BYTES)
    if types.is_date(kind):
        return Seen(Kind.DATE)
    return SEVERAL


def _arrow_types() -> Mapping[Kind, pa.DataType]:
    import pyarrow as pa

    return {
        Kind.NOTHING: pa.null(),
        Kind.BOOL: pa.bool_(),
        Kind.TEXT: pa.string(),
        Kind.BYTES: pa.binary(),
        Kind.DATE: pa.date32(),
        Kind.TIME: pa.time64("us"),
        Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
        Kind.SEVERAL: pa.string(),
    }


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
