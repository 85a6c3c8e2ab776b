"""Numbers with their nouns: one spelling for all messages."""

from __future__ import annotations


def counted(number: int, word: str, words: str | None = None) -> str:
    """`1 task`, `2 tasks`, `1,006 times`. `words`: the plural, unless it is formed with an s."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"
