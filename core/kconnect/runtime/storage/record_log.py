"""RecordLog, the seam below the stores: a compacted topic that is read once, tailed and written; and an in-memory one.

`kconnect.runtime.kafka.CompactedLog` is one on a real topic. Source: o.a.k.connect.util.KafkaBasedLog (Kafka 4.3).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Protocol

from kconnect.errors import FencedError
from kconnect.model import LogPosition, LogRecord

Entry = tuple[bytes, bytes | None]
"""Key and value to write; a None value is a tombstone."""
OnRecord = Callable[[LogRecord], None]


class RecordLog(Protocol):
    """A topic whose records are each passed to one callback once, in partition order.

    States: made -> start() -> stop(). Threads: the callback runs on one thread at a time: during start(), then on the
    log's own thread; all other methods may be called from any other thread.
    """

    topic: str

    def start(self, on_record: OnRecord) -> None:
        """Pass all existing records to the callback, then tail the topic. Errors: ConnectError and its subclasses."""
        ...

    @property
    def partition_count(self) -> int:
        """The number of partitions; known once start() has returned."""
        ...

    def read_to_end(self, timeout_s: float, *, awaits_open_transactions: bool = True) -> None:
        """Wait until the callback got all records present at the time of the call. Errors: TimedOutError.

        `awaits_open_transactions`: whether also until transactions end that are open, where only committed records
        are given.
        """
        ...

    def read_past(self, position: LogPosition, timeout_s: float) -> None:
        """Wait until the callback got the record at a position that `send` returned. Errors: TimedOutError."""
        ...

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        """Write one record; the future gives its position, or a ConnectError (RetriableError: try again)."""
        ...

    def stop(self) -> None:
        """Stop; the callback does not run after this returns. Idempotent."""
        ...


class ExclusiveWriter(Protocol):
    """Writes groups of records atomically; a later claim by another writer fences this one off (KIP-618)."""

    def claim(self, timeout_s: float) -> None:
        """Claim the right to write, fencing off the previous owner."""
        ...

    def write(self, entries: Sequence[Entry], timeout_s: float) -> None:
        """Write all or nothing. Errors: FencedError if another writer has claimed the right since."""
        ...

    def stop(self) -> None:
        """Close. Idempotent."""
        ...


class MemoryTopic:
    """An in-memory topic, read and written by any number of logs. Threads: any."""

    def __init__(self, name: str, partitions: int = 1) -> None:
        self.name = name
        self.partitions = partitions
        self.lock = threading.RLock()  # a callback may write
        self.records: list[LogRecord] = []  # guarded by lock
        self.epoch = 0  # guarded by lock: increases with each claim
        self._next = [0] * partitions
        self._logs: list[MemoryRecordLog] = []
        self._is_held = False

    def append(self, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> LogRecord:
        """Append a record and deliver it to every log that reads the topic."""
        with self.lock:
            partition = sum(key or b"") % self.partitions
            record = LogRecord(self.name, partition, self._next[partition], key, value, timestamp_ms)
            self._next[partition] += 1
            self.records.append(record)
            self.deliver()
        return record

    def compact(self) -> None:
        """Keep the last record of each key, at its offset. Earlier readers are not notified, as in Kafka."""
        with self.lock:
            last = {record.key: record for record in self.records}
            self.records = [record for record in self.records if last[record.key] is record]

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Inside, readers see new records only through `read_to_end`, as if the tail were slow."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self.deliver()

    def attach(self, log: MemoryRecordLog) -> None:
        with self.lock:
            self._logs.append(log)

    def detach(self, log: MemoryRecordLog) -> None:
        with self.lock:
            self._logs = [other for other in self._logs if other is not log]

    def deliver(self) -> None:
        with self.lock:
            if not self._is_held:
                for log in self._logs:
                    log.catch_up()


class MemoryRecordLog:
    """A RecordLog on a MemoryTopic: the callback runs on the thread that writes or reads to the end."""

    def __init__(self, topic: MemoryTopic) -> None:
        self.topic = topic.name
        self._source = topic
        self._on_record: OnRecord | None = None
        self._seen: dict[int, int] = {}  # partition -> next offset to read; guarded by the topic's lock

    def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        self.read_to_end(0)
        self._source.attach(self)

    @property
    def partition_count(self) -> int:
        return self._source.partitions

    def read_to_end(self, timeout_s: float, *, awaits_open_transactions: bool = True) -> None:
        self.catch_up()

    def read_past(self, position: LogPosition, timeout_s: float) -> None:
        self.read_to_end(timeout_s)

    def catch_up(self) -> None:
        """Pass new records to the callback."""
        with self._source.lock:
            if self._on_record is None:
                return
            unseen = []
            for record in reversed(self._source.records):
                if record.offset < self._seen.get(record.partition, 0):
                    break  # whatever precedes a seen record was seen too
                unseen.append(record)
            for record in reversed(unseen):
                self._seen[record.partition] = record.offset + 1
                self._on_record(record)

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        record = self._source.append(key, value)
        done: Future[LogPosition] = Future()
        done.set_result(LogPosition(record.topic, record.partition, record.offset))
        return done

    def stop(self) -> None:
        self._source.detach(self)


class MemoryWriter:
    """An ExclusiveWriter on a MemoryTopic."""

    def __init__(self, topic: MemoryTopic) -> None:
        self._topic = topic
        self._epoch: int | None = None

    def claim(self, timeout_s: float) -> None:
        with self._topic.lock:
            self._topic.epoch += 1
            self._epoch = self._topic.epoch

    def write(self, entries: Sequence[Entry], timeout_s: float) -> None:
        with self._topic.lock:
            if self._epoch != self._topic.epoch:
                raise FencedError(f"Another writer has claimed topic {self._topic.name}")
            for key, value in entries:
                self._topic.append(key, value)

    def stop(self) -> None:
        self._epoch = None
