"""SinkConsumer: what a sink loop needs from its consumer; see `kafka.RecordConsumer`, which implements it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import Behind, ConsumedRun, RebalanceListener


class SinkConsumer(Protocol):
    """A member of a consumer group. Threads: one."""

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are ours now."""
        ...

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None: ...

    def fetch(self, max_records: int, timeout_s: float) -> list[ConsumedRun]:
        """What is there now, or comes within the time. The listener and the answers to commits are called in it."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None: ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def behind(self, positions: Mapping[TopicPartition, int]) -> Behind: ...

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit and wait. Errors: ConnectError."""
        ...

    def commit_async(self, offsets: Mapping[TopicPartition, int], done: Callable[[ConnectError | None], None]) -> None:
        """Commit in the background. Errors: ConnectError, here or as the answer."""
        ...

    def close(self) -> None: ...
