"""The tokens of a .proto text, with one look ahead. Source: https://protobuf.dev/reference/protobuf/proto3-spec/."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from kconnect.errors import DataError

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<word>\.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<symbol>[{}()\[\]<>=;,:+\-/.])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLOSING: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}


class ProtoTokens:
    """Reads token by token. Errors of all methods: DataError that names the line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0
        self._kind = self.token = ""  # at the end of the text both are empty
        self._start = 0
        self._advance()

    @property
    def is_text(self) -> bool:
        return self._kind == "text"

    def take(self) -> str:
        """The token, whatever it is."""
        if not self._kind:
            self.refuse("it ends in the middle of a statement")
        found = self.token
        self._advance()
        return found

    def takes(self, wanted: str) -> bool:
        """Whether the token is `wanted`, which is then consumed."""
        if self.token != wanted or self._kind == "text":
            return False
        self._advance()
        return True

    def expect(self, wanted: str) -> None:
        if not self.takes(wanted):
            self.refuse(f"expected {wanted!r} but found {self.token or 'the end'!r}")

    def word(self, what: str) -> str:
        """A name, which may have dots."""
        if self._kind != "word":
            self.refuse(f"expected {what} but found {self.token or 'the end'!r}")
        return self.take()

    def whole(self, what: str) -> int:
        """A whole number with or without a sign."""
        sign = -1 if self.takes("-") else 1
        token = self.token
        if self._kind == "number":
            try:
                number = int(token, 8 if re.fullmatch(r"0[0-7]+", token) else 0)
            except ValueError:
                pass
            else:
                self._advance()
                return sign * number
        self.refuse(f"expected {what} but found {token or 'the end'!r}")

    def text(self) -> str:
        """The text of one or several quoted strings side by side, escapes resolved."""
        if self._kind != "text":
            self.refuse(f"expected a text in quotes but found {self.token or 'the end'!r}")
        parts = []
        while self._kind == "text":
            parts.append(_ESCAPE.sub(_escaped, self.take()[1:-1]))
        return "".join(parts)

    def skip_statement(self) -> None:
        """Pass over the rest of a statement: up to its semicolon, or the end of its block."""
        while self._kind:
            if self.takes(";"):
                return
            if self.token == "{" and self._kind == "symbol":
                self.skip_block()
                if self.token != ";":
                    return
            else:
                self._skip_one()
        self.refuse("it ends in the middle of a statement")

    def skip_block(self) -> None:
        """Pass over a block in brackets of any kind, with all that is in it."""
        closings = [_CLOSING[self.take()]]
        while closings:
            if not self._kind:
                self.refuse(f"{closings[-1]!r} is missing")
            if self._kind == "symbol" and self.token in "{[(":
                closings.append(_CLOSING[self.token])
            elif self._kind == "symbol" and self.token == closings[-1]:
                closings.pop()
            self._advance()

    def refuse(self, why: str) -> NoReturn:
        """Errors: always."""
        line = self._source.count("\n", 0, self._start) + 1
        raise DataError(f"This is not valid .proto text: line {line}: {why}")

    def _skip_one(self) -> None:
        if self._kind == "symbol" and self.token in "[(":
            self.skip_block()
        else:
            self._advance()

    def _advance(self) -> None:
        while True:
            self._start = self._position
            if self._position >= len(self._source):
                self._kind = self.token = ""
                return
            match = _TOKEN.match(self._source, self._position)
            if match is None:
                self.refuse(f"{self._source[self._position]!r} means nothing here")
            self._position = match.end()
            if match.lastgroup != "space":
                self._kind, self.token = match.lastgroup or "", match.group()
                return


def _escaped(match: re.Match[str]) -> str:
    octal, two, four, eight, letter = match.groups()
    if octal is not None:
        return chr(int(octal, 8))
    code = two or four or eight
    if code is not None:
        return chr(min(int(code, 16), 0x10FFFF))
    return _LETTERS.get(letter, letter)
