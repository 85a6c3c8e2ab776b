"""What the herder's thread is doing, or did last: the error of a request that timed out shows it.

Source: o.a.k.connect.util.Stage, DistributedHerder#recordTickThreadStage (Kafka 4.3; KAFKA-15563).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class _Stage:
    what: str
    began_ms: int
    ended_ms: int | None = None


class ThreadStage:
    """One writer, the herder's thread; `summary` from any thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._last = _Stage("awaiting startup", now_ms())

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Inside, the worker is busy with `what`, a verb in its -ing form."""
        began_ms = self._now_ms()
        self._last = _Stage(what, began_ms)
        try:
            yield
        finally:
            self._last = _Stage(what, began_ms, self._now_ms())

    def summary(self) -> str:
        """A sentence on it."""
        last = self._last
        if last.ended_ms is None:
            return _under_way(last.what, last.began_ms)
        return (
            f"The last operation the worker completed was {last.what}, which began at {_instant(last.began_ms)} and "
            f"completed at {_instant(last.ended_ms)}."
        )

    def elsewhere(self, what: str) -> str:
        """The sentence on `what`, which begins now on another thread."""
        return _under_way(what, self._now_ms())


def _under_way(what: str, began_ms: int) -> str:
    return f"The worker is currently {what}, which began at {_instant(began_ms)}."


def _instant(time_ms: int) -> str:
    """Writes it as Java's Instant does."""
    text = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00").removesuffix(".000") + "Z"
