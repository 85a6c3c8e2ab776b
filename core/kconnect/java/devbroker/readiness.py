"""Two Kafka requests on a bare socket: enough to know that a broker is ready, without a client library."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

_METADATA = 3
# Version 2 is the oldest with the cluster id, and understood by every broker since 0.10.1.
_METADATA_VERSION = 2
_CLIENT_ID = b"kconnect-devbroker"
# One broker and no topics: about a hundred bytes. More is not a Kafka answer.
_MAX_ANSWER_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """A broker's description of its cluster."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]  # node id, host, port

    @property
    def is_ready(self) -> bool:
        """Brokers are registered and a controller leads: admin requests will be answered."""
        return bool(self.brokers) and self.controller_id >= 0


def ask_broker(host: str, port: int, timeout_s: float) -> BrokerAnswer | None:
    """The broker's answer to a metadata request; None if no Kafka broker answers in time."""
    deadline = time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            # an empty array: no topics are requested
            request = struct.pack(">hhih", _METADATA, _METADATA_VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0\0\0\0"
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive(connection, 4, deadline))
            if not 4 < size <= _MAX_ANSWER_BYTES:
                return None
            return _parse(_receive(connection, size, deadline))
    except (OSError, struct.error, ValueError):
        return None  # no listener, another protocol, or too slow: all mean "no broker answers"


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("closed in mid-answer")
        data += part
    return bytes(data)


def _parse(data: bytes) -> BrokerAnswer:
    position = 4  # the correlation id: one request was sent on this connection

    def take(form: str) -> int:
        nonlocal position
        (value,) = struct.unpack_from(form, data, position)
        position += struct.calcsize(form)
        return int(value)

    def text() -> str | None:
        nonlocal position
        size = take(">h")
        if size < 0:
            return None
        position += size
        return data[position - size : position].decode("utf-8")

    brokers = []
    for _ in range(take(">i")):
        node_id, host, port = take(">i"), text(), take(">i")
        text()  # the rack
        brokers.append((node_id, host or "", port))
    cluster_id = text()
    return BrokerAnswer(cluster_id, take(">i"), tuple(brokers))
