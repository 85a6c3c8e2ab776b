"""The type that schemaless values share: what is learned of it, and how it widens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final

# With more, an expression of the type needs more memory than RE2 gives it, and then it is slow
_MOST_MEMBERS: Final = 300
_DEEPEST: Final = 20
# Floats from here on may be whole only because they lack digits
_FEWER_DIGITS: Final = 1e10


class Kind(Enum):
    """What a value may be; each may be null too."""

    NULL = "null"
    BOOLEAN = "boolean"
    STRING = "string"
    WHOLE = "whole numbers"
    FRACTION = "fractions, of which none was whole yet"
    DOUBLE = "fractions, also whole ones such as 1.0"
    NUMBER = "whole numbers without point and fractions that are not whole, as JavaScript writes numbers"
    LIST = "list"
    OBJECT = "object"


class Gap(Enum):
    """How a member may lack a value: both ways in one batch cannot be distinguished in a column."""

    NONE = "none yet"
    NULL = "null"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of objects, and its type."""

    name: str
    type: PlainType
    gap: Gap


@dataclass(frozen=True, slots=True)
class PlainType:
    """The type of schemaless values. A list has a type of items, an object members in the order of the texts."""

    kind: Kind
    item: PlainType | None = None
    members: tuple[Member, ...] = ()


class NoTypeError(Exception):
    """Values that no column can hold beside each other, or that are too large for one; says which."""


def common_type(values: Sequence[Any]) -> PlainType:
    """The type of a column with these schemaless values. Errors: NoTypeError if no type says what each of them is."""
    made = _common_type(values, ())
    _require_size(made)
    return made


def widened(known: PlainType, found: PlainType) -> PlainType:
    """The type that `found` fits, and of `known` as much as goes with it. Equal to `known`: nothing to learn.

    Errors: NoTypeError if it would be too large, as with names that are data.
    """
    made = _widened(known, found)
    _require_size(made)
    return made


def difference(known: PlainType, found: PlainType, path: Sequence[str] = ()) -> str | None:
    """What keeps values of the two types out of one column, as `member price is number and text`; None for nothing."""
    if Kind.NULL in (known.kind, found.kind):
        return None
    if known.item is not None and found.item is not None:
        return difference(known.item, found.item, (*path, _ITEM))
    if known.kind is found.kind is Kind.OBJECT:
        before = {member.name: member for member in known.members}
        pairs = [(before[member.name], member) for member in found.members if member.name in before]
        for old, new in pairs:
            if {old.gap, new.gap} == {Gap.NULL, Gap.MISSING}:
                return _of_gaps((*path, new.name))
        differences = (difference(old.type, new.type, (*path, new.name)) for old, new in pairs)
        return next((one for one in differences if one is not None), None)
    if known.kind is found.kind or (known.kind, found.kind) in _NUMBERS or (found.kind, known.kind) in _NUMBERS:
        return None
    return _of_kinds(path, {known.kind, found.kind})


def _widened(known: PlainType, found: PlainType) -> PlainType:
    if found.kind is Kind.NULL:
        return known
    if found.kind is not known.kind:
        return PlainType(_NUMBERS.get((known.kind, found.kind), found.kind), found.item, found.members)
    if found.item is not None and known.item is not None:
        return PlainType(Kind.LIST, _widened(known.item, found.item))
    if found.kind is Kind.OBJECT:
        return PlainType(Kind.OBJECT, members=_widened_members(known.members, found.members))
    return known


# By what is known and what is found; else what is found counts
_NUMBERS: Final = {
    (Kind.WHOLE, Kind.FRACTION): Kind.NUMBER,
    (Kind.FRACTION, Kind.WHOLE): Kind.NUMBER,
    (Kind.NUMBER, Kind.WHOLE): Kind.NUMBER,
    (Kind.NUMBER, Kind.FRACTION): Kind.NUMBER,
    (Kind.DOUBLE, Kind.FRACTION): Kind.DOUBLE,
}


