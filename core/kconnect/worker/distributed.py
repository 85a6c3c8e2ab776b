"""A worker of a cluster: its stores are topics, its group assigns its work.

Its stores are built from the worker's settings, created, read and stopped here.

Source: ConnectDistributed; configure() of KafkaStatusBackingStore and KafkaOffsetBackingStore,
ConnectUtils#ensureProperty (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.client.peers import Peers
from kconnect.clock import now_ms
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config import DistributedConfig
from kconnect.runtime.config.client_config import InternalClients, internal_clients
from kconnect.runtime.config.live_settings import live_clients
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_TYPE
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts, RebalanceCallbacks
from kconnect.runtime.herder.cluster.group_status import RestLeader
from kconnect.runtime.herder.cluster.herder import DistributedHerder
from kconnect.runtime.herder.cluster.rebalance_rounds import VERSIONS
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.herder.decisions.request_signatures import key_form
from kconnect.runtime.herder.health.reasons import Health, Reason
from kconnect.runtime.herder.membership import Membership
from kconnect.runtime.storage.config_clients import (
    ConfigTopicClients,
    config_topic_clients,
    leader_transactional_id,
    overruled,
)
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kconnect.worker.running import LAUNCHER_STOP_S, POLL_S, RunningWorker
from kconnect.worker.startup_errors import EXIT_HERDER, EXIT_WORKER, exit_code

if TYPE_CHECKING:
    import ssl

    from kconnect.runtime.kafka.admin import KafkaAdmin
    from kconnect.runtime.kafka.answering_client import Witness
    from kconnect.runtime.kafka.client_statistics import Throttles
    from kconnect.runtime.kafka.log import CompactedLog


log = logging.getLogger(__name__)

# The answer that a request timed out, with its reason, must come before REST's own deadline
_ANSWER_EARLIER = 0.98
# The stores have just been read from the same brokers
_ASK_S = 5.0


class DistributedWorker(RunningWorker[DistributedHerder, DistributedConfig]):
    """`start` returns when the worker is in its group."""

    java_main = "org.apache.kafka.connect.cli.ConnectDistributed"

    def raise_if_failed(self) -> None:
        """Errors: also ConnectError when the group refuses this worker for good."""
        super().raise_if_failed()
        if self._herder is not None:
            self._herder.raise_if_failed()

    @property
    def url(self) -> str:
        """Where other workers reach this one's REST."""
        from kconnect.runtime.rest import advertised_url

        if self._rest is None:
            raise ConnectError("The worker is not started")
        return advertised_url(self._props, self._rest.bound)

    def _start(self) -> None:
        with exit_code(EXIT_WORKER):
            config, stores, cluster_id = self._start_serving()
        with exit_code(EXIT_HERDER):
            stores.start(self.health, self._stop_requested)
            self.herder.open(cluster_id)
            self._await_slots(config)
            self.herder.start(self._worker_id(), self.url, cluster_id)
            with self.health.starting(f"Joining group {config.group_id}"):
                self._await_group(config)
        self.herder.ready()

    def _start_serving(self) -> tuple[DistributedConfig, ClusterStores, str]:
        """Spark in the background, REST, then Kafka. What is begun first is stopped last."""
        raw = dict(self._props)
        config, plugins, variables = self._read_settings(DistributedConfig.parse)
        with exit_code(EXIT_WORKER, self._lead(), self._file):
            stores = ClusterStores(config, self.kafka.contact)
            self.health.add_source(stores.reasons)
            self.health.add_notice(stores.notices)
            peers = _peers(config)
            cluster = cluster_parts(config, stores, peers)
        self.kafka.look()
        launcher = self._make_launcher()
        parts = self._herder_parts(config, plugins, launcher, stores.offsets, variables, raw)
        herder = self._herder = DistributedHerder(parts, cluster)
        self._stack.callback(stores.stop)
        self._stack.callback(peers.close)
        self._stack.callback(lambda: launcher.stop(LAUNCHER_STOP_S))
        launcher.start(herder.events)
        self._stack.callback(lambda: herder.stop(self._task_stop_s))
        self._serve(config, herder, plugins)
        cluster_id = self._find_cluster()
        self._watch_kafka(config.values["heartbeat.interval.ms"] / 1000, stores.look)
        self._watch_lag(config, parts, herder.watched_sinks)
        return config, stores, cluster_id

    def _await_slots(self, config: DistributedConfig) -> None:
        """Wait until tasks can run here if other workers run them now: a task that moves here stands still until then.

        A worker that finds no others joins at once. At the deadline it joins anyway: its tasks start when its slots do.
        Differs: Java's worker has no slots to start.
        """
        if self._launcher is None or not _others_live(config):
            return
        deadline_s = config.kconnect.slot_start_timeout_ms / 1000
        log.info("Other workers are in group %s: joining them as soon as a slot is up", config.group_id)
        deadline = time.monotonic() + deadline_s
        while not any(slot.attached and slot.slot is not None for slot in self._launcher.slots()):
            super().raise_if_failed()
            if self._stop_requested.wait(POLL_S):
                raise ConnectError("The worker was stopped while its slots came up")
            if time.monotonic() > deadline:
                log.warning(
                    "No slot is up after %.0f s (kconnect.slot.start.timeout.ms): joining group %s without",
                    deadline_s,
                    config.group_id,
                )
                return

    def _await_group(self, config: DistributedConfig) -> None:
        """Wait for the first assignment, however long; warns once in each rebalance timeout."""
        began = warned = time.monotonic()
        every_s = config.values["rebalance.timeout.ms"] / 1000
        while not self.herder.await_group(POLL_S):
            self.raise_if_failed()
            if self._stop_requested.is_set():
                raise ConnectError("The worker was stopped while it joined its group")
            if time.monotonic() - warned > every_s:
                warned = time.monotonic()
                log.warning("The worker has waited %.0f s to join group %s", warned - began, config.group_id)


