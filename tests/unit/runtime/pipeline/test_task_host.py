"""Task threads and their host, with loops a test controls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from kconnect.api import SourceRecord, TimestampType
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.clock import SystemClock
from kconnect.errors import ConnectError, DataError
from kconnect.model import ConnectorType, RunState, TargetState, TaskId, TaskSpec
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.host import HousekeepingThread, TaskHost
from kconnect.runtime.pipeline.lifecycle import TaskThread, failure_text
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.stages import Stage, StageError
from kconnect.runtime.plugins import PluginRegistry
from kit.pace import ample_s
from kit.waiting import eventually, stays

# Longer than any test may take: a wait that nothing ends fails it
_ENDLESS_S = 3600.0
SPEC = TaskSpec(TaskId("orders", 0), 7, ConnectorType.SOURCE, {}, {}, {})


class Loop:
    """A loop that runs until it is stopped; `raise_in` and `hold` change that."""

    def __init__(self, control: TaskControl) -> None:
        self.control = control
        self.calls: list[str] = []
        self.raise_in = ""
        self.hold = threading.Event()
        self.hold.set()

    def start(self) -> None:
        self._call("start")

    def run(self) -> None:
        self._call("run")
        while not self.control.wait(0.01):
            pass

    def close(self) -> None:
        self._call("close")
        self.hold.wait(10)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.raise_in.split():
            raise ValueError(f"broken {name}")


class Plugins(PluginRegistry):
    """Notes which tasks' Java plugins it is to let go of."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.let_go: list[tuple[str, int | None]] = []

    def abandon(self, connector: str, task: int | None) -> None:
        self.let_go.append((connector, task))


class Bench:
    """One task thread with its loop and what it reported."""

    def __init__(self, prepare: Callable[[Loop], None] = lambda loop: None, spec: TaskSpec = SPEC) -> None:
        self.reported: list[tuple[int, RunState, str | None]] = []
        self.loops: list[Loop] = []
        self.plugins = cast("Plugins", Plugins.load(None))

        def build(control: TaskControl, ports: TaskPorts) -> Loop:
            loop = Loop(control)
            prepare(loop)
            self.loops.append(loop)
            return loop

        ports = TaskPorts(
            report=lambda task_id, run, state, trace: self.reported.append((run, state, trace)),
            offsets=cast("Any", None),
            reconfigure=lambda name: None,
            housekeeping=cast("Any", None),
            plugins=self.plugins,
        )
        self.task = TaskThread(spec, ports, build)

    @property
    def states(self) -> list[RunState]:
        return [state for _, state, _ in self.reported]

    def await_state(self, state: RunState) -> None:
        eventually(lambda: self.states[-1:] == [state], 5, f"{state}", pause_s=0.002)


def test_a_task_runs_and_stops() -> None:
    bench = Bench()
    bench.task.start()
    bench.await_state(RunState.RUNNING)
    bench.task.request_stop()
    assert bench.task.join(5)
    assert bench.states == [RunState.RUNNING, RunState.STOPPED]
    assert bench.loops[0].calls == ["start", "run", "close"]
    assert {run for run, _, _ in bench.reported} == {7}


def test_a_task_that_never_started_has_ended() -> None:
    assert Bench().task.join(0)


@pytest.mark.parametrize("place", ["start", "run", "close"])
def test_an_error_anywhere_is_failed_with_a_sentence_and_the_trace(place: str) -> None:
    bench = Bench(lambda loop: setattr(loop, "raise_in", place))
    bench.task.start()
    if place == "close":
        bench.await_state(RunState.RUNNING)  # one that is stopped before builds nothing
        bench.task.request_stop()
    bench.await_state(RunState.FAILED)
    assert bench.task.join(5)
    trace = bench.reported[-1][2] or ""
    assert trace.startswith(f"Task orders-0 failed: broken {place}.\n")
    assert "Traceback (most recent call last)" in trace
    assert bench.loops[0].calls[-1] == "close"


def test_the_first_error_is_reported_when_close_fails_too() -> None:
    bench = Bench(lambda loop: setattr(loop, "raise_in", "run close"))
    bench.task.start()
    bench.await_state(RunState.FAILED)
    assert bench.task.join(5)
    assert "broken run" in (bench.reported[-1][2] or "").splitlines()[0]


def test_a_task_left_behind_is_heard_of_no_more() -> None:
    bench = Bench(lambda loop: loop.hold.clear())
    bench.task.start()
    bench.await_state(RunState.RUNNING)
    bench.task.request_stop()
    assert not bench.task.join(0.05)
    bench.task.cancel()
    bench.loops[0].hold.set()
    assert bench.task.join(5)
    assert bench.states == [RunState.RUNNING]


