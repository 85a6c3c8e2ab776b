"""A sink that names records it cannot write: those alone are given up, also when it learns of them at a flush."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import pyarrow as pa
import pytest

from kconnect.api import ErrantRecordsError, RecordBatch, SinkRecord, TimestampType
from kconnect.errors import ConnectError, DataError, RetriableError
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.stages import StageError
from kit.sink_bench import PLACES, Buffered, SinkBench, SinkRun

ONE, TWO, _ = PLACES
Place = tuple[TopicPartition, int]


class Refusing(Buffered):
    """Gathers records, and refuses some: as they are put, or when it writes them."""

    def __init__(self, *refused: Place, at: str = "flush", columns: bool = False) -> None:
        super().__init__()
        self.supports_batches = columns  # type: ignore[misc]  # the same task in both forms
        self.written: list[Place] = []
        self.given: list[list[int]] = []
        self.flush_errors: list[Exception] = []
        self._refused, self._at = refused, at
        self._gathered: list[Place] = []

    def put(self, records: list[SinkRecord]) -> None:
        places = [TopicPartition(one.original_topic, one.original_kafka_partition) for one in records]
        self._take([(place, one.original_kafka_offset) for place, one in zip(places, records, strict=True)])

    def put_batch(self, batch: RecordBatch) -> None:
        self.put(cast("list[SinkRecord]", batch.to_records()))

    def _take(self, offsets: list[Place]) -> None:
        if offsets:
            self.given.append([offset for _, offset in offsets])
        if self._at == "put":
            self._raise_for(offsets)
        self._gathered += offsets
        if self._at == "later put" and len(self._gathered) >= 5:
            self._flush()

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self.flush_errors:
            self._gathered = []
            raise self.flush_errors.pop()
        self._flush()
        return current_offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._gathered = [place for place in self._gathered if place[0] not in partitions]

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._raise_for(gathered)
        self.written += gathered
        for place, offset in [*gathered, *self._refused]:
            self._run.bench.flushed[place].add(offset)

    def _raise_for(self, offsets: list[Place]) -> None:
        """As a writer does: the first that fails is named, the others it never got to."""
        bad = [place for place in offsets if place in self._refused]
        if bad:
            self._gathered = []
            raise ErrantRecordsError({bad[0]: ValueError(f"no {bad[0][1]}")})


def later(run: SinkRun) -> None:
    """The next commit is due."""
    run.clock.advance(2)


def life(task: Refusing, *steps: Callable[[SinkRun], object], **more: Any) -> tuple[SinkRun, Exception | None]:
    bench = SinkBench()
    bench.write(ONE, 6)
    left = [lambda run: run.consumer.assign(*PLACES), *steps]
    run = SinkRun(bench, task, lambda run: left.pop(0)(run) if left else run.control.stop(), **more)
    return run, run()


def letters(run: SinkRun) -> list[tuple[int, str]]:
    return [(letter.record.kafka_offset, str(letter.error)) for letter in run.letters.written]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("at", ["put", "later put", "flush"])
def test_a_record_that_a_sink_names_is_the_only_one_given_up(at: str, columns: bool) -> None:
    task = Refusing((ONE, 1), (ONE, 4), at=at, columns=columns)
    run, ended_by = life(task, *[lambda run: None] * 2, *[later, lambda run: None, lambda run: None] * 4)
    assert ended_by is None
    assert sorted(task.written) == [(ONE, offset) for offset in (0, 2, 3, 5)]
    assert letters(run) == [(1, "no 1"), (4, "no 4")], "each once, though what is put again was put with it"
    assert run.bench.position(ONE) == 6


def test_what_a_flush_left_is_flushed_again_as_soon_as_it_was_put_again() -> None:
    task = Refusing(*((ONE, offset) for offset in range(5)))
    run, ended_by = life(task, *[lambda run: None] * 2, later, *[lambda run: None] * 20)
    assert ended_by is None
    assert (task.written, run.bench.position(ONE)) == ([(ONE, 5)], 6), "the second commit is not due"
    assert [offset for offset, _ in letters(run)] == [0, 1, 2, 3, 4]


def test_a_put_goes_on_at_once_without_the_records_it_named() -> None:
    task = Refusing((ONE, 1), at="put")
    run, _ = life(task, lambda run: None, lambda run: None)
    assert task.given[:3] == [[0, 1, 2], [0, 2], [3, 4, 5]]
    assert run.control.counters.records_put == 5


def test_a_named_record_stays_left_out_when_what_is_not_committed_is_put_again_for_another_reason() -> None:
    task = Refusing((ONE, 1))
    task.flush_errors.append(RetriableError("away"))
    pause = lambda run: None  # noqa: E731  # a fetch with nothing else
    run, ended_by = life(task, pause, pause, later, pause, pause, later, pause, pause, later, pause, pause, later)
    assert ended_by is None
    assert letters(run) == [(1, "no 1")]
    assert run.bench.position(ONE) == 6


def test_a_record_named_as_the_task_ends_is_left_to_its_next_life() -> None:
    task = Refusing((ONE, 1))
    run, ended_by = life(task, lambda run: None, lambda run: None)
    assert (ended_by, task.written, letters(run), run.bench.position(ONE)) == (None, [], [], 0)


@pytest.mark.parametrize("at", ["put", "flush"])
def test_where_errors_are_not_tolerated_the_named_record_fails_the_task(at: str) -> None:
    task = Refusing((ONE, 4), at=at)
    run, ended_by = life(task, lambda run: None, lambda run: None, later, lambda run: None, tolerates_all=False)
    assert isinstance(ended_by, StageError)
    assert "topic 'numbers', partition 0, offset 4 failed in TASK_PUT of Refusing: ValueError: no 4" in str(ended_by)
    assert run.bench.position(ONE) <= 4


@pytest.mark.parametrize("place", [(ONE, 77), (TWO, 0)])
def test_naming_what_it_was_not_given_fails_the_task(place: Place) -> None:
    class Confused(Refusing):
        def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            raise ErrantRecordsError({place: DataError("what?")})

    _, ended_by = life(Confused(), lambda run: None, lambda run: None, later, lambda run: None, lambda run: None)
    assert isinstance(ended_by, ConnectError)
    assert f"the task was not passed the record at {place[0]}, offset {place[1]}" in str(ended_by)


def test_naming_the_same_record_for_ever_fails_the_task() -> None:
    class Stubborn(Refusing):
        def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            raise ErrantRecordsError({(ONE, 1): DataError("no")})

    steps = [later, lambda run: None, lambda run: None] * 3
    _, ended_by = life(Stubborn(), *steps)
    assert isinstance(ended_by, ConnectError)
    assert "was not passed the record at numbers-0, offset 1" in str(ended_by)


def test_an_error_names_the_first_record_and_counts_the_others() -> None:
    error = ErrantRecordsError({(ONE, 1): ValueError("no"), (TWO, 3): ValueError("neither")})
    assert str(error) == "The record at numbers-0, offset 1 (and 1 more) cannot be written: no"


def test_a_record_out_of_a_batch_is_found_as_it_was_read_long_after_its_put() -> None:
    fetched = FetchedBatch("t", 0, [5, 6], None, [b"five", b"six"], None, TimestampType.CREATE_TIME, None)
    batch = RecordBatch("t", kafka_partition=0, value=pa.array(["five", "six"]), kafka_offsets=pa.array([5, 6]))
    raw_records = RawRecords(is_wanted=True)
    raw_records.put_batch(batch, [fetched])
    raw_records.expect_reports()  # the task asks in its put
    raw_records.put((), ())
    (late,) = batch.filter(pa.array([False, True])).with_(topic="elsewhere").to_records()
    found = raw_records.of(late)
    assert found is not None
    assert (found.topic, found.kafka_offset, found.value) == ("t", 6, b"six")
