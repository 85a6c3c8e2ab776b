"""HostProcess: one JVM that runs Java's plugins for this process, started when the first one is needed."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError
from kconnect.java import find_java
from kconnect.java_plugins.connection import EVENT, RESULT, Answer, JavaConnection, answered
from kconnect.java_plugins.index import JavaIndex
from kconnect.java_plugins.java_error import JavaHostDiedError
from kconnect.java_plugins.program import HostProgram
from kconnect.logs import follow_levels, log_context, set_levels

log = logging.getLogger(__name__)

_START_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 5.0
_CRASH_LINES: Final = 12

Event = Callable[[str, Any], None]
"""Told what a plugin says without being asked (reconfigure, raise): what, arguments. Quick; on the control thread."""


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """How host JVMs are started: the settings kconnect.java.* of a worker."""

    home: str | None = None
    options: tuple[str, ...] = ()
    heap: str = "512m"

    @classmethod
    def of(cls, config: Mapping[str, str]) -> JavaSettings:
        """Of a worker's config."""
        return cls(
            config.get("kconnect.java.home") or None,
            tuple(shlex.split(config.get("kconnect.java.opts") or "")),
            config.get("kconnect.java.heap") or "512m",
        )


@dataclass(slots=True)
class _Session:
    """What Java may ask for, or tell, outside of a call."""

    answer: Answer
    event: Event
    place: tuple[str | None, int | None]


def _nothing(what: str, arguments: Any) -> Any:
    raise ConnectError(f"Nobody answers {what}")


def _ignore(what: str, arguments: Any) -> None:
    log.debug("Nobody wants %s", what)


@dataclass(slots=True)
class _Running:
    """A JVM that runs."""

    process: subprocess.Popen[bytes]
    folder: Path
    token: str
    control: JavaConnection
    sessions: dict[int, _Session] = field(default_factory=dict)


