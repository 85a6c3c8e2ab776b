"""HostProcess: the JVMs that run Java's plugins for this process, started or borrowed when the first one is needed."""

from __future__ import annotations

import contextlib
import logging
import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from kconnect.errors import ConnectError
from kconnect.java.archives import recording
from kconnect.java.compat.mbean_names import DEFAULT_MBEANS, object_name_patterns
from kconnect.java.door import DOOR
from kconnect.java.installed import find_java
from kconnect.java.plugins.connection import Answer, JavaConnection
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.isolation import Isolation, named_in
from kconnect.java.plugins.jvm import Died, Event, HostJvm, Place
from kconnect.java.plugins.own_jvm import END_TIMEOUT_S, OwnJvm
from kconnect.java.plugins.program import HostProgram, TakenOptions, take_ports
from kconnect.java.plugins.shared_jvm import JvmDoor, WorkersJvm
from kconnect.logs.log_context import current_place, follow_levels, log_context, set_levels

log = logging.getLogger(__name__)

# A JVM that nobody has used for so long ends: validations of a minute share one.
_IDLE_S: Final = 60.0
# No validations meet in one of connectors that were parted from others.
_IDLE_APART_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """How host JVMs are started: the settings kconnect.java.* of a worker."""

    home: str | None = None
    options: tuple[str, ...] = ()
    heap: str = "512m"
    discovery: str | None = None
    """`plugin.discovery` of the worker."""
    one_for_each: bool = False
    """A JVM for each connector, instead of one for all."""
    mbeans: tuple[str, ...] = ()
    """Patterns of the MBeans that are shown, as Java has them."""
    command: str | None = None
    """What plugins find in sun.java.command: the class of Java's worker and its file."""
    silent_after_s: float = 30.0
    """A JVM that has not answered for so long is killed; one that starts has twice as long."""
    has_records: bool = True
    """Whether tasks run in it; a worker's own has connectors alone, unless it is its slots', too."""
    is_shared: bool = False
    """Whether a worker lends its JVM to its slots."""
    door: str | None = field(default=None, repr=False)
    """Where a slot gets its worker's JVM; None: it has one of its own. A secret."""

    @classmethod
    def of(cls, config: Mapping[str, str]) -> JavaSettings:
        """Reads a worker's config. Errors: ConfigError for patterns of MBeans that Java would refuse."""
        return cls(
            config.get("kconnect.java.home") or None,
            tuple(shlex.split(config.get("kconnect.java.opts") or "")),
            config.get("kconnect.java.heap") or "512m",
            config.get("plugin.discovery") or None,
            config.get("kconnect.java.host") == "connector",
            tuple(object_name_patterns(config.get("kconnect.java.mbeans", DEFAULT_MBEANS))),
            config.get("kconnect.java.command") or None,
            int(config.get("kconnect.java.timeout.ms") or 30_000) / 1000,
            is_shared=config.get("kconnect.java.host") == "worker",
            door=config.get(DOOR),
        )

    def of_worker(self) -> JavaSettings:
        """The settings of the worker itself."""
        return replace(self, has_records=self.is_shared, door=None)


def _nothing(what: str, arguments: Any) -> Any:
    raise ConnectError(f"Nobody answers {what}")


def _ignore(what: str, arguments: Any) -> None:
    log.debug("Nobody wants %s", what)


@dataclass(slots=True)
class _Seat:
    """Where one JVM runs, or will."""

    lock: threading.Lock = field(default_factory=threading.Lock)  # guards the two below, and that one thread starts it
    jvm: HostJvm | None = None
    used_s: float = 0.0
    is_for_all: bool = True
    """Nobody in it was parted from others."""
    is_closed: bool = False
    """No JVM starts in it any more, and one that does just now ends at once. Set before stop() asks for the lock."""


