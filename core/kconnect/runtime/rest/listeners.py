"""`listeners`, `admin.listeners` and `rest.advertised.*`: the addresses to bind, the bound sockets, and the advertised
address.

Sockets are bound before the herder exists, because the worker's id is its advertised host and port.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kconnect.errors import ConfigError, EnvironmentProblemError

# Source: RestServer.LISTENER_PATTERN
_LISTENER = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_BACKLOG = 128
_SCHEMES = ("http", "https")
_WRONG_SCHEME = 'Listener protocol must be either "http" or "https".'


@dataclass(frozen=True, slots=True)
class BoundListener:
    """One address that is listened on. `host` is as configured: empty means all of this machine's."""

    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        """A URL that works on this machine."""
        host = "localhost" if self.host in _WILDCARDS else self.host
        return f"{self.scheme}://{_bracketed(host)}:{self.port}"


_WILDCARDS = ("", "0.0.0.0", "::")


class Listeners:
    """Bound sockets; hand them to RestServer, which closes them, or call close()."""

    def __init__(self, bound: Sequence[BoundListener], sockets: Sequence[socket.socket]) -> None:
        self.bound = tuple(bound)
        self.sockets = tuple(sockets)

    @property
    def urls(self) -> list[str]:
        return [listener.url for listener in self.bound]

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


def bind_listeners(listeners: Sequence[str], setting: str = "listeners") -> Listeners:
    """Bind `http://host:port` addresses; port 0 picks a free one, an empty host means all of this machine's.

    Errors: ConfigError for a malformed listener, EnvironmentProblemError if an address cannot be bound.
    """
    parsed = [_parse(listener.strip(), setting) for listener in listeners]
    bound: list[BoundListener] = []
    sockets: list[socket.socket] = []
    try:
        for (scheme, host, port), listener in zip(parsed, listeners, strict=True):
            with _explained(setting, listener, host, port):
                sock = _listening(host, port)
            sockets.append(sock)
            bound.append(BoundListener(scheme, host, sock.getsockname()[1]))
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return Listeners(bound, sockets)


def advertised_address(config: Mapping[str, str], bound: Sequence[BoundListener]) -> tuple[str, int]:
    """The advertised host and port for other workers and clients.

    rest.advertised.host.name and port win over the listener, which is the first one of the advertised scheme.
    Source: RestServer.advertisedUrl. Errors: ConfigError.
    """
    listener = _advertised(config.get("rest.advertised.listener"), bound)
    host = config.get("rest.advertised.host.name") or listener.host
    if not host or host in _WILDCARDS:
        host = _own_address()
    port = config.get("rest.advertised.port")
    try:
        return host, int(port) if port else listener.port
    except ValueError:
        raise ConfigError.invalid("rest.advertised.port", port, "Not a number of type INT") from None


def advertised_url(config: Mapping[str, str], bound: Sequence[BoundListener]) -> str:
    """The same as a URL, with a slash at its end as Java's. Errors: ConfigError."""
    host, port = advertised_address(config, bound)
    scheme = _advertised(config.get("rest.advertised.listener"), bound).scheme
    return f"{scheme}://{_bracketed(host)}:{port}/"


def worker_id(config: Mapping[str, str], bound: Sequence[BoundListener]) -> str:
    """The id under which a worker writes statuses: host and port, spelled as in its URL, by which others know it.

    Errors: ConfigError.
    """
    host, port = advertised_address(config, bound)
    return f"{_bracketed(host)}:{port}"


def _advertised(scheme: str | None, bound: Sequence[BoundListener]) -> BoundListener:
    """By default an http listener if there is one. Differs: without one, Java accepts an incomplete address."""
    if scheme is None:
        return next((listener for listener in bound if listener.scheme == "http"), bound[0])
    if scheme.strip().lower() not in _SCHEMES:
        raise ConfigError.invalid("rest.advertised.listener", scheme, _WRONG_SCHEME)
    for listener in bound:
        if listener.scheme == scheme.strip().lower():
            return listener
    raise ConfigError.invalid("rest.advertised.listener", scheme, "`listeners` has no such listener")


def _parse(listener: str, setting: str) -> tuple[str, str, int]:
    found = _LISTENER.match(listener)
    if found is None:
        raise ConfigError.invalid(
            setting, listener, "Listener doesn't have the right format (protocol://hostname:port)."
        )
    scheme, host, port = found[1].lower(), found[2], int(found[3])
    if scheme not in _SCHEMES:
        raise ConfigError.invalid(setting, listener, _WRONG_SCHEME)
    if not 0 <= port <= 65535:
        raise ConfigError.invalid(setting, listener, "The port must be between 0 and 65535")
    return scheme, host, port


def _listening(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        except OSError as err:
            # IPv6 is compiled in but switched off
            if err.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


@contextmanager
def _explained(setting: str, listener: str, host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        where = f"{_bracketed(host)}:{port}" if host else f"port {port}"
        if err.errno == errno.EADDRINUSE:
            why, hint = "it is taken by another process", "Stop that process (a second worker?) or choose another port"
        elif err.errno == errno.EACCES:
            why, hint = "this user may not use it", "Choose a port above 1023"
        elif isinstance(err, socket.gaierror) or err.errno == errno.EADDRNOTAVAIL:
            why, hint = f"{host} is not an address of this machine", "Name one that is, or none for all: http://:8083"
        else:
            why, hint = os.strerror(err.errno) if err.errno else str(err), "Choose another address"
        raise EnvironmentProblemError(
            f"Unable to initialize REST server: cannot listen on {where} (setting {setting}={listener}): {why}.",
            hint=f"{hint}: setting `{setting}` in the worker's properties.",
        ) from err


def _own_address() -> str:
    """The address of this machine's host name, as from Java's InetAddress.getLocalHost."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
