"""Nothing may outlive a test: threads, child processes, listening ports.

Processes below one that stood before the test belong to that one's owner, a fixture of the module or the session.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import psutil

__all__ = ["Snapshot"]

# Kept by libraries for the life of the process, by how their names begin.
_LIBRARY_THREADS = ("pytest_timeout", "asyncio_", "pyarrow")
# pyspark keeps the JVM of a session for the life of the process; what is below it comes and goes with the session.
_SPARK_JVM = "org.apache.spark.deploy.SparkSubmit"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What this process owns at one moment."""

    threads: frozenset[int]
    processes: frozenset[int]
    ports: frozenset[int]

    @classmethod
    def now(cls) -> Snapshot:
        threads = frozenset(thread.ident or 0 for thread in threading.enumerate())
        return cls(threads, frozenset(_children()), _listening())

    def left_behind(self, grace_s: float) -> list[str]:
        """What came since, and is still there after the grace time; empty when nothing is."""
        deadline = time.monotonic() + grace_s
        while True:
            left = self._newcomers()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.02)

    def _newcomers(self) -> list[str]:
        left = [
            f"thread {thread.name}"
            for thread in threading.enumerate()
            if thread.ident not in self.threads and not thread.name.startswith(_LIBRARY_THREADS)
        ]
        left += [f"process {pid}: {text}" for pid, text in _children(self.processes).items()]
        left += [f"listening port {port}" for port in _listening() - self.ports]
        return left


def _children(others: frozenset[int] = frozenset()) -> dict[int, str]:
    """Processes below this one, pyspark's session and `others` with what is below them excepted: pid -> command line.

    Zombies count.
    """
    found: dict[int, str] = {}
    ahead = psutil.Process().children()
    while ahead:
        child = ahead.pop()
        if child.pid in others:
            continue
        try:
            command = " ".join(child.cmdline())
            if _SPARK_JVM in command:
                continue
            found[child.pid] = f"{child.status()} {command[:200]}"
            ahead += child.children()
        except psutil.NoSuchProcess:
            continue
        except psutil.ZombieProcess:
            found[child.pid] = "zombie"
    return found


def _listening() -> frozenset[int]:
    return frozenset(
        connection.laddr.port
        for connection in psutil.Process().net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    )