class HostProcess:
    """The JVMs of this process: one for all connectors, or one for each; a slot's may be that of its worker. A JVM
    starts with its first connection; one that died is started again by the next; one that nobody uses ends after a
    minute. Connectors whose JVM ends again and again get JVMs of their own (isolation.py).

    The death of a JVM is asked to each task of its own by JavaHostDiedError; nothing else is hurt.
    Threads: any.
    """

    def __init__(self, index: JavaIndex, settings: JavaSettings, *, recorded: Path | None = None) -> None:
        """`recorded`: a file to which the JVM writes the archive of its classes as it ends."""
        self._index = index
        self._settings = settings
        self._recorded = recorded
        self._lock = threading.Lock()  # guards the four below
        self._isolation = Isolation()
        self._seats: dict[str | None, _Seat] = {}
        self._unfollow: Callable[[], None] | None = None
        self._door: JvmDoor | None = None

    @property
    def pid(self) -> int | None:
        """Process id of a JVM; None while there is none."""
        return next((jvm.process.pid for jvm in self._running()), None)

    @property
    def ports(self) -> tuple[int, ...]:
        """On which the JVMs listen, by kconnect.java.opts."""
        return tuple(sorted(port for jvm in self._running() for port in jvm.process.ports))

    def connect(
        self,
        *,
        thread: str = "kconnect",
        location: str | None = None,
        answer: Answer = _nothing,
        event: Event = _ignore,
    ) -> JavaConnection:
        """A new connection, for one plugin object; `thread` is the name of the Java thread that will serve it.

        Its log lines have the context that this thread has now, which also says to which connector it belongs.
        Errors: EnvironmentProblemError (no Java, it does not start), UnreachableError (Kafka's jars), TimedOutError;
        ConnectError when stop() comes meanwhile.
        """
        place = current_place()
        key = self._key(place[0])
        seat = self._seat(key)
        try:
            with seat.lock:
                made = self._jvm_of(seat, key).open(thread, location, answer, event, place)
        finally:
            if seat.is_closed:  # stop() may not have waited for the start
                _end(seat, 0.0)
        if seat.is_closed:
            made.close()
            raise _ended()
        return made

    def _key(self, connector: str | None) -> str | None:
        """Names the seat of a connector; None for the one that all others share."""
        if self._settings.one_for_each:
            return connector
        with self._lock:
            return self._isolation.part_of(connector, time.monotonic())

    def _note_end(self, key: str | None, places: Collection[Place], death: ConnectError) -> None:
        """A JVM has ended by itself: who was in it may be parted."""
        blamed = named_in(str(death))
        culprit = next((connector for connector, task in places if blamed in (connector, f"{connector}-{task}")), None)
        if self._settings.one_for_each or (blamed is not None and culprit is None):
            return
        connectors = {connector for connector, _ in places if connector is not None}
        with self._lock:
            said = self._isolation.note(key, connectors, culprit, time.monotonic())
        if said is not None:
            log.warning("%s", said)

    def _seat(self, key: str | None) -> _Seat:
        with self._lock:
            if self._unfollow is None:
                self._unfollow = follow_levels(self._follow_levels)
            is_for_all = key is None or self._settings.one_for_each
            return self._seats.setdefault(key, _Seat(is_for_all=is_for_all))

    def share(self) -> str:
        """Lend the JVM to slots on this machine until stop(). Shape: what JavaSettings.door of a slot is; a secret."""
        with self._lock:
            if self._door is not None:
                self._door.close()
            self._door = JvmDoor(self._lend)
            return self._door.open()

    def _lend(self) -> _Lent:
        """The JVM for a slot. Errors: as those of connect()."""
        seat = self._seat(None)
        with seat.lock:
            return _Lent(self._jvm_of(seat, None))

    def _jvm_of(self, seat: _Seat, key: str | None) -> HostJvm:
        """Under the seat's lock."""
        if seat.is_closed:
            raise _ended()
        jvm = seat.jvm
        if jvm is not None and not jvm.is_alive:
            jvm.end(0.0)
            jvm = None
        if jvm is None:
            jvm = seat.jvm = self._start(key)
            jvm.watch(partial(self._is_over, seat, jvm))
        seat.used_s = time.monotonic()
        return jvm

    def abandon(self, connector: str, task: int | None) -> None:
        """Let go of a task that did not stop in time, or of a connector. A plugin that hangs keeps its Java thread.

        Once nobody else is in its JVM, or too many hang in it, the JVM is killed.
        """
        for jvm in self._running():
            jvm.abandon((connector, task))

    def stack(self, connector: str, task: int | None) -> list[str] | None:
        """Works as HostJvm.stack."""
        stacks = (jvm.stack((connector, task)) for jvm in self._running())
        return next((stack for stack in stacks if stack is not None), None)

    def stop(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """End the JVMs; kills them at the deadline. One that starts then ends once it is up. Idempotent."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            seats, self._seats = list(self._seats.values()), {}
            door, self._door = self._door, None
            if self._unfollow is not None:
                self._unfollow()
                self._unfollow = None
        for seat in seats:
            seat.is_closed = True
        if door is not None:
            door.close()
        for seat in seats:
            _end(seat, max(deadline - time.monotonic(), 0.0))

    def _running(self) -> list[HostJvm]:
        with self._lock:
            jvms = [seat.jvm for seat in self._seats.values()]
        return [jvm for jvm in jvms if jvm is not None and jvm.is_alive]

    def _is_over(self, seat: _Seat, jvm: HostJvm) -> bool:
        """Whether the JVM is not a seat's any more. One that nobody uses ends after a while, or if plugins hang in it.

        Under the seat's lock: whoever comes now gets another one.
        """
        if not seat.lock.acquire(blocking=False):
            return False  # somebody connects
        try:
            if seat.jvm is not jvm:
                return True
            now_s = time.monotonic()
            if jvm.is_used:
                seat.used_s = now_s
            hanging = None if jvm.is_used else jvm.hanging()
            if hanging is None and now_s - seat.used_s < (_IDLE_S if seat.is_for_all else _IDLE_APART_S):
                return False
            seat.jvm = None
        finally:
            seat.lock.release()
        if hanging is not None and not jvm.process.is_shared:  # else its owner sees who hangs, once we have gone
            jvm.kill(hanging)
        jvm.end()
        return True

    def _follow_levels(self) -> None:
        """Give Java's loggers the levels of ours; in a JVM of the worker they are the worker's."""
        for jvm in self._running():
            if jvm.process.is_shared:
                continue
            try:
                made = jvm.open("kconnect-levels", None, _nothing, _ignore, (None, None))
                with contextlib.closing(made) as connection:
                    connection.call("levels", levels=set_levels())
            except ConnectError as err:
                log.warning("Java's loggers keep their levels: %s", err)

    # --- start ---

    def _start(self, key: str | None) -> HostJvm:
        if self._settings.door is not None and key is None:
            return self._borrowed(self._settings.door)
        began_s = time.monotonic()
        program = HostProgram.find(find_java("Java's plugins", home=self._settings.home))
        taken = take_ports(self._settings.options)
        try:
            jvm = self._started(program, taken, partial(self._note_end, key))
        except BaseException:
            taken.release()
            raise
        with log_context(key if self._settings.one_for_each else None):
            took_s = time.monotonic() - began_s
            ports = f", listens on {', '.join(map(str, taken.ports))}" if taken.ports else ""
            version, pid = program.java.version, jvm.process.pid
            log.info("Java %s runs plugins (pid %d, up in %.1f s%s)", version, pid, took_s, ports)
        return jvm

    def _borrowed(self, door: str) -> HostJvm:
        silent_after_s = self._settings.silent_after_s
        process = WorkersJvm.borrow(door)
        died = partial(self._note_end, None)
        jvm = HostJvm(process, silent_after_s=silent_after_s, client=process.client, died=died)
        jvm.start()
        return jvm

    def _started(self, program: HostProgram, taken: TakenOptions, died: Died) -> HostJvm:
        options = list(taken.options)
        if self._recorded is None:
            program.have_archive_made()
        else:
            options += recording(self._recorded)
        command = program.command(options, self._settings.heap, has_records=self._settings.has_records)
        silent_after_s = self._settings.silent_after_s
        process = OwnJvm(command, silent_after_s=silent_after_s, taken=taken)
        process.start(
            {
                "index": self._places_and_kinds(),
                "records": self._recorded is not None,
                "mbeans": self._settings.mbeans,
                "command": self._settings.command,
            }
        )
        jvm = HostJvm(process, silent_after_s=silent_after_s, died=died)
        jvm.start()
        return jvm

    def _places_and_kinds(self) -> dict[str, dict[str, list[str]]]:
        """Gives the folders and kinds of each class; its short names follow from its kinds."""
        return {
            name: {
                "places": sorted({str(location) for locations in kinds.values() for location in locations}),
                "kinds": sorted(kinds),
            }
            for name, kinds in self._index.plugins(reads=False).items()
        }


class _Lent:
    """A JVM that a slot uses; it counts as used until it is given back."""

    def __init__(self, jvm: HostJvm) -> None:
        self._jvm = jvm
        self.client = jvm.lend()
        self.address = jvm.process.address
        self.pid = jvm.process.pid

    def kill(self, why: str) -> None:
        self._jvm.kill(why)

    def death(self) -> tuple[ConnectError, bool]:
        return self._jvm.process.death(), not self._jvm.is_alive

    def give_back(self) -> None:
        self._jvm.take_back(self.client)


def _ended() -> ConnectError:
    return ConnectError("Java's plugins were stopped in the meantime")


def _end(seat: _Seat, timeout_s: float) -> None:
    """End the JVM of a seat, if it has one; nothing when a JVM still starts in it after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    if not seat.lock.acquire(timeout=timeout_s):
        return
    try:
        jvm, seat.jvm = seat.jvm, None
    finally:
        seat.lock.release()
    if jvm is not None:
        jvm.end(max(deadline - time.monotonic(), 0.0))
