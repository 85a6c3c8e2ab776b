r"""The Arrow type that JSON texts without schema share, and the regular expression of just the texts that fit it.

What fits is narrower than JSON: Arrow and Jackson certainly read it alike, and a row of the column says all of it.
So numbers are whole in all texts or in none, and an object has the same members in the same order in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

# Beyond these an expression needs more memory than RE2 gives it, and then it is slow
_MOST_MEMBERS: Final = 500
_DEEPEST: Final = 20


class NoTypeError(Exception):
    """A value that no column can hold beside others."""


def common_type(values: Sequence[Any]) -> pa.DataType:
    """The type of a column with these schemaless values. Errors: NoTypeError if no type says what each of them is."""
    made = _common_type(values, 0)
    if _size(made) > _MOST_MEMBERS:
        raise NoTypeError
    return made


def widened(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    """A type that `found` fits, and as much of `known` as it can be; equal to `known` if there is nothing to learn."""
    import pyarrow as pa

    if found == known or pa.types.is_null(found):
        return known
    if pa.types.is_list(known) and pa.types.is_list(found):
        return pa.list_(widened(known.value_type, found.value_type))
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        types = {field.name: field.type for field in known}
        return pa.struct([(field.name, widened(types.get(field.name, field.type), field.type)) for field in found])
    return found


def is_in(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether all that has the one type fits the other too."""
    return bool(widened(kind, found) == kind)


def pattern_of(kind: pa.DataType) -> str:
    r"""What a text of this type matches, in RE2's syntax over Latin-1: each character is a byte.

    Left to Arrow's reader: whole numbers beyond 64 bits, which it refuses. Left to the caller: UTF-8, longest numbers.
    """
    return rf"\A{_SPACE}{_pattern(kind)}{_SPACE}\z"


def _common_type(values: Sequence[Any], depth: int) -> pa.DataType:
    import pyarrow as pa

    found = [_type_of(value, depth) for value in values]
    made = pa.null()
    for kind in found:
        made = widened(made, kind)
    if not all(is_in(kind, made) for kind in found):
        raise NoTypeError
    return made


def _type_of(value: Any, depth: int) -> pa.DataType:
    import pyarrow as pa

    if depth > _DEEPEST:
        raise NoTypeError
    if isinstance(value, dict):
        return pa.struct([(name, _type_of(item, depth + 1)) for name, item in value.items()])
    if isinstance(value, list):
        return pa.list_(_common_type(value, depth + 1))
    return {
        type(None): pa.null(),
        bool: pa.bool_(),
        int: pa.int64(),
        float: pa.float64(),
        str: pa.string(),
    }[type(value)]


def _size(kind: pa.DataType) -> int:
    return 1 + sum(_size(kind.field(index).type) for index in range(kind.num_fields))


def _pattern(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_null(kind):
        return "null"
    return f"(?:{_pattern_of_value(kind)}|null)"


def _pattern_of_value(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        members = [f'"{_name(field.name)}"{_SPACE}:{_SPACE}{_pattern(field.type)}{_SPACE}' for field in kind]
        return rf"\{{{_SPACE}" + f",{_SPACE}".join(members) + r"\}"
    if pa.types.is_list(kind):
        item = f"{_pattern(kind.value_type)}{_SPACE}"
        # Arrow's reader loses count in lists of nulls
        items = "" if pa.types.is_null(kind.value_type) else f"(?:{item}(?:,{_SPACE}{item})*)?"
        return rf"\[{_SPACE}{items}\]"
    return {pa.bool_(): "true|false", pa.int64(): _WHOLE, pa.float64(): _FRACTION, pa.string(): _STRING}[kind]


def _name(name: str) -> str:
    r"""A member's name as a text has it. Errors: NoTypeError if it has what JSON may spell in several ways."""
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise NoTypeError from error
    if any(byte < 0x20 or byte in b'"\\' for byte in raw):
        raise NoTypeError
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else rf"\x{byte:02x}" for byte in raw)


# Line feeds stand between texts
_SPACE: Final = r"[ \t]*"
_WHOLE: Final = "(?:0|-?[1-9][0-9]*)"
# No exponents that could leave the range of a double
_FRACTION: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})"
# Escaped surrogates in pairs only
_STRING: Final = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*"'
)
