"""The commits of a source task: what is taken, what a failure leaves, what the end does."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Callable
from typing import Any, cast

from kconnect.errors import ConnectError
from kconnect.logs.log_context import configure
from kconnect.model import ConnectorType, TaskId, TaskSpec, Unstorable
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.source_offsets import SourceOffsetCommitter
from kit.pace import ample_s
from kit.pipeline_host import MemoryOffsets

SPEC = TaskSpec(TaskId("orders", 0), 1, ConnectorType.SOURCE, {}, {}, {})


class Timers:
    """Housekeeping whose ticks a test makes."""

    def __init__(self) -> None:
        self.tick: Callable[[], None] = lambda: None
        self.is_cancelled = False

    def every(self, interval_s: float, tick: Callable[[], None], name: str) -> Any:
        self.tick = tick
        return self

    def cancel(self) -> None:
        self.is_cancelled = True


class Bench:
    def __init__(self) -> None:
        self.offsets, self.timers, self.inflight = MemoryOffsets(), Timers(), InFlight()
        self.served = 0
        ports = TaskPorts(
            report=lambda *reported: None,
            offsets=self.offsets,
            reconfigure=lambda name: None,
            housekeeping=self.timers,
            plugins=cast("Any", None),
        )
        self.control = TaskControl(SPEC, ports)
        self.committer = SourceOffsetCommitter(self.control, ports, self.inflight, self._serve)
        self.committer.begin(1)

    def _serve(self) -> None:
        self.served += 1

    def acked(self, row: int) -> None:
        self.inflight.submit([({"table": "a"}, {"row": row})]).ack()

    @property
    def kept(self) -> list[Any]:
        return self.offsets.of("orders")


def test_a_tick_commits_what_is_acknowledged_and_the_task_hears_of_it_once() -> None:
    bench = Bench()
    bench.acked(1)
    bench.timers.tick()
    assert bench.kept == [{"row": 1}]
    assert bench.committer.take_committed()
    assert not bench.committer.take_committed()
    assert bench.served == 1


def test_nothing_new_is_no_commit_but_calls_the_hook() -> None:
    bench = Bench()
    bench.timers.tick()
    assert bench.offsets.commits == 0
    assert bench.committer.take_committed()


def test_a_failed_commit_is_kept_and_newer_offsets_win() -> None:
    bench = Bench()
    bench.acked(1)
    bench.offsets.fail_with = ConnectError("away")
    bench.timers.tick()
    assert (bench.kept, bench.control.counters.commit_failures) == ([], 1)
    bench.offsets.fail_with = None
    bench.timers.tick()
    assert bench.kept == [{"row": 1}]
    bench.offsets.fail_with = ConnectError("away")
    bench.acked(2)
    bench.timers.tick()
    bench.acked(3)
    bench.offsets.fail_with = None
    bench.timers.tick()
    assert bench.kept == [{"row": 3}]


def test_the_end_commits_and_ends_the_timer() -> None:
    bench = Bench()
    bench.acked(1)
    bench.committer.finish(1)
    assert bench.kept == [{"row": 1}]
    assert bench.timers.is_cancelled


def test_a_tick_that_comes_after_the_end_touches_nothing() -> None:
    bench = Bench()
    bench.committer.finish(1)
    bench.acked(1)
    served = bench.served
    bench.timers.tick()
    assert (bench.kept, bench.served) == ([], served)


def test_a_cancelled_task_commits_nothing() -> None:
    bench = Bench()
    bench.acked(1)
    bench.control.cancel()
    bench.timers.tick()
    bench.committer.finish(0.1)
    assert bench.kept == []


def test_the_end_waits_no_longer_than_its_time_for_a_commit_that_hangs() -> None:
    bench = Bench()
    bench.acked(1)
    bench.offsets.gate.clear()
    begun, commit = threading.Event(), bench.offsets.commit

    def begin(*reported: Any) -> None:
        begun.set()
        commit(*reported)

    bench.offsets.commit = begin  # type: ignore[method-assign]
    running = threading.Thread(target=bench.timers.tick)
    running.start()
    assert begun.wait(ample_s(5))
    bench.committer.finish(0.05)
    assert bench.offsets.commits == 0
    bench.offsets.gate.set()
    running.join(5)
    assert bench.kept == [{"row": 1}]


def test_the_line_of_a_failed_commit_names_the_task_and_its_offsets() -> None:
    bench, stream = Bench(), io.StringIO()
    handler = configure(stream=stream)
    try:
        bench.acked(1)
        bench.offsets.fail_with = ConnectError("away")
        bench.timers.tick()
    finally:
        logging.getLogger().removeHandler(handler)
    task = bench.control.spec.id
    assert (
        f"ERROR [{task.connector}|task-{task.task}|offsets] Offsets of {task} could not be committed"
        in stream.getvalue()
    )


def test_what_java_cannot_store_is_refused_before_the_link_makes_a_text_of_it() -> None:
    bench = Bench()
    bench.inflight.submit([({"table": "a"}, {"row": Unstorable("today", "field row contains a date")})]).ack()
    bench.timers.tick()
    assert (bench.kept, bench.control.counters.commit_failures) == ([], 1)