def test_a_task_given_up_while_it_is_built_is_not_started_and_what_it_opens_then_is_let_go_at_once() -> None:
    is_built, goes_on = threading.Event(), threading.Event()
    said: list[str] = []

    def build_slowly(loop: Loop) -> None:
        is_built.set()
        goes_on.wait(_ENDLESS_S)
        loop.control.when_cancelled(lambda: said.append("let go"))

    bench = Bench(build_slowly)
    bench.task.start()
    try:
        assert is_built.wait(ample_s(5))
        bench.task.request_stop()
        bench.task.cancel()
        assert bench.plugins.let_go == [("orders", 0)]
    finally:
        goes_on.set()
    assert bench.task.join(ample_s(5))
    assert said == ["let go"]
    assert bench.loops[0].calls == ["close"]
    bench.task.cancel()  # as at the deadline of its stop: what the next run has in Java then is not its own
    assert bench.plugins.let_go == [("orders", 0)]
    assert bench.states == []


def test_a_run_that_starts_while_the_one_before_still_stops_runs_and_the_other_is_fenced_off() -> None:
    """As after a slot stood still: the worker has given the stop up and starts the task again."""
    reported: list[tuple[int, RunState]] = []
    loops: dict[int, Loop] = {}

    def build(control: TaskControl, ports: TaskPorts) -> Loop:
        loops[control.spec.run] = loop = Loop(control)
        if control.spec.run == 1:
            loop.hold.clear()
        return loop

    host = TaskHost(
        report=lambda task_id, run, state, trace: reported.append((run, state)),
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        plugins=PluginRegistry.load(None),
        build=build,
    )
    try:
        host.start(replace(SPEC, run=1))
        eventually(lambda: reported == [(1, RunState.RUNNING)], 5, pause_s=0.002)
        stopping = host.begin_stop([SPEC.id])
        host.start(replace(SPEC, run=2))
        eventually(lambda: reported[1:] == [(2, RunState.RUNNING)], 5, pause_s=0.002)
        assert loops[1].control.is_cancelled
        loops[1].hold.set()
        assert host.await_end(stopping, 5) == set()
        assert host.states() == {SPEC.id: (2, RunState.RUNNING)}
        assert host.leftovers() == 0
    finally:
        host.close(5)
    assert reported[2:] == [(2, RunState.STOPPED)]


def test_who_asks_for_a_stop_that_is_under_way_waits_for_its_end() -> None:
    loops: list[Loop] = []

    def build(control: TaskControl, _: Any) -> Loop:
        loops.append(Loop(control))
        loops[0].hold.clear()
        return loops[0]

    host = TaskHost(
        report=lambda *_: None,
        offsets=cast("Any", None),
        reconfigure=lambda name: None,
        plugins=PluginRegistry.load(None),
        build=build,
    )
    try:
        host.start(SPEC)
        eventually(lambda: len(loops) == 1, 5, pause_s=0.002)
        first, second = host.begin_stop([SPEC.id]), host.begin_stop([SPEC.id])
        assert host.await_end(second, 0.05) == {SPEC.id}
        loops[0].hold.set()
        assert host.await_end(first, 5) == set()
        assert host.leftovers() == 0
    finally:
        host.close(5)


def test_a_task_stopped_while_it_waits_paused_builds_nothing() -> None:
    spec = TaskSpec(TaskId("orders", 0), 7, ConnectorType.SOURCE, {}, {}, {}, TargetState.PAUSED)
    bench = Bench(spec=spec)
    bench.task.start()
    bench.await_state(RunState.PAUSED)
    bench.task.request_stop()
    assert bench.task.join(5)
    assert bench.loops == []
    assert bench.states == [RunState.PAUSED, RunState.STOPPED]


def test_a_wait_ends_with_a_pause_and_says_it_is_no_stop() -> None:
    bench = Bench()
    control = TaskControl(SPEC, bench.task._ports)
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(control.wait(10)))
    waiter.start()
    stays(lambda: not woken, 0.05, "the wait goes on")
    control.set_target(TargetState.PAUSED)
    waiter.join(5)
    assert woken == [False]
    control.stop()
    assert control.wait(10) is True


@pytest.mark.parametrize("waits", [TaskControl.wait, TaskControl.wait_for_work])
def test_a_pause_between_the_loop_s_look_and_its_wait_ends_the_wait_at_once_and_once(
    waits: Callable[[TaskControl, float], bool],
) -> None:
    control = TaskControl(SPEC, cast("TaskPorts", None))
    assert not control.should_pause  # the loop looks ..
    control.set_target(TargetState.PAUSED)  # .. the order comes ..
    ended = threading.Event()

    def wait_twice() -> None:
        waits(control, _ENDLESS_S)  # .. and only now it waits
        ended.set()
        waits(control, _ENDLESS_S)  # a loop that does not look between its waits does not spin

    waiter = threading.Thread(target=wait_twice, daemon=True)
    waiter.start()
    assert ended.wait(30)
    waiter.join(0.05)
    assert waiter.is_alive()
    assert control.should_pause
    control.stop()
    waiter.join(30)
    assert not waiter.is_alive()


def test_a_pause_taken_back_before_the_wait_ends_no_wait() -> None:
    control = TaskControl(SPEC, cast("TaskPorts", None))
    assert not control.should_pause
    control.set_target(TargetState.PAUSED)
    control.set_target(TargetState.STARTED)
    waiter = threading.Thread(target=control.wait, args=(_ENDLESS_S,), daemon=True)
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive()
    control.stop()
    waiter.join(30)


