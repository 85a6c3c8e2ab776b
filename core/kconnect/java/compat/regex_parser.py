r"""Reads a Java regular expression, and refuses what Java refuses in Java's words.

Source: java.util.regex.Pattern (Java 17), its grammar and its errors.
"""

from __future__ import annotations

from typing import Final

from kconnect.java.compat.regex_characters import PatternCharacters
from kconnect.java.compat.regex_classes import ANY, LINE_ENDS, CharSet
from kconnect.java.compat.regex_nodes import (
    LOOK_BEHIND,
    Choice,
    Grapheme,
    Group,
    Leaf,
    Node,
    Reference,
    Repeat,
    Sequence,
    has_bound,
)

_NEW_LINES: Final = r"(?:\r\n|[\n\r\x85\u2028\u2029])"
_PLACES: Final = {
    "A": Leaf(r"\A"),
    "B": Leaf(r"(?:\B|\A\Z)"),  # `re` of Python 3.13 finds none in an empty text
    "G": Leaf(r"\A"),  # where the last match ended: there is none before the first
    "b": Leaf(r"\b"),
    "z": Leaf(r"\Z"),
}
_LINE_ENDING: Final = Choice((Sequence((Leaf(r"\r"), Leaf(r"\n"))), Leaf(r"[\n-\r\x85\u2028\u2029]")))
_FLAGS: Final = frozenset("imsduxUc")
_TYPES: Final = {":": "(?:", "=": "(?=", "!": "(?!", ">": "(?>"}


