"""What may be committed, what waits for put, what is held: under every order of events, against a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kconnect.api import SinkRecord
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.put_queue import PutBatch, PutQueue
from kconnect.runtime.pipeline.sink_offsets import CommitTimer, SinkOffsets
from kconnect.runtime.pipeline.sink_partitions import HeldPartitions
from kconnect.runtime.pipeline.sink_puts import RecordsPut
from kit.examples import examples

PLACES = [TopicPartition("numbers", 0), TopicPartition("numbers", 1), TopicPartition("letters", 0)]
STRANGER = TopicPartition("strangers", 0)
PLACE = st.sampled_from(PLACES)


def batch_of(place: TopicPartition, first: int, count: int) -> PutBatch:
    records = [SinkRecord(place.topic, place.partition, None, None, None, None, first + each) for each in range(count)]
    return PutBatch(RecordsPut(records), {place: first}, {place: first + count})


def places_of(batch: PutBatch) -> list[tuple[TopicPartition, int]]:
    records = cast("RecordsPut", batch.payload).records
    return [(TopicPartition(record.topic, record.kafka_partition or 0), record.kafka_offset) for record in records]


class SinkState(RuleBasedStateMachine):
    """SinkOffsets and PutQueue as a loop uses them; the model knows what is fetched, put and stored."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets, self.queue = SinkOffsets(), PutQueue()
        self.fetched: dict[TopicPartition, int] = {}
        self.put: dict[TopicPartition, int] = {}
        self.floor: dict[TopicPartition, int] = {}
        """Where a partition goes back to: all before it is stored, or was before we had it, or is the task's affair."""
        self.sent: dict[TopicPartition, int] | None = None

    @rule(counts=st.dictionaries(PLACE, st.integers(1, 3), min_size=1))
    def fetch(self, counts: Mapping[TopicPartition, int]) -> None:
        batches = []
        for place, count in counts.items():
            first = self.fetched.setdefault(place, 10)
            self.put.setdefault(place, first)
            self.floor.setdefault(place, first)
            self.fetched[place] = first + count
            batches.append(batch_of(place, first, count))
            self.offsets.fetched(place, first)
        self.queue.add(batches)

    @precondition(lambda self: self.queue)
    @rule()
    def take_head(self) -> None:
        head = self.queue.head
        for place, offset in places_of(head):
            assert offset == self.put[place], "in order, none left out"
            self.put[place] = offset + 1
        self.queue.taken()
        self.offsets.put_done(head.after)
        assert not self.queue.is_retrying

    @precondition(lambda self: self.queue)
    @rule()
    def fail(self) -> None:
        before = places_of(self.queue.head)
        self.queue.retry_at(5.0)
        assert places_of(self.queue.head) == before
        assert (self.queue.is_retrying, self.queue.wait_s(2.0), self.queue.wait_s(6.0)) == (True, 3.0, 0.0)

    @rule(place=PLACE)
    def go(self, place: TopicPartition) -> None:
        self.queue.drop({place})
        self.offsets.forget({place})
        for known in (self.fetched, self.put, self.floor, self.sent or {}):
            known.pop(place, None)

    @rule(place=PLACE, to=st.integers(5, 20))
    def rewind(self, place: TopicPartition, to: int) -> None:
        self.queue.drop({place})
        self.offsets.moved_to({place: to})
        self.fetched[place] = self.put[place] = self.floor[place] = to
        (self.sent or {}).pop(place, None)

    @precondition(lambda self: self.sent is None)
    @rule(less=st.integers(-2, 3), is_stranger=st.booleans())
    def commit(self, less: int, is_stranger: bool) -> None:
        given = dict(self.offsets.taken)
        wanted = {place: offset - less for place, offset in given.items()} | ({STRANGER: 1} if is_stranger else {})
        found, refused = self.offsets.committable(given, wanted)
        expected = {place: wanted[place] for place in given if less >= 0 and wanted[place] != self.floor[place]}
        assert found == expected
        assert len(refused) == is_stranger + (len(given) if less < 0 else 0)
        if found:
            self.offsets.sent(found)
            self.sent = dict(found)

    @precondition(lambda self: self.sent is not None)
    @rule(is_committed=st.booleans())
    def answer(self, is_committed: bool) -> None:
        self.offsets.answered(is_committed=is_committed)
        if is_committed:
            self.floor.update(self.sent or {})
        self.sent = None

    @rule()
    def flush_fails(self) -> None:
        for place, offset in self.offsets.last_committed().items():
            self.rewind(place, offset)

    @invariant()
    def both_know_the_same(self) -> None:
        assert self.offsets.taken == self.put
        assert self.offsets.last_committed() == self.floor
        assert self.offsets.taken_of([*PLACES, STRANGER]) == self.put
        assert self.offsets.active() == sum(self.put[place] - self.floor[place] for place in self.put)
        assert self.queue.records() == sum(self.fetched[place] - self.put[place] for place in self.put)
        assert self.queue.is_retrying <= bool(self.queue)


