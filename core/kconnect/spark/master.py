"""Whether a cluster accepts the application, its master and its resources; and the cores of a local master.

We check and report it ourselves: Spark stays silent for a minute about a standalone master that is down, and never
mentions a full YARN queue.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kconnect.errors import EnvironmentProblemError

log = logging.getLogger(__name__)

# How soon a master that comes up is noticed; Spark itself retries after 20 s.
_PAUSE_S = 0.5
_CONNECT_S = 5.0


def master_addresses(master: str) -> list[tuple[str, int]]:
    """The masters that a `spark://HOST:PORT,HOST:PORT` names; empty for every other `spark.master`.

    Empty for a malformed one too: Spark rejects it with its own message.
    """
    names = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    found = [re.fullmatch(r"\[?([^\]]+?)\]?:(\d{1,5})", name.strip()) for name in names]
    return [(match[1], int(match[2])) for match in found if match is not None] if all(found) else []


def await_master(master: str, timeout_s: float, stopping: threading.Event) -> None:
    """Wait until one of the masters accepts a connection, or the worker stops.

    Errors: EnvironmentProblemError at the deadline, with each address and its reason.
    """
    addresses = master_addresses(master)
    deadline_s = time.monotonic() + timeout_s
    is_reported = False
    while addresses and not stopping.is_set():
        remaining_s = deadline_s - time.monotonic()
        problems = _problems(addresses, min(max(remaining_s, 0.1), _CONNECT_S))
        if not problems:
            return
        reasons = "; ".join(f"{address}: {reason}" for address, reason in problems.items())
        if remaining_s <= 0:
            raise EnvironmentProblemError(
                f"No Spark master answered at {master} in {timeout_s:g} s (kconnect.slot.start.timeout.ms): {reasons}.",
                hint="Check spark.master, and that the master is up.",
            )
        if not is_reported:
            log.warning("No Spark master answers at %s; retrying for %g s: %s", master, timeout_s, reasons)
            is_reported = True
        stopping.wait(min(_PAUSE_S, max(deadline_s - time.monotonic(), 0.0)))


@contextmanager
def warn_while_queued(master: str, every_s: float) -> Iterator[None]:
    """Inside, warn every `every_s` seconds: a cluster may keep an application waiting indefinitely."""
    done = threading.Event()

    def warn() -> None:
        began_s = time.monotonic()
        while not done.wait(every_s):
            log.warning(
                "%s has not started this worker's application in %.0f s, and no task runs until it does: it is full, "
                "has no node for what the application requests (on YARN its queue, spark.yarn.am.memory), or does not "
                "answer. Still waiting",
                master,
                time.monotonic() - began_s,
            )

    warner = threading.Thread(target=warn, name="spark-queued", daemon=True)
    warner.start()
    try:
        yield
    finally:
        done.set()
        warner.join()


def _problems(addresses: Sequence[tuple[str, int]], timeout_s: float) -> Mapping[str, str]:
    """Why no address can be reached, one reason each; empty when one can."""
    problems = {}
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout_s).close()
        except OSError as error:
            problems[f"{host}:{port}"] = error.strerror or str(error)
        else:
            return {}
    return problems


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
