"""The dead letter queue of a sink: records that could not be processed, written to a topic as they were read.

That of a source is `source_dead_letters`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from kconnect.errors import (
    AlreadyExistsError,
    ConnectError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)
from kconnect.logs.log_context import set_log_context
from kconnect.logs.wording import pluralize
from kconnect.model import TaskId
from kconnect.runtime.config.connector_config import DeadLetterSettings
from kconnect.runtime.kafka import DeliveryFailure, KafkaAdmin, KafkaHeaders, KafkaRecord, TopicInfo
from kconnect.runtime.pipeline.error_texts import class_name, exception_message, exception_name, exception_trace
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.stages import StageError

if TYPE_CHECKING:
    from kconnect.runtime.pipeline.fetched import FetchedRecord
    from kconnect.runtime.pipeline.ports import TaskControl
    from kconnect.runtime.pipeline.unit_producer import UnitProducer

log = logging.getLogger(__name__)

_PREFIX = "__connect.errors."
# One question to the broker; between two of them the stop is looked at.
_ASK_S = 2.0
# default.api.timeout.ms of Java's admin client: how long Java waits for the broker before it fails the task.
_ADMIN_S = 60.0
# One turn of the thread that takes in acknowledgements; the end of the queue waits for it.
_SERVE_S = 0.1
# The pause of that thread after an error, which may last: a login that is refused.
_AFTER_ERROR_S = 1.0


class DeadLetterQueue:
    """Writes failed records, with key, value, timestamp and headers as they were. Implements ErrorReporter.

    Lifecycle: constructed -> start() creates a missing topic -> report()s -> settle() before each commit of
    offsets -> close(). Threads: report() any; the rest the task's. Acknowledgements are handled by a thread that
    begins with the first report, so that a task may wait for a report inside its put().
    Errors: settle() raises what the broker rejects for good or does not acknowledge in time. That thread goes on after
    an error, as the broker may take the login again.
    Source: o.a.k.connect.runtime.errors.DeadLetterQueueReporter (Kafka 4.3).
    Differs: Java logs a dead letter that could not be written and commits past it; here offsets are committed only
    when it is written, and a refusal fails the task.
    """

    def __init__(
        self,
        settings: DeadLetterSettings,
        control: TaskControl,
        producer: UnitProducer,
        open_admin: Callable[[], KafkaAdmin],
        raw_records: RawRecords,
        java_name: Callable[[type], str],
    ) -> None:
        self._settings = settings
        self._control = control
        self._producer = producer
        self._open_admin = open_admin
        self._raw_records = raw_records
        self._java_name = java_name
        self.requests = 0
        self.failures = 0
        self._lock = threading.Lock()  # guards the producer's sending side and the fields below
        self._refused: ConnectError | None = None
        self._server: threading.Thread | None = None
        self._trouble: ConnectError | None = None  # why no acknowledgements come; written by the serving thread
        self._is_closing = threading.Event()

    def start(self) -> None:
        """Make sure the topic exists. Errors: ConnectError when it does not exist and cannot be created."""
        self._control.when_cancelled(self._producer.abandon)
        with self._open_admin() as admin:
            ensure_topic(admin, self._settings, lambda: self._control.is_stopping)

    def report(self, failure: StageError, attempts: int) -> Future[None]:
        """Hand the failed record to the producer; the future ends with its acknowledgement."""
        done: Future[None] = Future()
        original = self._raw_records.of(failure.record)
        if original is None:
            raise ConnectError(f"Cannot write a dead letter because the original record is unknown: {failure}")
        headers = list(original.headers or ())
        if self._settings.context_headers:
            headers += context_headers(original, failure, self._control.spec.id, self._java_name)
        with self._lock:
            self.requests += 1
            self._serve_in_background()
            self._send(original, headers, done)
        return done

    def settle(self, timeout_s: float) -> None:
        """Wait until every dead letter so far is acknowledged.

        Errors: TimedOutError when some are not within the time; ConnectError when one was refused for good, or none
        can be acknowledged as the client is refused or has died.
        """
        if not self.requests:
            return
        is_flushed = self._producer.flush(timeout_s, lambda: self._control.is_cancelled or self._refused is not None)
        if self._refused is not None:
            raise self._refused
        if not is_flushed:
            trouble = self._trouble  # another thread's: looked at once
            if trouble is not None:
                raise trouble
            why = f": {self._producer.last_error}" if self._producer.last_error else ""
            raise TimedOutError(
                f"{pluralize(len(self._producer), 'dead letter')} not acknowledged by topic {self._settings.topic!r} "
                f"within {timeout_s:.1f} s (offset.flush.timeout.ms){why}"
            )

    def close(self) -> None:
        """Close the client and its thread. Idempotent; anything unacknowledged is dropped."""
        self._is_closing.set()
        if self._server is not None:
            self._server.join(_SERVE_S * 10)
        self._producer.close()

    def _send(self, original: FetchedRecord, headers: KafkaHeaders, done: Future[None]) -> None:
        refused: list[ConnectError] = []

        def on_refused(failure: DeliveryFailure) -> bool:
            error = ConnectError(
                f"The dead letter of {original.topic}-{original.kafka_partition}@{original.kafka_offset} could not be "
                f"written: {failure.error}",
                hint="No offset past it is committed. "
                f"{failure.error.hint or 'Check the dead letter topic and its max.message.bytes.'}",
            )
            refused.append(error)
            self.failures += 1
            self._refused = self._refused or error
            with self._control.in_stage("dead-letters"):
                log.error("Could not produce message to dead letter queue. topic=%s: %s", self._settings.topic, error)
            return False

        def on_end(is_acked: bool) -> None:
            if is_acked:
                done.set_result(None)
            else:
                done.set_exception(
                    refused[0] if refused else ConnectError("The task ended before its dead letter was acknowledged")
                )

        delivery = self._producer.delivery(on_end, on_refused)
        timestamp = original.timestamp if original.timestamp is not None and original.timestamp >= 0 else None
        letter = KafkaRecord(self._settings.topic, None, original.key, original.value, timestamp, headers)
        if self._producer.send(letter, delivery, lambda: self._control.is_cancelled):
            delivery.complete()

    def _serve_in_background(self) -> None:
        if self._server is None:
            self._server = threading.Thread(
                target=self._serve, name=f"dead-letters-{self._control.spec.id}", daemon=True
            )
            self._server.start()

    def _serve(self) -> None:
        set_log_context(self._control.spec.id.connector, self._control.spec.id.task)
        while not self._is_closing.is_set():
            try:
                self._producer.serve(_SERVE_S)
            except ConnectError as error:
                if self._trouble is None:
                    log.error("Acknowledgements of dead letters cannot be read and will be retried: %s", error)
                self._trouble = error
                self._is_closing.wait(_AFTER_ERROR_S)
            else:
                self._trouble = None


class Place(Protocol):
    """Where a failed record was read, or was to go."""

    @property
    def topic(self) -> str: ...

    @property
    def kafka_partition(self) -> int | None: ...

    @property
    def kafka_offset(self) -> int | None: ...


def context_headers(
    original: Place, failure: StageError, task_id: TaskId, java_name: Callable[[type], str]
) -> KafkaHeaders:
    """What went wrong, as headers in Java's order and spelling. Source: DeadLetterQueueReporter (Kafka 4.3).

    Differs: the stack trace is Python's, below Java's first line of class and message.
    """
    texts: tuple[tuple[str, str | None], ...] = (
        ("topic", original.topic),
        ("partition", None if original.kafka_partition is None else str(original.kafka_partition)),
        ("offset", None if original.kafka_offset is None else str(original.kafka_offset)),
        ("connector.name", task_id.connector),
        ("task.id", str(task_id.task)),
        ("stage", failure.stage.value),
        ("class.name", class_name(failure, java_name)),
        ("exception.class.name", exception_name(failure.error)),
        ("exception.message", exception_message(failure.error)),
        ("exception.stacktrace", exception_trace(failure.error)),
    )
    return [(_PREFIX + name, None if text is None else text.encode("utf-8", "replace")) for name, text in texts]


def ensure_topic(admin: KafkaAdmin, settings: DeadLetterSettings, is_stopping: Callable[[], bool]) -> None:
    """Create the topic, with one partition, unless it exists. Waits 60 s for an unreachable broker, as Java does.

    Errors: ConnectError in Java's words, with the cause.
    """
    deadline = time.monotonic() + _ADMIN_S
    wanted = TopicInfo(settings.topic, 1, settings.replication_factor)
    while True:
        try:
            if admin.has_topic(wanted, _ASK_S):
                return
            log.warning("Topic %s doesn't exist. Will attempt to create topic.", settings.topic)
            admin.create_topic(wanted, _ASK_S)
        except AlreadyExistsError:
            return  # another task was quicker
        except (TimedOutError, UnreachableError, RetriableError) as error:
            if is_stopping() or time.monotonic() >= deadline:
                raise _not_ready(settings, error) from error
        except ConnectError as error:
            raise _not_ready(settings, error) from error
        else:
            return


def _not_ready(settings: DeadLetterSettings, error: ConnectError) -> ConnectError:
    return ConnectError(
        f"Could not initialize dead letter queue with topic={settings.topic}: {error}",
        hint=error.hint
        or f"errors.deadletterqueue.topic.replication.factor is {settings.replication_factor} and must not exceed "
        "the number of brokers; or create the topic yourself.",
    )
