"""Kafka client settings for the config topic: for the log of every worker, and for the leader's producer.

Source: KafkaConfigBackingStore#setupAndCreateKafkaBasedLog, #fencableProducerProps, ConnectUtils#ensureProperty,
DistributedConfig#transactionalProducerId (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.runtime.config.client_config import InternalClients, internal_clients

_READ_COMMITTED: Final = "read_committed"
_READ_UNCOMMITTED: Final = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTopicClients:
    """librdkafka's settings; secrets live here."""

    log: InternalClients
    isolation_level: str
    """For reading the log."""
    leader: Mapping[str, Any] | None = field(repr=False)
    """The leader's transactional producer; None without exactly once: the log's producer writes everything."""
    warnings: tuple[str, ...]
    """Warnings about user settings that are overridden, to be logged once each."""


def config_topic_clients(worker: Mapping[str, str], *, client_id_base: str) -> ConfigTopicClients:
    """`client_id_base` is `connect-GROUP-` or the worker's `client.id` with a dash, as in Java.

    Errors: ConfigError with Java's message if a setting is invalid.
    """
    client_id = f"{client_id_base}configs"
    support = worker.get("exactly.once.source.support", "disabled").strip().lower()
    warnings: list[str] = []
    isolation_level = worker.get("isolation.level", _READ_UNCOMMITTED)
    if support == "enabled":
        purpose = "the config topic's consumer when exactly-once source support is enabled"
        warnings += overruled(worker, "isolation.level", _READ_COMMITTED, purpose)
        isolation_level = _READ_COMMITTED
    leader: dict[str, Any] | None = None
    if support in ("preparing", "enabled"):
        fixed = {"enable.idempotence": "true", "transactional.id": leader_transactional_id(worker)}
        purpose = "the config topic's producer when exactly-once source support is enabled or in preparation"
        for key, value in fixed.items():
            warnings += overruled(worker, key, value, purpose)
        own = internal_clients(worker, client_id=f"{client_id}-leader").producer
        leader = {**own, **fixed, "acks": "all", "max.in.flight.requests.per.connection": 5}
    return ConfigTopicClients(
        log=internal_clients(worker, client_id=client_id),
        isolation_level=isolation_level,
        leader=leader,
        warnings=tuple(warnings),
    )


def leader_transactional_id(worker: Mapping[str, str]) -> str:
    """The transactional id by which the broker fences off the previous leader."""
    return f"connect-cluster-{worker.get('group.id', '')}"


def overruled(worker: Mapping[str, str], key: str, value: str, purpose: str) -> list[str]:
    """A warning that the worker's value of a client setting is overridden; none if the value is the same."""
    given = worker.get(key)
    if given is None or given.lower() == value:
        return []
    return [f"The value '{given}' of '{key}' in the worker's settings is ignored: it has to be '{value}' for {purpose}"]
