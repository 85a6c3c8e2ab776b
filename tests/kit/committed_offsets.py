"""Source offsets in topics of a real broker as a worker with exactly-once support has them: an OffsetPort for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kconnect.model import ConnectorOffset
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage import OffsetStore, commit_source_offsets, list_source_offsets, read_source_offsets
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore


class CommittedOffsets:
    """Reads `tasks`, what counts for tasks; commits to the worker's topic, outside of transactions."""

    def __init__(self, tasks: OffsetStore, worker: OffsetStore) -> None:
        self.tasks = tasks
        self.worker = worker

    def read(self, connector: str, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return read_source_offsets(self.tasks, connector, partitions)

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        commit_source_offsets(self.worker, connector, offsets)

    def of(self, connector: str) -> list[Mapping[str, Any] | None]:
        return [item.offset for item in list_source_offsets(self.tasks, connector)]

    def copies_of(self, connector: str) -> list[Mapping[str, Any] | None]:
        return [item.offset for item in list_source_offsets(self.worker, connector)]


@contextmanager
def committed_store(bootstrap: str, topic: str) -> Iterator[TopicOffsetStore]:
    """The store on an offsets topic that is there, which sees what is committed only."""
    client = {"bootstrap.servers": bootstrap}
    with KafkaAdmin(client, "the tests") as admin:
        log = CompactedLog(
            LogSpec(topic=topic, consumer=client, producer=client, isolation_level="read_committed"), admin
        )
        store = TopicOffsetStore(log)
        store.start()
        try:
            yield store
        finally:
            store.stop()
