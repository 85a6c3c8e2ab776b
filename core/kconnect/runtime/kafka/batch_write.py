"""BatchWriter: a few records written as one batch, atomically on a topic with one partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import KafkaError, KafkaException, Message

from kconnect.errors import ConnectError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import LogPosition
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.clients import ClientLog, kafka_errors, producer_client

log = logging.getLogger(__name__)

_ANY_PARTITION: Final = -1
_MIN_DEADLINE_MS: Final = 100
# The largest batch that brokers accept by default (message.max.bytes)
_BATCH_BYTES: Final = 1_000_000
# Purged messages are reported immediately.
_PURGE_S: Final = 1.0


class BatchEntry(NamedTuple):
    """A record to write; if `partition` is None, the key's hash decides, as in Java's producer."""

    key: bytes
    value: bytes | None
    partition: int | None = None


class BatchWriter:
    """Writes batch after batch to one topic. A context manager. Threads: one.

    Records of one partition go in one batch, which a broker appends atomically: a crash leaves all of them or none.
    Above 1 MB there are several batches, in order.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], timeout_s: float, *, timeout_setting: str) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._setting = timeout_setting
        self._log = ClientLog(log, f"Producer of {topic}")
        self._is_known = False
        deadline_ms = max(int(timeout_s * 1000), _MIN_DEADLINE_MS)
        fixed = {
            "acks": "all",
            "enable.idempotence": False,  # as Java's producers of internal topics
            "max.in.flight.requests.per.connection": 1,
            "batch.size": _BATCH_BYTES,
            "batch.num.messages": 100_000,
            "message.timeout.ms": deadline_ms,
            # Nothing is sent before flush(), and then everything
            "linger.ms": min(deadline_ms - 1, 60_000),
        }
        self._client = producer_client({**config, **fixed}, self._log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, entries: Sequence[BatchEntry]) -> list[LogPosition]:
        """Write the records with acks=all and return their positions, in the order of the entries.

        Errors: TimedOutError if the outcome is unknown; ConnectError if the broker refuses a record.
        """
        doing = f"{pluralize(len(entries), 'record')} could not be written to topic {self._topic}"
        end = time.monotonic() + self._timeout_s
        found: dict[int, LogPosition] = {}
        failed: list[KafkaError] = []
        try:
            self._learn_partitions(doing)
            for number, entry in enumerate(entries):
                partition = _ANY_PARTITION if entry.partition is None else entry.partition
                report = self._report(number, found, failed)
                self._client.produce(self._topic, entry.value, entry.key, partition, report)
            self._client.flush(max(end - time.monotonic(), 0.1))
        except KafkaException as error:
            raise self._error(doing, error.args[0]) from error
        except ConnectError:
            self._client.poll(0)  # brings the client's own errors, which tell more
            self._log.raise_if_refused()
            raise
        finally:
            if len(self._client):
                self._purge()
        self._raise_unless_all(doing, len(entries) - len(found), failed)
        return [found[number] for number in range(len(entries))]

    def close(self) -> None:
        """Close the client; unacknowledged records are dropped. Idempotent."""
        self._purge()

    def _learn_partitions(self, doing: str) -> None:
        """Fetch the topic's metadata; without it the records would wait and then be sent one by one."""
        if self._is_known:
            return
        with kafka_errors(doing):
            topic = self._client.list_topics(self._topic, timeout=self._timeout_s).topics[self._topic]
        if topic.error is not None:
            raise self._error(doing, topic.error)
        self._is_known = True

    def _error(self, doing: str, error: KafkaError) -> ConnectError:
        return self._log.error(doing, error, Right("WRITE", "topic", self._topic))

    def _report(
        self, number: int, found: dict[int, LogPosition], failed: list[KafkaError]
    ) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
            else:
                found[number] = LogPosition(self._topic, message.partition() or 0, message.offset() or 0)

        return delivered

    def _raise_unless_all(self, doing: str, missing: int, failed: Sequence[KafkaError]) -> None:
        if not missing:
            return
        self._log.raise_if_refused()
        for error in failed:
            if error.code() not in _OUT_OF_TIME:
                raise self._error(doing, error)
        why = f" ({self._log.last_error})" if self._log.last_error else ""
        raise TimedOutError(
            f"{doing} within {self._timeout_s:g} s ({self._setting}): they may have been written or not{why}"
        )

    def _purge(self) -> None:
        self._client.purge(in_queue=True, in_flight=True, blocking=False)
        self._client.flush(_PURGE_S)


_OUT_OF_TIME: Final = frozenset(
    {KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
)
