"""Exactly once: when a transaction must not be committed, as when a task has failed; how long its timers live."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from kconnect.api import TransactionBoundary
from kconnect.errors import ConnectError
from kconnect.runtime.pipeline.boundaries import Ending, IntervalBoundary, PollBoundary
from kconnect.runtime.pipeline.build_transactions import SourceTransactions
from kconnect.runtime.pipeline.exactly_once import ExactlyOnce
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.task_hooks import TaskHooks
from kit.memory_producer import MemoryProducer
from kit.source_bench import OFFSETS_TOPIC, Numbers, Run, SourceBench


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


def test_offsets_are_copied_on_a_timer_only_while_the_loop_runs() -> None:
    """A loop that is built may never run: its claim fails, or its task does not start."""
    run = Run(SourceBench(), Numbers(lambda: 0), None)
    control = TaskControl(replace(run.control.spec, connector_config={"offsets.storage.topic": "mine"}), run.ports)
    producer = cast("Any", MemoryProducer())  # stands for a TransactionalProducer
    parts = SourceTransactions(control, producer, TransactionBoundary.POLL, 1, None).parts(run.ports, 1, None)
    guarantee = ExactlyOnce(control, parts, TaskHooks(control, run.task))
    assert run.timers.names == []
    with guarantee.running():
        assert run.timers.names == ["transactions of numbers-0", "copies of offsets of numbers-0"]
    assert run.timers.names == []
