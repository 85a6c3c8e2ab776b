"""RecordConsumer: a group member that returns fetched records as columns, one run per topic partition."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import ConnectError, TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.config.offset_reset import OffsetReset
from kconnect.runtime.config.rights import Right
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka.client_statistics import ClientStatistics, ClientUsage
from kconnect.runtime.kafka.clients import ClientLog, consumer_client, kafka_errors
from kconnect.runtime.kafka.consumed_run import ConsumedRun
from kconnect.runtime.kafka.consumer_additions import (
    PASSING,
    CommitDone,
    ConsumerFacts,
    LostJoins,
    PatternTopics,
    TimedResets,
    UnansweredCommits,
)

log = logging.getLogger(__name__)

# Partitions are revoked on this side, at once: the broker need not answer
_GIVE_BACK_S: Final = 2.0
_GIVE_BACK_STEP_S: Final = 0.02


class RebalanceListener(Protocol):
    """Notified of assigned and revoked partitions; called inside fetch() and close(), on their thread. Its errors are
    raised by the fetch().
    """

    def assigned(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Partitions were assigned; returns the offsets to start at where they are not the committed ones."""
        ...

    def to_pause(self, partitions: Sequence[TopicPartition]) -> Collection[TopicPartition]:
        """Which of the newly assigned partitions must not be fetched for now."""
        ...

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions go, and are still ours until this returns: commit now."""
        ...

    def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Partitions are gone already: nothing can be committed for them."""
        ...


class Behind(NamedTuple):
    """How many records a consumer has before it."""

    total: int
    most: int
    """In the partition where they are the most."""


