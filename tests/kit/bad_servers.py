"""HTTP servers that are ill, on real sockets: silent, slow, endless, cut off, untrusted."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kit.certificates import Authority, Identity

__all__ = ["ILLNESSES", "answering", "bad_server", "listening", "tls_of", "untrusted"]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
Manner = Callable[[socket.socket, threading.Event], None]
"""What a server does on a connection after the request, until the event."""


def _silent(peer: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def _dripping(start: bytes) -> Manner:
    def drip(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(start)
        while not over.wait(0.02):
            peer.sendall(b"1")

    return drip


def _saying(what: bytes) -> Manner:
    return lambda peer, over: peer.sendall(what)


def _endless(start: bytes, piece: bytes) -> Manner:
    def talk(peer: socket.socket, over: threading.Event) -> None:
        peer.sendall(start)
        while not over.is_set():
            peer.sendall(piece)

    return talk


ILLNESSES: dict[str, Manner] = {
    "silent": _silent,
    "drips its head": _dripping(_HEAD + b"X-Slow: "),
    "drips its body": _dripping(_HEAD + b"Content-Length: 99999\r\n\r\n"),
    "hangs up": _saying(b""),
    "hangs up in its head": _saying(_HEAD + b"X-Cut: "),
    "hangs up in its body": _saying(_HEAD + b"Content-Length: 100\r\n\r\n["),
    "hangs up in a chunk": _saying(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n40\r\n["),
    "has endless headers": _endless(_HEAD, b"X-More: 1\r\n" * 100),
    "has an endless body": _endless(_HEAD + b"\r\n", b" " * 4096),
    "has endless chunks": _endless(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b" " * 4096 + b"\r\n"),
    "speaks another protocol": _saying(b"220 mail.example.org ESMTP\r\n"),
}


def answering(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> Manner:
    """One good answer, after which the connection is closed."""
    lines = b"".join(line + b"\r\n" for line in headers)
    return _saying(b"HTTP/1.1 " + status + b"\r\n" + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def tls_of(identity: Identity, folder: Path) -> ssl.SSLContext:
    """What a server needs to speak TLS as this identity."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.pem_file(folder / "server.pem"))
    return context


@contextmanager
def bad_server(manner: Manner, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Its address: host and port. Each connection is treated so, once its request has come."""
    with listening(manner, tls) as (address, _):
        yield address


@contextmanager
def listening(manner: Manner, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """The address, and the requests that came."""
    over, threads, seen = threading.Event(), [], list[bytes]()

    def treat(peer: socket.socket) -> None:
        with contextlib.ExitStack() as stack, suppress(OSError):  # the other side hangs up: that is what is tested
            stack.enter_context(peer)
            peer.settimeout(60)
            spoken = peer if tls is None else stack.enter_context(tls.wrap_socket(peer, server_side=True))
            came = b""
            while b"\r\n\r\n" not in came and came[:1] != b"\x16" and (piece := spoken.recv(65536)):
                came += piece
            length = next(
                (int(line[15:]) for line in came.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
            )
            while len(came.partition(b"\r\n\r\n")[2]) < length and (piece := spoken.recv(65536)):
                came += piece
            seen.append(came)
            manner(spoken, over)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:  # closed: the test is over
                return
            thread = threading.Thread(target=treat, args=(peer,), name="bad-server-peer")
            threads.append(thread)
            thread.start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, name="bad-server")
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", seen
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
            for thread in threads:
                thread.join(10)


def untrusted(folder: Path) -> ssl.SSLContext:
    """TLS of a server whose authority nobody knows."""
    return tls_of(Authority("nobody's authority").sign("127.0.0.1"), folder)
