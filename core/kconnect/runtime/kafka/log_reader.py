"""LogReader: a consumer without a group that reads all partitions of one topic and tracks its position."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import LogRecord, TopicPartition
from kconnect.runtime.kafka.clients import ClientLog, connect_error, consumer_client, kafka_errors

log = logging.getLogger(__name__)

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

_DEFAULTS: Final[Mapping[str, Any]] = {
    # The prefetch limit per partition: at most 50 MB with the 25 of the offsets topic. 100,000 records of 300 B in one
    # partition take 0.22 s with it, and 0.17 s with the 64 MB that a sink gets; in 25 partitions the same.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 2_048,
    # The client learns that it has passed a transaction marker, which is not a record, from the response to the next
    # fetch; without new records the broker delays that one by this time. Java's 500 would delay each barrier that long.
    # An idle log of 25 partitions costs 3 ms of CPU time a second.
    "fetch.wait.max.ms": 100,
}
# The client requires a group name even if it joins none.
_GROUP: Final = "kconnect-log-reader"
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0


class LogReader:
    """Reads from the given offsets, or from the start. Threads: one at a time.

    Lifecycle: constructed -> open() -> read()s -> close().
    A partition whose offset is gone (the topic was recreated, or truncated at either end) is logged in one line and
    read from its start. Source: auto.offset.reset=earliest, as in KafkaBasedLog.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], isolation_level: str, name: str) -> None:
        self.topic = topic
        self.reached: dict[int, int] = {}
        """Partition -> the offset up to which read() has delivered all, markers and gaps included."""
        self._log = ClientLog(log, f"Consumer of {name}")
        self._client = consumer_client(
            {
                **_DEFAULTS,
                "group.id": _GROUP,
                **config,
                "isolation.level": isolation_level,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",  # we restart ourselves, in order to log it
            },
            self._log,
        )
        self._refused: ConnectError | None = None  # came among records; the next read() raises it
        self._is_closed = False

    @property
    def last_error(self) -> str | None:
        return self._log.last_error

    def partitions(self, timeout_s: float, setting: str, *, is_awaited: bool = True) -> list[TopicPartition]:
        """All partitions, once the topic has any; it may have just been created.

        Without `is_awaited` a missing topic fails at once.
        Errors: NotFoundError if the topic does not exist in time; TimedOutError if no broker answers.
        Source: KafkaBasedLog.start, which waits 30 s.
        """
        deadline, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
        while True:
            left_s = max(deadline - time.monotonic(), 0.1)
            try:
                with kafka_errors(f"Topic {self.topic!r} cannot be looked up within {timeout_s:g} s ({setting})"):
                    found = self._client.list_topics(self.topic, timeout=left_s).topics[self.topic]
            except ConnectError as error:
                self._client.poll(0)  # serves the client's own errors, which say more
                self._log.raise_if_refused()
                if self._log.last_error is None:
                    raise
                raise type(error)(f"{error} ({self._log.last_error})", hint=error.hint) from error
            if found.partitions and found.error is None:
                return [TopicPartition(self.topic, number) for number in sorted(found.partitions)]
            if found.error is not None and found.error.code() in _REFUSED:
                raise connect_error(f"Topic {self.topic!r} cannot be looked up", found.error)
            if not is_awaited or time.monotonic() + pause_s > deadline:
                waited = f", or has no partitions, after {timeout_s:g} s ({setting})" if is_awaited else ""
                raise NotFoundError(
                    f"Topic {self.topic!r} does not exist{waited}.",
                    hint="Check the name of the topic in the worker's settings.",
                )
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def open(self, begin: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets."""
        self.reached = {tp.partition: offset for tp, offset in begin.items()}
        self._refused = None
        self._assign(begin)

    def read(self, max_records: int, timeout_s: float) -> list[LogRecord]:
        """The available records, or the first to arrive within the timeout; empty if none did.

        Errors: ConnectError if the broker refuses the topic or the login, once the records that came with that are
        given. Errors that the client recovers from, such as a broker that is away, are logged.
        """
        self._raise_if_refused()
        try:
            messages = self._client.consume(max_records, 0)
            if not messages:
                # consume() would wait for the full count or the full timeout; poll() returns the first message at once.
                first = self._client.poll(timeout_s)
                if first is None:
                    self._log.raise_if_refused()
                    return []
                messages = [first, *(self._client.consume(max_records - 1, 0) if max_records > 1 else ())]
        except KafkaException as error:
            raise connect_error(f"Topic {self.topic!r} cannot be read", error.args[0]) from error
        records = self._records(messages)
        if not records:
            self._raise_if_refused()
        return records

    def close(self) -> None:
        """Close the client. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        with kafka_errors("The consumer cannot be closed"):
            self._client.close()
        del self._client

    def _raise_if_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _records(self, messages: list[Message]) -> list[LogRecord]:
        records: list[LogRecord] = []
        lost: dict[int, KafkaError] = {}
        topic, reached, add = self.topic, self.reached, records.append
        for message in messages:
            partition: Any = message.partition()  # None only for errors without a partition
            offset: Any = message.offset()
            error = message.error()
            if error is not None:
                if error.code() in _OFFSET_GONE:
                    lost[partition] = error
                else:
                    self._on_error(error, partition, offset)
                continue
            key: Any = message.key()  # bytes: there is no deserializer
            value: Any = message.value()
            kind, timestamp = message.timestamp()
            reached[partition] = offset + 1
            add(LogRecord(topic, partition, offset, key, value, timestamp if kind else None))
        if lost:  # only now: what follows the error in this batch was read as well
            self._restart(lost)
        return records

    def _on_error(self, error: KafkaError, partition: int, offset: int) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self.reached[partition] = max(self.reached.get(partition, 0), offset)
        elif code in _REFUSED:
            self._refused = connect_error(f"Topic {self.topic!r} cannot be read", error)
        elif code != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is joined, the client only looks for its broker
            self._log.on_error(error)

    def _restart(self, lost: Mapping[int, KafkaError]) -> None:
        log.error(
            "Topic %s was deleted or truncated: partition %s no longer exists (%s). Reading from the start again.",
            self.topic,
            ", ".join(f"{number} at offset {self.reached.get(number, 0)}" for number in sorted(lost)),
            next(iter(lost.values())).str(),
        )
        begin = {number: OFFSET_BEGINNING if number in lost else offset for number, offset in self.reached.items()}
        self.reached.update(dict.fromkeys(lost, 0))
        self._assign({TopicPartition(self.topic, number): offset for number, offset in begin.items()})

    def _assign(self, begin: Mapping[TopicPartition, int]) -> None:
        with kafka_errors(f"Topic {self.topic!r} cannot be read"):
            self._client.assign([ClientPartition(tp.topic, tp.partition, offset) for tp, offset in begin.items()])


_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
_OFFSET_GONE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)


class StallWatch:
    """Tells whether a reader has stalled while someone waits for it. Threads: one at a time; the owner locks."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._behind: dict[int, int] | None = None  # its position when it was first seen behind; None: it was not
        self._since_s = 0.0

    def look(self, given: Mapping[int, int], readable: Mapping[int, int], now_s: float) -> bool:
        """Whether it has stalled long enough to be replaced; True once, then the time starts again.

        `given`: partition -> the offset before which all was delivered. `readable`: the ends of the readable records.
        """
        if all(given.get(partition, 0) >= end for partition, end in readable.items()):
            self._behind = None
            return False
        if self._behind != given:
            self._behind, self._since_s = dict(given), now_s
            return False
        if now_s - self._since_s < self._after_s:
            return False
        self._since_s = now_s
        return True
