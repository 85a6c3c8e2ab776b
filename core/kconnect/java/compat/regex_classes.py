"""Sets of characters of Java's regular expressions: ranges, properties and their operations, as classes for `re`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

_LAST: Final = 0x10FFFF
_READABLE: Final = re.compile(r"[A-Za-z0-9_]")

_LOWER: Final = ((97, 122),)
_UPPER: Final = ((65, 90),)
_DIGIT: Final = ((48, 57),)
_PUNCT: Final = ((33, 47), (58, 64), (91, 96), (123, 126))
_SPACE: Final = ((9, 13), (32, 32))
_VERTICAL: Final = ((10, 13), (0x85, 0x85), (0x2028, 0x2029))
_HORIZONTAL: Final = (
    *((9, 9), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A), (0x202F, 0x202F)),
    *((0x205F, 0x205F), (0x3000, 0x3000)),
)


@dataclass(frozen=True, slots=True)
class CharSet:
    """Code points, as ranges in order that neither touch nor overlap."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharSet:
        found: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if found and low <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(found[-1][1], high))
            else:
                found.append((low, high))
        return cls(tuple(found))

    @classmethod
    def where(cls, holds: Callable[[str], bool]) -> CharSet:
        """Collects characters below 65,536, which takes 20 ms: callers remember what they found."""
        return cls.of((code, code) for code in range(0x10000) if holds(chr(code)))

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.of((*self.ranges, *other.ranges))

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __invert__(self) -> CharSet:
        found, at = [], 0
        for low, high in self.ranges:
            if low > at:
                found.append((at, low - 1))
            at = high + 1
        if at <= _LAST:
            found.append((at, _LAST))
        return CharSet(tuple(found))

    def in_any_case(self) -> CharSet:
        """With the other case of its ASCII letters, as Java's flag i means it without u."""
        found = list(self.ranges)
        for low, high in self.ranges:
            for first, last, to in ((65, 90, 32), (97, 122, -32)):
                if max(low, first) <= min(high, last):
                    found.append((max(low, first) + to, min(high, last) + to))
        return CharSet.of(found)

    def as_class(self) -> str:
        """The part of a pattern for `re` that matches one of these characters."""
        if not self.ranges:
            return "(?!)"
        if self.ranges == ((0, _LAST),):
            return r"[\s\S]"
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return re.escape(chr(self.ranges[0][0]))
        others = ~self
        if len(others.ranges) < len(self.ranges):
            return f"[^{others._written()}]"
        return f"[{self._written()}]"

    def _written(self) -> str:
        return "".join(_range(low, high) for low, high in self.ranges)


ANY: Final = CharSet(((0, _LAST),))
LINE_ENDS: Final = CharSet.of(((10, 10), (13, 13), (0x85, 0x85), (0x2028, 0x2029)))
WORD: Final = CharSet.of((*_LOWER, *_UPPER, *_DIGIT, (95, 95)))
ESCAPED: Final = {
    "d": CharSet(_DIGIT),
    "h": CharSet(_HORIZONTAL),
    "s": CharSet(_SPACE),
    "v": CharSet(_VERTICAL),
    "w": WORD,
}
r"""What \d, \h .. mean; in capitals all others."""

