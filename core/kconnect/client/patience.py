"""Patience: how long a command waits for workers that say nothing, over all its questions together.

A frozen process, or a network that drops packets, accepts a connection and never answers. Without this limit each
question would wait as long as a change may take: a minute and a half.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LIMIT_S: Final = 4.0
"""By default: an admin command that starts in a third of a second ends within five, whatever does not answer."""
# Of the time that is left, for a worker that is not the last: three workers of which two are frozen are asked in time
_SHARE: Final = 0.35
# The same for one that has answered before: it asks others in turn, and waits a second for those that are frozen
_KNOWN_SHARE: Final = 0.6
# A worker answers in 10 ms. Once a question has found no answer, others get so much: the answers that there are come
_SHORT_S: Final = 0.5


@dataclass(slots=True)
class Patience:
    """Belongs to one client. Threads: one at a time.

    `limit_s`: for one answer; once it was not given, other answers get half a second each for as long again, so that
    a page or a command that asks for many things ends with those that there are. `setting`: its name, for messages.
    """

    limit_s: float = LIMIT_S
    setting: str = ""
    monotonic: Callable[[], float] = time.monotonic
    _short_until_s: float = float("-inf")

    def begins(self) -> Turn:
        """One question, to one worker after the other."""
        now_s = self.monotonic()
        is_short = now_s < self._short_until_s
        return Turn(self, now_s, now_s + (min(_SHORT_S, self.limit_s) if is_short else self.limit_s), is_short=is_short)

    def for_change(self) -> Turn:
        """One change: how long all workers together may say nothing, neither of it nor of themselves."""
        now_s = self.monotonic()
        return Turn(self, now_s, now_s + self.limit_s)

    def note_late(self) -> None:
        """A question found no answer."""
        self._short_until_s = self.monotonic() + self.limit_s


@dataclass(slots=True)
class Turn:
    """The time for one question."""

    patience: Patience
    began_s: float
    deadline_s: float
    is_short: bool = False

    def share_s(self, *, is_last: bool = True, is_known: bool = False, kept: float = 0.0) -> float:
        """For the next worker; none is left once it is not above zero. `kept`: the part of all that is for later.

        `is_known`: it has answered before.
        """
        left_s = self.deadline_s - kept * (self.deadline_s - self.began_s) - self.patience.monotonic()
        return left_s if is_last else left_s * (_KNOWN_SHARE if is_known else _SHARE)
