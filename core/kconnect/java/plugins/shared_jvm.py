"""A JVM of a worker that its slots use, too: JvmDoor in the worker lends it, WorkersJvm is what a slot has of it.

They speak over a Unix socket in a folder that is the user's alone, a line of JSON each way: the slot's token, then
where the JVM listens; later why it shall be killed, and why it has died. While the connection lasts the JVM is lent:
it ends with the slot, however that ends.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, Protocol

from kconnect.errors import ConnectError, EnvironmentProblemError, TimedOutError, UnreachableError
from kconnect.files.folders import made_temporary
from kconnect.java.plugins.java_error import JavaHostDiedError
from kconnect.java.plugins.own_jvm import END_TIMEOUT_S, folder_for_a_socket

log = logging.getLogger(__name__)

# Who knows the token sends it at once
_HELLO_S: Final = 10.0
_AGAIN_S: Final = 0.1
_ERRORS: Final = {
    kind.__name__: kind for kind in (EnvironmentProblemError, JavaHostDiedError, TimedOutError, UnreachableError)
}
_DIED: Final = "The JVM that runs Java's plugins ended with the worker that had started it"


class LentJvm(Protocol):
    """What a slot is given; the door gives it back when the slot is gone."""

    address: tuple[str, str]
    pid: int
    client: int

    def kill(self, why: str) -> None: ...

    def death(self) -> tuple[ConnectError, bool]:
        """Why it is gone, and whether it is."""

    def give_back(self) -> None: ...


class JvmDoor:
    """Where slots on this machine get the worker's JVM. Lifecycle: open() -> close().

    Threads: one listens, one a slot.
    """

    def __init__(self, lend: Callable[[], LentJvm]) -> None:
        """`lend`: starts the JVM if need be. Errors: ConnectError, which the slot gets."""
        self._lend = lend
        self._token = secrets.token_hex(32)
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards what is below
        self._streams: set[socket.socket] = set()

    def open(self) -> str:
        """Its address, a secret, with which WorkersJvm finds it."""
        # Mode 0700: nobody else reaches the socket. Short, as paths of sockets are
        self._folder = made_temporary("kc-door", folder_for_a_socket(tempfile.gettempdir()))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / "s"))
        self._listener.listen()
        threading.Thread(target=self._accept, name="java-door", daemon=True).start()
        return f"{self._token} {self._folder / 's'}"

    def close(self) -> None:
        """Take back what was lent: the JVM ends after this. Idempotent."""
        self._closing.set()
        with self._lock:
            streams = [*self._streams, self._listener]
        for stream in streams:
            with contextlib.suppress(OSError):  # the other end is gone already
                stream.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError as err:
                if self._closing.wait(_AGAIN_S):
                    return
                log.debug("No slot can have the JVM of Java's plugins now: %s", err)  # out of files; it asks again
                continue
            with self._lock:
                self._streams.add(stream)
            threading.Thread(target=self._serve, args=(stream,), name="java-lent", daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        try:
            with stream, stream.makefile("rb") as lines, contextlib.suppress(OSError):
                stream.settimeout(_HELLO_S)
                token = str(_read(lines).get("token"))
                stream.settimeout(None)
                if hmac.compare_digest(token.encode(), self._token.encode()):
                    self._serve_slot(stream, lines)
        finally:
            with self._lock:
                self._streams.discard(stream)

    def _serve_slot(self, stream: socket.socket, lines: IO[bytes]) -> None:
        try:
            jvm = self._lend()
        except ConnectError as err:
            _write(stream, _reported(err))
            return
        try:
            path, token = jvm.address
            _write(stream, {"socket": path, "token": token, "pid": jvm.pid, "client": jvm.client})
            while asked := _read(lines):
                if "kill" in asked:
                    jvm.kill(str(asked["kill"]))
                else:
                    death, is_gone = jvm.death()
                    _write(stream, {**_reported(death), "gone": is_gone})
        finally:
            jvm.give_back()


class WorkersJvm:
    """The worker's JVM, as a slot has it. Lifecycle: borrow() -> end(). Threads: any."""

    is_shared: Final = True
    ports: Final = ()

    def __init__(self, stream: socket.socket, lines: IO[bytes], given: Mapping[str, Any]) -> None:
        self.address = str(given["socket"]), str(given["token"])
        self.pid = int(given["pid"])
        self.client = int(given["client"])
        self._stream = stream
        self._lines = lines
        self._asking = threading.Lock()  # one question at a time; guards what is below
        self._death: dict[str, Any] | None = None

    @classmethod
    def borrow(cls, door: str) -> WorkersJvm:
        """The JVM of the worker with this door, which starts it if need be.

        Errors: as those of its start, which has its own deadlines; JavaHostDiedError when the worker is gone.
        """
        token, _, path = door.partition(" ")
        stream = socket.socket(socket.AF_UNIX)
        lines = stream.makefile("rb")
        try:
            stream.connect(path)
            _write(stream, {"token": token})
            given = _read(lines)
            if "error" in given:
                raise _error(given)
            if not given:
                raise JavaHostDiedError(_DIED)
            stream.settimeout(2 * END_TIMEOUT_S)  # the worker waits for the JVM's end before it says why
            return cls(stream, lines, given)
        except BaseException as err:
            lines.close()
            stream.close()
            if isinstance(err, OSError):
                raise JavaHostDiedError(_DIED) from None
            raise

    @property
    def is_alive(self) -> bool:
        return self._death is None

    def look(self) -> None:
        """The worker does."""

    def kill(self, why: str) -> None:
        """Have the worker kill it."""
        log.info("The worker is asked to kill the JVM of Java's plugins (pid %d): %s", self.pid, why)
        with self._asking, contextlib.suppress(OSError, ValueError):  # the worker is gone, and the JVM with it
            _write(self._stream, {"kill": why})

    def death(self) -> ConnectError:
        """Why it is gone, in its owner's words."""
        with self._asking:
            if self._death is not None:
                return _error(self._death)
            try:
                _write(self._stream, {"why": True})
                reported = _read(self._lines)
            except (OSError, ValueError):  # ValueError: closed
                reported = {}
            reported = reported or {"error": _DIED, "kind": JavaHostDiedError.__name__, "gone": True}
            if reported["gone"]:
                self._death = reported
            return _error(reported)

    def end(self, timeout_s: float) -> None:
        """Let go of it. Idempotent."""
        with contextlib.suppress(OSError):  # the worker is gone already
            self._stream.shutdown(socket.SHUT_RDWR)
        with self._asking:
            self._lines.close()
            self._stream.close()


def _reported(error: ConnectError) -> dict[str, Any]:
    return {"error": str(error), "kind": type(error).__name__, "hint": error.hint}


def _error(reported: Mapping[str, Any]) -> ConnectError:
    return _ERRORS.get(str(reported["kind"]), ConnectError)(str(reported["error"]), hint=reported.get("hint"))


def _write(stream: socket.socket, body: Mapping[str, Any]) -> None:
    stream.sendall(json.dumps(body).encode() + b"\n")


def _read(lines: IO[bytes]) -> dict[str, Any]:
    """The next line; empty at the end."""
    read: dict[str, Any] = json.loads(lines.readline() or b"{}")
    return read
