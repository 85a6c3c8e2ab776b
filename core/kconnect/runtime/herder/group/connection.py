"""One connection to a broker: TLS, versions, login; then a request and its answer, one after the other.

BrokerProbe checks by one that is kept open whether a worker's brokers answer.
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from typing import Final, TypeVar

from kconnect.errors import ConnectError
from kconnect.runtime.config.addresses import Address
from kconnect.runtime.herder.group.errors import Unanswered, error_name, final_error
from kconnect.runtime.herder.group.frames import (
    ApiVersions,
    Authenticate,
    Handshake,
    KafkaRequest,
    KnownBrokers,
    frame_of,
    opened,
)
from kconnect.runtime.herder.group.sasl import SaslLogin
from kconnect.runtime.herder.group.security import Access

A = TypeVar("A")
# The leader of a large group receives every member's metadata; a thousand members with a thousand tasks are 60 MB.
_MAX_ANSWER_BYTES: Final = 256 << 20
# As in Java, which renews a session after 85 to 95 % of its life. Here the connection is replaced then.
_SESSION_SHARES: Final = (0.85, 0.95)
_UNSUPPORTED_VERSION: Final = 35


class BrokerConnection:
    """Opened by its constructor, which blocks; a connection that failed once is closed.

    Threads: one, except `abort()`.
    """

    def __init__(self, address: Address, access: Access, timeout_s: float) -> None:
        """Errors: Unanswered; ConnectError when one side refuses the other: login or certificate."""
        self.address = address
        self._client_id = access.client_id
        self._correlation_id = 0
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._expires_at = float("inf")
        deadline = time.monotonic() + timeout_s
        self._socket = self._connected(access.tls() if access.tls is not None else None, deadline)
        try:
            self._versions = self.ask(ApiVersions(), _left(deadline))
            if access.login is not None:
                self._log_in(access.login(), deadline)
        except BaseException:
            self.close()
            raise

    @property
    def is_worn(self) -> bool:
        """Its login ends soon: take another connection for the next request."""
        return time.monotonic() >= self._expires_at

    def ask(self, request: KafkaRequest[A], timeout_s: float) -> A:
        """Errors: Unanswered if the connection broke or the time is over; it is then closed."""
        try:
            return self._ask(request, time.monotonic() + timeout_s)
        except ssl.SSLError as err:
            self.close()
            raise self._refused_certificate(err) from err
        except (OSError, struct.error, UnicodeDecodeError) as err:
            self.close()
            raise Unanswered(f"{self._name}: {_reason(err)}") from err
        except Unanswered:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        """Break the connection: whoever waits for an answer gets Unanswered. Threads: any."""
        with contextlib.suppress(OSError):  # it is closed already
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # SSLSocket's own would disturb its reader

    @property
    def _name(self) -> str:
        return f"the broker at {self.address[0]}:{self.address[1]}"

    def _connected(self, tls: ssl.SSLContext | None, deadline: float) -> socket.socket:
        try:
            plain = socket.create_connection(self.address, _left(deadline))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as err:
            raise Unanswered(f"{self._name}: {_reason(err)}") from err
        if tls is None:
            return plain
        try:
            return tls.wrap_socket(plain, server_hostname=self.address[0])
        except ssl.SSLCertVerificationError as err:
            plain.close()
            raise ConnectError(
                f"The certificate of {self._name} is not accepted: {err.verify_message.rstrip('.')}.",
                hint="Renew the broker's certificate, or name what signed it in ssl.truststore.location.",
            ) from err
        except ssl.SSLError as err:
            plain.close()
            raise self._refused_certificate(err) from err
        except OSError as err:
            plain.close()
            raise Unanswered(f"{self._name}: {_reason(err)} in the TLS handshake") from err

    def _refused_certificate(self, err: ssl.SSLError) -> Exception:
        reason = (err.reason or str(err)).replace("_", " ").lower()
        if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
            return ConnectError(
                f"{self._name[0].upper()}{self._name[1:]} rejects this worker's certificate, or requires one "
                f"({reason}).",
                hint="Name a key store with a certificate that the broker trusts in ssl.keystore.location.",
            )
        return Unanswered(f"{self._name}: TLS: {reason}")

    def _log_in(self, login: SaslLogin, deadline: float) -> None:
        shaken = self.ask(Handshake(login.mechanism), _left(deadline))
        if shaken.error:
            raise ConnectError(
                f"{self._name[0].upper()}{self._name[1:]} does not support sasl.mechanism={login.mechanism}; "
                f"it supports {', '.join(shaken.mechanisms) or 'no login at all'}.",
                hint="Correct sasl.mechanism of this worker.",
            )
        token: bytes | None = login.first()
        while token is not None:
            answer = self.ask(Authenticate(token), _left(deadline))
            if answer.error:
                raise ConnectError(
                    f"{self._name[0].upper()}{self._name[1:]} refuses the login: "
                    f"{(answer.message or error_name(answer.error)).rstrip('. ')}.",
                    hint="Correct sasl.jaas.config and sasl.mechanism of this worker.",
                )
            if answer.lifetime_ms > 0:
                share = random.uniform(*_SESSION_SHARES)
                self._expires_at = time.monotonic() + answer.lifetime_ms / 1000 * share
            token = login.answer_to(answer.token)

    def _ask(self, request: KafkaRequest[A], deadline: float) -> A:
        version = self._version(request)
        self._correlation_id += 1
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(frame_of(request, version, self._correlation_id, self._client_id))
        (size,) = struct.unpack(">i", self._received(4, deadline))
        if not 4 <= size <= _MAX_ANSWER_BYTES:
            raise Unanswered(f"{self._name}: what answers there is not a Kafka broker, or its listener speaks TLS")
        correlation_id, answer = opened(request, version, self._received(size, deadline))
        if correlation_id != self._correlation_id:
            raise Unanswered(f"{self._name}: the response does not match the request")
        return answer

    def _version(self, request: KafkaRequest[A]) -> int:
        if isinstance(request, ApiVersions):
            return request.versions[0]
        low, high = self._versions.get(request.key, (0, -1))
        for version in request.versions:
            if low <= version <= high:
                return version
        problem = final_error(_UNSUPPORTED_VERSION, getattr(request, "group_id", ""), 0)
        assert problem is not None
        raise problem

    def _received(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            self._socket.settimeout(_left(deadline))
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise Unanswered(f"{self._name} closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _left(deadline: float) -> float:
    """Seconds to the deadline; a socket takes 0 as "do not wait at all"."""
    return max(0.001, deadline - time.monotonic())


def _reason(err: Exception) -> str:
    if isinstance(err, TimeoutError):
        return "no answer in time"
    of_system = err.strerror if isinstance(err, OSError) else None
    return of_system or str(err) or type(err).__name__


# The share of the timeout that one address may take while there are others
_SHARE = 3


class BrokerProbe:
    """Any broker will do: those of `bootstrap.servers`, and those heard of since. Threads: one."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._known: tuple[Address, ...] = ()
        self._connection: BrokerConnection | None = None

    def ask(self, within_s: float) -> None:
        """Return when a broker has answered. Errors: ConnectError with the address and why, also when one refuses us.

        A broken connection proves nothing: brokers close idle ones, and are restarted one after the other.
        """
        deadline = time.monotonic() + within_s
        if self._connection is not None and not self._connection.is_worn:
            try:
                self._connection.ask(ApiVersions(), within_s / _SHARE)
            except (Unanswered, ConnectError):
                self._connection = None  # it has closed itself
            else:
                return
        self.close()
        self._connection = self._connected(deadline)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self, deadline: float) -> BrokerConnection:
        problems: dict[str, None] = {}
        addresses = self._addresses()
        for number, address in enumerate(addresses):
            left_s = deadline - time.monotonic()
            share_s = left_s / min(_SHARE, len(addresses) - number)
            try:
                connection = BrokerConnection(address, self._access, max(share_s, 0.01))
                brokers = connection.ask(KnownBrokers(), max(deadline - time.monotonic(), 0.01))
                self._known = tuple(brokers)
            except (Unanswered, ConnectError) as err:
                problem = str(err).rstrip(".")
                doubt = self._access.doubt(problem) if isinstance(err, Unanswered) else None
                problems[f"{problem}: {doubt}" if doubt else problem] = None
            else:
                return connection
        raise ConnectError("; ".join(problems))

    def _addresses(self) -> list[Address]:
        bootstrap, known = list(self._access.bootstrap), list(self._known)
        random.shuffle(bootstrap)
        random.shuffle(known)
        return list(dict.fromkeys([*bootstrap, *known]))
