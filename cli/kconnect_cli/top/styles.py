"""How styles look: colours of the terminal's own palette, so that they can be read on whatever background it has."""

from __future__ import annotations

from typing import Final, NamedTuple


class Look(NamedTuple):
    """A style: a colour's name, or none, and attributes by their names."""

    colour: str | None = None
    attributes: tuple[str, ...] = ()


STYLES: Final = {
    "plain": Look(),
    "bold": Look(None, ("bold",)),
    "dim": Look(None, ("dim",)),
    "bad": Look("red", ("bold",)),
    "warn": Look("yellow"),
    "good": Look("green"),
    "key": Look("cyan", ("bold",)),
    "head": Look(None, ("bold",)),
    "sorted": Look(None, ("bold", "underline")),
    "tab": Look(None, ("bold", "reverse")),
    "title": Look("cyan", ("bold",)),
}
