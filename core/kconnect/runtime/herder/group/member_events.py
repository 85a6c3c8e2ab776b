"""The messages of a membership's threads to the herder's thread, and the mailbox it waits on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """A member's id and its generation of the group."""

    member_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Elected:
    """The member leads the round: it must make the assignments."""

    attempt: object
    place: Place
    protocol: str
    members: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InGroup:
    """The round is over. `answered_at`: when the group accepted this member's metadata; `at`: when it was over."""

    attempt: object
    place: Place
    protocol: str
    assignment: bytes = field(repr=False)
    answered_at: float
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt to join failed."""

    attempt: object
    problem: Exception


@dataclass(frozen=True, slots=True)
class RebalanceSeen:
    """A heartbeat of this generation, sent at that time, was answered with: join again."""

    place: Place
    sent_at: float


@dataclass(frozen=True, slots=True)
class Evicted:
    """The member has lost its place."""

    place: Place
    why: str
    is_member_id_worthless: bool


Message = Elected | InGroup | Failed | RebalanceSeen | Evicted


class Inbox:
    """Messages in order, and a wakeup flag. Threads: any; one reads."""

    def __init__(self) -> None:
        self._news = threading.Condition()  # guards the two below
        self._messages: deque[Message] = deque()
        self._is_rung = False

    def post(self, message: Message) -> None:
        with self._news:
            self._messages.append(message)
            self._news.notify_all()

    def ring(self) -> None:
        """End the present wait, or the next one."""
        with self._news:
            self._is_rung = True
            self._news.notify_all()

    def take(self) -> list[Message]:
        with self._news:
            messages = list(self._messages)
            self._messages.clear()
            return messages

    def wait(self, until: float) -> bool:
        """Wait for a message or a wakeup, until this time (monotonic); returns whether it was a wakeup."""
        with self._news:
            while not self._messages and not self._is_rung:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._news.wait(left)
            was_rung, self._is_rung = self._is_rung, False
            return was_rung
