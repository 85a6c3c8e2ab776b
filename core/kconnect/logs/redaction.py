"""Secrets that must never leave this process: they are replaced in logs, traces and REST responses.

Each component that learns a secret registers it here under an owner: the herder per connector, a slot per task. Kept
per process and not per thread, because clients log and fail on their own threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"
"""What stands in place of a secret."""

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
        self._hidden: tuple[str, ...] | None = ()  # None: must be rebuilt from _owned

    def remember(self, owner: str, secrets: Iterable[str]) -> None:
        """Hide these from now on, instead of what the same owner registered before."""
        forms = frozenset(form for secret in secrets for form in _forms(secret) if len(form) >= _MIN_CHARS)
        with self._lock:
            if self._owned.get(owner, frozenset()) == forms:
                return
            self._owned[owner] = forms
            self._hidden = None

    def forget(self, owner: str) -> None:
        """Stop hiding the secrets of this owner."""
        with self._lock:
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
                text = text.replace(secret, HIDDEN)
        return text


def _forms(secret: str) -> tuple[str, ...]:
    """A secret verbatim, and as `repr` and JSON write it where that differs."""
    spelled = repr(secret)[1:-1]
    in_json = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return tuple(dict.fromkeys((secret, secret.strip(), spelled, in_json)))


_process = Redactor()
remember = _process.remember
forget = _process.forget
redact = _process.redact
