"""A Connect cluster without workers: its three topics on a real broker, as our own stores write them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.model import ConnectorOffset, RunState, TargetState, TaskId
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.offset_values import commit_source_offsets
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import StoredStatus, TopicUse
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.java_connect import write_properties
from kit.topics import create_topic

__all__ = ["WrittenCluster"]

_WITHIN_S = 60.0  # a busy machine is slow, not red


class WrittenCluster:
    """The topics, stores to write them with, and `worker_file` for `--worker`. A context manager.

    Offsets have 5 partitions, statuses 3, so that nothing leans on one.
    """

    def __init__(self, bootstrap: str, folder: Path, *, more: Mapping[str, str] | None = None) -> None:
        name = f"written-{uuid.uuid4().hex[:6]}"
        self.worker = {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "config.storage.topic": f"{name}-configs",
            "status.storage.topic": f"{name}-status",
            "offset.storage.topic": f"{name}-offsets",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            **(more or {}),
        }
        self.access = ClusterAccess(self.worker, _WITHIN_S)
        self.worker_file = write_properties(folder / f"{name}.properties", self.worker)
        self._bootstrap = bootstrap
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for which, partitions in ((InternalTopic.CONFIG, 1), (InternalTopic.STATUS, 3), (InternalTopic.OFFSET, 5)):
            topic = self.access.topic(which)
            create_topic(self._bootstrap, topic, partitions=partitions, config={"cleanup.policy": "compact"})
        self._admin = self._stack.enter_context(KafkaAdmin(self.access.clients().admin, "test"))
        self.configs = TopicConfigStore(self._log(InternalTopic.CONFIG))
        self.statuses = TopicStatusStore(self._log(InternalTopic.STATUS))
        self.offsets = TopicOffsetStore(self._log(InternalTopic.OFFSET))
        for store in (self.configs, self.statuses, self.offsets):
            store.start()
            self._stack.callback(store.stop)
        self.configs.claim_write_privileges()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def add_connector(
        self,
        name: str,
        config: Mapping[str, str],
        tasks: Sequence[Mapping[str, str]] = (),
        *,
        target: TargetState | None = None,
        state: RunState | None = RunState.RUNNING,
        worker_id: str = "gone:8083",
        topics: Sequence[str] = (),
    ) -> None:
        """A connector as a leader writes it, with statuses of a worker and the topics it was seen to use."""
        self.configs.put_connector_config(name, {**config, "name": name}, target)
        if tasks:
            self.configs.put_task_configs(name, tasks)
        if state is not None:
            status = StoredStatus(state, worker_id, 1, None, "4.3.0")
            self.statuses.put(name, status)
            for number in range(len(tasks)):
                self.statuses.put(TaskId(name, number), status)
        for topic in topics:
            self.statuses.put_topic(TopicUse(topic, name, 0, 1_700_000_000_000))
        self.statuses.flush(_WITHIN_S)

    def commit_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        """Source offsets of a connector."""
        found = [ConnectorOffset(partition, offset) for partition, offset in offsets]
        commit_source_offsets(self.offsets, connector, found)

    def put_raw(self, which: InternalTopic, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        """A record of any bytes; in partition -1 it goes where Java sends such a key."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 2, "partitioner": "murmur2_random"})
        producer.produce(self.access.topic(which), key=key, value=value, partition=partition)
        assert producer.flush(_WITHIN_S) == 0, "the broker did not take the record"

    def _log(self, which: InternalTopic) -> CompactedLog:
        clients = self.access.clients(which)
        spec = LogSpec(topic=self.access.topic(which), consumer=clients.consumer, producer=clients.producer)
        return CompactedLog(spec, self._admin)
