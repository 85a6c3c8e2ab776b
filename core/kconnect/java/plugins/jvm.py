"""HostJvm: one JVM that runs plugins: its process, its sessions, what it says unasked, and why it ended."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError
from kconnect.java.plugins.connection import EVENT, RESULT, Answer, JavaConnection, answered
from kconnect.java.plugins.java_error import JavaHostDiedError
from kconnect.java.plugins.program import TakenOptions
from kconnect.logs.log_context import log_context, set_levels
from kconnect.logs.wording import pluralize

log = logging.getLogger(__name__)

# A start reads a hundred jars, which takes longer than an answer. 0.4 s on a quiet machine.
_START_TIMES: Final = 2
_TIMEOUT: Final = "kconnect.java.timeout.ms"
END_TIMEOUT_S: Final = 5.0
_CRASH_LINES: Final = 12
# Paths of sockets have 103 bytes at most (macOS; Linux 107), of which folder and socket take 30.
_MOST_PATH_BYTES: Final = 73
# How often it is asked whether it answers; a JVM that has nothing to do wakes up for that alone.
_LOOK_EVERY_S: Final = 5.0
# A plugin that was given up may take so long to come back before it counts as hanging.
_HANGS_AFTER_S: Final = 10.0
# So many calls that hang make a JVM with other plugins in it worth a new one, as with abandoned tasks of a slot.
_MOST_HANGING: Final = 4
# The exit code of -XX:+ExitOnOutOfMemoryError, which is anybody's: then standard output says so, too
_OUT_OF_MEMORY: Final = 3
_MOST_OUTPUT_BYTES: Final = 1 << 16
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


class HostJvm:
    """A JVM that runs. Lifecycle: start() -> open()* -> end(); or it ends by itself, which each connection tells.

    Its end: it reads standard input, which ends when this process does, however that ends.
    Threads: any; one of its own listens, one looks every few seconds whether it answers.
    """

    def __init__(self, command: Sequence[str], *, silent_after_s: float, taken: TakenOptions) -> None:
        """`silent_after_s`: a JVM that has not answered for so long is killed; one that starts has twice as long.

        `taken`: its ports, which are released at its end.
        """
        self._command = [*command]
        self._taken = taken
        self._silent_after_s = silent_after_s
        # Mode 0700: nobody else reaches the socket
        self._folder = Path(tempfile.mkdtemp(prefix="kconnect-java-", dir=_folder_for_a_socket(tempfile.gettempdir())))
        self._token = secrets.token_hex(32)
        self._numbers = itertools.count(1)
        # Each access of these is one operation of a dict: sessions may close while Python collects garbage
        self._sessions: dict[int, _Session] = {}
        self._closed: dict[int, tuple[float, Place]] = {}
        """Sessions that were closed, and when, of which Java has not said that their thread is through."""
        self._heard_s = time.monotonic()
        self._looked_s = time.monotonic()
        self._ending = threading.Event()
        self._verdict: str | None = None
        """Why we killed it."""
        self._reading = threading.Lock()
        self._printed = b""

    # --- start ---

    def start(self, wants: Mapping[str, Any]) -> None:
        """Launch it and wait until it listens. `wants`: what its first line says beside socket and token.

        Errors: EnvironmentProblemError when it does not start, TimedOutError.
        """
        try:
            self._process = self._launch({"socket": str(self._folder / "socket"), "token": self._token, **wants})
            hello = {"session": 0, "thread": "kconnect-control", "control": True, "levels": set_levels()}
            self._control = self._opened(hello, _nothing, None, lambda: None)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._heard_s = self._looked_s = time.monotonic()
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)
        threading.Thread(target=self._listen, name="java-host", daemon=True).start()

    def _launch(self, start: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        with (self._folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [self._command[0], f"-XX:ErrorFile={self._folder}/hs_err", *self._command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(start).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended at once: its output says why
        try:
            _await_ready(process, process.stdout, self._folder, self._silent_after_s * _START_TIMES, self._command)
        except BaseException:
            with contextlib.suppress(BrokenPipeError):  # what it did not read
                process.stdin.close()
            process.stdout.close()
            raise
        return process

    # --- state ---

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ports(self) -> tuple[int, ...]:
        """On which it listens, by its options."""
        return self._taken.ports

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_used(self) -> bool:
        """Whether a session is open."""
        return bool(self._sessions)

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
            self._closed[number] = time.monotonic(), session.place
            if session.has_ended:  # meanwhile
                self._closed.pop(number, None)

    def _opened(
        self, hello: Mapping[str, Any], answer: Answer, location: str | None, closed: Callable[[], object]
    ) -> JavaConnection:
        stream = socket.socket(socket.AF_UNIX)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        stream.settimeout(self._silent_after_s)
        try:
            stream.connect(str(self._folder / "socket"))
        except OSError:
            stream.close()
            raise self.death() from None
        stream.settimeout(None)  # calls into plugins take as long as plugins take; the JVM's end wakes them
        connection = JavaConnection(stream, answer=answer, lost=self.death, location=location, closed=closed)
        connection.send_json(b"C", {"token": self._token, **hello})
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
                death = self.death()
            log.error("%s", death)
            for session in list(self._sessions.values()):
                session.event(DIED, death.with_traceback(None))

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
                self._closed.pop(number, None)
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
            self._output()
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
        log.error("The JVM that runs Java's plugins (pid %d) is killed: %s", self.pid, why)
        self._verdict = why
        self._process.kill()

    # --- end ---

    def death(self) -> ConnectError:
        """Why the JVM is gone, as far as it can be known."""
        if not self._ending.is_set() or self._verdict is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
        code = self._process.poll()
        if code is None:
            return JavaHostDiedError("The JVM that runs Java's plugins has closed the connection")
        said = _last_words(self._folder)
        reason = f": {self._verdict}" if self._verdict else self._reason(code)
        return JavaHostDiedError(
            f"The JVM that runs Java's plugins ended ({_how(code)}{reason})" + (f": {said}" if said else ""),
            hint="Its tasks can be restarted; the next start begins with a new JVM.",
        )

    def _reason(self, code: int) -> str:
        """What is known of an end that was not our doing."""
        if code == -signal.SIGKILL:
            return ": by somebody, or by the kernel when memory ran out"
        reported = re.search(r"java\.lang\.OutOfMemoryError: (.*)", self._output() if code == _OUT_OF_MEMORY else "")
        if reported is None:
            return ""
        setting = "kconnect.java.heap" if "heap" in reported[1] else "its limit in kconnect.java.opts"
        return f", as it ran out of memory ({reported[1].strip()}): raise {setting}"

    def _output(self) -> str:
        """What the JVM itself, or C code of a plugin, writes to standard output: else it would block once that is full.

        The end of it; what is new is logged. Threads: the one that watches, then those that ask for its end.
        """
        new = b""
        with contextlib.suppress(OSError, ValueError), self._reading:  # nothing is there, or it is closed
            if self._process.stdout is not None:
                while more := os.read(self._process.stdout.fileno(), _MOST_OUTPUT_BYTES):
                    new += more
        if new:
            self._printed = (self._printed + new)[-_MOST_OUTPUT_BYTES:]
            log.info("The JVM that runs Java's plugins (pid %d) prints: %s", self.pid, new.decode("utf-8", "replace"))
        return self._printed.decode("utf-8", "replace")

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """End it; kills it at the deadline. Idempotent."""
        self._ending.set()
        self._control.close()
        process = self._process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_TIMEOUT_S)
        if process.stdout is not None:
            with self._reading:
                process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._taken.release()


def _folder_for_a_socket(temporary: str) -> str:
    """Where the folder of a socket is made: /tmp where the usual place makes the socket's path too long."""
    return temporary if len(os.fsencode(temporary)) <= _MOST_PATH_BYTES else "/tmp"


