"""A way to a port on this machine that can be cut: bytes go through as they are, or nothing does."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

__all__ = ["Relay"]


class Relay:
    """Listens from entry to exit. Threads: two for each connection; its methods from any.

    `target_port` may be set until the first connection.
    """

    def __init__(self, target_port: int = 0) -> None:
        self.target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._is_over = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()  # guarded by _lock, as the threads
        self._threads = [threading.Thread(target=self._accept, name="relay")]

    def cut(self) -> None:
        """Nothing comes through any more, in either direction; connections stay open."""
        self._open.clear()

    def repair(self) -> None:
        self._open.set()

    def __enter__(self) -> Relay:
        self._threads[0].start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.set()
        with self._lock:
            self._is_over = True
            sockets = [self._listener, *self._sockets]
        for one in sockets:
            _shut(one)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                target = socket.create_connection(("127.0.0.1", self.target_port))
            except OSError:
                if self._is_over:
                    return
                continue
            with self._lock:
                if self._is_over:  # it came while the others were closed: nobody would close it
                    client.close()
                    target.close()
                    return
                self._sockets |= {client, target}
                for source, drain in ((client, target), (target, client)):
                    thread = threading.Thread(target=self._pump, args=(source, drain), name="relay-pump")
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, drain: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                self._open.wait()
                drain.sendall(data)
        except OSError:
            pass  # one side went away, as it may
        finally:
            _shut(drain)
            _shut(source)
            with self._lock:
                self._sockets.discard(source)
            source.close()


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed by the other side already
        one.shutdown(socket.SHUT_RDWR)
