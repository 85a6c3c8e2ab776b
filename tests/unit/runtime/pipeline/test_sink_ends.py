"""How a sink task ends whose start failed."""

from __future__ import annotations

from collections.abc import Mapping

from kit.sink_bench import PLACES, Buffered, SinkBench, SinkRun


class NeverStarts(Buffered):
    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        raise ValueError("no such table")


def test_a_task_that_could_not_start_hears_of_no_partition_after_its_stop() -> None:
    task = NeverStarts()
    run = SinkRun(SinkBench(), task, lambda run: None)
    run.consumer.come_at_the_end = PLACES
    assert "no such table" in str(run())
    assert task.calls == ["start", "stop"]
    assert run.consumer.assignment == set()
