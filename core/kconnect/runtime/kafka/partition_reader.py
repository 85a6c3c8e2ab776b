"""PartitionReader: a consumer without a group that reads partitions of one topic, and tracks its position."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError, NotFoundError, TimedOutError, did_you_mean
from kconnect.logs.wording import pluralize
from kconnect.model import LogRecord
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.client_statistics import Throttled
from kconnect.runtime.kafka.clients import ClientLog, consumer_client, fetched, kafka_errors

log = logging.getLogger(__name__)

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"

# The client learns that it has passed a transaction marker, which is not a record, from the response to the next
# fetch; without new records the broker delays that one by this time. Java's 500 would delay each barrier that long.
# An idle log of 25 partitions costs 3 ms of CPU time a second.
_FETCH_WAIT: Final = {"fetch.wait.max.ms": 100}
# The client requires a group name even if it joins none.
_GROUP: Final = "kconnect-reader"
# Between two looks for a topic that may have just been created
_LOOKS: Final = Backoff(first_s=0.05, most_s=1.0)
# While no broker answers: how often is it tried, and how long may that take
_LOOK_EVERY_S: Final = 1.0
_LOOK_S: Final = 0.5
_MOST_NAMES: Final = 10


class PositionedRecord(Protocol):
    """What a form makes of a message, at the least."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=PositionedRecord)


@dataclass(frozen=True, slots=True)
class Form(Generic[R]):
    """What a reader gives, and what it is read for."""

    make: Callable[[str, int, int, Message], R]
    """A record, from topic, partition, offset and message."""
    client: Mapping[str, Any] = field(repr=False)
    """librdkafka's settings, where the caller has none."""
    looks_for_brokers: bool = False
    """Whether the reader finds out, while nothing comes, that no broker answers."""


def _log_record(topic: str, partition: int, offset: int, message: Message) -> LogRecord:
    kind, timestamp = message.timestamp()
    key: Any = message.key()  # bytes: there is no deserializer
    value: Any = message.value()
    return LogRecord(topic, partition, offset, key, value, timestamp if kind else None)


LOG: Final = Form(
    _log_record,
    {
        # The prefetch limit per partition: at most 50 MB with the 25 of the offsets topic. 100,000 records of 300 B in
        # one partition take 0.22 s with it, and 0.17 s with the 64 MB that a sink gets; in 25 partitions the same.
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": 2_048,
    },
)
"""Records of a log that is read whole: without headers. All records in full: `consumed_records.RECORDS`."""


