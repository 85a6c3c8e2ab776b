"""JavaConnection: one connection to a host JVM, which one plugin object there answers."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kconnect.errors import ConnectError
from kconnect.java_plugins.java_error import java_error

CALL: Final = b"C"
RESULT: Final = b"R"
ERROR: Final = b"E"
UPCALL: Final = b"U"
EVENT: Final = b"V"
BLOCK: Final = b"B"

_HEAD: Final = struct.Struct("<ic")
_FIRST_BUFFER: Final = 1 << 16

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
        self._sending = threading.Lock()  # the control connection answers on other threads than it reads

    def call(self, method: str, **arguments: Any) -> Any:
        """Java's answer: what JSON gives, or a memoryview of a block."""
        return self._exchange(CALL, [json.dumps({"m": method, **arguments}).encode()])

    def block(self, parts: Sequence[Any]) -> Any:
        """Java's answer to a block of records, as `call` gives it."""
        return self._exchange(BLOCK, parts)

    def close(self) -> None:
        """End it; the plugin's thread in Java ends when its call returns. Idempotent."""
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
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        head = _HEAD.pack(sum(len(view) for view in views), kind)
        try:
            with self._sending:
                self._send_all([memoryview(head), *views])
        except OSError as err:
            raise self._lost() from err

    def receive(self) -> tuple[bytes, memoryview]:
        """The next frame: kind and body; what is no block is valid until the next one. Errors: JavaHostDiedError."""
        try:
            length, kind = _HEAD.unpack(self._exactly(self._in, _HEAD.size))
            # Arrow arrays are made around the bytes of a block and live on, so each block has its own
            return kind, self._exactly(bytearray(length) if kind == BLOCK else self._room(length), length)
        except (OSError, EOFError) as err:
            raise self._lost() from err

    def send_json(self, kind: bytes, body: Any) -> None:
        self.send(kind, [json.dumps(body).encode()])

    def _exchange(self, kind: bytes, parts: Sequence[Any]) -> Any:
        self.send(kind, parts)
        while True:
            given, body = self.receive()
            if given == BLOCK:
                return body
            told = json.loads(bytes(body))
            if given == UPCALL:
                self.send_json(RESULT, self._answered(told))
            elif given == ERROR:
                raise java_error(told, self._location)
            else:
                return told

    def _answered(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return answered(self._answer, asked)

    def _send_all(self, views: list[memoryview]) -> None:
        while views:
            sent = self._stream.sendmsg(views[:512])
            while views and sent >= len(views[0]):
                sent -= len(views.pop(0))
            if sent:
                views[0] = views[0][sent:]

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


def answered(answer: Answer, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question of Java's, with the error as a sentence if there is one."""
    try:
        return {"result": answer(str(asked["what"]), asked.get("arguments"))}
    except ConnectError as err:
        return {"error": str(err)}
    except Exception as err:  # Java must have an answer, or its thread hangs
        return {"error": f"{type(err).__name__}: {err}"}
