"""HostJvm: one JVM that runs plugins, as a process of ours uses it: its sessions, and what it says unasked."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from kconnect.errors import ConnectError
from kconnect.java.plugins.connection import EVENT, RESULT, Answer, JavaConnection, answered
from kconnect.java.plugins.own_jvm import END_TIMEOUT_S
from kconnect.logs.log_context import log_context, set_levels
from kconnect.logs.wording import pluralize

log = logging.getLogger(__name__)

_TIMEOUT: Final = "kconnect.java.timeout.ms"
# How often it is asked whether it answers; a JVM that has nothing to do wakes up for that alone.
_LOOK_EVERY_S: Final = 5.0
# A plugin that was given up may take so long to come back before it counts as hanging.
_HANGS_AFTER_S: Final = 10.0
# So many calls that hang make a JVM with other plugins in it worth a new one, as with abandoned tasks of a slot.
_MOST_HANGING: Final = 4
# The next batch of a sink waits in it while Java puts the one before: 2000 records of 100 bytes do not fit into Linux's
# 208 KB, and Python waited. Records a second to a file 520,000, not 473,000.
_SEND_BUFFER: Final = 1 << 20

Event: TypeAlias = Callable[[str, Any], None]
"""Reported what a plugin says without being asked (reconfigure, raise): what, arguments. Quick; on the control thread.
"""
DIED: Final = "died"
"""The last event: the JVM has ended by itself. Its argument is the error."""
Place: TypeAlias = tuple[str | None, int | None]
"""Connector and task."""
Died: TypeAlias = Callable[[Collection[Place], ConnectError], None]
"""Learns who was in a JVM that has ended by itself, and why."""


@dataclass(slots=True)
class _Session:
    """What Java may ask for, or tell, outside of a call."""

    answer: Answer
    event: Event
    place: Place
    connection: weakref.ref[JavaConnection] | None = None
    stack: list[str] | None = None
    """Where its thread in Java was when `stack` was asked last, innermost call first."""
    has_ended: bool = False
    """Java's thread for it is through."""


class JvmProcess(Protocol):
    """The process of a JVM: OwnJvm for who has started it, WorkersJvm for a slot that uses its worker's."""

    @property
    def is_shared(self) -> bool:
        """Whether another process owns it, which ends it and has its log lines that are no plugin's."""

    @property
    def address(self) -> tuple[str, str]:
        """Its socket, and the token that each connection begins with."""

    @property
    def pid(self) -> int: ...

    @property
    def ports(self) -> tuple[int, ...]:
        """On which it listens, by its options; none of those that another process tells of."""

    @property
    def is_alive(self) -> bool: ...

    def look(self) -> None:
        """Called every few seconds."""

    def kill(self, why: str) -> None: ...

    def death(self) -> ConnectError:
        """Why the JVM is gone, as far as it can be known."""

    def end(self, timeout_s: float) -> None:
        """End it, or let go of it. Idempotent."""


OWNER: Final = 0
"""The client that has started the JVM: it gets log lines of nobody's thread, and gives levels."""


