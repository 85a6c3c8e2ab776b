"""RecordLogs for tests: one in memory whose writes end as the test decides, and ones on a real topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from kconnect.errors import ConnectError
from kconnect.model import LogPosition
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kit.topics import create_topic

__all__ = ["ScriptedLog", "kafka_logs"]


@contextmanager
def kafka_logs(bootstrap: str, topic: str, *, partitions: int = 1) -> Iterator[Callable[[], CompactedLog]]:
    """Makes logs on a new topic, which whoever starts them stops."""
    create_topic(bootstrap, topic, partitions=partitions, config={"cleanup.policy": "compact"})
    client = {"bootstrap.servers": bootstrap}
    with KafkaAdmin(client, f"logs of {topic}") as admin:
        yield lambda: CompactedLog(LogSpec(topic=topic, consumer=client, producer=client), admin)


class ScriptedLog(MemoryRecordLog):
    """Writes fail with the problems given, in order; the others succeed, at once or, when held, by `end_next`."""

    def __init__(self, topic: MemoryTopic, problems: Sequence[ConnectError] = (), *, is_held: bool = False) -> None:
        super().__init__(topic)
        self.sent: list[tuple[bytes, bytes | None]] = []
        self.problems = list(problems)
        self.is_held = is_held
        self.open: list[tuple[bytes, bytes | None, Future[LogPosition]]] = []

    def send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        self.sent.append((key, value))
        if self.is_held:
            held: Future[LogPosition] = Future()
            self.open.append((key, value, held))
            return held
        if self.problems:
            failed: Future[LogPosition] = Future()
            failed.set_exception(self.problems.pop(0))
            return failed
        return super().send(key, value)

    def end_next(self, problem: ConnectError | None = None, *, index: int = 0) -> None:
        """End a write that is held: it is written, or fails with the problem."""
        key, value, held = self.open.pop(index)
        if problem is not None:
            held.set_exception(problem)
        else:
            held.set_result(super().send(key, value).result())
