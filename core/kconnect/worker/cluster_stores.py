"""The three stores of a cluster on their Kafka topics: built from a worker's settings, created, read, stopped.

Source: configure() of KafkaStatusBackingStore and KafkaOffsetBackingStore, ConnectUtils#ensureProperty (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.clock import now_ms
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config import DistributedConfig
from kconnect.runtime.config.client_config import InternalClients, internal_clients
from kconnect.runtime.herder.health.reasons import Health, Reason
from kconnect.runtime.storage.config_clients import config_topic_clients, leader_transactional_id, overruled
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore

if TYPE_CHECKING:
    from kconnect.runtime.kafka.admin import KafkaAdmin
    from kconnect.runtime.kafka.answering_client import Witness
    from kconnect.runtime.kafka.log import CompactedLog

log = logging.getLogger(__name__)

# Share of the time that a task waits for its offsets; the rest is the round trip
_SHARE_OF_READ = 0.9
# One question about one partition: 10 ms where a client is well
_LOOK_S: Final = 1.0


def client_id_base(config: DistributedConfig) -> str:
    """Prefix of the client ids of a worker. Source: ConnectUtils#clientIdBase (Kafka 4.3)."""
    given = config.values.get("client.id") or ""
    return f"{given}-" if given else f"connect-{config.group_id}-"


class ClusterStores:
    """States: made -> start() -> stop(). Making them checks the settings and asks no broker.

    Errors: ConfigError in Java's words when a setting is wrong.
    """

    def __init__(self, config: DistributedConfig, witness: Witness | None = None) -> None:
        """`witness`: whether Kafka answers, as somebody else knows it."""
        from kconnect.runtime.kafka.admin import KafkaAdmin
        from kconnect.runtime.kafka.exclusive_writer import KafkaExclusiveWriter

        worker, base = config.originals, client_id_base(config)
        self._specs = internal_topic_specs(config)
        configs = config_topic_clients(worker, client_id_base=base)
        statuses = status_topic_clients(worker, client_id_base=base)
        offsets = offset_topic_clients(worker, client_id_base=base)
        for warning in (*configs.warnings, *statuses.warnings, *offsets.warnings):
            log.warning("%s", warning)
        self._admin = KafkaAdmin(configs.log.admin, "internal topics", witness=witness)
        self._looked_at = TopicPartition(config.config_storage_topic, 0)

        def topic_log(
            name: str, clients: InternalClients, isolation_level: str, read_setting: str = "worker.sync.timeout.ms"
        ) -> CompactedLog:
            return _topic_log(name, clients, isolation_level, config, self._admin, read_setting)

        writer = None
        if configs.leader is not None:
            writer = KafkaExclusiveWriter(config.config_storage_topic, configs.leader, leader_transactional_id(worker))
        self.configs = TopicConfigStore(
            topic_log(config.config_storage_topic, configs.log, configs.isolation_level), writer
        )
        self.statuses = TopicStatusStore(topic_log(statuses.topic, statuses.log, statuses.isolation_level))

        def offsets_of(topic: str) -> TopicOffsetStore:
            log_of_topic = topic_log(topic, offsets.log, offsets.isolation_level, "kconnect.offsets.request.timeout.ms")
            return TopicOffsetStore(
                log_of_topic,
                read_timeout_s=offset_read_timeout_s(config),
                write_timeout_s=config.offset_flush_timeout_ms / 1000,
            )

        self._offsets_of = offsets_of
        self.offsets = self._offsets_of(offsets.topic)
        self._stack = ExitStack()

    def start(self, health: Health | None = None) -> None:
        """Create missing topics and read everything in them; `health` shows which one is being read.

        Errors: ConfigError for a topic that does not fit; TimedOutError; ConnectError.
        """
        from kconnect.runtime.kafka.internal_topics import ensure_internal_topic

        self._admin.__enter__()
        self._stack.push(self._admin)
        starts: list[tuple[Any, Callable[[], None], Callable[[], None]]] = [
            (self._specs.offsets, self.offsets.start, self.offsets.stop),
            (self._specs.status, self.statuses.start, self.statuses.stop),
            (self._specs.config, self.configs.start, self.configs.stop),
        ]
        health = health or Health()
        for spec, start, stop in starts:
            with health.starting(f"Reading topic {spec.topic}"):
                ensure_internal_topic(self._admin, spec)
                self._stack.callback(stop)
                start()

    def own_offsets(self, topic: str) -> TopicOffsetStore:
        """The store of a connector's own offsets topic, made where it is missing; whoever asked starts and stops it.

        Errors: as `start`. Differs: its clients have the worker's settings; Java's have the connector's overrides too.
        """
        from kconnect.runtime.kafka.internal_topics import ensure_internal_topic

        ensure_internal_topic(self._admin, replace(self._specs.offsets, topic=topic))
        return self._offsets_of(topic)

    def look(self) -> None:
        """After a request that had no answer: whether there is one now. Blocks for some seconds at most."""
        if self._admin.is_unanswered:
            with suppress(ConnectError):  # it is noted where the next request, and health, look
                self._admin.log_offsets([self._looked_at], "end", _LOOK_S)

    def reasons(self) -> Iterator[Reason]:
        """Why the worker is not healthy: requests about its topics have no answer, though Kafka answers."""
        silent_s = self._admin.silent_s()
        if silent_s is not None:
            yield Reason(
                "Requests about the internal topics have no answer, though Kafka answers this worker: their client is "
                "replaced. If that does not help, a broker that leads one of these topics does not answer",
                now_ms() - round(silent_s * 1000),
            )

    def stop(self) -> None:
        """Idempotent."""
        self._stack.close()


def offset_read_timeout_s(config: DistributedConfig) -> float:
    """How long a read of source offsets waits for the end of their topic: a little less than the task that asked for
    it, so that the task hears why it took so long.
    """
    return _SHARE_OF_READ * config.kconnect.offsets_request_timeout_ms / 1000


def _topic_log(
    name: str,
    clients: InternalClients,
    isolation_level: str,
    config: DistributedConfig,
    admin: KafkaAdmin,
    read_setting: str,
) -> CompactedLog:
    from kconnect.runtime.kafka.log import CompactedLog, LogSpec

    started: Mapping[str, Any] = config.values
    return CompactedLog(
        LogSpec(
            topic=name,
            consumer=clients.consumer,
            producer=clients.producer,
            isolation_level=isolation_level,
            # Differs: Java's start waits for transactions that killed tasks left open, up to their time-out
            start_awaits_open_transactions=False,
            read_setting=read_setting,
            stop_timeout_s=max(1.0, started["task.shutdown.graceful.timeout.ms"] / 1000),
        ),
        admin,
    )


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