class HostJvm:
    """A JVM that runs. Lifecycle: start() -> open()* -> end(); or it ends by itself, which each connection tells.

    Threads: any; one of its own listens, one looks every few seconds whether it answers.
    """

    def __init__(
        self,
        process: JvmProcess,
        *,
        silent_after_s: float,
        client: int = OWNER,
        died: Died = lambda places, death: None,
    ) -> None:
        """`silent_after_s`: a JVM that has not answered for so long is killed. `client`: who we are for it.

        `died`: called once it has ended by itself, before anybody in it learns that by an event.
        """
        self._process = process
        self._died = died
        self._silent_after_s = silent_after_s
        self._client = client
        self._numbers = itertools.count(1)
        self._clients = itertools.count(OWNER + 1)
        # Each access of these is one operation of a dict: sessions may close while Python collects garbage
        self._sessions: dict[int, _Session] = {}
        self._closed: dict[tuple[int, int], tuple[float, Place]] = {}
        """By client and number, sessions that were closed, and when, of which Java has not said that their thread is
        through; for the owner also those of clients that are gone."""
        self._lent: dict[int, None] = {}
        """Clients to which it is lent."""
        self._heard_s = time.monotonic()
        self._looked_s = time.monotonic()
        self._ending = threading.Event()

    # --- start ---

    def start(self) -> None:
        """Begin to listen to its process, which runs. Errors: JavaHostDiedError."""
        hello = {"session": 0, "thread": "kconnect-control", "control": True, "levels": set_levels()}
        try:
            self._control = self._opened(hello, _nothing, None, lambda: None)
        except BaseException:
            self._process.end(0.0)
            raise
        self._heard_s = self._looked_s = time.monotonic()
        threading.Thread(target=self._listen, name="java-host", daemon=True).start()

    # --- state ---

    @property
    def process(self) -> JvmProcess:
        return self._process

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    @property
    def is_used(self) -> bool:
        """Whether a session is open, or another process has it."""
        return bool(self._sessions or self._lent)

    # --- other processes ---

    def lend(self) -> int:
        """The number of another process that uses it from now on."""
        client = next(self._clients)
        self._lent[client] = None
        return client

    def take_back(self, client: int) -> None:
        """That process is gone, or does not use it any more."""
        self._lent.pop(client, None)

    # --- sessions ---

    def open(self, thread: str, location: str | None, answer: Answer, event: Event, place: Place) -> JavaConnection:
        """A new connection, for one plugin object. Errors: JavaHostDiedError."""
        number = next(self._numbers)
        session = self._sessions[number] = _Session(answer, event, place)
        hello = {"session": number, "thread": thread, "connector": place[0], "task": place[1]}
        try:
            made = self._opened(hello, answer, location, lambda: self._close(number))
        except BaseException:
            self._sessions.pop(number, None)
            raise
        session.connection = weakref.ref(made)
        return made

    def abandon(self, place: Place) -> None:
        """Close the sessions of a task that was given up: its thread comes back, whatever its plugin does in Java."""
        for session in list(self._sessions.values()):
            connection = None if session.connection is None else session.connection()
            if session.place == place and connection is not None:
                connection.close()

    def stack(self, place: Place) -> list[str] | None:
        """Where a task's thread was in Java when this was asked before, innermost call first; it is asked again now.

        Empty while Java has not answered; None for a task that has no session here. Never blocks for long.
        """
        found: list[str] | None = None
        for number, session in list(self._sessions.items()):
            if session.place == place:
                with contextlib.suppress(ConnectError):  # it ended just now
                    self._control.send_json(RESULT, {"stack": number})
                found = (session.stack or []) if found is None else found or session.stack or []
        return found

    def _close(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is not None and not session.has_ended:
            self._closed[self._client, number] = time.monotonic(), session.place
            if session.has_ended:  # meanwhile
                self._closed.pop((self._client, number), None)

    def _opened(
        self, hello: Mapping[str, Any], answer: Answer, location: str | None, closed: Callable[[], object]
    ) -> JavaConnection:
        path, token = self._process.address
        stream = socket.socket(socket.AF_UNIX)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        stream.settimeout(self._silent_after_s)
        try:
            stream.connect(path)
        except OSError:
            stream.close()
            raise self._process.death() from None
        stream.settimeout(None)  # calls into plugins take as long as plugins take; the JVM's end wakes them
        connection = JavaConnection(stream, answer=answer, lost=self._process.death, location=location, closed=closed)
        connection.send_json(b"C", {"token": token, "client": self._client, **hello})
        return connection

    # --- what Java says unasked ---

    def _listen(self) -> None:
        try:
            while True:
                kind, body = self._control.receive()
                self._heard_s = time.monotonic()
                if kind == EVENT:
                    self._heard(json.loads(bytes(body)))
        except ConnectError as err:
            if self._ending.is_set():
                return
            death = err
            if self.is_alive:  # nobody hears any more what its plugins say, nor whether it is well
                self.kill("its control connection was closed")
                death = self._process.death()
            if not self._process.is_shared:  # its owner says it
                log.error("%s", death)
            # Those that have failed by now are closed, and Java will never say that their threads are through
            closed = {place for _, place in list(self._closed.values())}
            self._died(closed | {session.place for session in list(self._sessions.values())}, death)
            for session in list(self._sessions.values()):
                session.event(DIED, death.with_traceback(None))
            self._ending.set()  # nobody watches it any more

    def _heard(self, reported: dict[str, Any]) -> None:
        number = int(reported.get("session", 0))
        session = self._sessions.get(number)
        match reported["e"]:
            case "pong":
                pass
            case "log":
                _log_line(session, reported)
            case "stack" if session is not None:
                session.stack = reported["arguments"]
            case "ended":
                if session is not None:
                    session.has_ended = True
                self._closed.pop((self._client, number), None)
            case "left":  # by a client that is gone
                self._closed[_left(reported)] = time.monotonic(), (reported["connector"], reported["task"])
            case "gone":
                self._closed.pop(_left(reported), None)
            case what if session is None:
                log.debug("A plugin that is gone says %s", what)
            case "ask":
                # On a thread of its own: the answer may take a while, and others talk on this connection
                threading.Thread(target=self._reply, args=(session, reported), daemon=True).start()
            case what:
                session.event(str(what), reported.get("arguments"))

    def _reply(self, session: _Session, reported: dict[str, Any]) -> None:
        answer = answered(session.answer, reported)
        with contextlib.suppress(ConnectError):  # it died meanwhile, and each task sees that
            self._control.send_json(RESULT, {"number": reported["number"], **answer})

    # --- whether it is well ---

    def watch(self, is_over: Callable[[], bool]) -> None:
        """Look every few seconds, on a thread of its own; `is_over` may end the JVM, or say that somebody has."""
        threading.Thread(target=self._watch, args=(is_over,), name="java-watch", daemon=True).start()

    def _watch(self, is_over: Callable[[], bool]) -> None:
        every_s = min(_LOOK_EVERY_S, self._silent_after_s / 3)
        while not self._ending.wait(every_s):
            if not self.is_alive or is_over():
                return
            self._process.look()
            now_s = time.monotonic()
            if now_s - self._looked_s > 2 * every_s:
                self._heard_s = now_s  # we were frozen, not Java
            self._looked_s = now_s
            problem = self._problem(now_s)
            if problem is not None:
                self.kill(problem)
                return
            with contextlib.suppress(ConnectError):  # it ended just now
                self._control.send_json(RESULT, {"ping": True})

    def _problem(self, now_s: float) -> str | None:
        if now_s - self._heard_s > self._silent_after_s:
            return f"it has not answered for {now_s - self._heard_s:.0f} s ({_TIMEOUT})"
        return self.hanging(_MOST_HANGING)

    def hanging(self, least: int = 1) -> str | None:
        """A sentence about plugins that were given up and did not come back, if there are so many."""
        now_s = time.monotonic()
        found = [place for at_s, place in list(self._closed.values()) if now_s - at_s > _HANGS_AFTER_S]
        if len(found) < least:
            return None
        names = ", ".join(sorted(_name(place) for place in found))
        return (
            f"{pluralize(len(found), 'plugin')} that had to stop did not return within {_HANGS_AFTER_S:.0f} s more "
            f"than task.shutdown.graceful.timeout.ms: {names}"
        )

    def kill(self, why: str) -> None:
        """Its tasks learn why."""
        self._process.kill(why)

    # --- end ---

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """End it, or let go of one that is another process's; kills its own at the deadline. Idempotent.

        One that has ended by itself a moment ago is still heard of: its death counts.
        """
        if self.is_alive:
            self._ending.set()
        self._control.close()
        self._process.end(timeout_s)


def _nothing(what: str, arguments: Any) -> Any:
    raise ConnectError(f"Nobody answers {what}")


def _left(reported: Mapping[str, Any]) -> tuple[int, int]:
    return int(reported["client"]), int(reported["number"])


def _name(place: Place) -> str:
    connector, task = place
    return "one of the worker's own" if connector is None else connector if task is None else f"{connector}-{task}"


def _log_line(session: _Session | None, reported: Mapping[str, Any]) -> None:
    connector, task = reported.get("place") or (None, None) if session is None else session.place
    text = str(reported.get("message"))
    if reported.get("trace"):
        text += "\n" + str(reported["trace"]).rstrip()
    logger, level = logging.getLogger(str(reported["logger"])), int(reported["level"])
    if not logger.isEnabledFor(level):
        return
    # The line of Java's that logs it, not this one
    record = logger.makeRecord(
        logger.name, level, str(reported.get("file") or ""), max(int(reported.get("line") or 0), 0), "%s", (text,), None
    )
    record.threadName = reported.get("thread")
    with log_context(connector, task):
        logger.handle(record)