class Parser(PatternCharacters):
    """One pass over a pattern. Errors: JavaPatternError."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._names: dict[str, int] = {}
        self._opened = 0
        self._closed: set[int] = set()

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._pattern):
            self._at += 1
            self._refuse("Unmatched closing ')'", -1)
        return node

    # --- grammar ---

    def _choice(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while (char := self._peek()) not in ("", "|", ")"):
            if char == "(":
                group = self._group()
                if group is None:
                    continue
                items.append(self._repeated(group))
            else:
                items.append(self._repeated(self._atom(char)))
        return Sequence(tuple(items))

    def _atom(self, char: str) -> Node:
        if char in "?*+":
            self._at += 1
            self._refuse(f"Dangling meta character '{char}'")
        if char == "{":
            return Sequence(())  # a quantifier of nothing
        if char == "[":
            return _of(self._class())
        self._at += 1
        if char == "\\":
            return self._escape()
        if char == "^":
            return Leaf(self._caret())
        if char == "$":
            return Leaf(self._dollar("m" in self._flags))
        if char == ".":
            return _of(self._dot())
        return self._literal(char)

    def _caret(self) -> str:
        if "m" not in self._flags:
            return r"\A"
        if "d" in self._flags:
            return r"(?:\A|(?<=\n)(?!\Z))"
        return r"(?:\A|(?:(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))(?!\Z))"

    def _dollar(self, lines: bool) -> str:
        end = r"\n" if "d" in self._flags else _NEW_LINES
        inside = "" if "d" in self._flags else r"(?<!\r(?=\n))"
        if lines:
            return rf"(?:{inside}(?={end})|\Z)"
        return rf"(?:{inside}(?={end}\Z)|\Z)"

    def _dot(self) -> CharSet:
        if "s" in self._flags:
            return ANY
        return ~CharSet(((10, 10),)) if "d" in self._flags else ~LINE_ENDS

    def _literal(self, char: str) -> Node:
        return _of(self._single(char))

    def _repeated(self, node: Node) -> Node:
        char = self._peek()
        if char == "?":
            low, high = 0, 1
        elif char in ("*", "+"):
            low, high = (0 if char == "*" else 1), None
        elif char == "{":
            low, high = self._counts()
        else:
            return node
        self._at += 1
        mode = self._peek()
        if mode in ("?", "+"):
            self._at += 1
        return Repeat(node, low, high, "?" if mode == "?" else "+" if mode == "+" else "")

    def _counts(self) -> tuple[int, int | None]:
        """The numbers of {2,3}; the brace after them is next."""
        self._at += 1
        if self._raw() not in "0123456789" or not self._raw():
            self._at += 1
            self._refuse("Illegal repetition")
        low, high = self._number(), None
        if self._peek() == ",":
            self._at += 1
            if self._peek() == "}":
                return low, None
            high = self._number()
        else:
            high = low
        if self._peek() != "}":
            self._at += 1
            self._refuse("Unclosed counted closure")
        if high < low:
            self._at += 1
            self._refuse("Illegal repetition range")
        return low, high

    def _number(self) -> int:
        number = 0
        while (char := self._peek()) and char in "0123456789":
            number = number * 10 + int(char)
            self._at += 1
            if number > 2**31 - 1:
                self._at += 1
                self._refuse("Illegal repetition range")
        return number

    # --- groups ---

    def _group(self) -> Node | None:
        """A group, without its quantifier; None for flags that hold from here on."""
        self._at += 1
        before, kind, number = self._flags, "(", 0
        if self._peek() != "?":
            number = self._open()
        else:
            self._at += 1
            found = self._kind_of_group()
            if found is None:
                return None
            kind, number = found
        node = self._choice()
        if kind in LOOK_BEHIND and not has_bound(node):
            self._refuse("Look-behind group does not have an obvious maximum length")
        if self._next() != ")":
            self._refuse("Unclosed group")
        self._flags = before
        if number:
            self._closed.add(number)
        return Group(kind, node, number)

    def _kind_of_group(self) -> tuple[str, int] | None:
        """How `re` opens it, and its number if it has one."""
        char = self._raw()
        self._at += 1
        if char in _TYPES and char:
            return _TYPES[char], 0
        if char == "<":
            char = self._next()
            if char in ("=", "!"):
                return f"(?<{char}", 0
            name = self._name(char)
            if name in self._names:
                self._refuse(f"Named capturing group <{name}> is already defined")
            self._names[name] = number = self._open()
            return f"(?P<{name}>", number
        if char in ("$", "@"):
            self._refuse("Unknown group type")
        self._at -= 1
        self._change_flags()
        char = self._next()
        if char == ")":
            return None
        if char != ":":
            self._refuse("Unknown inline modifier")
        return "(?:", 0

    def _open(self) -> int:
        self._opened += 1
        return self._opened

    def _name(self, char: str) -> str:
        if not (char.isascii() and char.isalpha()):
            self._refuse("capturing group name does not start with a Latin letter")
        name = char
        while (char := self._next()).isascii() and char.isalnum():
            name += char
        if char != ">":
            self._refuse("named capturing group is missing trailing '>'")
        return name

    def _change_flags(self) -> None:
        adds = True
        while True:
            char = self._peek()
            if char == "-" and adds:
                adds = False
            elif char in _FLAGS:
                changed = {"U", "u"} if char == "U" else {char}
                if char == "c" and adds:
                    self._at += 1
                    self._refuse("The flag c (canonical equivalence) is not supported here")
                self._flags = self._flags | changed if adds else self._flags - changed
            else:
                return
            self._at += 1

    # --- escapes ---

    def _escape(self) -> Node:
        """What stands after a backslash."""
        char = self._raw()
        if char in ("p", "P"):
            return _of(self._property())
        if char and char in "123456789":
            self._at += 1
            return self._reference(int(char))
        if char == "k":
            self._at += 1
            return self._named_reference()
        if char in ("X", "R"):
            self._at += 1
            return Grapheme() if char == "X" else Group("(?>", _LINE_ENDING)
        if char == "Z":
            self._at += 1
            return Leaf(self._dollar(False))
        if char == "b" and self._pattern.startswith("b{g}", self._at):
            self._at += 4
            return Leaf("(?:)")  # a border of a character and its marks
        if char in _PLACES and char:
            self._at += 1
            return _PLACES[char]
        found = self._escaped(in_range=False)
        return _of(found) if isinstance(found, CharSet) else self._literal(found)

    def _reference(self, number: int) -> Node:
        while (char := self._peek()) and char in "0123456789" and number * 10 + int(char) <= self._opened:
            number = number * 10 + int(char)
            self._at += 1
        return Reference(number, number in self._closed, "i" in self._flags)

    def _named_reference(self) -> Node:
        if self._next() != "<":
            self._refuse("\\k is not followed by '<' for named capturing group")
        name = self._name(self._next())
        if name not in self._names:
            self._refuse(f"named capturing group <{name}> does not exist")
        number = self._names[name]
        return Reference(number, number in self._closed, "i" in self._flags)


def _of(chars: CharSet) -> Leaf:
    return Leaf(chars.as_class())
