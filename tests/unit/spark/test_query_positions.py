"""Where a sink's query stands, by the offsets of its group: planned, ended, altered, reset."""

from __future__ import annotations

import pytest

from kconnect.model import TopicPartition
from kconnect.runtime.kafka import CommittedOffset
from kconnect.spark.query.positions import TopicPosition
from kconnect.spark.query.topic_source import from_json, limited, to_json

A, B, C = (TopicPartition("t", number) for number in range(3))


def committed(*parts: dict[TopicPartition, CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
    """What the group has after these commits."""
    found: dict[TopicPartition, CommittedOffset] = {}
    for part in parts:
        found |= part
    return found


def test_a_group_without_offsets_begins_with_a_new_id() -> None:
    first, second = TopicPosition.of({}, {"t"}), TopicPosition.of({}, {"t"})

    assert first.id != second.id
    assert (first.batch, first.done, first.planned, first.is_altered) == (0, {}, {}, False)


def test_a_planned_batch_is_found_again_with_its_range_and_its_number() -> None:
    begun = TopicPosition.of({}, {"t"}).from_first({A: 5, B: 0}).plan({A: 9, B: 4})

    found = TopicPosition.of(begun.to_commit(), {"t"})

    assert (found.id, found.batch) == (begun.id, 0)
    assert found.done == {A: 5, B: 0}
    assert found.planned == {A: 9, B: 4}


def test_an_ended_batch_is_not_repeated_and_others_keep_their_offsets() -> None:
    first = TopicPosition.of({}, {"t"}).from_first({A: 0, B: 0}).plan({A: 9, B: 4})
    after_first = first.ended()
    second = after_first.plan({B: 7})
    ended = second.ended()

    found = TopicPosition.of(
        committed(after_first.to_commit_as_ended([A, B]), second.to_commit(), ended.to_commit_as_ended([B])), {"t"}
    )

    assert (found.id, found.batch, found.planned) == (first.id, 2, {})
    assert found.done == {A: 9, B: 7}
    assert not found.is_altered


class Group:
    """A query as Spark runs it: a batch whenever the text of the ends is another. A start goes by the group alone."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self.written: list[tuple[str, int]] = []
        """Id and number of each batch, as a table sees them: it skips one that it has."""

    @property
    def numbers(self) -> list[int]:
        return [number for _, number in self.written]

    def start(self, first: dict[TopicPartition, int]) -> None:
        found = TopicPosition.of(
            {at: self.committed[at] for at in first if at in self.committed}, {at.topic for at in first}
        )
        self.position = found.from_first(first)
        self.spark = dict(self.position.done)
        if self.position.planned:
            self.batch({**self.position.done, **self.position.planned})

    def trigger(self, ends: dict[TopicPartition, int], *, is_killed: bool = False) -> None:
        end = limited(self.spark, ends, 100)
        if to_json(end) != to_json(self.spark):
            self.batch(end, is_killed=is_killed)

    def batch(self, end: dict[TopicPartition, int], *, is_killed: bool = False) -> None:
        ahead = self.position.ahead(end)
        if ahead != self.position.planned:
            self.position = self.position.plan(ahead)
            self.committed |= self.position.to_commit()
        self.written.append((self.position.id, self.position.batch + 1))
        if not is_killed:
            self.position = self.position.ended()
            self.committed |= self.position.to_commit_as_ended(ahead)
        self.spark = end


def test_a_batch_that_is_only_of_a_new_partition_without_records_has_its_number_in_the_group() -> None:
    """The table has it, and would skip the next records under the same number."""
    group = Group()
    group.start({A: 0})
    group.trigger({A: 1})
    group.trigger({A: 1, B: 0})

    group.start({A: 0, B: 0})
    group.trigger({A: 1, B: 0})
    group.trigger({A: 2, B: 1})

    assert group.numbers == [1, 2, 3]
    assert TopicPosition.of(group.committed, {"t"}).done == {A: 2, B: 1}


def test_a_batch_without_records_that_was_cut_off_is_replayed_under_its_number_and_ends() -> None:
    group = Group()
    group.start({A: 0})
    group.trigger({A: 1})
    group.trigger({A: 1, B: 0}, is_killed=True)

    group.start({A: 0, B: 0})
    assert TopicPosition.of(group.committed, {"t"}).planned == {}
    group.start({A: 0, B: 0})
    group.trigger({A: 2, B: 0})

    assert group.numbers == [1, 2, 2, 3]


def test_a_partition_whose_records_were_all_deleted_is_planned_and_one_that_stays_is_not() -> None:
    """Retention may take what is there before the query has read it: the reader then finds nothing up to the end."""
    position = TopicPosition.of({}, {"t"}).from_first({A: 5, B: 0})

    assert position.ahead({A: 5, B: 0, C: 70}) == {C: 70}
    assert position.ahead({A: 5, B: 0}) == {}, "as a query with state has batches, which its own checkpoint counts"


@pytest.mark.parametrize("altered", [{A: CommittedOffset(3, "")}, {C: CommittedOffset(1, "")}])
def test_an_altered_offset_drops_the_plan_and_its_number_is_not_used_again(
    altered: dict[TopicPartition, CommittedOffset],
) -> None:
    begun = TopicPosition.of({}, {"t"}).from_first({A: 5, B: 0}).plan({A: 9, B: 4})

    found = TopicPosition.of(committed(begun.to_commit(), altered), {"t"})

    assert found.is_altered
    assert found.planned == {}
    assert (found.id, found.batch) != (begun.id, 0), "the table may have batch 1, and would skip another of its name"
    assert all(found.done[at] == to.offset for at, to in altered.items())


@pytest.mark.parametrize("back", [CommittedOffset(0, ""), None])
def test_an_altered_offset_that_alone_had_the_last_number_does_not_have_it_given_again(
    back: CommittedOffset | None,
) -> None:
    group = Group()
    group.start({A: 0, B: 0})
    group.trigger({A: 1, B: 1})
    group.trigger({A: 2, B: 1})
    group.trigger({A: 3, B: 1})

    del group.committed[A]
    if back is not None:
        group.committed[A] = back
    group.start({A: 0, B: 0})
    group.trigger({A: 3, B: 1})

    assert TopicPosition.of(group.committed, {"t"}).done == {A: 3, B: 1}
    assert len(set(group.written)) == 4


OTHER = TopicPartition("other", 0)


def test_numbers_of_a_topic_that_goes_are_not_given_again_also_when_it_comes_back() -> None:
    """The last batches were of that topic alone: nothing beside the offsets of the others tells their numbers."""
    group = Group()
    group.start({A: 0, OTHER: 0})
    group.trigger({A: 1, OTHER: 0})
    group.trigger({A: 1, OTHER: 2})
    group.trigger({A: 1, OTHER: 3})

    group.start({A: 0})
    group.trigger({A: 2})
    group.trigger({A: 3}, is_killed=True)
    group.start({A: 0, OTHER: 0})
    group.trigger({A: 4, OTHER: 3})
    group.start({A: 0, OTHER: 0})
    group.trigger({A: 5, OTHER: 4})

    assert group.written[4] == group.written[5], "the batch that was cut off is replayed as what it was"
    assert len(set(group.written)) == len(group.written) - 1
    assert TopicPosition.of(group.committed, {"t", "other"}).done == {A: 5, OTHER: 4}


def test_the_id_stays_while_the_topics_do() -> None:
    group = Group()
    for number in range(1, 4):
        group.start({A: 0, B: 0})
        group.trigger({A: number, B: 0})

    assert {at for at, _ in group.written} == {group.position.id}
    assert group.numbers == [1, 2, 3]


def test_a_removed_offset_counts_as_altered() -> None:
    begun = TopicPosition.of({}, {"t"}).from_first({A: 5, B: 0}).plan({A: 9, B: 4})

    found = TopicPosition.of({A: begun.to_commit()[A]}, {"t"})

    assert found.is_altered
    assert (found.batch, found.planned, found.done) == (1, {}, {A: 5})


def test_offsets_that_somebody_else_set_begin_with_a_new_id() -> None:
    found = TopicPosition.of({A: CommittedOffset(3, ""), B: CommittedOffset(4, "some note of another tool")}, {"t"})

    assert found.is_altered
    assert (found.batch, found.done) == (0, {A: 3, B: 4})


def test_the_text_beside_an_offset_is_short() -> None:
    """Brokers refuse more than 4096 bytes (offset.metadata.max.bytes)."""
    begun = TopicPosition.of({}, {"t"}).plan({A: 1 << 62})

    assert len(begun.to_commit()[A].metadata) < 200


def test_a_batch_takes_no_more_than_its_limit_and_something_of_each_partition() -> None:
    end = limited({A: 0, B: 0}, {A: 10, B: 1000, C: 50}, 100)

    assert end == {A: 10, B: 45, C: 45}
    assert limited({A: 3}, {A: 3}, 100) == {A: 3}
    assert limited({A: 3}, {A: 1}, None) == {A: 3}, "a partition that became shorter does not go back"
    assert limited({A: 0, B: 0}, {A: 5, B: 5}, 1) == {A: 1, B: 1}


def test_offsets_are_written_as_spark_writes_those_of_topics() -> None:
    offsets = {B: 2, A: 1, TopicPartition("s", 10): 3}

    assert to_json(offsets) == {"s": {"10": 3}, "t": {"0": 1, "1": 2}}
    assert from_json(to_json(offsets)) == offsets
