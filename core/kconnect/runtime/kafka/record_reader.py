"""RecordReader: a consumer without a group that gives whole records, headers included, of partitions of one topic."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.api import ConsumerRecord
from kconnect.errors import ConnectError, NotFoundError, did_you_mean
from kconnect.runtime.kafka.clients import ClientLog, connect_error, consumer_client, kafka_errors
from kconnect.runtime.kafka.consumed_records import TIMESTAMP_TYPES
from kconnect.runtime.kafka.log_reader import READ_COMMITTED

log = logging.getLogger(__name__)

_DEFAULTS: Final[Mapping[str, Any]] = {
    # A few records are wanted, soon: what is fetched ahead of them is wasted
    "queued.min.messages": 2_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.wait.max.ms": 100,  # the client learns by a fetch more that it has passed the marker of a transaction
}
# The client requires a group name even if it joins none.
_GROUP: Final = "kconnect-record-reader"
# While no broker answers: how often is it tried, and how long may that take
_LOOK_EVERY_S: Final = 1.0
_LOOK_S: Final = 0.5
_MOST_NAMES: Final = 10


class RecordReader:
    """Reads partitions from given offsets. Threads: one at a time.

    Lifecycle: constructed -> open(), which may be repeated -> read()s -> close(). A partition whose offset is gone
    (deleted by retention, or with its topic) is read from its start, which `notes` tells.
    """

    def __init__(
        self, topic: str, config: Mapping[str, Any], *, isolation_level: str = READ_COMMITTED, name: str = "records"
    ) -> None:
        self.topic = topic
        self.reached: dict[int, int] = {}
        """Partition -> the offset up to which read() has delivered all, markers and gaps included."""
        self.notes: list[str] = []
        """Sentences on what befell the reading; the caller takes them out."""
        self.is_away = False
        """No broker answers, as the client said; False again once one does."""
        self._log = ClientLog(log, f"Consumer of {name}")
        self._looked_at_s = 0.0
        self._refused: ConnectError | None = None  # came among records; the next read() raises it
        self._is_closed = False
        settings = {
            **_DEFAULTS,
            "group.id": _GROUP,
            **config,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # we restart ourselves, in order to tell it
        }
        self._client = consumer_client(settings, self._log)

    @property
    def last_error(self) -> str | None:
        return self._log.last_error

    def partitions(self, timeout_s: float) -> list[int]:
        """The numbers of all partitions. Creates no topic.

        Errors: NotFoundError with names that are alike; UnreachableError, TimedOutError; ConnectError for missing
        rights.
        """
        doing = f"Topic {self.topic!r} cannot be looked up"
        found = self._listed(self.topic, timeout_s, doing).get(self.topic)
        error = None if found is None else found.error
        if error is not None and error.code() not in _UNKNOWN:
            raise connect_error(doing, error)
        if found is None or error is not None or not found.partitions:
            raise NotFoundError(f"Topic {self.topic} does not exist", hint=self._others(timeout_s))
        return sorted(found.partitions)

    def open(self, begin: Mapping[int, int]) -> None:
        """Read these partitions from these offsets, and no others."""
        self.reached = dict(begin)
        self._refused = None
        self._assign(begin)

    def read(self, max_records: int, timeout_s: float) -> list[ConsumerRecord]:
        """The available records, or the first to arrive within the timeout; empty if none did.

        Errors: ConnectError if the broker refuses the topic or the login, once the records that came with that are
        given. Of a broker that is away, `is_away` tells.
        """
        self._raise_if_refused()
        try:
            messages = self._client.consume(max_records, 0)
            if not messages:
                # consume() would wait for the full count or the full timeout; poll() returns the first message at once.
                first = self._client.poll(timeout_s)
                if first is None:
                    self._log.raise_if_refused()
                    self._look_for_brokers()
                    return []
                messages = [first, *(self._client.consume(max_records - 1, 0) if max_records > 1 else ())]
        except KafkaException as error:
            raise connect_error(f"Topic {self.topic!r} cannot be read", error.args[0]) from error
        records = self._records(messages)
        if not records:
            self._raise_if_refused()
        return records

    def pause(self, partitions: Collection[int]) -> None:
        """Do not read these on, until they are resumed."""
        if partitions:
            with kafka_errors("Partitions cannot be paused"):
                self._client.pause([ClientPartition(self.topic, number) for number in partitions])

    def resume(self, partitions: Collection[int]) -> None:
        if partitions:
            with kafka_errors("Partitions cannot be resumed"):
                self._client.resume([ClientPartition(self.topic, number) for number in partitions])

    def close(self) -> None:
        """Close the client. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        with kafka_errors("The consumer cannot be closed"):
            self._client.close()
        del self._client

    def _listed(self, topic: str | None, timeout_s: float, doing: str) -> Mapping[str, Any]:
        try:
            with kafka_errors(f"{doing} within {timeout_s:g} s"):
                if topic is None:
                    return dict(self._client.list_topics(timeout=timeout_s).topics)
                return dict(self._client.list_topics(topic, timeout=timeout_s).topics)
        except ConnectError as error:
            self._client.poll(0)  # serves the client's own errors, which say more
            self._log.raise_if_refused()
            if self._log.last_error is None:
                raise
            raise type(error)(f"{error} ({self._log.last_error})", hint=error.hint) from error

    def _others(self, timeout_s: float) -> str:
        """A hint: topics that are there."""
        names = sorted(name for name in self._listed(None, timeout_s, "Topics cannot be listed") if name[:2] != "__")
        if not names:
            return "This Kafka cluster has no topics."
        shown = ", ".join(names[:_MOST_NAMES]) + (", .." if len(names) > _MOST_NAMES else "")
        return did_you_mean(self.topic, names) or f"There are these topics: {shown}"

    def _look_for_brokers(self) -> None:
        """After trouble, whether any broker answers: a quiet topic tells neither that all are gone nor of a return.

        The client says that all brokers are down only if each of them was up before.
        """
        if self._log.last_error is None or time.monotonic() - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = time.monotonic()
        trouble = self._log.last_error
        try:
            self._client.list_topics(self.topic, timeout=_LOOK_S)
        except KafkaException:
            self.is_away = True
            self._log.last_error = self._log.last_error or trouble
            return
        self._is_back()

    def _is_back(self) -> None:
        self.is_away = False
        self._log.last_error = None

    def _raise_if_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _records(self, messages: list[Message]) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        lost: dict[int, KafkaError] = {}
        for message in messages:
            partition: Any = message.partition()  # None only for errors without a partition
            offset: Any = message.offset()
            error = message.error()
            if error is None:
                self.reached[partition] = offset + 1
                records.append(self._record(message, partition, offset))
            elif error.code() in _OFFSET_GONE:
                lost[partition] = error
            elif error.code() == KafkaError._PARTITION_EOF:
                self.reached[partition] = max(self.reached.get(partition, 0), offset)
            elif error.code() in _REFUSED:
                self._refused = connect_error(f"Topic {self.topic!r} cannot be read", error)
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is joined
                self._log.on_error(error)
                continue
            else:
                continue
            self._is_back()
        if lost:  # only now: what follows the error in this batch was read as well
            self._restart(lost)
        return records

    def _record(self, message: Message, partition: int, offset: int) -> ConsumerRecord:
        kind, timestamp = message.timestamp()
        key: Any = message.key()  # bytes: there is no deserializer
        value: Any = message.value()
        headers: Any = message.headers()  # the binding's type has str beside bytes
        return ConsumerRecord(
            self.topic,
            partition,
            offset,
            key,
            value,
            timestamp if kind else None,
            TIMESTAMP_TYPES[kind],
            list(headers or ()),
        )

    def _restart(self, lost: Mapping[int, KafkaError]) -> None:
        for number in sorted(lost):
            self.notes.append(
                f"{self.topic}-{number}: offset {self.reached.get(number, 0)} is gone (the topic was deleted, or its "
                "records were); reading on from its first record."
            )
        begin = {number: OFFSET_BEGINNING if number in lost else offset for number, offset in self.reached.items()}
        self.reached.update(dict.fromkeys(lost, 0))
        self._assign(begin)

    def _assign(self, begin: Mapping[int, int]) -> None:
        with kafka_errors(f"Topic {self.topic!r} cannot be read"):
            self._client.assign([ClientPartition(self.topic, number, offset) for number, offset in begin.items()])


_UNKNOWN: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION})
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
_OFFSET_GONE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)
