"""Lines of the screen: pieces of text with the name of a style; cut and padded by what a terminal shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size

Piece: TypeAlias = tuple[str, str]
"""Text, and its style: plain, bold, dim, bad, warn, good, key, head, title."""
Line: TypeAlias = tuple[Piece, ...]

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_MORE: Final = "…"


def clean(text: str) -> str:
    """Text that cannot move the cursor or turn the line round: names and traces come from anybody."""
    return _CONTROL.sub("\ufffd", text.replace("\t", "    ")) if _CONTROL.search(text) else text


def line(*pieces: Piece | str) -> Line:
    return tuple((clean(piece), "plain") if isinstance(piece, str) else (clean(piece[0]), piece[1]) for piece in pieces)


def width_of(text: str) -> int:
    return cell_len(text)


def padded(text: str, width: int, *, to_right: bool = False) -> str:
    """Text of exactly this width; what does not fit is cut, and three dots in one cell say so."""
    have = cell_len(text)
    if have > width:
        return set_cell_size(text, width - 1) + _MORE if width > 1 else set_cell_size(text, width)
    return " " * (width - have) + text if to_right else text + " " * (width - have)


def fitted(pieces: Iterable[Piece], width: int) -> Line:
    """A line cut at the width of the screen."""
    found: list[Piece] = []
    left = width
    for text, style in pieces:
        have = cell_len(text)
        if have > left:
            if left > 0:
                found.append((padded(text, left), style))
            return tuple(found)
        found.append((text, style))
        left -= have
    return tuple(found)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A long line as several: a trace must be readable to its end."""
    from textwrap import wrap

    return wrap(
        clean(text), max(20, width), subsequent_indent=indent, break_long_words=True, replace_whitespace=False,
        tabsize=4,
    ) or [""]  # fmt: skip


def uncut(groups: Sequence[Sequence[Piece]], width: int) -> Line:
    """Gives the groups of pieces, from the first on, that fit uncut; the first one in any case."""
    found, left = list(groups[0]) if groups else [], width
    left -= sum(cell_len(text) for text, _ in found)
    for group in groups[1:]:
        left -= sum(cell_len(text) for text, _ in group)
        if left < 0:
            break
        found += group
    return tuple(found)


def text_of(lines: Sequence[Line]) -> str:
    """Gives the text as one reads it."""
    return "\n".join("".join(text for text, _ in each).rstrip() for each in lines)
