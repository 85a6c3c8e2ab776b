"""Statuses of connectors and tasks, and the topics they use: the StatusStore Protocol and its RecordLog implementation.

On a `MemoryRecordLog` it is an in-memory store. Source: StatusBackingStore, KafkaStatusBackingStore (Kafka 4.3).
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kconnect.clock import Backoff, Clock, SystemClock
from kconnect.errors import ConnectError, NotAllowedError, RetriableError, TimedOutError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.logs.wording import pluralize
from kconnect.model import LogPosition, LogRecord, TaskId
from kconnect.runtime.storage.record_log import RecordLog
from kconnect.runtime.storage.status_cache import StatusCache, StatusWrite
from kconnect.runtime.storage.status_topic import (
    Ignored,
    StatusRead,
    StoredStatus,
    Subject,
    TopicUse,
    decode_record,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)

log = logging.getLogger(__name__)

# As long as Java's retry executor gets when its store stops.
_STOP_RETRIES_S = 10.0
# As Java's retry.backoff.ms and retry.backoff.max.ms.
_BACKOFF: Final = Backoff(first_s=0.1, most_s=1.0)
# A right is granted by a person: its absence is asked after more rarely
_RARELY: Final = 10
_MAY_SUCCEED: Final = (RetriableError, NotAllowedError)


class StatusReader(Protocol):
    """Read access to statuses. Threads: any, after start()."""

    def status(self, subject: Subject) -> StoredStatus | None:
        """The status in effect of a connector (by name) or task, None if there is none."""
        ...

    def last(self, subject: Subject) -> StoredStatus | None:
        """Its last status in the topic, in effect or not: what other readers may take as current."""
        ...

    def tasks(self, connector: str) -> Mapping[TaskId, StoredStatus]:
        """The statuses of a connector's tasks, by number."""
        ...

    def connectors(self) -> set[str]:
        """Connectors that have a status, or one being written."""
        ...

    def left(self, connector: str) -> set[TaskId]:
        """Tasks that have a status in the topic still, which the tombstone of their connector has cancelled."""
        ...

    def named(self) -> set[str]:
        """Connectors that have a status, or whose tasks have one: of a connector that is gone these may be left."""
        ...

    def topics(self, connector: str) -> Mapping[str, TopicUse]:
        """The topics a connector has used, by name."""
        ...