def _widened_members(known: Sequence[Member], found: Sequence[Member]) -> tuple[Member, ...]:
    """The members found, in their order, with those that only were known behind the ones they followed."""
    before = {member.name: member for member in known}
    made = []
    for member in found:
        old = before.pop(member.name, None)
        if old is None:
            made.append(Member(member.name, member.type, Gap.MISSING if member.gap is Gap.NONE else member.gap))
        else:
            gap = old.gap if member.gap is Gap.NONE else member.gap
            made.append(Member(member.name, _widened(old.type, member.type), gap))
    for index, member in enumerate(known):
        if member.name in before:
            places = {one.name: place for place, one in enumerate(made)}
            at = max((places[one.name] + 1 for one in known[:index] if one.name in places), default=0)
            made.insert(at, Member(member.name, member.type, Gap.MISSING))
    return tuple(made)


def _common_type(values: Sequence[Any], path: Sequence[str]) -> PlainType:
    if len(path) > _DEEPEST:
        raise NoTypeError(f"values are nested more than {_DEEPEST} deep")
    present = [value for value in values if value is not None]
    kinds = {_KINDS[type(value)] for value in present}
    if not kinds:
        return PlainType(Kind.NULL)
    if kinds == {Kind.LIST}:
        return PlainType(Kind.LIST, _common_type([item for items in present for item in items], (*path, _ITEM)))
    if kinds == {Kind.OBJECT}:
        return PlainType(Kind.OBJECT, members=_members(present, path))
    if Kind.FRACTION in kinds and any(type(value) is float and _may_be_whole(value) for value in present):
        kinds = (kinds - {Kind.FRACTION}) | {Kind.DOUBLE}
    if kinds == {Kind.WHOLE, Kind.FRACTION}:
        return PlainType(Kind.NUMBER)
    if len(kinds) > 1:
        raise NoTypeError(_of_kinds(path, kinds))
    return PlainType(kinds.pop())


_KINDS: Final[Mapping[type, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.WHOLE,
    float: Kind.FRACTION,
    str: Kind.STRING,
    list: Kind.LIST,
    dict: Kind.OBJECT,
}


def _may_be_whole(value: float) -> bool:
    return value.is_integer() or abs(value) >= _FEWER_DIGITS


def _members(values: Sequence[Mapping[str, Any]], path: Sequence[str]) -> tuple[Member, ...]:
    made = []
    for name in _in_order(values, path):
        found = [value[name] for value in values if name in value]
        gap = Gap.NULL if any(item is None for item in found) else Gap.NONE
        if len(found) < len(values):
            if gap is Gap.NULL:
                raise NoTypeError(_of_gaps((*path, name)))
            gap = Gap.MISSING
        made.append(Member(name, _common_type(found, (*path, name)), gap))
    return tuple(made)


def _in_order(values: Sequence[Mapping[str, Any]], path: Sequence[str]) -> list[str]:
    """All names, each behind those that it follows in any object. Errors: NoTypeError if they contradict."""
    names = TopologicalSorter[str]()
    for value in values:
        for name in value:
            names.add(name)
        for before, after in pairwise(value):
            names.add(after, before)
    try:
        return list(names.static_order())
    except CycleError as error:
        raise NoTypeError(f"members of {_named(path)} come in several orders") from error


def _require_size(kind: PlainType) -> None:
    if _size(kind) > _MOST_MEMBERS:
        raise NoTypeError(f"there are more than {_MOST_MEMBERS} members")


def _size(kind: PlainType) -> int:
    inner = 0 if kind.item is None else _size(kind.item)
    return 1 + inner + sum(_size(member.type) for member in kind.members)


_ITEM: Final = "[]"
_WORDS: Final = {
    Kind.NULL: "null",
    Kind.BOOLEAN: "boolean",
    Kind.STRING: "text",
    Kind.LIST: "list",
    Kind.OBJECT: "object",
}


def _of_kinds(path: Sequence[str], kinds: Collection[Kind]) -> str:
    words = sorted({_WORDS.get(kind, "number") for kind in kinds})
    if len(words) == 1:
        return f"{_named(path)} is written as 2 and as 2.0"
    return f"{_named(path)} is {', '.join(words[:-1])} and {words[-1]}"


def _of_gaps(path: Sequence[str]) -> str:
    return f"{_named(path)} is null in some records and missing in others"


def _named(path: Sequence[str]) -> str:
    return f"member {'.'.join(path).replace(f'.{_ITEM}', _ITEM)}" if path else "the value"
