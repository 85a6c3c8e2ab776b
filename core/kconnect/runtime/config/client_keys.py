"""Which librdkafka setting each Java client setting becomes, with librdkafka's range. Data only.

Ranges are those that librdkafka 2.16 enforces; Java defaults such as 2147483647 lie outside some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """The librdkafka equivalent of a Java setting: its name and, for numbers, the range and a divisor."""

    target: str
    low: int | None = None
    high: int | None = None
    divisor: int = 1
    zero_if: int | None = None
    """The value that means "never" or "forever" in Java, where librdkafka uses 0."""

    @property
    def is_number(self) -> bool:
        return self.low is not None


_MAX: Final = 2147483647

_COMMON: Final = {
    "bootstrap.servers": Rule("bootstrap.servers"),
    "client.dns.lookup": Rule("client.dns.lookup"),
    "client.id": Rule("client.id"),
    "client.rack": Rule("client.rack"),
    "connections.max.idle.ms": Rule("connections.max.idle.ms", 0, _MAX, zero_if=-1),
    "enable.metrics.push": Rule("enable.metrics.push"),
    "metadata.max.age.ms": Rule("metadata.max.age.ms", 1, 86_400_000),
    "metadata.recovery.rebootstrap.trigger.ms": Rule("metadata.recovery.rebootstrap.trigger.ms", 0, _MAX),
    "metadata.recovery.strategy": Rule("metadata.recovery.strategy"),
    "receive.buffer.bytes": Rule("socket.receive.buffer.bytes", 0, 100_000_000, zero_if=-1),
    "reconnect.backoff.max.ms": Rule("reconnect.backoff.max.ms", 0, 3_600_000),
    "reconnect.backoff.ms": Rule("reconnect.backoff.ms", 0, 3_600_000),
    "retry.backoff.max.ms": Rule("retry.backoff.max.ms", 1, 300_000),
    "retry.backoff.ms": Rule("retry.backoff.ms", 1, 300_000),
    "security.protocol": Rule("security.protocol"),
    "send.buffer.bytes": Rule("socket.send.buffer.bytes", 0, 100_000_000, zero_if=-1),
    "socket.connection.setup.timeout.ms": Rule("socket.connection.setup.timeout.ms", 1000, _MAX),
}

PRODUCER: Final = _COMMON | {
    "acks": Rule("acks"),
    "batch.size": Rule("batch.size", 1, _MAX),
    "buffer.memory": Rule("queue.buffering.max.kbytes", 1, _MAX, divisor=1024),
    "compression.type": Rule("compression.type"),
    "delivery.timeout.ms": Rule("message.timeout.ms", 0, _MAX, zero_if=_MAX),
    "enable.idempotence": Rule("enable.idempotence"),
    "linger.ms": Rule("linger.ms", 0, 900_000),
    "max.in.flight.requests.per.connection": Rule("max.in.flight.requests.per.connection", 1, 1_000_000),
    "max.request.size": Rule("message.max.bytes", 1000, 1_000_000_000),
    "request.timeout.ms": Rule("request.timeout.ms", 1, 900_000),
    "retries": Rule("retries", 0, _MAX),
    "transaction.timeout.ms": Rule("transaction.timeout.ms", 1000, _MAX),
    "transactional.id": Rule("transactional.id"),
}

CONSUMER: Final = _COMMON | {
    "allow.auto.create.topics": Rule("allow.auto.create.topics"),
    "auto.offset.reset": Rule("auto.offset.reset"),
    "check.crcs": Rule("check.crcs"),
    "fetch.max.bytes": Rule("fetch.max.bytes", 1000, 2_147_483_135),
    "fetch.max.wait.ms": Rule("fetch.wait.max.ms", 0, 300_000),
    "fetch.min.bytes": Rule("fetch.min.bytes", 1, 100_000_000),
    "group.id": Rule("group.id"),
    "group.instance.id": Rule("group.instance.id"),
    "group.protocol": Rule("group.protocol"),
    "group.remote.assignor": Rule("group.remote.assignor"),
    "heartbeat.interval.ms": Rule("heartbeat.interval.ms", 1, 3_600_000),
    "isolation.level": Rule("isolation.level"),
    "max.partition.fetch.bytes": Rule("fetch.message.max.bytes", 1, 1_000_000_000),
    "max.poll.interval.ms": Rule("max.poll.interval.ms", 1, 86_400_000),
    "request.timeout.ms": Rule("socket.timeout.ms", 10, 300_000),
    "session.timeout.ms": Rule("session.timeout.ms", 1, 3_600_000),
}

ADMIN: Final = _COMMON | {
    "request.timeout.ms": Rule("socket.timeout.ms", 10, 300_000),
    "retries": Rule("retries", 0, _MAX),
}

HANDLED_ELSEWHERE: Final = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "exclude.internal.topics",
        "interceptor.classes",
        "max.block.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "partitioner.class",
        "partitioner.ignore.keys",
    }
)
"""Settings that are supported, but not through one equivalent librdkafka setting."""