class StatusStore(StatusReader, Protocol):
    """Statuses that outlive a worker and are visible to all. Threads: any, after start(). Writes never wait or raise.

    A write becomes visible when it is read back.
    """

    def start(self) -> None:
        """Load the statuses. Errors: ConnectError that names the topic."""
        ...

    def take_generation(self, generation: int) -> None:
        """Note that the worker has joined its group in this generation; see `StatusCache`."""
        ...

    def set_listener(self, on_status: Callable[[Subject], None]) -> None:
        """Set the listener for statuses read or deleted; it runs on the log's thread and must not block."""
        ...

    def put(self, subject: Subject, status: StoredStatus) -> None:
        """Write a status; DESTROYED deletes it. For a worker in a group this is `put_safe`."""
        ...

    def put_safe(self, subject: Subject, status: StoredStatus) -> None:
        """Write a status unless another worker has written one in a newer generation."""
        ...

    def is_writing(self, subject: Subject) -> bool:
        """Whether a write of its status is pending."""
        ...

    def is_beyond(self, subject: Subject, generation: int) -> bool:
        """Whether a newer generation has written its status since, within the current incarnation of the group."""
        ...

    def put_topic(self, use: TopicUse) -> None:
        """Record that a connector uses a topic."""
        ...

    def delete_topic(self, connector: str, topic: str) -> None:
        """Forget that a connector uses a topic."""
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait until all writes are done, given up, or not allowed. Errors: TimedOutError."""
        ...

    def refresh(self, timeout_s: float) -> None:
        """Wait until everything others have written so far was read. Errors: TimedOutError, ConnectError."""
        ...

    def stop(self) -> None:
        """Give up pending writes. Idempotent."""
        ...


@dataclass(eq=False, slots=True)
class _Write:
    """One record to write, until it is written or given up."""

    key: bytes
    value: bytes | None
    leave: StatusWrite | None  # None for topic use, which any worker may write at any time
    failures: int = 0


@dataclass(order=True, slots=True)
class _Retry:
    due_s: float
    order: int
    write: _Write = field(compare=False)


def _name(write: _Write) -> str:
    return write.key.decode(errors="replace")


class TopicStatusStore:
    """The StatusStore on a topic. Writes that may succeed later are retried with back-off until stop(), also those that
    the brokers do not allow: once they do, the others learn the states of now.

    Differs: Java retries immediately and endlessly, even if something newer was put under the same key meanwhile,
    which the old status then overwrites; we retry only the newest write of a key.
    """

    def __init__(
        self,
        records: RecordLog,
        clock: Clock | None = None,
        *,
        backoff: Backoff = _BACKOFF,
        retries_alone: bool = True,
    ) -> None:
        """Without `retries_alone` there is no retry thread: the owner calls `retry_due`."""
        self._records = records
        self._retries_alone = retries_alone
        self._clock = clock or SystemClock()
        # Held from the decision to write until the write is handed over, which does not wait: so writes of a key reach
        # the topic in the order they were decided, retries included. Taken before _lock
        self._order = threading.RLock()
        self._listener: Callable[[Subject], None] = lambda _: None
        self._backoff = backoff
        self._lock = threading.Condition()  # notified when a write ends; never held while the log is called
        self._cache = StatusCache()  # guarded by _lock
        self._newest: dict[bytes, _Write] = {}  # guarded by _lock: writes in flight, by key
        self._open = 0  # guarded by _lock: writes in flight or waiting for their retry
        self._retries: list[_Retry] = []  # guarded by _lock: a heap
        self._retry_count = 0  # guarded by _lock
        self._is_stopped = False  # guarded by _lock
        self._refusal: str | None = None  # guarded by _lock: why the brokers allow no writes
        self._repeats = RepeatedMessages(log)
        self._wake = threading.Event()
        self._retrier: threading.Thread | None = None

    def start(self) -> None:
        self._records.start(self._on_record)
        if not self._retries_alone:
            return
        self._retrier = threading.Thread(
            target=self._run_retries, name=f"status-store-retry-{self._records.topic}", daemon=True
        )
        self._retrier.start()

    def stop(self) -> None:
        with self._lock:
            was_stopped, self._is_stopped = self._is_stopped, True
            lost, self._retries = len(self._retries), []
            self._open -= lost
            self._lock.notify_all()
        self._wake.set()
        if was_stopped:
            return
        if lost:
            what = pluralize(lost, "status", "statuses")
            log.warning("%s not written to topic %s: the broker did not take them", what, self._topic)
        if self._retrier is not None:
            self._retrier.join(_STOP_RETRIES_S)
            if self._retrier.is_alive():
                log.warning("Thread %s still waits for the broker and was abandoned", self._retrier.name)
        self._records.stop()

    def take_generation(self, generation: int) -> None:
        with self._lock:
            self._cache.take_generation(generation)

    def set_listener(self, on_status: Callable[[Subject], None]) -> None:
        self._listener = on_status

    def put(self, subject: Subject, status: StoredStatus) -> None:
        self._put(subject, status, is_safe=False)

    def put_safe(self, subject: Subject, status: StoredStatus) -> None:
        self._put(subject, status, is_safe=True)

    def put_topic(self, use: TopicUse) -> None:
        self._send(_Write(topic_key(use.connector, use.topic), encode_topic_use(use), None))

    def delete_topic(self, connector: str, topic: str) -> None:
        self._send(_Write(topic_key(connector, topic), None, None))

    def status(self, subject: Subject) -> StoredStatus | None:
        with self._lock:
            return self._cache.status(subject)

    def last(self, subject: Subject) -> StoredStatus | None:
        with self._lock:
            return self._cache.last(subject)

    def is_writing(self, subject: Subject) -> bool:
        with self._lock:
            return status_key(subject) in self._newest

    def is_beyond(self, subject: Subject, generation: int) -> bool:
        with self._lock:
            return self._cache.is_beyond(subject, generation)

    def tasks(self, connector: str) -> dict[TaskId, StoredStatus]:
        with self._lock:
            return self._cache.tasks(connector)

    def connectors(self) -> set[str]:
        with self._lock:
            return self._cache.connectors()

    def left(self, connector: str) -> set[TaskId]:
        with self._lock:
            return self._cache.left(connector)

    def named(self) -> set[str]:
        with self._lock:
            return self._cache.named()

    def topics(self, connector: str) -> dict[str, TopicUse]:
        with self._lock:
            return self._cache.topics(connector)

    def flush(self, timeout_s: float) -> None:
        with self._lock:
            if not self._lock.wait_for(lambda: self._open == 0 or self._refusal is not None, timeout_s):
                raise TimedOutError(
                    f"{pluralize(self._open, 'status', 'statuses')} not written to topic {self._topic} "
                    f"within {timeout_s:g} s",
                    hint="Is the broker there, and may this worker write to the topic (status.storage.topic)?",
                )

    def refresh(self, timeout_s: float) -> None:
        self._records.read_to_end(timeout_s)

    def troubles(self) -> list[str]:
        """What a healthy worker has to say of them."""
        with self._lock:
            refusal = self._refusal
        return [] if refusal is None else [f"Other workers are not informed of its states: {refusal.rstrip(' .')}"]

    @property
    def _topic(self) -> str:
        return self._records.topic

    def _on_record(self, record: LogRecord) -> None:
        event = decode_record(record.key, record.value)
        if isinstance(event, StatusRead) and event.status is not None:
            event = StatusRead(event.subject, replace(event.status, at_ms=record.timestamp_ms))
        if isinstance(event, Ignored):
            log.warning(
                "Record %s-%d@%d (key %.200r) of the status topic is ignored: %s",
                record.topic,
                record.partition,
                record.offset,
                record.key,
                event.reason,
            )
            return
        with self._lock:
            self._cache.apply(event)
        if isinstance(event, StatusRead):
            self._listener(event.subject)

    def _put(self, subject: Subject, status: StoredStatus, *, is_safe: bool) -> None:
        with self._order:
            with self._lock:
                leave = self._cache.begin_write(subject, status, is_safe=is_safe)
            if leave is not None:
                self._send(_Write(status_key(subject), encode_status(status), leave))
                return
        log.debug("Status %s of %s is not written: another worker has written a newer one", status.state, subject)

    def _send(self, write: _Write) -> None:
        with self._order:
            with self._lock:
                if self._is_stopped:
                    log.warning("%s is not written to topic %s: the store has stopped", _name(write), self._topic)
                    return
                self._newest[write.key] = write
                self._open += 1
            self._attempt(write)

    def _attempt(self, write: _Write) -> None:
        try:
            sent = self._records.send(write.key, write.value)
        except ConnectError as err:
            self._settle(write, err)
        else:
            sent.add_done_callback(lambda done: self._settle(write, _problem_of(done)))

    def _settle(self, write: _Write, problem: BaseException | None) -> None:
        """Handle the end of a write: done, scheduled for a retry, or given up."""
        with self._lock:
            is_newest = self._newest.get(write.key) is write
            if problem is None:
                self._refusal = None
            elif isinstance(problem, NotAllowedError):
                self._refusal = f"{problem} {problem.hint or ''}".strip()
                self._repeats.log(logging.ERROR, "Statuses are not written to topic %s: %s", self._topic, self._refusal)
                self._lock.notify_all()
            if isinstance(problem, _MAY_SUCCEED) and is_newest and self._may_retry(write):
                self._retry_later(write, _RARELY if isinstance(problem, NotAllowedError) else 1)
                return
            if is_newest:
                del self._newest[write.key]
            self._open -= 1
            self._lock.notify_all()
            is_stopped = self._is_stopped
        if problem is not None and (is_stopped or not isinstance(problem, _MAY_SUCCEED)):
            log.error("%s is not written to topic %s: %s", _name(write), self._topic, problem)
        elif problem is not None:
            log.debug("%s is not written again: it is out of date (%s)", _name(write), problem)

    def _may_retry(self, write: _Write) -> bool:
        """Whether a retry makes sense. Call with the lock held."""
        return not self._is_stopped and (write.leave is None or self._cache.may_retry(write.leave))

    def _retry_later(self, write: _Write, times: int) -> None:
        """Schedule it for the retry thread, after so many pauses. Call with the lock held."""
        delay_s = self._backoff.pause_s(write.failures) * times
        write.failures += 1
        self._retry_count += 1
        heapq.heappush(self._retries, _Retry(self._clock.monotonic() + delay_s, self._retry_count, write))
        self._wake.set()

    def _run_retries(self) -> None:
        while True:
            self._wake.clear()
            if self._is_stopped:  # only now: a stop wakes once, and what it set must not be cleared unseen
                return
            wait_s = self.retry_due()
            if wait_s is None:
                self._wake.wait()
            else:
                self._clock.wait(self._wake, wait_s)

    def retry_due(self) -> float | None:
        """Make the retries that are due; return the seconds until the next one, None if there is none."""
        while True:
            with self._order:
                with self._lock:
                    if self._is_stopped or not self._retries:
                        return None
                    wait_s = self._retries[0].due_s - self._clock.monotonic()
                    if wait_s > 0:
                        return wait_s
                    write = heapq.heappop(self._retries).write
                    is_wanted = self._newest.get(write.key) is write and self._may_retry(write)
                if is_wanted:
                    self._attempt(write)
                else:
                    self._settle(write, RetriableError("something newer was put"))


def _problem_of(done: Future[LogPosition]) -> BaseException | None:
    return ConnectError("the write was cancelled") if done.cancelled() else done.exception()
