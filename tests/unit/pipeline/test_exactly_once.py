"""Exactly once at the moments at which a transaction must not be committed: refused offsets, a task that has failed."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.pipeline.boundaries import Ending, IntervalBoundary, PollBoundary
from kit.source_bench import OFFSETS_TOPIC, Numbers, SourceBench


def test_a_transaction_whose_offsets_the_client_itself_refuses_is_never_committed() -> None:
    bench, polls = SourceBench(), [2]

    def script() -> int:
        if polls:
            return polls.pop()
        run.control.stop()
        return 0

    run = bench.exactly_once(Numbers(script), PollBoundary())
    run.producer.refused_topics.add(OFFSETS_TOPIC)
    assert f"topic '{OFFSETS_TOPIC}'" in str(run())
    assert (bench.committed, bench.log) == (0, [])


class DueWhilePolling(IntervalBoundary):
    """An interval that is over whenever the housekeeping thread looks, and at no other time."""

    def __init__(self) -> None:
        super().__init__(1e9)

    def while_polling(self, now_s: float) -> Ending | None:
        return Ending.COMMIT


@pytest.mark.parametrize("fails_in_poll", [True, False], ids=["in a poll", "in the midst of a unit"])
def test_a_look_that_comes_once_the_loop_has_failed_commits_nothing_of_its_transaction(fails_in_poll: bool) -> None:
    bench, polls = SourceBench(), [2]

    def breaks() -> None:
        run.producer.room = None
        raise ConnectError("gone")

    def script() -> int:
        if polls:
            return polls.pop()
        if fails_in_poll:
            breaks()
        return 5

    run = bench.exactly_once(Numbers(script), DueWhilePolling(), room=4)
    run.producer.when_full = breaks
    run.timers.come_late = True
    assert "gone" in str(run())
    assert (bench.committed, bench.log) == (0, [])
