"""A way to a real broker on which things go wrong: answers replaced by errors, silence, another address for the group.

Requests and answers are the real ones; only the error codes asked for are written into the answers. Whoever asks for
the group's coordinator is reported the address of `leads_to`, this proxy by default.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType

__all__ = ["FIND_COORDINATOR", "HEARTBEAT", "JOIN_GROUP", "LEAVE_GROUP", "SYNC_GROUP", "CoordinatorProxy"]

FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 10, 11, 12, 13, 14
_METADATA = 3
# Where the error code stands in the versions that our members use: after correlation id, tags and throttle time.
_ERROR_AT = {JOIN_GROUP: 9, HEARTBEAT: 8, LEAVE_GROUP: 9, SYNC_GROUP: 8}


class CoordinatorProxy:
    """Listens from entry to exit. Threads: a pair for each connection; its methods from any."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.leads_to = self.port
        self.seen: list[int] = []
        """Keys of the requests that came by, in order."""
        self._errors: dict[int, list[int]] = {}
        self._open = threading.Event()
        self._open.set()
        self._over = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="coordinator-proxy")]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def answer_next(self, key: int, error: int, times: int = 1) -> None:
        """The next answers to this kind of request carry the error."""
        self._errors.setdefault(key, []).extend([error] * times)

    def is_due(self, key: int) -> bool:
        """Whether errors wait for answers to this kind of request."""
        return bool(self._errors.get(key))

    def freeze(self) -> None:
        """Nothing comes through any more, in either direction; connections stay open."""
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    def __enter__(self) -> CoordinatorProxy:
        self._threads[0].start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._open.set()
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):  # closed by the other side already
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._relay, args=(client,), name="coordinator-proxy-relay")
            self._sockets.append(client)
            if self._over.is_set():  # the others are closed by now, and nobody would close it
                client.close()
                return
            self._threads.append(thread)
            thread.start()

    def _relay(self, client: socket.socket) -> None:
        """One request at a time, as our members send them."""
        try:
            self._open.wait()
            with client, socket.create_connection(("127.0.0.1", self._broker_port)) as broker:
                self._sockets.append(broker)
                if self._over.is_set():
                    return
                while (request := _frame(client)) is not None:
                    self._open.wait()
                    key, version = struct.unpack_from(">hh", request)
                    self.seen.append(key)
                    broker.sendall(struct.pack(">i", len(request)) + request)
                    answer = _frame(broker)
                    self._open.wait()
                    if answer is None or self._over.is_set():
                        return
                    changed = self._changed(key, version, answer)
                    client.sendall(struct.pack(">i", len(changed)) + changed)
        except OSError:
            return  # one side went away, as it may

    def _changed(self, key: int, version: int, answer: bytes) -> bytes:
        if key == FIND_COORDINATOR and struct.unpack_from(">h", answer, 8) == (0,):
            host = b"127.0.0.1"
            return answer[:10] + struct.pack(">hih", -1, 0, len(host)) + host + struct.pack(">i", self.leads_to)
        if key == _METADATA:
            return answer[:4] + struct.pack(">i", 0)  # no other brokers: nobody is to find the way round
        errors = self._errors.get(key)
        if errors:
            at = _ERROR_AT[key]
            return answer[:at] + struct.pack(">h", errors.pop(0)) + answer[at + 2 :]
        return answer


def _frame(source: socket.socket) -> bytes | None:
    head = _exactly(source, 4)
    return None if head is None else _exactly(source, struct.unpack(">i", head)[0])


def _exactly(source: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return None
        data += part
    return data
