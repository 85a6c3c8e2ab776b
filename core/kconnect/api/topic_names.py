"""Which names a topic may have, and how another one becomes such. Pure.

Source: o.a.k.common.internals.Topic (Kafka 4.3).
"""

from __future__ import annotations

import re
from typing import Final

MOST_LETTERS: Final = 249
_OTHER: Final = re.compile(r"[^a-zA-Z0-9._-]")
_SPECIAL: Final = re.compile(r"([\\.^$|?*+()\[\]{}])")


def topic_name_problem(name: str) -> str | None:
    """A sentence on why no topic can have this name; None for one that may."""
    if not name or name in (".", ".."):
        return f"'{name}' cannot be the name of a topic"
    if len(name) > MOST_LETTERS:
        return f"'{name[:40]}..' cannot be the name of a topic: it has {len(name)} letters, {MOST_LETTERS} are the most"
    if other := _OTHER.search(name):
        return f"'{name}' cannot be the name of a topic: {other[0]!r} is not a letter (a-z), a digit, '.', '_' or '-'"
    return None


def topic_renaming(name: str) -> str:
    """Settings of a source that give its records a topic with a legal name close to this one."""
    legal = _OTHER.sub("-", name)[:MOST_LETTERS] or "topic"
    settings = {
        "": "rename",
        ".rename.type": "RegexRouter",
        ".rename.regex": _SPECIAL.sub(r"\\\1", name),
        ".rename.replacement": legal if legal.strip(".") else "topic",
    }
    return ", ".join(f"transforms{key}={value}" for key, value in settings.items())