def _nothing(what: str, arguments: Any) -> Any:
    raise ConnectError(f"Nobody answers {what}")


def _name(place: Place) -> str:
    connector, task = place
    return "one of the worker's own" if connector is None else connector if task is None else f"{connector}-{task}"


def _log_line(session: _Session | None, reported: Mapping[str, Any]) -> None:
    connector, task = (None, None) if session is None else session.place
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


def _await_ready(
    process: subprocess.Popen[bytes], output: IO[bytes], folder: Path, within_s: float, command: Sequence[str]
) -> None:
    late = threading.Timer(within_s, process.kill)
    late.start()
    try:
        line = output.readline()
    finally:
        is_late = not late.is_alive()
        late.cancel()
    if line == b"ready\n":
        return
    if not line:  # its end: what ended it counts, not our signal
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_TIMEOUT_S)
    process.kill()
    code = process.wait(END_TIMEOUT_S)
    if is_late:
        raise TimedOutError(
            f"The JVM for Java's plugins was not ready within {within_s:.0f} s ({_START_TIMES} times {_TIMEOUT})"
        )
    said = _last_words(folder) or line.decode("utf-8", "replace").strip()
    raise EnvironmentProblemError(
        f"The JVM for Java's plugins did not start ({_how(code)}{_blamed(said, command)})"
        + (f": {said}" if said else ""),
        hint="Correct kconnect.java.opts, kconnect.java.heap or kconnect.java.home.",
    )


def _blamed(said: str, command: Sequence[str]) -> str:
    """The option that the JVM names, if it is one of those that a worker's settings give."""
    for option in command:
        if option.startswith("-") and option.removeprefix("-XX:").lstrip("+-") in said:
            return f", option {option} of {'kconnect.java.heap' if option.startswith('-Xmx') else 'kconnect.java.opts'}"
    return ""


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _last_words(folder: Path) -> str:
    """The head of hs_err, or else what it wrote last."""
    for name, is_head in (("hs_err", True), ("errors", False)):
        with contextlib.suppress(OSError):
            lines = [line for line in (folder / name).read_text("utf-8", "replace").splitlines() if line.strip("# ")]
            if lines:
                return "\n".join(lines[:_CRASH_LINES] if is_head else lines[-_CRASH_LINES:])
    return ""