_LETTERS: Final = CharSet.of((*_LOWER, *_UPPER))
_POSIX: Final = {
    "ASCII": CharSet(((0, 127),)),
    "Alnum": CharSet.of((*_LOWER, *_UPPER, *_DIGIT)),
    "Alpha": _LETTERS,
    "Blank": CharSet.of(((9, 9), (32, 32))),
    "Cntrl": CharSet.of(((0, 31), (127, 127))),
    "Digit": CharSet(_DIGIT),
    "Graph": CharSet(((33, 126),)),
    "L1": CharSet(((0, 255),)),
    "Lower": CharSet(_LOWER),
    "Print": CharSet(((32, 126),)),
    "Punct": CharSet(_PUNCT),
    "Space": CharSet(_SPACE),
    "Upper": CharSet(_UPPER),
    "XDigit": CharSet.of((*_DIGIT, (65, 70), (97, 102))),
    "all": ANY,
}
_CATEGORIES: Final = frozenset(
    {
        *("Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No"),
        *("Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"),
    }
)
_GROUPS: Final = {
    **{letter: frozenset(name for name in _CATEGORIES if name[0] == letter) for letter in "CLMNPSZ"},
    "LC": frozenset({"Lu", "Ll", "Lt"}),
    "LD": frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nd"}),
}
_CASED: Final = frozenset({"Lu", "Ll", "Lt"})
_JAVA: Final[dict[str, Callable[[str], bool]]] = {
    "javaAlphabetic": str.isalpha,
    "javaDefined": lambda char: unicodedata.category(char) != "Cn",
    "javaDigit": lambda char: unicodedata.category(char) == "Nd",
    "javaISOControl": lambda char: char < " " or "\x7f" <= char <= "\x9f",
    "javaIdentifierIgnorable": lambda char: _is_ignorable(char),
    "javaIdeographic": lambda char: "IDEOGRAPH" in unicodedata.name(char, ""),
    "javaJavaIdentifierPart": lambda char: _is_part(char) or unicodedata.category(char) == "Sc" or _is_ignorable(char),
    "javaJavaIdentifierStart": lambda char: _is_start(char) or unicodedata.category(char) in ("Sc", "Pc"),
    "javaLetter": lambda char: unicodedata.category(char) in _GROUPS["L"],
    "javaLetterOrDigit": lambda char: unicodedata.category(char) in _GROUPS["LD"],
    "javaLowerCase": str.islower,
    "javaMirrored": lambda char: unicodedata.mirrored(char) == 1,
    "javaSpaceChar": lambda char: unicodedata.category(char) in _GROUPS["Z"],
    "javaTitleCase": lambda char: unicodedata.category(char) == "Lt",
    "javaUnicodeIdentifierPart": lambda char: _is_part(char) or _is_ignorable(char),
    "javaUnicodeIdentifierStart": lambda char: _is_start(char),
    "javaUpperCase": str.isupper,
    "javaWhitespace": lambda char: (
        "\t" <= char <= "\r"
        or "\x1c" <= char <= "\x1f"
        or (unicodedata.category(char) in _GROUPS["Z"] and char not in "\xa0\u2007\u202f")
    ),
}
_BINARY: Final = {
    "ALPHABETIC": "javaAlphabetic",
    "ASSIGNED": "javaDefined",
    "CONTROL": "Cc",
    "DIGIT": "Nd",
    "IDEOGRAPHIC": "javaIdeographic",
    "LETTER": "L",
    "LOWERCASE": "javaLowerCase",
    "PUNCTUATION": "P",
    "TITLECASE": "javaTitleCase",
    "UPPERCASE": "javaUpperCase",
    "WHITE_SPACE": "Space",
    "WHITESPACE": "Space",
    "HEX_DIGIT": "XDigit",
    "HEXDIGIT": "XDigit",
}
# What a name of a topic has of them: it is of ASCII. Of all other scripts and blocks it has nothing.
_SCRIPTS: Final = {
    **dict.fromkeys(("LATIN", "LATN"), _LETTERS),
    **dict.fromkeys(("COMMON", "ZYYY"), CharSet(((0, 127),)) & ~_LETTERS),
    **dict.fromkeys(
        (
            *("ARAB", "ARABIC", "ARMENIAN", "ARMN", "BENG", "BENGALI", "BOPO", "BOPOMOFO", "BRAI", "BRAILLE"),
            *("CYRILLIC", "CYRL", "DEVA", "DEVANAGARI", "ETHI", "ETHIOPIC", "GEOR", "GEORGIAN", "GREEK", "GREK"),
            *("GUJARATI", "GUJR", "GURMUKHI", "GURU", "HAN", "HANG", "HANGUL", "HANI", "HEBR", "HEBREW", "HIRA"),
            *("HIRAGANA", "KANA", "KANNADA", "KATAKANA", "KHMER", "KHMR", "KNDA", "LAO", "LAOO", "MALAYALAM"),
            *("MLYM", "MONG", "MONGOLIAN", "MYANMAR", "MYMR", "ORIYA", "ORYA", "SINH", "SINHALA", "TAMIL", "TAML"),
            *("TELU", "TELUGU", "THAA", "THAANA", "THAI", "TIBETAN", "TIBT"),
        ),
        CharSet(()),
    ),
}
_BLOCKS: Final = {
    **dict.fromkeys(("BASICLATIN", "ASCII"), CharSet(((0, 127),))),
    **dict.fromkeys(("LATIN1SUPPLEMENT", "LATIN1"), CharSet(((0x80, 0xFF),))),
    "LATINEXTENDEDA": CharSet(((0x100, 0x17F),)),
    "LATINEXTENDEDB": CharSet(((0x180, 0x24F),)),
    **dict.fromkeys(("GREEK", "GREEKANDCOPTIC"), CharSet(((0x370, 0x3FF),))),
    "CYRILLIC": CharSet(((0x400, 0x4FF),)),
    "HEBREW": CharSet(((0x590, 0x5FF),)),
    "ARABIC": CharSet(((0x600, 0x6FF),)),
    "GENERALPUNCTUATION": CharSet(((0x2000, 0x206F),)),
    "CURRENCYSYMBOLS": CharSet(((0x20A0, 0x20CF),)),
    "HIRAGANA": CharSet(((0x3040, 0x309F),)),
    "KATAKANA": CharSet(((0x30A0, 0x30FF),)),
    "CJKUNIFIEDIDEOGRAPHS": CharSet(((0x4E00, 0x9FFF),)),
}


