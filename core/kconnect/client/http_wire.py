"""What an HTTP exchange goes over: sockets on which every wait ends at a deadline, and the proxies of the system."""

from __future__ import annotations

import base64
import contextlib
import io
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.parse import SplitResult, unquote

PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Silence:
    """What to do while a server has not begun its answer: `ask` is called each `every_s`; its errors end the wait."""

    every_s: float
    ask: Callable[[], None]


@dataclass(slots=True)
class Connection:
    """One that is kept between exchanges. `peer`: its address, None behind a proxy; `has_answered`: it did once."""

    sock: socket.socket
    peer: str | None = None
    has_answered: bool = False

    def is_stale(self) -> bool:
        """Whether the server has closed it: between two answers there is nothing to read but the end."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(0))


class Wire(io.RawIOBase):
    """A socket for one exchange: every wait ends at the deadline, also where a byte comes now and then."""

    def __init__(
        self, sock: socket.socket, deadline: float, idle_s: float | None, silence: Silence | None = None
    ) -> None:
        self._sock = sock
        self._deadline = deadline
        self._idle_s = idle_s
        self._silence = silence
        self.has_begun = self.has_ended = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        """What http.client asks a socket for."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # bytearray or memoryview
        while True:
            self._limit()
            try:
                count = self._sock.recv_into(buffer)
            except TimeoutError:
                if (watch := self._watch()) is None or self._deadline <= time.monotonic():
                    raise
                watch.ask()
            else:
                self.has_begun, self.has_ended = True, not count
                return count

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._limit()
            left = left[self._sock.send(left) :]

    def _limit(self) -> None:
        watch, left = self._watch(), left_s(self._deadline)
        idle_s = self._idle_s if watch is None else watch.every_s
        self._sock.settimeout(left if idle_s is None else min(left, idle_s))

    def _watch(self) -> Silence | None:
        """What asks while nothing comes; None once something has, or where nobody asks."""
        return None if self.has_begun else self._silence


def opened(host: str, port: int, deadline: float) -> socket.socket:
    """A connection to the first of the host's addresses that takes one; each has its share of the time."""
    addresses = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    problem: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(left_s(deadline) / (len(addresses) - number))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as err:
            sock.close()
            problem = err
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem or OSError(f"{host} has no address")


def is_led_inside(one: str | None, other: str | None) -> bool:
    """Whether the first address is of the internet and the second of a network or machine of our own. Pure."""
    return one is not None and other is not None and _is_of_internet(one) and not _is_of_internet(other)


def _is_of_internet(address: str) -> bool:
    import ipaddress  # here: only redirects need it

    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_global


def tunnel(wire: Wire, parts: SplitResult, proxy: SplitResult) -> None:
    """Have the proxy connect us. Errors: HTTPException with what it says instead."""
    host = (parts.hostname or "").encode("idna").decode()
    target = f"{f'[{host}]' if ':' in host else host}:{parts.port or PORTS['https']}"
    headers = "".join(f"{name}: {value}\r\n" for name, value in proxy_login(proxy).items())
    wire.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{headers}\r\n".encode())
    with contextlib.closing(HTTPResponse(wire, method="CONNECT")) as answer:  # type: ignore[arg-type]  # as above
        answer.begin()
        if answer.status != 200:
            raise HTTPException(f"{proxy.hostname} answers {answer.status} {answer.reason}".rstrip())


def proxy_of(parts: SplitResult) -> str | None:
    """The URL of the proxy that the system names for a URL; None without one."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(parts.scheme) or proxies.get("all")
    if not url or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return url if "://" in url else f"http://{url}"


def proxy_login(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {base64.b64encode(login).decode()}"}


def left_s(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