def _others_live(config: DistributedConfig) -> bool:
    """Whether workers are in the group already; a broker that does not say counts as nobody."""
    from kconnect.runtime.herder.group.description import describe_group

    settings = {**config.originals, "client.id": f"{client_id_base(config)}group"}
    try:
        group = describe_group(settings, config.group_id, _ASK_S)
        return bool(group.members) and group.protocol_type == PROTOCOL_TYPE  # any other group refuses this worker soon
    except ConnectError as err:
        log.debug("Group %s was not described: %s", config.group_id, err)
        return False


def _peers(config: DistributedConfig) -> Peers:
    @cache
    def context() -> Callable[[], ssl.SSLContext]:
        from kconnect.runtime.rest.tls import peer_context  # here: as all of REST it loads while Spark's JVM starts

        return peer_context(config.originals)

    return Peers(lambda: context()(), config.kconnect.request_timeout_ms / 1000)


def cluster_parts(config: DistributedConfig, stores: ClusterStores, peers: Peers) -> ClusterParts:
    """What the settings say of the cluster. Errors: ConfigError for security settings that cannot be used."""
    values = config.values
    return ClusterParts(
        group_id=config.group_id,
        config_topic=config.config_storage_topic,
        exactly_once=values["exactly.once.source.support"].lower(),
        configs=stores.configs,
        statuses=stores.statuses,
        offsets=stores.offsets,
        own_offsets=stores.own_offsets,
        membership=_membership(config),
        leader=RestLeader(
            peers, values["inter.worker.signature.algorithm"], namespace=config.kconnect.rest_namespace or ""
        ),
        protocol_version=VERSIONS[config.connect_protocol.lower()],
        times=HerderTimes(
            sync_timeout_ms=values["worker.sync.timeout.ms"],
            unsync_backoff_ms=values["worker.unsync.backoff.ms"],
            max_delay_ms=values["scheduled.rebalance.max.delay.ms"],
            key_ttl_ms=values["inter.worker.key.ttl.ms"],
            session_timeout_ms=values["session.timeout.ms"],
        ),
        restarts=RestartSettings.of_worker(config.originals),
        key_form=key_form(values["inter.worker.key.generation.algorithm"], values["inter.worker.key.size"]),
        verification_algorithms=values["inter.worker.verification.algorithms"],
        request_timeout_s=config.kconnect.request_timeout_ms / 1000 * _ANSWER_EARLIER,
    )


