"""SinkConsumer: what a sink loop needs from its consumer.

`kafka.RecordConsumer` reads topics, `spark.datasource.rows_as_topic` what Spark gives a `df.write`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import Behind, RebalanceListener


class FetchedRun(Protocol):
    """Records of one topic partition in offset order; see `kafka.ConsumedRun`."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def next_offset(self) -> int:
        """The offset to continue at after this run."""
        ...

    def __len__(self) -> int: ...


RunT = TypeVar("RunT", bound=FetchedRun)
RunT_co = TypeVar("RunT_co", bound=FetchedRun, covariant=True)


class SinkConsumer(Protocol[RunT_co]):
    """A member of a consumer group. Threads: one."""

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are ours now."""
        ...

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None: ...

    def fetch(self, max_records: int, timeout_s: float) -> Sequence[RunT_co]:
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
