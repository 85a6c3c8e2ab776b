"""Secrets that must never leave this process: they are replaced in logs, traces and REST responses.

Each component that learns a secret registers it here under an owner: the herder per connector, a slot per task. Kept
per process and not per thread, because clients log and fail on their own threads. Names of connectors, topics and
tables, which may have a short password in them, are registered as well and stay as they are; so do the lines of traces
that say where the code is. A password of a few small letters, which may be a common word, is hidden where it is a whole
word.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"
"""What stands in place of a secret."""

# Where the code is, in Java's traces and in Python's: paths and names, never a value
_FRAMES: Final = r"(?m:^\s+at [\w.$/<>@-]+\([^()\n]*\)$|^ +File \"[^\"\n]+\", line \d+, in \S+$)"

# Of small letters alone: it may be a word of the text around it
_LONGEST_WORD: Final = 8
# Where a word begins: also behind a letter that is the end of an escape, as in password%3Dstart and in \nstart
_BEGINS: Final = r"(?:(?<![A-Za-z])|(?<=%[0-9A-Fa-f][A-Fa-f])|(?<=\\[abfnrtv])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4}))"
# Shorter values are hardly secrets, and replacing them would make text unreadable.
_MIN_CHARS: Final = 3


class Redactor:
    """Secrets by owner, and the text without them. Threads: any.

    No pattern is compiled: with a thousand connectors that would cost more at each start than all lines together;
    looking for 2,000 secrets in a line takes 0.1 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _owned
        self._owned: dict[str, frozenset[str]] = {}
        self._names: dict[str, frozenset[str]] = {}  # by owner, guarded likewise
        self._kept: dict[str, re.Pattern[str]] = {}
        """Holds, for a secret that was met in a text, what stays: frames, and the names that have it in them."""
        self._hidden: tuple[str, ...] | None = ()  # None: must be rebuilt from _owned

    def remember(self, owner: str, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        """Hide these from now on, instead of what the same owner registered before; but not within `names`."""
        forms = frozenset(form for secret in secrets for form in _forms(secret) if len(form) >= _MIN_CHARS)
        kept = frozenset(names)
        with self._lock:
            if self._names.get(owner, frozenset()) != kept:
                self._names[owner] = kept
                self._kept = {}
            if self._owned.get(owner, frozenset()) == forms:
                return
            self._owned[owner] = forms
            self._hidden = None

    def keep(self, owner: str, name: str) -> None:
        """Hide no secret within this name, such as that of a topic."""
        with self._lock:
            before = self._names.get(owner, frozenset())
            if name not in before:
                self._names[owner] = before | {name}
                self._kept = {}

    def forget(self, owner: str) -> None:
        """Stop hiding the secrets of this owner."""
        with self._lock:
            if self._names.pop(owner, None):
                self._kept = {}
            if self._owned.pop(owner, None):
                self._hidden = None

    def redact(self, text: str) -> str:
        """The text with all known secrets replaced, longest first, as one may contain another."""
        hidden = self._hidden
        if hidden is None:
            with self._lock:
                known = {secret for secrets in self._owned.values() for secret in secrets}
                hidden = self._hidden = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))
        for secret in hidden:
            if secret in text:
                parts = self._names_with(secret).split(text)  # every second part is a name
                parts[::2] = [_without(secret, part) for part in parts[::2]]
                text = "".join(parts)
        return text

    def _names_with(self, secret: str) -> re.Pattern[str]:
        kept = self._kept
        if secret not in kept:
            with self._lock:
                every = {name for names in self._names.values() for name in names}
            found = sorted((name for name in every if secret in name and name != secret), key=len, reverse=True)
            # A whole name, not the beginning of a longer one; that of a task or partition ends with a number
            whole = rf"|(?<![\w-])(?:{'|'.join(map(re.escape, found))})(?!\w|-\D)" if found else ""
            kept[secret] = re.compile(f"({_FRAMES}{whole})")
        return kept[secret]


def _without(secret: str, text: str) -> str:
    if not re.fullmatch(f"[a-z]{{1,{_LONGEST_WORD}}}", secret):
        return text.replace(secret, HIDDEN)
    # Not in a longer word, nor the name of a function, nor a part of a dotted one: errors.start.max, java.lang.Error
    word = rf"{_BEGINS}(?:(?<!\w\.){secret}|{secret}(?!\.\w))(?![A-Za-z(]|\.[a-z]\w*\.)"
    return re.sub(word, HIDDEN, text)


def _forms(secret: str) -> tuple[str, ...]:
    """A secret verbatim, and as `repr` and JSON write it where that differs."""
    spelled = repr(secret)[1:-1]
    in_json = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return tuple(dict.fromkeys((secret, secret.strip(), spelled, in_json)))


_process = Redactor()
remember = _process.remember
keep = _process.keep
forget = _process.forget
redact = _process.redact