def property_set(name: str, *, any_case: bool) -> CharSet | None:
    r"""What \p{name} means; None for a property that is not known here.

    Source: java.util.regex.CharPredicates (Java 17).
    """
    key, is_pair, value = name.partition("=")
    if is_pair:
        match key.lower():
            case "sc" | "script":
                return _SCRIPTS.get(value.upper())
            case "blk" | "block":
                return _block(value)
            case "gc" | "general_category":
                return _property(value, any_case)
        return None
    if name.startswith("In"):
        return _block(name[2:])
    if name.startswith("Is"):
        short = name[2:]
        binary = _BINARY.get(short.upper())
        if binary is not None:
            return _property(binary, any_case)
        return _property(short, any_case) or _SCRIPTS.get(short.upper())
    return _property(name, any_case)


@cache
def _property(name: str, any_case: bool) -> CharSet | None:
    if name in _POSIX:
        return _LETTERS if any_case and name in ("Lower", "Upper") else _POSIX[name]
    if name in _JAVA:
        if any_case and name in ("javaLowerCase", "javaUpperCase", "javaTitleCase"):
            return CharSet.where(lambda char: char.islower() or char.isupper() or unicodedata.category(char) == "Lt")
        return CharSet.where(_JAVA[name])
    names = _GROUPS.get(name) or ({name} if name in _CATEGORIES else None)
    if names is None:
        return None
    wanted = _CASED if any_case and name in _CASED else frozenset(names)
    return CharSet.where(lambda char: unicodedata.category(char) in wanted)


def _block(name: str) -> CharSet | None:
    return _BLOCKS.get(re.sub(r"[ _-]", "", name).upper())


def _is_start(char: str) -> bool:
    return unicodedata.category(char) in _GROUPS["L"] | {"Nl"}


def _is_part(char: str) -> bool:
    return _is_start(char) or unicodedata.category(char) in ("Pc", "Nd", "Mc", "Mn")


def _is_ignorable(char: str) -> bool:
    return char <= "\x08" or "\x0e" <= char <= "\x1b" or "\x7f" <= char <= "\x9f" or unicodedata.category(char) == "Cf"


def _range(low: int, high: int) -> str:
    first, last = _one(low), _one(high)
    return first if low == high else f"{first}-{last}" if high > low + 1 else first + last


def _one(code: int) -> str:
    char = chr(code)
    return char if _READABLE.match(char) else f"\\U{code:08x}"