class HostProcess:
    """The JVM of this process. Starts with the first connection; one that died is started again by the next.

    Its end: it reads standard input, which ends when this process does, however that ends. Its death is told to each
    task of its own by JavaHostDiedError; nothing else is hurt.
    Threads: any.
    """

    def __init__(self, index: JavaIndex, settings: JavaSettings) -> None:
        self._index = index
        self._settings = settings
        self._lock = threading.Lock()  # guards _running, and that one thread starts it
        self._running: _Running | None = None
        self._numbers = itertools.count(1)
        self._unfollow: Callable[[], None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None while there is none."""
        running = self._running
        return None if running is None or running.process.poll() is not None else running.process.pid

    def connect(
        self,
        *,
        thread: str = "kconnect",
        location: str | None = None,
        answer: Answer = _nothing,
        event: Event = _ignore,
        place: tuple[str | None, int | None] = (None, None),
    ) -> JavaConnection:
        """A new connection, for one plugin object; `thread` is the name of the Java thread that will serve it.

        `place`: connector and task, for the log lines of that thread.
        Errors: EnvironmentProblemError (no Java, it does not start), UnreachableError (Kafka's jars), TimedOutError.
        """
        running = self._started()
        number = next(self._numbers)
        running.sessions[number] = _Session(answer, event, place)
        hello = {"session": number, "thread": thread}
        return self._open(running, hello, answer, location, lambda: running.sessions.pop(number, None))

    def _follow_levels(self) -> None:
        """Give Java's loggers the levels of ours."""
        if self.pid is None:
            return
        try:
            with contextlib.closing(self.connect(thread="kconnect-levels")) as connection:
                connection.call("levels", levels=set_levels())
        except ConnectError as err:
            log.warning("Java's loggers keep their levels: %s", err)

    def stop(self, timeout_s: float = _END_TIMEOUT_S) -> None:
        """End the JVM; kills it at the deadline. Idempotent."""
        with self._lock:
            running, self._running = self._running, None
            if self._unfollow is not None:
                self._unfollow()
                self._unfollow = None
        if running is not None:
            _end(running, timeout_s)

    # --- start ---

    def _started(self) -> _Running:
        with self._lock:
            if self._running is not None and self._running.process.poll() is None:
                return self._running
            if self._running is not None:
                _end(self._running, 0.0)
            self._running = self._start()
            if self._unfollow is None:
                self._unfollow = follow_levels(self._follow_levels)
            return self._running

    def _start(self) -> _Running:
        began_s = time.monotonic()
        env = {**os.environ, **({"JAVA_HOME": self._settings.home} if self._settings.home else {})}
        program = HostProgram.find(find_java("Java's plugins", env=env))
        folder = Path(tempfile.mkdtemp(prefix="kconnect-java-"))  # mode 0700: nobody else reaches the socket
        token = secrets.token_hex(32)
        try:
            process = self._launch(program, folder, token)
            control = self._open_control(process, folder, token)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        running = _Running(process, folder, token, control)
        threading.Thread(target=self._listen, args=(running,), name="java-host", daemon=True).start()
        log.info(
            "Java %s runs plugins (pid %d, up in %.1f s)", program.java.version, process.pid, time.monotonic() - began_s
        )
        return running

    def _launch(self, program: HostProgram, folder: Path, token: str) -> subprocess.Popen[bytes]:
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [*program.command((*self._settings.options, f"-XX:ErrorFile={folder}/hs_err"), self._settings.heap)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                start_new_session=True,
            )
        start = {"socket": str(folder / "socket"), "token": token, "index": self._folders_by_class()}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(start).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended at once: its output says why
        _await_ready(process, process.stdout, folder)
        return process

    def _folders_by_class(self) -> dict[str, str]:
        found = {}
        for name, kinds in self._index.named().items():
            for locations in kinds.values():
                found[name] = str(locations[0])
        return found

    def _open_control(self, process: subprocess.Popen[bytes], folder: Path, token: str) -> JavaConnection:
        running = _Running(process, folder, token, control=None)  # type: ignore[arg-type]  # made for the first connection
        hello = {"session": 0, "thread": "kconnect-control", "control": True, "levels": set_levels()}
        return self._open(running, hello, _nothing, None)

    def _open(
        self,
        running: _Running,
        hello: dict[str, Any],
        answer: Answer,
        location: str | None,
        closed: Callable[[], object] = lambda: None,
    ) -> JavaConnection:
        stream = socket.socket(socket.AF_UNIX)
        stream.settimeout(_START_TIMEOUT_S)
        try:
            stream.connect(str(running.folder / "socket"))
        except OSError as err:
            stream.close()
            raise self._death(running) from err
        stream.settimeout(None)  # calls into plugins take as long as plugins take; the JVM's end wakes them
        connection = JavaConnection(
            stream, answer=answer, lost=lambda: self._death(running), location=location, closed=closed
        )
        connection.send_json(b"C", {"token": running.token, **hello})
        return connection

    # --- what Java says unasked ---

    def _listen(self, running: _Running) -> None:
        try:
            while True:
                kind, body = running.control.receive()
                if kind == EVENT:
                    self._heard(running, json.loads(bytes(body)))
        except ConnectError as err:
            if self._running is running:
                log.error("%s", err)

    def _heard(self, running: _Running, told: dict[str, Any]) -> None:
        session = running.sessions.get(int(told.get("session", 0)))
        what = told["e"]
        if what == "log":
            _log_line(session, told)
        elif session is None:
            log.debug("A plugin that is gone says %s", what)
        elif what == "ask":
            # On a thread of its own: the answer may take a while, and others talk on this connection
            threading.Thread(target=self._reply, args=(running, session, told), daemon=True).start()
        else:
            session.event(str(what), told.get("arguments"))

    def _reply(self, running: _Running, session: _Session, told: dict[str, Any]) -> None:
        answer = answered(session.answer, told)
        with contextlib.suppress(ConnectError):  # it died meanwhile, and each task sees that
            running.control.send_json(RESULT, {"number": told["number"], **answer})

    def _death(self, running: _Running) -> ConnectError:
        """Why the JVM is gone, as far as it can be known."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.process.wait(_END_TIMEOUT_S)
        code = running.process.poll()
        if code is None:
            return JavaHostDiedError("The JVM that runs Java's plugins has closed the connection")
        said = _last_words(running.folder)
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        reason = _REASONS.get(code, "")
        return JavaHostDiedError(
            f"The JVM that runs Java's plugins ended ({how}{reason})" + (f": {said}" if said else ""),
            hint="Its tasks can be restarted; the next start begins with a new JVM.",
        )


_REASONS: Final[Mapping[int, str]] = {
    3: ", as it ran out of memory: raise kconnect.java.heap",
    -9: ", perhaps by the system, which was out of memory",
}


def _log_line(session: _Session | None, told: Mapping[str, Any]) -> None:
    connector, task = (None, None) if session is None else session.place
    text = str(told.get("message"))
    if told.get("trace"):
        text += "\n" + str(told["trace"]).rstrip()
    with log_context(connector, task):
        logging.getLogger(str(told["logger"])).log(int(told["level"]), "%s", text)


def _await_ready(process: subprocess.Popen[bytes], output: IO[bytes], folder: Path) -> None:
    late = threading.Timer(_START_TIMEOUT_S, process.kill)
    late.start()
    try:
        line = output.readline()
    finally:
        is_late = not late.is_alive()
        late.cancel()
    if line == b"ready\n":
        return
    process.kill()
    process.wait(_END_TIMEOUT_S)
    if is_late:
        raise TimedOutError(f"The JVM for Java's plugins was not ready within {_START_TIMEOUT_S:.0f} s")
    raise EnvironmentProblemError(
        f"The JVM for Java's plugins did not start: {_last_words(folder) or 'it says nothing'}",
        hint="See kconnect.java.home and kconnect.java.opts.",
    )


def _last_words(folder: Path) -> str:
    """The head of hs_err, or else what it wrote last."""
    for name, is_head in (("hs_err", True), ("errors", False)):
        with contextlib.suppress(OSError):
            lines = [line for line in (folder / name).read_text("utf-8", "replace").splitlines() if line.strip("# ")]
            if lines:
                return "\n".join(lines[:_CRASH_LINES] if is_head else lines[-_CRASH_LINES:])
    return ""


def _end(running: _Running, timeout_s: float) -> None:
    running.control.close()
    process = running.process
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_TIMEOUT_S)
    if process.stdout is not None:
        process.stdout.close()
    shutil.rmtree(running.folder, ignore_errors=True)
