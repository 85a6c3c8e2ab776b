"""The control link, both ends: framed JSON over TCP between a worker and its slots.

A frame is four bytes of length, big-endian, and a JSON body (messages.py). Both sides prove with HMAC-SHA256 that they
know the token before anything else is said; whoever does not is disconnected within a deadline. Records never
travel here, and nothing that comes from a socket is ever unpickled. The link authenticates but does not encrypt: across
machines use a network you trust.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from kconnect.errors import LinkError, LinkRefusedError
from kconnect.spark.messages import Challenge, ChallengeResponse, Message, Refused, Welcome, decode, encode

log = logging.getLogger(__name__)

# A task's config or an offset request takes some kilobytes, a trace rarely a hundred: far above need, below harm.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
# A proof and a nonce are 200 bytes: a stranger cannot make us hold more than this.
_MAX_GREETING_BYTES: Final = 1024
# Between the first and the last byte of one frame; the largest takes well under a second on a slow network.
_FRAME_TIMEOUT_S: Final = 10.0
_SEND_TIMEOUT_S: Final = 10.0
_GREETING_TIMEOUT_S: Final = 5.0
# Time for the other side to read why it is refused, and to close
_FAREWELL_S: Final = 1.0
# Concurrent handshakes; further connections are closed, and a real slot retries.
_MAX_GREETINGS: Final = 32

_M = TypeVar("_M", Challenge, ChallengeResponse, Welcome)


class Link:
    """One connection. Threads: `send` and `abort` from any; `receive` and `close` from the one thread that reads.

    Lifecycle: constructed round a connected socket -> send/receive -> abort (optional) -> close.
    """

    def __init__(self, sock: socket.socket, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.max_frame_bytes = max_frame_bytes
        self.last_received_s = time.monotonic()
        """When the last whole frame arrived."""
        # Two handles on one connection, since a Python socket has one timeout for both directions.
        self._out = sock
        self._in = sock.dup()
        self._out.settimeout(_SEND_TIMEOUT_S)
        # Guards writes of whole frames: held over the send on purpose, so that frames never mix. The timeout bounds it.
        self._sending = threading.Lock()
        self._buffer = bytearray()
        self._frame_deadline_s = 0.0
        self._broken = False

    def send(self, message: Message) -> None:
        """Send one message. Errors: LinkError: the link is broken, the other side takes nothing, or it is too large."""
        body = encode(message)
        if len(body) > self.max_frame_bytes:
            raise LinkError(
                f"A message of {len(body)} bytes is too large for the control link (at most {self.max_frame_bytes})"
            )
        frame = len(body).to_bytes(4, "big") + body
        try:
            with self._sending:
                self._out.sendall(frame)
        except OSError as error:
            self.abort()  # a frame may be half out: nothing sensible can follow it
            raise LinkError(f"The control link broke while sending: {error}") from error

    def receive(self, timeout_s: float) -> Message | None:
        """The next message, or None when none began within the time.

        Errors: LinkError when the other side is gone, stops in mid-frame, or sends what is not a message.
        """
        deadline_s = time.monotonic() + timeout_s
        while (body := self._take_frame()) is None:
            in_frame = bool(self._buffer)
            remaining_s = (self._frame_deadline_s if in_frame else deadline_s) - time.monotonic()
            try:
                self._in.settimeout(max(remaining_s, 0.001))
                chunk = self._in.recv(65536)
            except TimeoutError:
                if in_frame:
                    raise LinkError("The other side of the control link stopped in the middle of a message") from None
                return None
            except OSError as error:
                raise LinkError(f"The control link broke: {error}") from error
            if not chunk:
                raise LinkError("The other side of the control link is gone")
            if not in_frame:
                self._frame_deadline_s = time.monotonic() + _FRAME_TIMEOUT_S
            self._buffer += chunk
        self.last_received_s = time.monotonic()
        return decode(body)

    @property
    def is_broken(self) -> bool:
        return self._broken

    def abort(self) -> None:
        """Break the link and wake both sides. Idempotent."""
        self._broken = True
        with contextlib.suppress(OSError):  # it was broken already
            self._out.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the sockets. Call after the last receive. Idempotent."""
        self.abort()
        self._in.close()
        with self._sending:
            self._out.close()

    def await_end(self, timeout_s: float) -> None:
        """Close our direction, then read until the other side closes; a plain close could lose our last message.

        Errors: OSError when it broke; TimeoutError, a subclass, when the other side stays.
        """
        deadline_s = time.monotonic() + timeout_s
        self._out.shutdown(socket.SHUT_WR)
        while (remaining_s := deadline_s - time.monotonic()) > 0:
            self._in.settimeout(remaining_s)
            if not self._in.recv(65536):
                return

    def refuse(self, reason: str) -> LinkRefusedError:
        """Tell the other side why the two ends do not match; gives the error to raise here."""
        with contextlib.suppress(LinkError, OSError):  # it closed without reading, or stays open: our close ends that
            self.send(Refused(reason))
            self.await_end(_FAREWELL_S)
        return LinkRefusedError(reason)

    def _take_frame(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        size = int.from_bytes(self._buffer[:4], "big")
        if size > self.max_frame_bytes:
            raise LinkError(f"A frame of {size} bytes was refused (at most {self.max_frame_bytes})")
        if len(self._buffer) < 4 + size:
            return None
        body = bytes(self._buffer[4 : 4 + size])
        del self._buffer[: 4 + size]
        self._frame_deadline_s = time.monotonic() + _FRAME_TIMEOUT_S
        return body


def greet_slot(link: Link, token: bytes) -> None:
    """The worker's half of the handshake.

    Errors: LinkRefusedError when the other side does not know the token, LinkError when it is no slot.
    """
    link.max_frame_bytes = _MAX_GREETING_BYTES
    deadline_s = time.monotonic() + _GREETING_TIMEOUT_S
    ours = secrets.token_hex(32)
    link.send(Challenge(ours))
    answer = _expect(link, ChallengeResponse, deadline_s)
    if not hmac.compare_digest(answer.proof.encode(), _proof(token, "slot", ours, answer.nonce).encode()):
        raise link.refuse(
            "the slot does not know the worker's token; it is of another worker, or of an earlier run of this one"
        )
    link.send(Welcome(_proof(token, "worker", ours, answer.nonce)))
    link.max_frame_bytes = MAX_FRAME_BYTES


def greet_worker(link: Link, token: bytes) -> None:
    """The slot's half of the handshake.

    Errors: LinkRefusedError when the other side is not our worker, or says that we are not its slot; LinkError when it
    is no worker.
    """
    link.max_frame_bytes = _MAX_GREETING_BYTES
    deadline_s = time.monotonic() + _GREETING_TIMEOUT_S
    challenge = _expect(link, Challenge, deadline_s)
    ours = secrets.token_hex(32)
    link.send(ChallengeResponse(ours, _proof(token, "slot", challenge.nonce, ours)))
    welcome = _expect(link, Welcome, deadline_s)
    if not hmac.compare_digest(welcome.proof.encode(), _proof(token, "worker", challenge.nonce, ours).encode()):
        raise link.refuse("the worker does not know the slot's token; it is not the worker that started the slot")
    link.max_frame_bytes = MAX_FRAME_BYTES


def connect(host: str, port: int, token: bytes, timeout_s: float) -> Link:
    """Connect a slot to its worker, retrying until the timeout.

    Errors: LinkRefusedError at once when the two do not match; LinkError at the timeout.
    """
    deadline_s = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        try:
            link = Link(socket.create_connection((host, port), timeout=5.0))
        except OSError as error:
            problem: Exception = error
        else:
            try:
                greet_worker(link, token)
                return link
            except LinkRefusedError as error:
                link.close()
                raise LinkRefusedError(f"Slot and worker at {host}:{port} do not match: {error}") from error
            except LinkError as error:
                link.close()
                problem = error
        if time.monotonic() > deadline_s:
            raise LinkError(
                f"The worker cannot be reached at {host}:{port}: {problem}",
                hint="Set kconnect.link.advertised.host to an address of the worker that the executors can reach.",
            ) from problem
        pause.wait(0.2)


class LinkServer:
    """Listens for slots; each one that knows the token gets a thread that runs `serve(link)`.

    Lifecycle: constructed -> start -> stop. `serve` owns the link's reading side; the link is closed when it returns.
    """

    def __init__(self, token: bytes, serve: Callable[[Link], None], *, bind_host: str, port: int = 0) -> None:
        self._token = token
        self._serve = serve
        self._bind = (bind_host, port)
        self._listener: socket.socket | None = None
        self._accepting: threading.Thread | None = None
        self._greetings = threading.BoundedSemaphore(_MAX_GREETINGS)
        self._lock = threading.Lock()  # guards the two below
        self._open: dict[Link, threading.Thread] = {}
        self._stopping = False

    @property
    def port(self) -> int:
        """The port that listens; only after start."""
        assert self._listener is not None, "start() first"
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Bind and start to accept. Errors: LinkError when the address is not available."""
        try:
            self._listener = socket.create_server(self._bind, backlog=128)
        except OSError as error:
            raise LinkError(
                f"The control link cannot listen on {self._bind[0]}:{self._bind[1]}: {error}",
                hint="Set kconnect.link.bind.host and kconnect.link.port to a free address of this machine.",
            ) from error
        # Polling is the portable way to notice the stop: closing does not wake accept() on every system.
        self._listener.settimeout(0.5)
        self._accepting = threading.Thread(target=self._accept, args=(self._listener,), name="link-accept", daemon=True)
        self._accepting.start()

    def stop(self, timeout_s: float) -> None:
        """Break every link and end. Idempotent."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            self._stopping = True
            links = dict(self._open)
        for link in links:
            link.abort()
        threads = [*links.values(), *([self._accepting] if self._accepting else [])]
        for thread in threads:
            thread.join(max(deadline_s - time.monotonic(), 0.01))
            if thread.is_alive():
                log.warning("Thread %s of the control link did not end in time", thread.name)

    def _accept(self, listener: socket.socket) -> None:
        with listener:
            while not self._stopping:
                try:
                    sock, address = listener.accept()
                except TimeoutError:
                    continue
                except OSError as error:
                    log.warning("The control link could not accept a connection: %s", error)
                    threading.Event().wait(0.2)  # out of file descriptors: a pause instead of a busy loop
                    continue
                if not self._greetings.acquire(blocking=False):
                    sock.close()
                    continue
                self._begin(sock, f"{address[0]}:{address[1]}")

    def _begin(self, sock: socket.socket, peer: str) -> None:
        try:
            link = Link(sock)
        except OSError:  # closed before the handshake
            self._greetings.release()
            sock.close()
            return
        thread = threading.Thread(target=self._converse, args=(link, peer), name=f"link-{peer}", daemon=True)
        with self._lock:
            stopping = self._stopping
            if not stopping:
                self._open[link] = thread
                thread.start()
        if stopping:
            self._greetings.release()
            link.close()

    def _converse(self, link: Link, peer: str) -> None:
        try:
            try:
                greet_slot(link, self._token)
            finally:
                self._greetings.release()
            self._serve(link)
        except LinkRefusedError as error:
            log.warning("Worker and slot at %s do not match: %s", peer, error)
        except LinkError as error:  # lost during the handshake; after it the pool reports the loss
            log.info("Connection from %s to the control link dropped: %s", peer, error)
        except Exception:  # thread top
            log.exception("Serving the control link of %s failed", peer)
        finally:
            link.close()
            with self._lock:
                self._open.pop(link, None)


def _proof(token: bytes, role: str, worker_nonce: str, slot_nonce: str) -> str:
    # Includes the role, so that a proof cannot be reflected.
    return hmac.digest(token, f"kconnect-link-1|{role}|{worker_nonce}|{slot_nonce}".encode(), "sha256").hex()


def _expect(link: Link, kind: type[_M], deadline_s: float) -> _M:
    try:
        message = link.receive(max(deadline_s - time.monotonic(), 0.001))
    except LinkRefusedError as error:
        raise link.refuse(str(error)) from error
    if isinstance(message, Refused):
        raise LinkRefusedError(" ".join(message.reason.split()))  # it may come from a stranger, and is logged
    if not isinstance(message, kind):
        received = "nothing" if message is None else "something else"
        raise LinkError(f"Expected {kind.__name__} in the handshake of the control link, got {received}")
    return message
