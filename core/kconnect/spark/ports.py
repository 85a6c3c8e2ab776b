"""Seams of the launcher and the pool: all they need of Spark, of connections and of time.

tests/kit/memory_spark.py has the versions in memory.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kconnect.clock import Clock, SystemClock
from kconnect.errors import LinkRefusedError
from kconnect.runtime.herder.interface import RuntimeInfo
from kconnect.spark.executors import Executor, RunningSlot
from kconnect.spark.link import LinkServer
from kconnect.spark.messages import FailedRecords, Hello, Message, TaskMetrics
from kconnect.spark.processes import kill_descendant
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_spec import SlotSpec


class SlotJobs(Protocol):
    """What the pool asks of Spark. Threads: any."""

    def run_slot(self, spec: SlotSpec) -> None:
        """Run a slot; blocks until it ends. Errors: ConnectError when it failed."""
        ...

    def cancel_slot(self, slot: int) -> None:
        """Make `run_slot` fail, and end the slot's process."""
        ...


class Cluster(Protocol):
    """Executors of the application, and which slot is in which. Threads: any."""

    @property
    def is_ended(self) -> bool:
        """Whether Spark has ended the application by itself."""
        ...

    def executors(self) -> list[Executor]:
        """The executors there are now. Errors: ConnectError when Spark cannot be asked any more."""
        ...

    def settled(self, slot: int) -> None:
        """A slot is up."""
        ...

    def running(self, slot: int) -> RunningSlot | None:
        """Where a slot runs for Spark; None while that is not known."""
        ...


class Application(SlotJobs, Protocol):
    """What the launcher asks of a Spark application. `SparkApplication` is the one in a JVM."""

    @property
    def cluster(self) -> Cluster:
        """Only after start."""
        ...

    @property
    def driver_host(self) -> str:
        """The host at which executors reach this process; only after start."""
        ...

    def start(self) -> None:
        """Blocks until Spark is up, or `stop` is called. Errors: ConnectError."""
        ...

    def about(self) -> RuntimeInfo:
        """What it is and which executors it has; only after start. Errors: ConnectError when Spark is gone."""
        ...

    def note_daemon(self, pid: int) -> None:
        """A Python daemon on this machine has forked a slot."""
        ...

    def make_archive_in_background(self) -> None:
        """Have later starts made faster. Never blocks."""
        ...

    def stop(self, timeout_s: float) -> None:
        """End Spark and every job. Idempotent."""
        ...

    def end_daemons(self, timeout_s: float) -> None:
        """Wait for the Python daemons, and kill those that stay."""
        ...


class SlotLink(Protocol):
    """One connection to a slot's process. `kconnect.spark.link.Link` is the one over TCP."""

    @property
    def last_received_s(self) -> float:
        """When the slot was heard last, by the pool's clock."""
        ...

    @property
    def is_broken(self) -> bool: ...

    def send(self, message: Message) -> None:
        """Errors: LinkError."""
        ...

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, None when there is none in time. Errors: LinkError when the link is broken."""
        ...

    def abort(self) -> None:
        """Break the link from any thread: `receive` and `send` raise. Idempotent."""
        ...

    def refuse(self, reason: str) -> LinkRefusedError:
        """Tell the slot why it is not wanted; gives the error to raise."""
        ...


class SlotListener(Protocol):
    """Accepts slots and serves each on a thread of its own. `kconnect.spark.link.LinkServer` is the one over TCP."""

    @property
    def port(self) -> int: ...
    def start(self) -> None:
        """Errors: LinkError when the address is not available."""
        ...

    def stop(self, timeout_s: float) -> None:
        """Break every link, and end its thread. Idempotent."""
        ...


class PoolEvents(Protocol):
    """What the pool reports. Threads: the slot's link thread; `slot_lost` comes after the slot's last `slot_said`."""

    def slot_attached(self, slot: int) -> None: ...
    def slot_said(self, slot: int, message: Message, reply: Callable[[Message], None]) -> None:
        """`reply` sends to the process that said it, and to none that takes its place later."""
        ...

    def slot_lost(self, slot: int, reason: str) -> None: ...
    def query_said(self, message: TaskMetrics | FailedRecords) -> FailedRecords | None:
        """A process of a query has counted so much more than it said before, or asks or says what is reported."""
        ...

    def tick(self) -> None:
        """Called once in each heartbeat interval."""
        ...

    def has_tasks(self, slot: int) -> bool:
        """Whether the slot has work besides abandoned tasks."""
        ...


Serve = Callable[[SlotLink], None]


def listen_on_tcp(settings: SparkSettings, token: bytes, serve: Serve) -> SlotListener:
    """A listener on the address of the settings."""
    return LinkServer(token, serve, bind_host=settings.link_bind_host, port=settings.link_port)


def kill_on_this_host(hello: Hello) -> bool:
    """Kill a slot's process if it runs on this host below this process; says whether it does."""
    return hello.host == socket.gethostname() and kill_descendant(hello.pid)


def memory_on_this_host(hello: Hello) -> int | None:
    """Resident bytes of a slot's process now; None if it is on another host, or has ended."""
    if hello.host != socket.gethostname():
        return None
    import psutil  # here: only slots with a bound are looked at

    try:
        return int(psutil.Process(hello.pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPorts:
    """Everything outside of the pool that it uses. The defaults are the real ones."""

    jobs: SlotJobs
    listen: Callable[[SparkSettings, bytes, Serve], SlotListener] = listen_on_tcp
    kill: Callable[[Hello], bool] = kill_on_this_host
    memory: Callable[[Hello], int | None] = memory_on_this_host
    clock: Clock = field(default_factory=SystemClock)
