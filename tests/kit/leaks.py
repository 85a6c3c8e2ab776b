"""Nothing may outlive a test: threads, child processes, listening ports.

Processes below one that stood before the test, and threads of a pool that had some before it, belong to that one's
owner, a fixture of the module or the session.
"""

from __future__ import annotations

import concurrent.futures.thread
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from kit.pace import now

__all__ = ["KEPT", "Snapshot"]

# Kept by libraries for the life of the process, by how their names begin.
_LIBRARY_THREADS = ("pytest_timeout", "asyncio_", "pyarrow", "fsspecIO")
# pyspark keeps the JVM of a session for the life of the process; what is below it comes and goes with the session.
_SPARK_JVM = "org.apache.spark.deploy.SparkSubmit"
KEPT: Final[set[int]] = set()
"""Processes that a test started or was given, and that stay for the next one (kit.broker_pool)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What this process owns at one moment."""

    threads: frozenset[int]
    pools: frozenset[int]
    processes: frozenset[int]
    sockets: frozenset[str]

    @classmethod
    def now(cls) -> Snapshot:
        threads = frozenset(thread.ident or 0 for thread in threading.enumerate())
        return cls(threads, frozenset(_pools().values()), frozenset(_children()), _sockets())

    def left_behind(self, grace_s: float) -> list[str]:
        """What came since, and is still there after the grace time; empty when nothing is."""
        deadline = now() + grace_s
        while True:
            left = self._newcomers()
            if not left or now() > deadline:
                return left
            time.sleep(0.02)

    def end_newcomers(self) -> None:
        """Kill the processes that came since: what a test left must not harm others."""
        for pid in _children(self.processes):
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()

    def _newcomers(self) -> list[str]:
        pools = _pools()
        left = [
            f"thread {thread.name}"
            for thread in threading.enumerate()
            if thread.ident not in self.threads
            and not thread.name.startswith(_LIBRARY_THREADS)
            and pools.get(thread) not in self.pools
            and thread not in _pyiceberg_threads()
        ]
        left += [f"process {pid}: {text}" for pid, text in _children(self.processes).items()]
        if _sockets() - self.sockets:  # who listens takes ten times as long to find out as who has a socket
            left += [f"listening port {port}" for inode, port in _listening().items() if inode not in self.sockets]
        return left


def _pools() -> dict[threading.Thread, int]:
    """Threads of pools, each with what its pool's threads have in common: the queue they take their work from."""
    return {thread: id(queue) for thread, queue in list(concurrent.futures.thread._threads_queues.items())}


def _pyiceberg_threads() -> set[threading.Thread]:
    """Of the pool that pyiceberg keeps for the life of the process, whose threads have no name of its own."""
    module = sys.modules.get("pyiceberg.utils.concurrent")
    pool = module and module.ExecutorFactory._instance
    return set(pool._threads) if pool else set()


def _children(others: frozenset[int] = frozenset()) -> dict[int, str]:
    """Processes below this one: pid -> command line. Without pyspark's session, those kept and `others`, and what is
    below them.

    Zombies count.
    """
    found: dict[int, str] = {}
    ahead = [pid for pid in _child_pids(os.getpid()) if pid not in others and pid not in KEPT]
    while ahead:
        try:
            child = psutil.Process(ahead.pop())
            command = " ".join(child.cmdline())
            if _SPARK_JVM in command:
                continue
            found[child.pid] = f"{child.status()} {command[:200]}"
            ahead += [pid for pid in _child_pids(child.pid) if pid not in others]
        except psutil.ZombieProcess as zombie:
            found[zombie.pid] = "zombie"
        except psutil.NoSuchProcess:
            continue
    return found


def _child_pids(pid: int) -> list[int]:
    """Of a process, none of one that has ended. The kernel's own list, where it has one: psutil looks at every process
    of the machine, which takes 2 ms for each child, and there are 20,000 looks.
    """
    own = Path(f"/proc/{pid}/task")
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return [child.pid for child in psutil.Process(pid).children()]
    while own.exists():
        found: list[int] = []
        with suppress(OSError):
            threads = set(os.listdir(own))
            for thread in threads:
                found += map(int, (own / thread / "children").read_text().split())
            if threads <= set(os.listdir(own)):
                return found
        # A thread ended meanwhile: what it has started is now another's, perhaps of one that was looked at before
    return []


def _sockets() -> frozenset[str]:
    """Every socket this process has open, as the system numbers them; without /proc, those that listen."""
    try:
        handles = os.listdir("/proc/self/fd")
    except OSError:
        return frozenset(_listening())
    return frozenset(link for handle in handles if (link := _link(handle)).startswith("socket:"))


def _link(handle: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:  # closed meanwhile
        return ""


def _listening() -> dict[str, int]:
    """Sockets of this process that listen, and their ports."""
    found = {}
    for connection in psutil.Process().net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN:
            known = connection.fd >= 0 and _link(str(connection.fd))
            found[known or f"port {connection.laddr.port}"] = connection.laddr.port
    return found
