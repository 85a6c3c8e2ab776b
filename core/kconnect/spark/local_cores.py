"""Cores of a local master beside those of spark.master: for slots that are connectors' own, or begin by load."""

from __future__ import annotations

import threading
from typing import Any


class LocalCores:
    """Adds as many cores as slots have run at one time beyond those that it was started for. Threads: any.

    Spark takes the number of a local master's cores at its start, when nobody knows how many connectors will want slots
    of their own or what load will come, and queries would use any in reserve. In the JVM a slot is a thread that waits:
    its core costs nothing. One whose slot has ended is kept for the next, and queries may use it meanwhile.
    """

    def __init__(self, slots: int) -> None:
        """`slots`: for how many Spark was started."""
        self._lock = threading.Lock()  # guards both
        self._cores = slots
        self._taken: set[int] = set()

    def take(self, slot: int, context: Any) -> None:
        """See that Spark has a core for this slot."""
        with self._lock:
            self._taken.add(slot)
            is_lacking = len(self._taken) > self._cores
            self._cores += is_lacking
        if is_lacking:
            _add_core(context)

    def give_back(self, slot: int) -> None:
        """The slot's job has ended, if it had a core."""
        with self._lock:
            self._taken.discard(slot)


def _add_core(context: Any) -> None:
    """Have the local scheduler free a core. Source: o.a.spark.scheduler.local.LocalEndpoint (Spark 4).

    It frees one for each task that is said to have ended, and looks for no task of that number.
    """
    jvm = context._jvm
    finished = jvm.org.apache.spark.TaskState.FINISHED()
    context._jsc.sc().schedulerBackend().statusUpdate(-1, finished, jvm.java.nio.ByteBuffer.allocate(0))