class RecordConsumer:
    """A member of a consumer group. Threads: one, but for the constructor.

    Lifecycle: constructed -> subscribe() -> fetch()es -> close(). Errors: ConnectError, UnreachableError and the like.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        *,
        note_usage: Callable[[ClientUsage], None] | None = None,
        reset: OffsetReset | None = None,
        lost_joins: LostJoins | None = None,
    ) -> None:
        """`reset`: where to begin without a committed offset, if not as `config` says.

        `lost_joins`: finds that the group will not answer; another client then joins it, or with
        `group.protocol=consumer` fetch() raises. None: it is waited for.
        """
        self._name = name
        self._group = str(config.get("group.id", ""))
        self._max_age_ms = config.get("metadata.max.age.ms")
        self._log = ClientLog(log, f"Consumer of {name}")
        self._is_closed = False
        self._in_listener = False
        self._is_cut_off = False
        counts = {} if note_usage is None else ClientStatistics(note_usage).settings()
        self._make_client = partial(consumer_client, {**counts, **config}, self._log, on_commit=self._on_commit)
        self._client = self._make_client()
        self._lost_joins = lost_joins
        self._is_of_brokers = config.get("group.protocol") == "consumer"
        # Only cooperative assignors assign partitions a few at a time; the binding does not report which one is in use.
        self._is_incremental = (
            "cooperative" in str(config.get("partition.assignment.strategy", "")) or self._is_of_brokers
        )
        self._assigned: set[TopicPartition] = set()
        self._given: dict[tuple[str, int], int] = {}
        """Behind the last record that fetch() returned of a partition; the client's position may be further on."""
        self._gone: set[TopicPartition] = set()
        """Partitions revoked during the current fetch: records it already returned of them belong to another member
        now."""
        self._came_back: set[TopicPartition] = set()
        """The revoked partitions that were assigned again. They are paused until the fetch ends: what it returned of
        them is dropped, and the records of the new assignment would be dropped with it, and never come again.
        """
        self._raised: BaseException | None = None
        self._unanswered = UnansweredCommits()
        is_timed = reset is not None and reset.to == "time"
        self._resets = TimedResets(self._client, reset.back_ms, self._name) if reset is not None and is_timed else None
        self._pattern: PatternTopics | None = None
        self._topics: Sequence[str] = ()
        self._reset = str(config.get("auto.offset.reset", "latest"))
        self._subscribe_to: Callable[[Sequence[str]], None]

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are ours now."""
        return set(self._assigned)

    def answer(self, asked: Mapping[str, Any]) -> Any:
        """What it knows of its group and partitions, as ConsumerFacts answers. Threads: any. Errors: ConnectError."""
        if self._is_closed:
            raise ConnectError(f"The consumer of {self._name} is closed")
        # Nobody keeps the client: it ends with its last reference
        return ConsumerFacts(self._client, lambda: self._topics, self._reset).answer(asked)

    @property
    def last_error(self) -> str | None:
        return self._log.last_error

    def subscribe(self, topics: Sequence[str] | TopicPattern, listener: RebalanceListener) -> None:
        """Join the group for these topics; those of a pattern are looked for in each fetch() that they are due in."""

        def assign(_: Any, given: list[ClientPartition]) -> None:
            self._assign(given, listener)

        def revoke(_: Any, given: list[ClientPartition]) -> None:
            self._revoke(given, listener.revoked)

        def lose(_: Any, given: list[ClientPartition]) -> None:
            self._revoke(given, listener.lost)

        def subscribe(names: Sequence[str]) -> None:
            with kafka_errors(f"Cannot subscribe to {', '.join(names)}"):
                self._client.subscribe(list(names), on_assign=assign, on_revoke=revoke, on_lost=lose)
            self._topics = list(names)
            if self._lost_joins is not None:
                self._lost_joins.waits()

        self._subscribe_to = subscribe
        if isinstance(topics, TopicPattern):
            every_s = None if self._max_age_ms is None else int(self._max_age_ms) / 1000
            self._pattern = PatternTopics(topics, self._list_topics, every_s, self._name)
        else:
            subscribe(topics)

    def _list_topics(self, timeout_s: float) -> Any:  # the client's own description
        return self._client.list_topics(timeout=timeout_s)

    def _follow_pattern(self, pattern: PatternTopics) -> None:
        names = pattern.look_if_due(self._log.on_error)
        if names is None:
            return
        if names:
            self._subscribe_to(names)
        else:
            self._client.unsubscribe()

    def _join_again_if_lost(self, lost_joins: LostJoins) -> None:
        if not lost_joins.is_lost(self._client.memberid):
            return
        if self._is_of_brokers:  # librdkafka keeps asking brokers before 4.0, in silence
            raise self._not_joined("is not a member of it, though it has asked to join")
        log.warning(
            "%s: the group %s does not have it, though it has asked to join: another client joins instead",
            self._name,
            self._group,
        )
        self._let_go()
        self._client = self._make_client()
        if self._resets is not None:
            self._resets = self._resets.by(self._client)
        self._subscribe_to(self._topics)

    def _not_joined(self, why: str) -> ConnectError:
        return ConnectError(
            f"{self._name} cannot join the group {self._group} by group.protocol=consumer: it {why}",
            hint="Brokers know this protocol since Kafka 4.0, unless group.coordinator.rebalance.protocols leaves it "
            "out. For others set consumer.override.group.protocol=classic.",
        )

    def _let_go(self) -> None:
        """Drop a client that would wait for an answer before it ends."""
        last = [self._client]
        del self._client  # it ends with its last reference
        threading.Thread(target=last.clear, name="kafka-consumer-end", daemon=True).start()

    def fetch(self, max_records: int, timeout_s: float) -> list[ConsumedRun]:
        """Available records, or the first to arrive within the timeout: at most `max_records`, by topic partition.

        Shape: runs in the order of arrival; each partition's records in offset order. Errors that the client recovers
        from (an unreachable broker, a missing topic) are logged; others are raised.
        """
        self._gone.clear()
        if self._pattern is not None:
            self._follow_pattern(self._pattern)
        if self._lost_joins is not None and not self._assigned and self._unanswered.is_empty:
            self._join_again_if_lost(self._lost_joins)
        try:
            messages = self._fetched(max_records, timeout_s)
        finally:
            back, self._came_back = self._came_back, set()
            self.resume(back)
        self._raise_from_listener()
        self._log.raise_if_refused()
        runs = self._runs(messages) if messages else []
        for run in runs:
            self._given[run.topic, run.partition] = run.next_offset
        return runs

    def _fetched(self, max_records: int, timeout_s: float) -> list[Message]:
        try:
            messages = self._client.consume(max_records, 0)
            if not messages and self._raised is None:
                # consume() would wait for the full number or the full time; poll() returns the first record at once.
                first = self._client.poll(timeout_s)
                self._gone.clear()  # it arrived after all events inside poll()
                if first is not None:
                    messages = [first, *(self._client.consume(max_records - 1, 0) if max_records > 1 else ())]
        except KafkaException as error:
            self._raise_from_listener()
            raise self._error("Records cannot be fetched", error.args[0]) from error
        return messages

    def seek(self, partition: TopicPartition, offset: int) -> None:
        with kafka_errors(f"Cannot go to offset {offset} of {partition}"):
            self._client.seek(ClientPartition(partition.topic, partition.partition, offset))
        self._given[partition.topic, partition.partition] = sys.maxsize  # until it gives records from there

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Do not fetch these partitions until they are resumed; unassigned ones are ignored."""
        given = [ClientPartition(tp.topic, tp.partition) for tp in partitions if tp in self._assigned]
        if given:
            with kafka_errors("Partitions cannot be paused"):
                self._client.pause(given)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        given = [ClientPartition(tp.topic, tp.partition) for tp in partitions if tp in self._assigned]
        if given:
            with kafka_errors("Partitions cannot be resumed"):
                self._client.resume(given)

    def behind(self, positions: Mapping[TopicPartition, int]) -> Behind:
        """Records between these positions and the ends of their partitions, as known from the last fetches.

        Sends no request: 1 us per partition. A partition whose end is not known yet counts as zero. What nobody is
        given, as markers of transactions and aborted records, does not count once the client has read past it.
        """
        total = most = 0
        for partition, taken in positions.items():
            place = ClientPartition(partition.topic, partition.partition)
            offset = taken
            if taken >= self._given.get((partition.topic, partition.partition), 0):
                offset = max(taken, *(at.offset for at in self._client.position([place])))
            try:
                _, end = self._client.get_watermark_offsets(place, cached=True)
            except KafkaException:  # a partition that has gone meanwhile
                continue
            total, most = total + max(end - offset, 0), max(most, end - offset)
        return Behind(total, most)

    def commit(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Commit and wait; for revoked partitions and for the end of a task: records that arrive meanwhile are dropped.

        Errors: ConnectError; TimedOutError if the group's coordinator does not answer in time.
        """
        if self._in_listener:
            self._commit_in_listener(offsets)
            return
        answers: list[ConnectError | None] = []
        self.pause(self._assigned)
        self.commit_async(offsets, answers.append)
        deadline = time.monotonic() + timeout_s
        while not answers:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                self._is_cut_off = True
                why = f": {self._log.last_error}" if self._log.last_error else ""
                raise TimedOutError(
                    f"Offsets were not committed within {timeout_s:.1f} s (offset.flush.timeout.ms){why}"
                )
            with kafka_errors("Offsets cannot be committed"):
                self._client.poll(min(left_s, 0.1))
        if answers[0] is not None:
            raise answers[0]

    def _commit_in_listener(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The client cannot be served inside its own callback; but there the group is at work, so it answers."""
        with kafka_errors("Offsets cannot be committed"):
            done = self._client.commit(offsets=_client_partitions(offsets), asynchronous=False)
        for partition in done or ():
            if partition.error is not None:
                doing = f"The offset of {partition.topic}-{partition.partition} cannot be committed"
                raise self._error(doing, partition.error, partition.topic)

    def commit_async(self, offsets: Mapping[TopicPartition, int], done: CommitDone) -> None:
        """Commit in the background; `done` is called inside a later fetch(), with the error if there was one."""
        with kafka_errors("Offsets cannot be committed"):
            self._client.commit(offsets=_client_partitions(offsets), asynchronous=True)
        self._unanswered.sent(offsets, done)

    def close(self) -> None:
        """Leave the group; `revoked` of the listener is called for the partitions still assigned. Idempotent.

        After a commit that was not answered the client waits for its session timeout before it ends (measured: 6.0 s of
        6 s, 45.0 s of 45 s), so it ends silently on its own thread.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_cut_off:
            self._let_go()
            return
        with kafka_errors("The consumer cannot be closed"):
            try:
                self._give_back()
            finally:
                self._client.close()
        del self._client

    def _give_back(self) -> None:
        """Have the partitions revoked while the client still runs.

        In close() librdkafka may drop the answer that the binding waits for inside a rebalance, with the interpreter's
        lock held: the process freezes for good (seen once, on a busy machine).
        """
        try:
            self._client.unsubscribe()
        except KafkaException as error:
            if error.args[0].code() != KafkaError._FATAL:
                raise
            return  # it has lost all of them
        deadline = time.monotonic() + _GIVE_BACK_S
        while True:
            self._client.poll(_GIVE_BACK_STEP_S if self._assigned else 0)
            if not self._assigned or time.monotonic() > deadline:
                return

    # --- callbacks of the client, inside fetch() and close() ---

    def _assign(self, given: list[ClientPartition], listener: RebalanceListener) -> None:
        partitions = _ours(given)
        if self._lost_joins is not None:
            self._lost_joins.joined()
        self._assigned = self._assigned | set(partitions) if self._is_incremental else set(partitions)
        begin: Mapping[TopicPartition, int] = {}
        try:
            begin = listener.assigned(partitions)
            if self._resets is not None:
                begin = {**self._resets.begin(set(partitions) - begin.keys()), **begin}
        except BaseException as error:  # the client would swallow or mangle it: fetch() raises it
            self._raised = self._raised or error
        for partition in given:
            offset = begin.get(TopicPartition(partition.topic, partition.partition))
            if offset is not None:
                partition.offset = offset
        if self._is_incremental:
            self._client.incremental_assign(given)
        else:
            self._client.assign(given)
        paused = set(listener.to_pause(partitions))
        self._came_back |= self._gone.intersection(partitions) - paused
        self.pause(paused | self._came_back)

    def _revoke(self, given: list[ClientPartition], notify: Callable[[Sequence[TopicPartition]], None]) -> None:
        partitions = _ours(given)
        self._in_listener = True
        try:
            notify(partitions)
        except BaseException as error:  # as in _assign
            self._raised = self._raised or error
        finally:
            self._in_listener = False
        self._is_cut_off = False
        if self._lost_joins is not None:
            self._lost_joins.waits()
        self._assigned -= set(partitions)
        for partition in partitions:
            self._given.pop((partition.topic, partition.partition), None)
        self._gone |= set(partitions)
        self._came_back -= set(partitions)

    def _on_commit(self, error: KafkaError | None, offsets: list[ClientPartition]) -> None:
        failed = error or next((partition.error for partition in offsets if partition.error is not None), None)
        self._unanswered.answered(
            {TopicPartition(at.topic, at.partition): at.offset for at in offsets},
            None if failed is None else self._error("Offsets cannot be committed", failed),
        )

    def _error(self, doing: str, error: KafkaError, topic: str | None = None) -> ConnectError:
        """`topic`: the one that it is about, if it is about one."""
        of_topic = (Right("READ", "topic", topic),) if topic else ()
        return self._log.error(doing, error, Right("READ", "group", self._group), *of_topic)

    def _raise_from_listener(self) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    # --- messages to runs ---

    def _runs(self, messages: list[Message]) -> list[ConsumedRun]:
        if any(map(Message.error, messages)):  # an error is true; comparing one with None raises
            messages = self._without_errors(messages)
        if len(self._assigned) == 1 and messages and not self._gone:
            (only,) = self._assigned
            return [ConsumedRun(only.topic, only.partition, messages)]
        return self._split(messages)

    def _split(self, messages: list[Message]) -> list[ConsumedRun]:
        """Runs of neighbours of the same partition; the client gives a partition's records in blocks."""
        runs: list[ConsumedRun] = []
        topics: Any = map(Message.topic, messages)  # None only for errors, which never get here
        partitions: Any = map(Message.partition, messages)
        places: list[tuple[str, int]] = list(zip(topics, partitions, strict=True))
        start = 0
        while start < len(places):
            place, end = places[start], start + 1
            while end < len(places) and places[end] == place:
                end += 1
            partition = TopicPartition(*place)
            if partition in self._assigned and partition not in self._gone:  # a rebalance in mid-fetch took it away
                runs.append(ConsumedRun(*place, messages[start:end]))
            start = end
        return runs

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() in PASSING:
                self._log.on_error(error)
            elif error.code() == KafkaError._FATAL and "ConsumerGroupHeartbeat" in error.str():
                raise self._not_joined(f"is refused ({error.str()})")
            else:
                where = f" from {message.topic()}-{message.partition()}" if message.topic() else ""
                raise self._error(f"Records cannot be fetched{where}", error, message.topic())
        return good


def _ours(partitions: Sequence[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]


def _client_partitions(offsets: Mapping[TopicPartition, int]) -> list[ClientPartition]:
    return [
        ClientPartition(tp.topic, tp.partition, offset, metadata=getattr(offset, "note", ""))
        for tp, offset in offsets.items()
    ]