class PartitionReader(Generic[R]):
    """Reads partitions from given offsets. Threads: one at a time.

    Lifecycle: constructed -> open(), which may be repeated -> read()s -> close().
    A partition whose offset is gone (the topic was recreated, or truncated at either end) is read from its start, and
    said so in one sentence. Source: auto.offset.reset=earliest, as in KafkaBasedLog. A topic that was deleted is looked
    for: all partitions that it has when it is there again are read, by another client, as one may fetch nothing more.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any],
        form: Form[R],
        *,
        isolation_level: str = READ_COMMITTED,
        name: str = "records",
        tell: Callable[[str], None] = log.error,
        throttled: Throttled | None = None,
    ) -> None:
        """`config`: librdkafka's settings. `tell` is given sentences on what befell the reading."""
        self.topic = topic
        self.reached: dict[int, int] = {}
        """Partition -> the offset up to which read() has delivered all, markers and gaps included."""
        self.is_away = False
        """No broker answers; False again once one does. Known where the form looks for brokers."""
        self._form = form
        self._tell = tell
        self._log = ClientLog(log, f"Consumer of {name}", throttled)
        self._looked_at_s = 0.0
        self._refused: ConnectError | None = None  # came among records; the next read() raises it
        self._is_closed = False
        self._settings: Final = {
            **_FETCH_WAIT,
            **form.client,
            "group.id": _GROUP,
            **config,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",  # we restart ourselves, in order to tell it
        }
        self._client = consumer_client(self._settings, self._log)

    @property
    def last_error(self) -> str | None:
        return self._log.last_error

    def partitions(self, timeout_s: float, setting: str | None = None, *, is_awaited: bool = False) -> list[int]:
        """The numbers of all partitions. Creates no topic.

        `setting` gives the timeout, and names what the topic is: an internal one. `is_awaited`: for a topic that may
        have just been created. Errors: NotFoundError; UnreachableError, TimedOutError; ConnectError for missing rights.
        Source: KafkaBasedLog.start, which waits 30 s.
        """
        doing, within = f"Topic {self.topic!r} cannot be looked up", f" ({setting})" if setting else ""
        deadline, pauses = time.monotonic() + timeout_s, Pauses(_LOOKS)
        while True:
            left_s = max(deadline - time.monotonic(), 0.1)
            found = self._listed(self.topic, left_s, f"{doing} within {timeout_s:g} s{within}").get(self.topic)
            error = None if found is None else found.error
            if found is not None and error is None and found.partitions:
                return sorted(found.partitions)
            if error is not None and (error.code() in _REFUSED if is_awaited else error.code() not in _UNKNOWN):
                raise self._error(doing, error)
            pause_s = pauses.next_s()
            if not is_awaited or time.monotonic() + pause_s > deadline:
                waited = f", or has no partitions, after {timeout_s:g} s{within}" if is_awaited else ""
                hint = "Check the name of the topic in the worker's settings." if setting else self._others(timeout_s)
                raise NotFoundError(f"Topic {self.topic!r} does not exist{waited}.", hint=hint)
            time.sleep(pause_s)

    def open(self, begin: Mapping[int, int]) -> None:
        """Read these partitions from these offsets, and no others."""
        self.reached = dict(begin)
        self._refused = None
        self._assign(begin)

    def read(self, max_records: int, timeout_s: float) -> list[R]:
        """The available records, or the first to arrive within the timeout; empty if none did.

        Errors: ConnectError if the broker refuses the topic or the login, once the records that came with that are
        given. Errors that the client recovers from, such as a broker that is away, are logged.
        """
        self._raise_if_refused()
        try:
            messages = fetched(self._client, max_records, timeout_s)
        except KafkaException as error:
            raise self._error(f"Topic {self.topic!r} cannot be read", error.args[0]) from error
        if not messages:
            self._log.raise_if_refused()
            if self._log.misses_topic:
                self._look_for_topic()
            if self._form.looks_for_brokers:
                self._look_for_brokers()
            return []
        records = self._records(messages)
        if not records:
            self._raise_if_refused()
        return records

    def read_to(
        self, ends: Mapping[int, int], max_records: int, wait_s: float, quiet_s: float, setting: str
    ) -> Iterator[list[R]]:
        """The records before these offsets as they arrive, often none.

        Errors: TimedOutError if nothing comes for `quiet_s`, which `setting` says; as read().
        """
        quiet_since = time.monotonic()
        while late := [number for number, end in ends.items() if self.reached[number] < end]:
            before = dict(self.reached)
            yield [one for one in self.read(max_records, wait_s) if one.offset < ends[one.partition]]
            if self.reached != before:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > quiet_s:
                why = f" ({self.last_error})" if self.last_error else ""
                raise TimedOutError(
                    f"Topic {self.topic} gave nothing for {quiet_s:g} s ({setting}): partition {late[0]} is at offset "
                    f"{self.reached[late[0]]} of {ends[late[0]]}{why}"
                )

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
            with kafka_errors(doing):
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
        listed = self._listed(None, timeout_s, f"Topics cannot be listed within {timeout_s:g} s")
        names = sorted(name for name in listed if name[:2] != "__")
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

    def _look_for_topic(self) -> None:
        """Whether a topic that did not exist is there again, perhaps with other partitions."""
        if time.monotonic() - self._looked_at_s < _LOOK_EVERY_S:
            return
        self._looked_at_s = time.monotonic()
        try:
            found = self._client.list_topics(self.topic, timeout=_LOOK_S).topics.get(self.topic)
        except KafkaException:
            return
        if found is None or found.error is not None or not found.partitions:
            return
        log.info("Topic %s is there again, with %s", self.topic, pluralize(len(found.partitions), "partition"))
        # On its own thread: closing a client may take long
        threading.Thread(target=self._client.close, name=f"close-{self.topic}", daemon=True).start()
        self._client = consumer_client(self._settings, self._log)
        self._log.misses_topic = False
        self._is_back()
        self.open({number: self.reached.get(number, 0) for number in sorted(found.partitions)})

    def _is_back(self) -> None:
        self.is_away = False
        self._log.last_error = None

    def _raise_if_refused(self) -> None:
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def _records(self, messages: list[Message]) -> list[R]:
        records: list[R] = []
        lost: dict[int, KafkaError] = {}
        is_answered = False
        topic, reached, add, make = self.topic, self.reached, records.append, self._form.make
        for message in messages:
            partition: Any = message.partition()  # None only for errors without a partition
            offset: Any = message.offset()
            error = message.error()
            if error is None:
                reached[partition] = offset + 1
                add(make(topic, partition, offset, message))
            elif error.code() in _OFFSET_GONE:
                lost[partition] = error
            else:
                is_answered |= self._is_answer(error, partition, offset)
        if is_answered or records or lost:
            self._is_back()
        if lost:  # only now: what follows the error in this batch was read as well
            self._restart(lost)
        return records

    def _is_answer(self, error: KafkaError, partition: int, offset: int) -> bool:
        """Whether what came instead of a record is a broker's word on the topic."""
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            self.reached[partition] = max(self.reached.get(partition, 0), offset)
            return True
        if code in _REFUSED:
            self._refused = self._error(f"Topic {self.topic!r} cannot be read", error)
            return True
        if code != KafkaError.GROUP_AUTHORIZATION_FAILED:  # no group is joined, the client only looks for its broker
            self._log.on_error(error)
        return False

    def _error(self, doing: str, error: KafkaError) -> ConnectError:
        return self._log.error(doing, error, Right("READ", "topic", self.topic))

    def _restart(self, lost: Mapping[int, KafkaError]) -> None:
        for number in sorted(lost):
            self._tell(
                f"{self.topic}-{number}: offset {self.reached.get(number, 0)} is gone (the topic was deleted, or its "
                f"records were: {lost[number].str()}); reading on from its first record."
            )
        begin = {number: OFFSET_BEGINNING if number in lost else offset for number, offset in self.reached.items()}
        self.reached.update(dict.fromkeys(lost, 0))
        self._assign(begin)

    def _assign(self, begin: Mapping[int, int]) -> None:
        with kafka_errors(f"Topic {self.topic!r} cannot be read"):
            self._client.assign([ClientPartition(self.topic, number, offset) for number, offset in begin.items()])


LogReader: TypeAlias = PartitionReader[LogRecord]
_UNKNOWN: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION})
_REFUSED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.TOPIC_EXCEPTION})
_OFFSET_GONE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)
