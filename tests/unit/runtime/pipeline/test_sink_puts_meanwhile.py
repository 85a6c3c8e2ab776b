"""Puts that go on while the loop does other things, as Java does: what is asked for in them comes before a commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.sink_puts import RecordsPut
from kit.sink_bench import PLACES, Buffered, SinkBench, SinkRun

ONE = PLACES[0]


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Puts that are over; each is under way until something waits for it."""
    over = set[int]()

    def settle(put: RecordsPut) -> bool:
        if put.records and id(put) not in over:
            over.add(id(put))
            RUNS[-1].loop._calls.put(list(put.records), put.fetched)
        return bool(put.records)

    monkeypatch.setattr(RecordsPut, "settle", settle)
    monkeypatch.setattr(RecordsPut, "is_under_way", property(lambda put: bool(put.records) and id(put) not in over))
    return over


RUNS: list[SinkRun] = []
"""The last one is the test's."""


def commit_is_due(run: SinkRun) -> None:
    run.clock.advance(2.0)


def it_ends(run: SinkRun) -> None:
    run.control.stop()


def nothing(run: SinkRun) -> None:
    """A fetch with nothing else."""


def the_partition_goes(run: SinkRun) -> None:
    run.consumer.revoke(ONE)


@pytest.mark.parametrize(
    ("with_the_records", "then"),
    [(commit_is_due, nothing), (it_ends, nothing), (nothing, the_partition_goes)],
)
def test_nothing_is_committed_behind_a_place_to_which_the_task_goes_back_in_what_is_put_meanwhile(
    done: set[int], with_the_records: Callable[[SinkRun], None], then: Callable[[SinkRun], None]
) -> None:
    given: list[Mapping[TopicPartition, int]] = []

    class Looked(Buffered):
        def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            given.append(dict(current_offsets))
            return {}

    bench, task = SinkBench(), Looked()

    def begin(run: SinkRun) -> None:
        run.consumer.assign(*PLACES)

    def write(run: SinkRun) -> None:
        bench.write(ONE, 6)
        task.in_put.append(lambda context: run.ask_for(ONE, 2))
        with_the_records(run)

    steps = [begin, write, then, it_ends]
    run = SinkRun(bench, task, lambda run: steps.pop(0)(run) if steps else run.control.stop(), most=6)
    RUNS.append(run)
    assert run() is None
    assert done, "what was put was under way"
    assert given[0][ONE] == 2