def test_the_trace_names_the_root_cause() -> None:
    try:
        try:
            raise OSError("disk full")
        except OSError as inner:
            raise ConnectError("Cannot write the file") from inner
    except ConnectError as error:
        text = failure_text(TaskId("a", 1), error)
    assert text.splitlines()[0] == "Task a-1 failed: Cannot write the file. Root cause: OSError: disk full"


def failure_of_a_record(raw: bytes) -> StageError:
    """What the pipeline raises for a record that JsonConverter, reported to expect plain JSON, cannot read."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    record = FetchedRecord("orders", 2, 17, b"k", raw, 0, TimestampType.CREATE_TIME, ())
    try:
        converter.to_connect_data("orders", raw)
    except DataError as error:
        return StageError(Stage.VALUE_CONVERTER, JsonConverter, record, error)
    raise AssertionError(f"{raw!r} was read")


def test_the_trace_of_a_record_leads_with_the_root_cause_and_the_record_s_place() -> None:
    text = failure_text(TaskId("a", 1), failure_of_a_record(b"no json"))
    reported, since = text.splitlines()[0].split(" Since ")
    assert reported == (
        "Task a-1 failed: JSONDecodeError: Expecting value: line 1 column 1 (char 0). "
        "Record of topic 'orders', partition 2, offset 17 failed in VALUE_CONVERTER of JsonConverter: "
        "Converting byte[] to Kafka Connect data failed due to serialization error. The value is b'no json'."
    )
    at = datetime.strptime(since, "%Y-%m-%d %H:%M:%S UTC.").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - at).total_seconds()) < 60
    assert "Traceback (most recent call last)" in text


def test_a_long_value_is_shown_by_its_beginning_and_its_length() -> None:
    text = failure_text(TaskId("a", 1), failure_of_a_record(b"<html>" + b"x" * 2_000))
    assert f"The value begins with {b'<html>' + b'x' * 54!r} and has 2,006 bytes. Since " in text.splitlines()[0]


def test_a_record_s_failure_by_itself_says_the_reason_where_java_s_sentence_ends_before_it() -> None:
    assert str(failure_of_a_record(b"no json")).endswith(
        "due to serialization error: JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    )


def test_a_record_s_cause_without_a_deeper_one_is_reported_once() -> None:
    failure = StageError(Stage.TRANSFORMATION, Upper, SourceRecord({"f": 1}, {"o": 2}, "t"), ValueError("no\nB"))
    assert (
        failure_text(TaskId("a", 1), failure)
        .splitlines()[0]
        .startswith(
            "Task a-1 failed: ValueError: no B. Record of topic 't' (source partition {'f': 1}, source offset "
            "{'o': 2}) failed in TRANSFORMATION of Upper. Since "
        )
    )


class Upper:
    """Stands for a transformation: only its name counts."""


class TestHousekeeping:
    def test_timers_go_on_after_an_error(self) -> None:
        house, ticks = HousekeepingThread(SystemClock()), []

        def tick() -> None:
            ticks.append(time.monotonic())
            raise ValueError("broken tick")

        house.start()
        house.every(0.01, tick, "test")
        eventually(lambda: len(ticks) > 2, 5, "three ticks")
        house.stop(2)

    def test_a_cancelled_timer_is_not_called(self) -> None:
        house, ticks = HousekeepingThread(SystemClock()), []
        ticket = house.every(0.05, lambda: ticks.append(1), "test")
        ticket.cancel()
        house.start()  # only now: this thread may stand still for longer than until the first tick
        stays(lambda: ticks == [], 0.15, "the timer is not called")
        house.stop(2)

    def test_one_thread_serves_all_timers(self) -> None:
        house, names = HousekeepingThread(SystemClock()), set()
        house.start()
        for number in range(20):
            house.every(0.01, lambda n=number: names.add((n, threading.current_thread().name)), "test")  # type: ignore[misc]
        eventually(lambda: len(names) == 20, 5, "all called")
        house.stop(2)
        assert {thread for _, thread in names} == {"housekeeping"}


def test_a_wake_ends_the_wait_for_work_that_runs_or_comes_next_and_no_other_wait() -> None:
    spec = TaskSpec(TaskId("woken", 0), 1, ConnectorType.SOURCE, {}, {}, {})
    control = TaskControl(spec, cast("TaskPorts", None))
    control.wake()
    assert control.wait_for_work(_ENDLESS_S) is False  # it came before the wait

    reported: list[bool] = []
    worker = threading.Thread(target=lambda: reported.append(control.wait_for_work(_ENDLESS_S)), daemon=True)
    worker.start()
    control.wake()
    worker.join(30)
    assert reported == [False]

    other = threading.Thread(target=lambda: reported.append(control.wait(_ENDLESS_S)), daemon=True)
    other.start()
    control.wake()
    other.join(0.05)
    assert other.is_alive()
    control.stop()
    other.join(30)
    assert reported == [False, True]
