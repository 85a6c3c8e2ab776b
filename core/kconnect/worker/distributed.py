"""A worker of a cluster: its stores are topics, its group assigns its work.

Source: ConnectDistributed (Kafka 4.3).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from kconnect.client.peers import Peers
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.runtime.config import DistributedConfig
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_TYPE
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts, RebalanceCallbacks
from kconnect.runtime.herder.cluster.herder import DistributedHerder
from kconnect.runtime.herder.cluster.leader_client import RestLeader
from kconnect.runtime.herder.cluster.rebalance_rounds import VERSIONS
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.herder.decisions.request_signatures import key_form
from kconnect.runtime.herder.membership import Membership
from kconnect.worker.cluster_stores import ClusterStores, client_id_base
from kconnect.worker.running import LAUNCHER_STOP_S, POLL_S, RunningWorker
from kconnect.worker.startup_errors import EXIT_HERDER, EXIT_WORKER, exit_code

if TYPE_CHECKING:
    import ssl

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
            stores.start(self.health)
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
            _check_topics(config)
            stores = ClusterStores(config, self.kafka.contact)
            self.health.add_source(stores.reasons)
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
    from kconnect.runtime.kafka.groups import describe_group

    clients = internal_clients(config.originals, client_id=f"{client_id_base(config)}group")
    try:
        group = describe_group(clients.admin, config.group_id, _ASK_S)
        return bool(group.members) and group.protocol_type == PROTOCOL_TYPE  # any other group refuses this worker soon
    except ConnectError as err:
        log.debug("Group %s was not described: %s", config.group_id, err)
        return False


def _check_topics(config: DistributedConfig) -> None:
    """Two of the three topics are one: each reads the other's records. Errors: ConfigError.

    Differs: Java starts, and logs errors on each record that it does not know.
    """
    keys = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
    seen: dict[str, str] = {}
    for key in keys:
        topic = config.values[key]
        if other := seen.get(topic):
            problem = f"Topic {topic} is both {other} and {key}: each of the three internal topics must be its own"
            raise ConfigError(problem, [ConfigProblem(key, topic, problem)])
        seen[topic] = key


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
