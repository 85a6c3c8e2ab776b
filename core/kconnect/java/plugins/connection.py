"""JavaConnection: one connection to a host JVM, which one plugin object there answers."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kconnect.errors import ConnectError
from kconnect.java.plugins.java_error import java_error

CALL: Final = b"C"
RESULT: Final = b"R"
ERROR: Final = b"E"
UPCALL: Final = b"U"
EVENT: Final = b"V"
BLOCK: Final = b"B"

_HEAD: Final = struct.Struct("<ic")
# Each of a hundred idle plugins has one; it grows with what comes
_FIRST_BUFFER: Final = 1 << 12
# The system takes 1024 at once
_MOST_VIEWS: Final = 512

Answer = Callable[[str, Any], Any]
"""Answers what Java asks in the middle of a call: what, arguments. An exception becomes an error in Java."""


class JavaConnection:
    """Calls one after the other; Java's thread at the other end serves nothing else.

    Errors: what Java threw (java_error.py); JavaHostDiedError, from `lost`, when the JVM is gone.
    Threads: one at a time; `close` from any.
    """

    def __init__(
        self,
        stream: socket.socket,
        *,
        answer: Answer,
        lost: Callable[[], ConnectError],
        location: str | None = None,
        closed: Callable[[], object] = lambda: None,
    ) -> None:
        self._closed = closed
        self._stream = stream
        self._answer = answer
        self._lost = lost
        self._location = location
        self._in = bytearray(_FIRST_BUFFER)
        self._early: deque[tuple[bytes, memoryview]] = deque()  # came while something was posted
        self._sending = threading.Lock()  # the control connection answers on other threads than it reads

    def call(self, method: str, **arguments: Any) -> Any:
        """Java's answer: what JSON gives, or a memoryview of a block."""
        return self._exchange(CALL, [json.dumps({"m": method, **arguments}).encode()])

    def block(self, parts: Sequence[Any]) -> Any:
        """Java's answer to a block of records, as `call` gives it."""
        return self._exchange(BLOCK, parts)

    def post_call(self, method: str, **arguments: Any) -> None:
        """Works as `call`, but its answer is left to `answer`, and several may be posted before the first is
        answered.
        """
        self._post(CALL, [json.dumps({"m": method, **arguments}).encode()])

    def post_block(self, parts: Sequence[Any]) -> None:
        """Works as `post_call`, for a block."""
        self._post(BLOCK, parts)

    def answer(self) -> Any:
        """The answer to what was posted first of what has none. Errors: as those of `call`."""
        while True:
            given, body = self.receive()
            if given == BLOCK:
                return body
            reported = json.loads(bytes(body))
            if given == UPCALL:
                self.send_json(RESULT, self._answered(reported))
            elif given == ERROR:
                raise java_error(reported, self._location)
            else:
                return reported

    def close(self) -> None:
        """End it; the plugin's thread in Java ends when its call returns. Idempotent.

        A call that waits on another thread raises ConnectError.
        """
        self._lost = _given_up
        self._closed()
        with contextlib.suppress(OSError):  # the other end is gone already
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def __del__(self) -> None:
        # A plugin that nobody closed, as one that was made to be asked something
        self.close()

    # --- frames ---

    def send(self, kind: bytes, parts: Sequence[Any]) -> None:
        """Send one frame. Errors: JavaHostDiedError."""
        try:
            with self._sending:
                self._send_all(_frame(kind, parts))
        except OSError:
            raise self._lost() from None

    def receive(self) -> tuple[bytes, memoryview]:
        """The next frame: kind and body; what is no block is valid until the next one. Errors: JavaHostDiedError."""
        return self._early.popleft() if self._early else self._received()

    def _received(self) -> tuple[bytes, memoryview]:
        try:
            length, kind = _HEAD.unpack(self._exactly(self._in, _HEAD.size))
            # Arrow arrays are made around the bytes of a block and live on, so each block has its own
            return kind, self._exactly(bytearray(length) if kind == BLOCK else self._room(length), length)
        except (OSError, EOFError):
            raise self._lost() from None  # which knows more than that a stream ended

    def send_json(self, kind: bytes, body: Any) -> None:
        self.send(kind, [json.dumps(body).encode()])

    def _exchange(self, kind: bytes, parts: Sequence[Any]) -> Any:
        self.send(kind, parts)
        return self.answer()

    def _post(self, kind: bytes, parts: Sequence[Any]) -> None:
        """Send one frame; what Java sends meanwhile is read, or both would wait for the other to read."""
        views = _frame(kind, parts)
        try:
            while views:
                try:
                    _advance(views, self._stream.sendmsg(views[:_MOST_VIEWS], (), socket.MSG_DONTWAIT))
                except BlockingIOError:
                    if self._can_read_or_write() & select.POLLIN:
                        given, body = self._received()
                        self._early.append((given, memoryview(bytes(body))))
        except OSError:
            raise self._lost() from None

    def _can_read_or_write(self) -> int:
        waiting = select.poll()
        waiting.register(self._stream, select.POLLIN | select.POLLOUT)
        return waiting.poll()[0][1]

    def _answered(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return answered(self._answer, asked)

    def _send_all(self, views: list[memoryview]) -> None:
        while views:
            _advance(views, self._stream.sendmsg(views[:_MOST_VIEWS]))

    def _room(self, count: int) -> bytearray:
        if len(self._in) < count:
            self._in = bytearray(count)
        return self._in

    def _exactly(self, room: bytearray, count: int) -> memoryview:
        view, at = memoryview(room)[:count], 0
        while at < count:
            got = self._stream.recv_into(view[at:])
            if not got:
                raise EOFError
            at += got
        return view


def _frame(kind: bytes, parts: Sequence[Any]) -> list[memoryview]:
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    return [memoryview(_HEAD.pack(sum(len(view) for view in views), kind)), *views]


def _advance(views: list[memoryview], sent: int) -> None:
    """Takes what was sent off the front."""
    while views and sent >= len(views[0]):
        sent -= len(views.pop(0))
    if sent:
        views[0] = views[0][sent:]


def _given_up() -> ConnectError:
    return ConnectError("The plugin in Java was given up: its connection was closed")


def answered(answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question of Java's, with the error as a sentence if there is one."""
    try:
        return {"result": answer(str(asked["what"]), asked.get("arguments"))}
    except ConnectError as err:
        return {"error": str(err)}
    except Exception as err:  # Java must have an answer, or its thread hangs
        return {"error": f"{type(err).__name__}: {err}"}
