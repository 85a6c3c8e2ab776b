"""Kafka client settings for the status and offsets topics of a distributed worker.

Source: configure() of KafkaStatusBackingStore and KafkaOffsetBackingStore, ConnectUtils#ensureProperty (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.runtime.config.client_config import InternalClients, internal_clients
from kconnect.runtime.storage.config_clients import overruled

_DELIVERY_TIMEOUT_MS: Final = "120000"  # Java's default; librdkafka's is 300000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicClients:
    """Settings of a topic's clients; may contain secrets."""

    topic: str
    log: InternalClients
    isolation_level: str
    warnings: tuple[str, ...] = ()
    """Warnings about user settings that are overridden, to be logged once each."""


def status_topic_clients(worker: Mapping[str, str], *, client_id_base: str) -> TopicClients:
    """For `TopicStatusStore`, which retries itself: a failed write ends with its first error.

    `client_id_base` is `connect-GROUP-` or the worker's `client.id` with a dash, as in Java.
    Errors: ConfigError in Java's words.
    """
    clients = internal_clients(worker, client_id=f"{client_id_base}statuses")
    timeout_ms = parse_type(
        "delivery.timeout.ms", worker.get("delivery.timeout.ms", _DELIVERY_TIMEOUT_MS), ConfigDef.Type.INT
    )
    return TopicClients(
        topic=_topic(worker, "status.storage.topic", "Must specify topic for connector status."),
        log=InternalClients(
            producer={**clients.producer, "retries": 0, "message.timeout.ms": timeout_ms},
            consumer=clients.consumer,
            admin=clients.admin,
        ),
        isolation_level=worker.get("isolation.level", "read_uncommitted"),
    )


def offset_topic_clients(worker: Mapping[str, str], *, client_id_base: str) -> TopicClients:
    """For the worker's `TopicOffsetStore`; with exactly-once support it reads committed records only.

    Errors: ConfigError in Java's words.
    """
    isolation_level, warnings = worker.get("isolation.level", "read_uncommitted"), []
    if worker.get("exactly.once.source.support", "disabled").strip().lower() == "enabled":
        isolation_level = "read_committed"
        purpose = "the worker offsets topic's consumer when exactly-once source support is enabled"
        warnings = overruled(worker, "isolation.level", isolation_level, purpose)
    return TopicClients(
        topic=_topic(worker, "offset.storage.topic", "Offset storage topic must be specified"),
        log=internal_clients(worker, client_id=f"{client_id_base}offsets"),
        isolation_level=isolation_level,
        warnings=tuple(warnings),
    )


def _topic(worker: Mapping[str, str], key: str, message: str) -> str:
    topic = worker.get(key, "").strip()
    if not topic:
        raise ConfigError(message, [ConfigProblem(key, worker.get(key), message)], hint=f"Set {key}.")
    return topic
