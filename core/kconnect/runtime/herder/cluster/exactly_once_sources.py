"""Exactly-once sources on a worker of a cluster: fencing, permission to start, and offset writes (KIP-618)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from kconnect.errors import BadRequestError, ConflictError, ConnectError
from kconnect.model import ConnectorOffset, ConnectorType, TargetState
from kconnect.runtime.config.exactly_once_settings import exactly_once_producer, is_exactly_once, task_transactional_id
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.fenced_starts import FencedStarts
from kconnect.runtime.herder.cluster.fencing import FencingRounds, Record, fence_zombies
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.storage.record_log import ExclusiveWriter

log = logging.getLogger(__name__)

StringMap = Mapping[str, str]
MakeOffsetWriter = Callable[[str, str, StringMap], ExclusiveWriter]


class ExactlyOnceSources:
    """The parts of a cluster's herder that exactly-once sources need. Every worker runs rounds on request; starts wait
    for them only if the worker has exactly-once support enabled.

    `ask` has this worker's herder run a round, as its leader; `record` has it write the round's end, see `fencing`.
    Threads: any but the herder's; all but `starts` block.
    """

    def __init__(
        self,
        worker: StringMap,
        cluster: ClusterParts,
        config: ClusterConfig,
        host: ConnectorHost,
        ask: Callable[[str], None],
        record: Record,
    ) -> None:
        self._worker = worker
        self._cluster = cluster
        self._config = config
        self._host = host
        self._ask = ask
        self.is_on = is_exactly_once(worker)
        self._rounds = FencingRounds(
            cluster.configs,
            self._fence,
            record,
            sync_timeout_s=cluster.times.sync_timeout_ms / 1000,
            round_timeout_s=cluster.request_timeout_s,
        )

    def starts(self, is_leader: Callable[[], bool], leader_url: Callable[[], str | None]) -> FencedStarts | None:
        """Through which source tasks start; None if they need not wait."""
        if not self.is_on:
            return None

        def ask_leader(connector: str) -> None:
            if is_leader():
                return self._ask(connector)
            url = leader_url()
            if url is None:
                raise ConflictError("No leader of the group is known: former tasks cannot be fenced off")
            return self._cluster.leader.fence_zombies(url, connector, self._cluster.configs.snapshot().session_key)

        return FencedStarts(self._cluster.configs, ask_leader, timeout_s=self._cluster.request_timeout_s)

    def run_round(self, connector: str) -> None:
        """The leader's: fence off former tasks, then record how many there are now. Errors: ConnectError."""
        entry = self._config.get(connector)
        if self._host.kind(entry.config) is not ConnectorType.SOURCE:
            raise BadRequestError(f"Connector {connector} is not a source connector")
        self._rounds.run(connector)

    def before_change(self, connector: str, offsets: Sequence[ConnectorOffset] | None) -> None:
        """Fence off the tasks of a stopped source before its offsets are changed. Errors: ConnectError."""
        entry = self._config.get(connector)
        if not self.is_on or self._host.kind(entry.config) is not ConnectorType.SOURCE:
            return
        try:
            self._ask(connector)
        except ConnectError as error:
            raise ConnectError(
                f"Failed to perform zombie fencing for source connector prior to modifying offsets: {error}",
                hint=error.hint,
            ) from error
        snapshot = self._cluster.configs.snapshot()
        if snapshot.target_state(connector) is not TargetState.STOPPED or snapshot.task_count(connector):
            verb = "reset" if offsets is None else "altered"
            raise ConflictError(f"Connector {connector} was resumed before its offsets could be {verb}")

    def _fence(self, connector: str, tasks: int) -> None:
        config = self._host.resolved(self._config.get(connector)).values
        fence_zombies(connector, tasks, self._worker, config, self._cluster.request_timeout_s)


def offset_writer_of(worker: StringMap) -> MakeOffsetWriter | None:
    """Creates writers that change a stopped source's offsets in place of its first task; None without exactly-once
    support.
    """
    if not is_exactly_once(worker):
        return None

    def make(connector: str, topic: str, config: StringMap) -> ExclusiveWriter:
        from kconnect.runtime.kafka import KafkaExclusiveWriter

        settings, warnings = exactly_once_producer(worker, config, name=connector, task=0)
        for warning in warnings:
            log.warning("%s", warning)
        return KafkaExclusiveWriter(topic, settings, task_transactional_id(worker, connector, 0))

    return make