class Holds(RuleBasedStateMachine):
    """HeldPartitions against a consumer that does as it is reported."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = HeldPartitions()
        self.assigned: set[TopicPartition] = set()
        self.asked: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.holds_all = False

    @rule(place=PLACE, is_pause=st.booleans())
    def ask(self, place: TopicPartition, is_pause: bool) -> None:
        self.holds.ask([(is_pause, (place,))])
        (self.asked.add if is_pause else self.asked.discard)(place)

    @rule(to=st.booleans())
    def hold_all(self, to: bool) -> None:
        self.holds_all = to

    @rule(place=PLACE)
    def come(self, place: TopicPartition) -> None:
        if place not in self.assigned:
            self.assigned.add(place)
            self.paused.update(self.holds.came([place], hold_all=self.holds_all))
            assert (place in self.paused) == (self.holds_all or place in self.asked)

    @rule(place=PLACE)
    def go(self, place: TopicPartition) -> None:
        if place in self.assigned:
            self.holds.forget([place])
            for known in (self.assigned, self.asked, self.paused):
                known.discard(place)

    @rule()
    def before_a_fetch(self) -> None:
        pause, resume = self.holds.changes(set(self.assigned), hold_all=self.holds_all)
        assert pause <= self.assigned - self.paused
        assert resume <= self.paused
        self.paused = (self.paused | pause) - resume
        assert self.paused == (self.assigned if self.holds_all else self.asked & self.assigned)


TestSinkState = SinkState.TestCase
TestSinkState.settings = examples(100, stateful_step_count=30)
TestHolds = Holds.TestCase
TestHolds.settings = examples(60, stateful_step_count=25)


def test_a_commit_is_due_after_each_interval_and_one_on_its_way_is_waited_for_until_its_timeout() -> None:
    timer = CommitTimer(100.0, interval_s=10, timeout_s=4)
    assert (timer.is_due(109.9), timer.is_due(110.0), timer.until_due_s(103.0)) == (False, True, 7.0)
    timer.restart(110.0)
    first = timer.sent(110.0)
    assert (timer.is_waiting, timer.until_due_s(111.0), timer.gives_up(113.9)) == (True, 3.0, False)
    assert timer.gives_up(114.0)
    assert not timer.gives_up(114.1), "reported once"
    assert (timer.is_waiting, timer.until_due_s(115.0)) == (False, 5.0)
    second = timer.sent(120.0)
    assert not timer.answered(first), "an answer that is too late"
    assert timer.is_waiting
    assert timer.answered(second)
    assert not timer.is_waiting


def test_a_put_names_the_spans_it_was_given() -> None:
    queue = PutQueue()
    queue.add([batch_of(TopicPartition("t", number), 5, 2) for number in range(5)])
    assert str(queue.head) == "t-0 5 to 6, t-1 5 to 6, t-2 5 to 6 and of 2 more partitions"


def test_where_a_task_moved_a_partition_itself_is_news_for_the_group_until_it_has_it() -> None:
    offsets, (one, *_) = SinkOffsets(), PLACES
    offsets.moved_to({one: 50}, by_task=True)
    assert offsets.committable({one: 50}, {one: 50}) == ({one: 50}, [])
    offsets.sent({one: 50})
    offsets.answered(is_committed=True)
    assert offsets.committable({one: 50}, {one: 50}) == ({}, [])
    offsets.moved_to({one: 40})
    assert offsets.committable({one: 40}, {one: 40}) == ({}, []), "the loop itself goes where the group is"
