"""Whether a cluster takes us: its master is there, and gives the application its place.

Asked and told by us, since Spark says nothing of a standalone master that is away for a minute, and of a full YARN
queue at no time.
"""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kconnect.errors import EnvironmentProblemError

log = logging.getLogger(__name__)

# A master that comes up is seen that soon; Spark itself looks again after 20 s.
_PAUSE_S = 0.5
_CONNECT_S = 5.0


def master_addresses(master: str) -> list[tuple[str, int]]:
    """The masters that a `spark://HOST:PORT,HOST:PORT` names; empty for every other `spark.master`.

    Also for one of another form: Spark refuses it with a sentence of its own.
    """
    names = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    found = [re.fullmatch(r"\[?([^\]]+?)\]?:(\d{1,5})", name.strip()) for name in names]
    return [(match[1], int(match[2])) for match in found if match is not None] if all(found) else []


def await_master(master: str, timeout_s: float, stopping: threading.Event) -> None:
    """Wait until one of the masters takes a connection; returns as well when the worker stops.

    Errors: EnvironmentProblemError at the deadline, with each address and its reason.
    """
    addresses = master_addresses(master)
    deadline_s = time.monotonic() + timeout_s
    is_told = False
    while addresses and not stopping.is_set():
        remaining_s = deadline_s - time.monotonic()
        problems = _problems(addresses, min(max(remaining_s, 0.1), _CONNECT_S))
        if not problems:
            return
        said = "; ".join(f"{address}: {reason}" for address, reason in problems.items())
        if remaining_s <= 0:
            raise EnvironmentProblemError(
                f"No Spark master answered at {master} in {timeout_s:g} s (kconnect.slot.start.timeout.ms): {said}.",
                hint="Check spark.master, and that the master is up.",
            )
        if not is_told:
            log.warning("No Spark master answers at %s, it is tried for %g s: %s", master, timeout_s, said)
            is_told = True
        stopping.wait(min(_PAUSE_S, max(deadline_s - time.monotonic(), 0.0)))


@contextmanager
def told_while_queued(master: str, every_s: float) -> Iterator[None]:
    """Warns each `every_s` seconds inside: a cluster may let an application wait for as long as it likes."""
    done = threading.Event()

    def tell() -> None:
        began_s = time.monotonic()
        while not done.wait(every_s):
            log.warning(
                "%s has not begun this worker's application in %.0f s, and no task runs before: it is full, has no "
                "node for what the application asks (on YARN its queue, spark.yarn.am.memory), or does not answer. "
                "It is waited for",
                master,
                time.monotonic() - began_s,
            )

    teller = threading.Thread(target=tell, name="spark-queued", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _problems(addresses: Sequence[tuple[str, int]], timeout_s: float) -> Mapping[str, str]:
    """Why none of them can be reached, for each address; empty when one can."""
    problems = {}
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout_s).close()
        except OSError as error:
            problems[f"{host}:{port}"] = error.strerror or str(error)
        else:
            return {}
    return problems
