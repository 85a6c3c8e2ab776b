"""Which of some addresses accept a connection: a check of milliseconds before a call that would wait longer."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

_API_VERSIONS = 18
_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY})


@dataclass(frozen=True, slots=True)
class Reached:
    """The result of a check."""

    address: tuple[str, int] | None
    """An address that accepts connections; None if none did in time."""
    refused: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Addresses where retrying will not help, with the reason: connection refused, or unknown host."""
    is_open: bool = False
    """Whether other addresses have not answered yet."""

    def sentence(self) -> str:
        """`localhost:9092: Connection refused; ..`; just the reason for a single address."""
        if len(self.refused) == 1 and not self.is_open:
            return next(iter(self.refused.values()))
        answers = [
            f"{f'[{host}]' if ':' in host else host}:{port}: {why}" for (host, port), why in self.refused.items()
        ]
        if self.is_open:
            answers.append("no answer yet from the others" if answers else "no answer yet")
        return "; ".join(answers)


def reach_any(addresses: Iterable[tuple[str, int]], within_s: float, hello: bytes = b"") -> Reached:
    """Try all at once until the first connects. Name lookups block, possibly for longer than `within_s`.

    `hello`: sent to each that connects; only one that says anything to it, or hangs up, counts. A process that is
    frozen takes connections all the same.
    """
    deadline = time.monotonic() + within_s
    refused: dict[tuple[str, int], str] = {}
    waiting: dict[tuple[str, int], int] = {}  # addresses, with how many connections to them are under way
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for address in dict.fromkeys(addresses):
            for family, place in _places(address, refused):
                sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                sock.setblocking(False)
                code = sock.connect_ex(place)
                if code == 0 and not hello:
                    return Reached(address)
                if code == 0 or code in _UNDER_WAY:
                    selector.register(sock, selectors.EVENT_WRITE, address)
                    waiting[address] = waiting.get(address, 0) + 1
                else:
                    refused[address] = os.strerror(code)
        while waiting and (left_s := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                tried, address = key.fileobj, key.data
                assert isinstance(tried, socket.socket)
                code = tried.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if key.events == selectors.EVENT_READ:
                    return Reached(address)
                if code == 0 and hello:
                    tried.send(hello)  # a connection that has just begun has room for so little
                    selector.modify(tried, selectors.EVENT_READ, address)
                    continue
                if code == 0:
                    return Reached(address)
                selector.unregister(tried)
                refused[address] = os.strerror(code)
                waiting[address] -= 1
                if not waiting[address]:
                    del waiting[address]
    for address in waiting:
        refused.pop(address, None)
    return Reached(None, refused, is_open=bool(waiting))


def hello_of_broker(*, tls: bool) -> bytes:
    """What any broker answers before it knows the caller: a request for its versions, or the begin of TLS."""
    if not tls:
        return struct.pack(">ihhih", 10, _API_VERSIONS, 0, 1, -1)
    import ssl

    from kconnect.client.trust import trusting

    context = trusting()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is believed that it says
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def unknown_host(host: str) -> str | None:
    """Why no address of this host is found, as a sentence without its point; None if one is."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:
        return unresolved(host, err)
    return None


def unresolved(host: str, err: OSError | UnicodeError) -> str:
    """Says of a host what the system said when asked for its addresses."""
    reason = err.strerror if isinstance(err, OSError) else None
    return f"{host} is not known to the name service: {reason or err}"


def _places(address: tuple[str, int], refused: dict[tuple[str, int], str]) -> list[tuple[int, tuple[object, ...]]]:
    """The addresses of a host name."""
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as err:
        refused[address] = unresolved(address[0], err)
        return []
    return [(family, place) for family, _, _, _, place in found]
