r"""The regular expression of the JSON texts that fit a type: RE2's syntax over Latin-1, where each character is a byte.

What fits is narrower than JSON: Arrow's reader and Jackson certainly read it alike, and a row of a column says all of
it. The expression lets some texts pass that are no JSON (commas and braces, where members may be missing): these, and
whole numbers beyond 64 bits, Arrow's reader refuses. UTF-8 and the lengths of numbers are the caller's to check.
"""

from __future__ import annotations

from typing import Final

from kconnect.builtin.converters.plain_json_type import Gap, Kind, Member, NoTypeError, PlainType


def pattern_of(kind: PlainType) -> str:
    """What a text of this type matches.

    Errors: NoTypeError for names that JSON may spell in several ways, and numbers without a field to say how they are.
    """
    if kind.kind is Kind.NUMBER:
        raise NoTypeError
    return rf"\A{_SPACE}{_or_null(kind)}{_SPACE}\z"


def _or_null(kind: PlainType) -> str:
    return "null" if kind.kind is Kind.NULL else f"(?:{_value(kind)}|null)"


def _value(kind: PlainType) -> str:
    if kind.kind is Kind.OBJECT:
        return _object(kind.members)
    if kind.item is not None:
        item = f"{_or_null(kind.item)}{_SPACE}"
        # Arrow's reader loses count in lists of nulls
        items = "" if kind.item.kind is Kind.NULL else f"(?:{item}(?:,{_SPACE}{item})*)?"
        return rf"\[{_SPACE}{items}\]"
    return _VALUES[kind.kind]


def _object(members: tuple[Member, ...]) -> str:
    if all(member.gap is not Gap.MISSING for member in members):
        return rf"\{{{_SPACE}" + f",{_SPACE}".join(_member(member) for member in members) + r"\}"
    # A comma or a brace behind each: which it is, follows from what comes next in the text
    each = [
        f"(?:{_member(member)}[,}}]{_SPACE})?" if member.gap is Gap.MISSING else f"{_member(member)}[,}}]{_SPACE}"
        for member in members
        if member.gap is not Gap.MISSING or member.type.kind is not Kind.NULL  # else it is in no text
    ]
    if all(member.gap is Gap.MISSING for member in members):
        return rf"\{{{_SPACE}(?:\}}|" + "".join(each) + ")"
    return rf"\{{{_SPACE}" + "".join(each)


def _member(member: Member) -> str:
    value = f"(?:{_value(member.type)})" if member.gap is Gap.MISSING else _or_null(member.type)
    return f'"{_name(member.name)}"{_SPACE}:{_SPACE}{value}{_SPACE}'


def _name(name: str) -> str:
    try:
        raw = name.encode()
    except UnicodeEncodeError as error:
        raise NoTypeError from error
    if any(byte < 0x20 or byte in b'"\\' for byte in raw):
        raise NoTypeError
    return "".join(chr(byte) if byte < 0x80 and chr(byte).isalnum() else rf"\x{byte:02x}" for byte in raw)


# Line feeds are between texts
_SPACE: Final = r"[ \t]*"
_WHOLE: Final = "(?:0|-?[1-9][0-9]*)"
# No exponents that could leave the range of a double
_FRACTION: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})"
# Whole ones that a double holds, and fractions that no double rounds to a whole number: short ones, or their first five
# digits are not all 0 and not all 9. Exponents as JavaScript has them for very small ones.
_NUMBER: Final = (
    r"0|-?[1-9][0-9]{0,14}|-?(?:0|[1-9][0-9]{0,4})\.[0-9]{0,8}[1-9]"
    r"|-?(?:0|[1-9][0-9]{0,9})\.(?:0{0,4}[1-8]|0{1,4}9|9{1,4}[0-8])[0-9]*"
    r"|-?(?:0|[1-9][0-9]{0,9})\.9{1,4}"
    r"|-?[1-9](?:\.[0-9]+)?e-(?:[7-9]|[1-9][0-9])"
)
# Escaped surrogates in pairs only
_STRING: Final = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*"'
)
_VALUES: Final = {
    Kind.NULL: "null",
    Kind.BOOLEAN: "true|false",
    Kind.STRING: _STRING,
    Kind.WHOLE: _WHOLE,
    Kind.FRACTION: _FRACTION,
    Kind.DOUBLE: _FRACTION,
    Kind.NUMBER: _NUMBER,
}
