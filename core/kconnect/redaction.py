"""What no line of this process may show: values of secrets, replaced wherever text leaves it (logs, traces, REST).

Every part that learns a secret says so here under its own name: the herder for a connector, a slot for a task. Kept
for the process and not for a thread, because clients log and fail on threads of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"
"""What stands in place of a secret."""

# Shorter values are no secrets, and to replace them would make any text unreadable.
_MIN_CHARS: Final = 3


class Redactor:
    """Secrets by owner, and the text without them. Threads: any.

    No pattern is compiled: with a thousand connectors that would cost more at each start than all lines together;
    looking for 2,000 secrets in a line takes 0.1 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _owned
        self._owned: dict[str, frozenset[str]] = {}
        self._hidden: tuple[str, ...] | None = ()  # None: to be made anew from _owned

    def remember(self, owner: str, secrets: Iterable[str]) -> None:
        """Hide these from now on, in place of what the same owner said before."""
        forms = frozenset(form for secret in secrets for form in _forms(secret) if len(form) >= _MIN_CHARS)
        with self._lock:
            if self._owned.get(owner, frozenset()) == forms:
                return
            self._owned[owner] = forms
            self._hidden = None

    def forget(self, owner: str) -> None:
        """Stop hiding what this owner said."""
        with self._lock:
            if self._owned.pop(owner, None):
                self._hidden = None

    def redact(self, text: str) -> str:
        """The text with every known secret replaced; of secrets that contain one another the longest goes first."""
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
    """A secret as it is, and as `repr` and JSON spell it where that differs."""
    spelled = repr(secret)[1:-1]
    in_json = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return tuple(dict.fromkeys((secret, secret.strip(), spelled, in_json)))


_process = Redactor()
remember = _process.remember
forget = _process.forget
redact = _process.redact
