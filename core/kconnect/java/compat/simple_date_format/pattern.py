"""A pattern of SimpleDateFormat, read once."""

from __future__ import annotations

from typing import Final, NamedTuple

LETTERS: Final = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
# A date is read from year, month and day, or from the day of the year; weeks are only written
ONLY_WRITTEN: Final = "YwWF"


class Piece(NamedTuple):
    """A run of one pattern letter, or with letter "" a text that stands for itself."""

    letter: str
    width: int
    text: str = ""


class DatePattern:
    """The pieces of a pattern. Errors: ValueError, in Java's words, for a pattern that SimpleDateFormat refuses.

    Source: java.text.SimpleDateFormat.compile (JDK 17). Differs: names are English, whatever the worker's language.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = tuple(_pieces(text))

    @property
    def refused_letters(self) -> str:
        """The letters in it for which texts are not read, though they are written."""
        found = {piece.letter for piece in self.pieces}
        return "".join(letter for letter in ONLY_WRITTEN if letter in found)


def _pieces(text: str) -> list[Piece]:
    pieces: list[Piece] = []
    literal, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "'":
            quoted, at = _quoted(text, at)
            literal += quoted
            continue
        if not (char.isascii() and char.isalpha()):
            literal, at = literal + char, at + 1
            continue
        if char not in LETTERS:
            raise ValueError(f"Illegal pattern character '{char}'")
        if literal:
            pieces.append(Piece("", 0, literal))
            literal = ""
        end = at
        while end < len(text) and text[end] == char:
            end += 1
        if char == "X" and end - at > 3:
            raise ValueError(f"invalid ISO 8601 format: length={end - at}")
        pieces.append(Piece(char, end - at))
        at = end
    if literal:
        pieces.append(Piece("", 0, literal))
    return pieces


def _quoted(text: str, opened_at: int) -> tuple[str, int]:
    """What stands between quotes, and where the pattern goes on; two quotes are one, inside and out."""
    if text.startswith("''", opened_at):
        return "'", opened_at + 2
    found, at = "", opened_at + 1
    while at < len(text):
        if text[at] != "'":
            found, at = found + text[at], at + 1
        elif text.startswith("''", at):
            found, at = found + "'", at + 2
        else:
            return found, at + 1
    raise ValueError("Unterminated quote")
