r"""Reads the characters of a Java regular expression: one by one, escaped, in classes and properties.

Source: java.util.regex.Pattern (Java 17), its grammar and its errors.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NoReturn

from kconnect.java.compat.regex_classes import ESCAPED, CharSet, property_set

_BLANKS: Final = frozenset("\t\n\x0b\f\r ")
_CONTROLS: Final = {"a": "\a", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class JavaPatternError(re.error):
    """A pattern that Java refuses, or that cannot be matched here; `msg` is Java's message with place and marker."""

    def __init__(self, description: str, pattern: str, index: int) -> None:
        place = f" near index {index}" if index >= 0 else ""
        text = f"{description}{place}\n{pattern}"
        if 0 <= index < len(pattern):
            text += f"\n{' ' * index}^"
        super().__init__(text)


class PatternCharacters:
    """A place in a pattern, with the flags that hold there. Errors: JavaPatternError."""

    def __init__(self, pattern: str) -> None:
        self._given = pattern
        self._pattern = _without_quotes(pattern)
        self._at = 0
        self._flags: frozenset[str] = frozenset()

    # --- what is next ---

    def _peek(self) -> str:
        """The next character that counts; empty at the end. In mode x blanks and comments do not count."""
        if "x" in self._flags:
            while self._at < len(self._pattern):
                char = self._pattern[self._at]
                if char == "#":
                    while self._at < len(self._pattern) and not self._ends_line(self._pattern[self._at]):
                        self._at += 1
                elif char in _BLANKS:
                    self._at += 1
                else:
                    break
        return self._raw()

    def _raw(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._pattern[place] if place < len(self._pattern) else ""

    def _next(self) -> str:
        char = self._peek()
        self._at += 1
        return char

    def _ends_line(self, char: str) -> bool:
        return char == "\n" or ("d" not in self._flags and char in "\r\x85\u2028\u2029")

    def _refuse(self, description: str, back: int = 0) -> NoReturn:
        raise JavaPatternError(description, self._given, self._at - 1 + back)

    # --- escapes ---

    def _escaped(self, *, in_range: bool) -> str | CharSet:
        """The character that is meant, or several; what is no character is refused."""
        char = self._raw()
        self._at += 1
        if char.lower() in ESCAPED and char.isalpha():
            if char == "v" and in_range:
                return "\x0b"
            found = ESCAPED[char.lower()]
            return found if char.islower() else ~found
        if char in _CONTROLS and char:
            return _CONTROLS[char]
        if char == "0":
            return self._octal()
        if char == "x":
            return self._hexadecimal()
        if char == "u":
            return self._unicode()
        if char == "N":
            return self._named_character()
        if char == "c":
            if self._at >= len(self._pattern):
                self._refuse("Illegal control escape sequence")
            self._at += 1
            return chr(ord(self._pattern[self._at - 1]) ^ 64)
        if not char or (char.isascii() and char.isalnum()):
            self._refuse("Illegal/unsupported escape sequence")
        return char

    def _octal(self) -> str:
        found = re.compile("[0-3][0-7]{2}|[0-7]{1,2}").match(self._pattern, self._at)
        if found is None:
            self._at += 1
            self._refuse("Illegal octal escape sequence")
        self._at = found.end()
        return chr(int(found[0], 8))

    def _hexadecimal(self) -> str:
        found = re.compile(r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\}").match(self._pattern, self._at)
        if found is None:
            self._at += 1
            self._refuse("Illegal hexadecimal escape sequence")
        self._at = found.end()
        code = int(found[1] or found[2], 16)
        if code > 0x10FFFF:
            self._refuse("Hexadecimal codepoint is too big")
        return chr(code)

    def _unicode(self) -> str:
        found = re.compile(r"([0-9A-Fa-f]{4})(?:\\u([Dd][C-Fc-f][0-9A-Fa-f]{2}))?").match(self._pattern, self._at)
        if found is None:
            self._at += 1
            self._refuse("Illegal Unicode escape sequence")
        code = int(found[1], 16)
        if 0xD800 <= code < 0xDC00 and found[2]:
            self._at = found.end()
            return chr(0x10000 + ((code - 0xD800) << 10) + int(found[2], 16) - 0xDC00)
        self._at = found.end(1)
        return chr(code)

    def _named_character(self) -> str:
        found = re.compile(r"\{([^}]+)\}").match(self._pattern, self._at)
        try:
            if found is None:
                raise KeyError
            char = unicodedata.lookup(found[1].strip())
        except KeyError:
            self._refuse("Illegal character name escape sequence")
        self._at = found.end()
        return char

    def _property(self) -> CharSet:
        r"""What \p{..}, \P{..} or \pL means; `p` is next."""
        is_complement = self._raw() == "P"
        self._at += 1
        if self._peek() == "{":
            end = self._pattern.find("}", self._at)
            if end < 0:
                self._at = len(self._pattern) + 1
                self._refuse("Unclosed character family")
            name = self._pattern[self._at + 1 : end]
            self._at = end + 1
            if not name:
                self._refuse("Empty character family")
        else:
            name = self._next()
        found = property_set(name, any_case="i" in self._flags)
        if found is None:
            self._refuse(f"Unknown character property name {{{name}}}")
        return ~found if is_complement else found

    # --- classes ---

    def _class(self, *, is_open: bool = True) -> CharSet:
        """A class with what is nested and intersected in it. `is_open`: its bracket is next, and closed at the end.

        Singles are kept apart, as Java does, and joined at the end: after an intersection they come in once more.
        """
        is_negated = False
        if is_open:
            self._at += 1
            if self._peek() == "^" and self._pattern[self._at - 1] == "[":
                is_negated = True
                self._at += 1
        found: CharSet | None = None
        last: CharSet | None = None
        singles, has_singles = CharSet(()), False
        while True:
            char = self._peek()
            if char == "":
                self._refuse("Unclosed character class")
            if char == "[":
                last = self._class()
                found = last if found is None else found | last
                continue
            if char == "&" and self._follows("&"):
                right = self._right_of_and()
                if has_singles:
                    has_singles = False
                    last = singles if found is None else last
                    found = singles if found is None else found | singles
                last = right if right is not None else last
                if found is None and right is None:
                    self._refuse("Bad class syntax")
                found = right if found is None else found & last if last is not None else found
                continue
            if char == "]" and (found is not None or has_singles):
                self._at += is_open
                whole = singles if found is None else found | singles if has_singles else found
                return ~whole if is_negated else whole
            piece, is_single = self._range()
            if is_single:
                singles, has_singles = singles | piece, True
            else:
                last = piece
                found = piece if found is None else found | piece

    def _follows(self, char: str) -> bool:
        """Whether `char` is the next but one, blanks of mode x aside."""
        before = self._at
        self._at += 1
        found = self._peek() == char
        self._at = before
        return found

    def _right_of_and(self) -> CharSet | None:
        self._next()
        self._next()
        right: CharSet | None = None
        while (char := self._peek()) not in ("]", "&"):
            if char == "":
                self._refuse("Unclosed character class")
            piece = self._class(is_open=char == "[")
            right = piece if right is None else right | piece
        return right

    def _range(self) -> tuple[CharSet, bool]:
        """A character or a range of them, or a class by name; and whether it is a single character below 256."""
        char = self._next()
        if char == "\\":
            if self._raw() in ("p", "P"):
                return self._property(), False
            found = self._escaped(in_range=self._raw(1) == "-")
            if isinstance(found, CharSet):
                return found, False
            char = found
        if self._peek() == "-":
            end = self._raw(1)
            if end not in ("[", "]"):
                self._at += 1
                return self._to_end_of_range(char), False
        return self._single(char), ord(char) < 256

    def _to_end_of_range(self, first: str) -> CharSet:
        last = self._next()
        if last == "\\":
            found = self._escaped(in_range=True)
            last = found if isinstance(found, str) else ""
        if not last or last < first:
            self._refuse("Illegal character range")
        found_range = CharSet(((ord(first), ord(last)),))
        return found_range.in_any_case() if "i" in self._flags else found_range

    def _single(self, char: str) -> CharSet:
        codes = [(ord(char), ord(char))]
        if "i" in self._flags and ("u" in self._flags or char.isascii()):
            codes += [(ord(other), ord(other)) for other in (char.lower(), char.upper()) if len(other) == 1]
        return CharSet.of(codes)


def _without_quotes(pattern: str) -> str:
    r"""The pattern with each character between \Q and \E escaped by itself."""
    out, at = [], 0
    while at < len(pattern):
        if pattern.startswith("\\Q", at):
            end = pattern.find("\\E", at + 2)
            quoted = pattern[at + 2 : end if end >= 0 else len(pattern)]
            out += [_quoted(char, is_first=place == 0) for place, char in enumerate(quoted)]
            at = len(pattern) if end < 0 else end + 2
        else:
            step = 2 if pattern[at] == "\\" else 1
            out.append(pattern[at : at + step])
            at += step
    return "".join(out)


def _quoted(char: str, *, is_first: bool) -> str:
    if char.isascii() and char.isdigit() and is_first:
        return f"\\x3{char}"  # so that it does not lengthen a reference before it
    return char if not char.isascii() or char.isalnum() else f"\\{char}"