def _membership(config: DistributedConfig) -> Callable[[RebalanceCallbacks], Membership]:
    """Errors: ConfigError for security settings that cannot be used."""
    from kconnect.runtime.herder.group.member import GroupCallbacks, GroupMember, GroupSettings
    from kconnect.runtime.herder.group.security import access

    values = config.values
    settings = GroupSettings(
        group_id=config.group_id,
        protocol=config.connect_protocol.lower(),
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_interval_ms=values["heartbeat.interval.ms"],
        rebalance_timeout_ms=values["rebalance.timeout.ms"],
    )
    way = access(config.originals, client_id_base(config).removesuffix("-"))

    def make(questions: RebalanceCallbacks) -> Membership:
        return GroupMember(settings, way, GroupCallbacks(metadata=questions.metadata, assign=questions.assign))

    return make


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
        from kconnect.runtime.kafka.atomic_writers import KafkaExclusiveWriter
        from kconnect.runtime.kafka.client_statistics import Throttles

        worker, base = config.originals, client_id_base(config)
        self._specs = internal_topic_specs(config)
        live = live_clients(lambda: worker, lambda: _Clients.of_worker(worker, base), "the internal topics")
        clients = live.value()
        configs, statuses, offsets = clients.configs, clients.statuses, clients.offsets
        for warning in (*configs.warnings, *statuses.warnings, *offsets.warnings):
            log.warning("%s", warning)
        self._admin = KafkaAdmin(
            configs.log.admin, "internal topics", witness=witness, renewed=lambda: live.value().configs.log.admin
        )
        self._throttles = Throttles()
        self._looked_at = TopicPartition(config.config_storage_topic, 0)

        def leader() -> Mapping[str, Any]:
            settings = live.value().configs.leader
            assert settings is not None
            return settings

        def topic_log(
            name: str,
            live: Callable[[], InternalClients],
            isolation_level: str,
            read_setting: str = "worker.sync.timeout.ms",
        ) -> CompactedLog:
            return _topic_log(name, live, isolation_level, config, self._admin, read_setting, self._throttles)

        topic, writer = config.config_storage_topic, None
        if configs.leader is not None:
            writer = KafkaExclusiveWriter(
                topic, configs.leader, leader_transactional_id(worker), renewed=leader, throttled=self._throttles.note
            )
        self.configs = TopicConfigStore(
            topic_log(topic, lambda: live.value().configs.log, configs.isolation_level), writer
        )
        self.statuses = TopicStatusStore(
            topic_log(statuses.topic, lambda: live.value().statuses.log, statuses.isolation_level)
        )

        def offsets_of(topic: str) -> TopicOffsetStore:
            log_of_topic = topic_log(
                topic, lambda: live.value().offsets.log, offsets.isolation_level, "kconnect.offsets.request.timeout.ms"
            )
            return TopicOffsetStore(
                log_of_topic,
                read_timeout_s=offset_read_timeout_s(config),
                write_timeout_s=config.offset_flush_timeout_ms / 1000,
            )

        self._offsets_of = offsets_of
        self.offsets = self._offsets_of(offsets.topic)
        self._stack = ExitStack()

    def start(self, health: Health | None = None, stopped: threading.Event | None = None) -> None:
        """Create missing topics and read everything in them; `health` shows which one is being read, `stopped` ends it.

        Errors: ConfigError for a topic that does not fit; TimedOutError; ConnectError.
        """
        from kconnect.runtime.kafka.internal_topics import TopicWait, ensure_internal_topic

        self._admin.__enter__()
        self._stack.push(self._admin)
        starts: list[tuple[Any, Callable[[], None], Callable[[], None]]] = [
            (self._specs.offsets, self.offsets.start, self.offsets.stop),
            (self._specs.status, self.statuses.start, self.statuses.stop),
            (self._specs.config, self.configs.start, self.configs.stop),
        ]
        health = health or Health()
        wait = TopicWait(stopped or threading.Event(), health.starting)
        for spec, start, stop in starts:
            with health.starting(f"Reading topic {spec.topic}"):
                ensure_internal_topic(self._admin, spec, wait)
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

    def notices(self) -> Sequence[str]:
        """What a healthy worker has to say of its topics."""
        return (*self.statuses.troubles(), *self._throttles.notices())

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
    live: Callable[[], InternalClients],
    isolation_level: str,
    config: DistributedConfig,
    admin: KafkaAdmin,
    read_setting: str,
    throttles: Throttles,
) -> CompactedLog:
    from kconnect.runtime.kafka.log import CompactedLog, LogSpec

    started: Mapping[str, Any] = config.values
    clients = live()
    return CompactedLog(
        LogSpec(
            topic=name,
            consumer=clients.consumer,
            producer=clients.producer,
            renewed=live,
            throttled=throttles.note,
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


@dataclass(frozen=True, slots=True)
class _Clients:
    """Settings of all three topics' clients, as the worker's settings and their files say at one time."""

    configs: ConfigTopicClients
    statuses: TopicClients
    offsets: TopicClients

    @classmethod
    def of_worker(cls, worker: Mapping[str, str], base: str) -> _Clients:
        """Errors: ConfigError in Java's words."""
        return cls(
            config_topic_clients(worker, client_id_base=base),
            status_topic_clients(worker, client_id_base=base),
            offset_topic_clients(worker, client_id_base=base),
        )


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
