"""Numbers with their nouns, and lengths of time: one spelling for all messages."""

from __future__ import annotations


def pluralize(number: int, word: str, words: str | None = None) -> str:
    """`1 task`, `2 tasks`, `1,006 times`. `words`: the plural, unless it is formed with an s."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def length_text(seconds: float) -> str:
    """`83 s`, `4 min 12 s`, `2 h 5 min`: the two largest parts."""
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest_s = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest_s} s"
    hours, rest_min = divmod(minutes, 60)
    return f"{hours} h {rest_min} min"
