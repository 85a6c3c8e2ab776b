"""Looks at what slots with a bound of memory take, from outside: one that allocates gives its own threads no turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from kconnect.clock import Clock
from kconnect.runtime.config.slot_keys import MEMORY, SlotSettings

# What a process takes within this time comes on top of its bound
_LOOK_EVERY_S: Final = 0.2


class MemoryWatch:
    """A thread from the first bounded slot on. Lifecycle: constructed -> start (often) -> ends once `stopping` is set.

    `used` gives what a slot's process takes, None while that is not known; `exceeded` gets a slot and a sentence.
    """

    def __init__(
        self,
        clock: Clock,
        stopping: threading.Event,
        bounds: Callable[[], Mapping[int, tuple[str, SlotSettings]]],
        used: Callable[[int], int | None],
        exceeded: Callable[[int, str], None],
    ) -> None:
        """`bounds`: by slot its connector and what that has set."""
        self._clock = clock
        self._stopping = stopping
        self._bounds = bounds
        self._used = used
        self._exceeded = exceeded
        self._thread = threading.Thread(target=self._run, name="slot-memory", daemon=True)

    def start(self) -> None:
        """Idempotent; from one thread at a time."""
        if self._thread.ident is None:
            self._thread.start()

    def join(self, timeout_s: float) -> None:
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._clock.wait(self._stopping, _LOOK_EVERY_S):
            for slot, (connector, bound) in self._bounds().items():
                most = bound.memory_bytes
                used = None if most is None else self._used(slot)
                if most is not None and used is not None and used > most:
                    self._exceeded(slot, excess(slot, connector, used, most))


def excess(slot: int, connector: str, used: int, most: int) -> str:
    """What is wrong with a slot that takes more than its connector allows, as a sentence."""
    return (
        f"Slot {slot} of connector {connector} took {used / 2**20:.0f} MB of memory, and {MEMORY} allows "
        f"{most / 2**20:.0f} MB: its process was killed. Raise {MEMORY}, or have the connector keep less in memory."
    )
