"""How a task fares beside its state: what keeps failing, hangs or cannot commit is reported, paced and counted."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.api import SourceRecord
from kconnect.errors import ConnectError, RetriableError
from kconnect.java.devbroker import DevBroker
from kconnect.model import Condition, RunState, TargetState, TaskCondition
from kit.pace import now
from kit.pipeline_host import SINK, SOURCE, Behaviour, PipelineHost
from kit.topics import produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(autouse=True)
def _fresh_behaviour(caplog: pytest.LogCaptureFixture) -> None:
    Behaviour.reset()
    caplog.set_level(logging.INFO, "kconnect")


@pytest.fixture
def host(broker: DevBroker) -> Iterator[PipelineHost]:
    with PipelineHost(broker.bootstrap) as host:
        yield host


def lines_with(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


Times = list[tuple[float, float]]
"""Of calls: by the wall clock for what lasts at least so long, by that of the pace for what lasts no longer."""


def busy(times: Times, topic: str, until: threading.Event) -> Any:
    """A poll that fails until the event is set, then gives a record."""

    def poll(task: Any) -> Any:
        if until.is_set():
            task.context.wait(0.02)
            return [SourceRecord({"p": 1}, {"o": len(times)}, topic, "a")]
        times.append((time.monotonic(), now()))
        raise RetriableError("the server is away") from ConnectionRefusedError("no route to shop:5432")

    return poll


def test_a_poll_that_keeps_failing_is_paced_reported_once_counted_and_retrying(
    host: PipelineHost, topic: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    times: Times = []
    is_back = threading.Event()
    Behaviour.poll = busy(times, topic, is_back)

    spec = host.start_source(topic_for(request), SOURCE, errors_retry_delay_max_ms="400")
    found = eventually(lambda: (seen := host.condition(spec)).count >= 6 and seen, 20, "six attempts")

    assert found.condition is Condition.RETRYING
    assert found.cause == (
        "ScriptedSourceTask.poll() raised RetriableError: the server is away "
        "(root cause: ConnectionRefusedError: no route to shop:5432)"
    )
    assert abs(found.since_ms / 1000 - time.time()) < 30
    assert host.states(spec) == [RunState.RUNNING], "Java's state stays as it is"
    pauses = [after[0] - before[0] for before, after in itertools.pairwise(times)]
    assert times[1][1] - times[0][1] < 0.25, f"pauses grow: {pauses}"
    assert min(pauses[3:]) > 0.25, f"up to errors.retry.delay.max.ms: {pauses}"
    counters = host.counters(spec)
    assert counters.retries >= 6
    assert counters.failures >= 6
    assert lines_with(caplog, "will be retried") == [
        "ScriptedSourceTask.poll() failed and will be retried after pauses of up to 0.4 s (errors.retry.delay.max.ms): "
        "the server is away"
    ]
    is_back.set()
    host.await_condition(spec, Condition.HEALTHY)
    (over,) = eventually(lambda: lines_with(caplog, "works again"), 5, "a line, just after the condition")
    assert over.startswith(f"ScriptedSourceTask.poll() works again after {len(times)} failed attempts in ")


def test_a_stop_and_a_pause_end_the_wait_for_the_next_poll_at_once(host: PipelineHost, topic: str) -> None:
    Behaviour.poll = busy([], topic, threading.Event())
    specs = [host.start_source(f"{topic}-{name}", SOURCE) for name in ("stops", "pauses")]
    for spec in specs:
        eventually(lambda spec=spec: host.condition(spec).count >= 6, 20, "pauses of more than 3 s")

    began_s = now()
    host.host.set_target_state([specs[1].id], TargetState.PAUSED)
    assert host.stop(specs[0]) == set()
    host.await_state(specs[1], RunState.PAUSED)

    assert now() - began_s < 2.0


def test_a_plugin_that_says_when_to_come_back_is_asked_then(host: PipelineHost, topic: str) -> None:
    times: Times = []

    def poll(task: Any) -> Any:
        times.append((time.monotonic(), now()))
        raise RetriableError("slow down", retry_after_s=0.5)

    Behaviour.poll = poll
    spec = host.start_source(topic, SOURCE)
    eventually(lambda: len(times) >= 4, 20, "four polls")
    for before, after in itertools.pairwise(times):
        assert after[0] - before[0] >= 0.5, times
        assert after[1] - before[1] < 1.5, times
    assert host.condition(spec).condition is Condition.RETRYING


def test_a_put_that_keeps_failing_is_retrying_until_the_records_are_taken(
    host: PipelineHost, broker: DevBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    is_back, taken = threading.Event(), []

    def put(task: Any, records: list[Any]) -> None:
        if not is_back.is_set():
            raise RetriableError("the database is away")
        taken.extend(record.value for record in records)

    Behaviour.put = put
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    spec = host.start_sink(topic, SINK, topics=topic, errors_retry_delay_max_ms="300")
    found = eventually(lambda: (seen := host.condition(spec)).count >= 4 and seen, 30, "four attempts")
    assert found.condition is Condition.RETRYING
    assert found.cause == "ScriptedSinkTask.put() raised RetriableError: the database is away"
    assert len(lines_with(caplog, "will be retried")) == 1
    assert host.counters(spec).retries >= 4

    is_back.set()
    host.await_condition(spec, Condition.HEALTHY)

    eventually(lambda: taken == ["a", "b"], 10, "both records, perhaps one by one")
    eventually(lambda: len(lines_with(caplog, "put() works again after")) == 1, 5, "a line, just after the condition")


def test_offsets_that_cannot_be_stored_are_reported_once_and_the_task_is_not_committing(
    host: PipelineHost, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    host.offsets.fail_with = ConnectError("Cannot write connect.offsets: No space left on device")
    Behaviour.poll = lambda task: (
        task.context.wait(0.05),
        [SourceRecord({"p": 1}, {"o": time.monotonic_ns()}, topic, "a")],
    )[1]
    spec = host.start_source(topic, SOURCE)
    found = eventually(lambda: (seen := host.condition(spec)).count >= 4 and seen, 30, "four failed commits")
    assert found.condition is Condition.NOT_COMMITTING
    assert found.cause == "Offsets cannot be stored: Cannot write connect.offsets: No space left on device"
    assert len(lines_with(caplog, "could not be committed")) == 1
    assert host.counters(spec).commit_failures >= 4

    host.offsets.fail_with = None
    host.await_condition(spec, Condition.HEALTHY)

    eventually(lambda: len(lines_with(caplog, "are stored again after")) == 1, 5, "a line, just after the condition")


def test_a_commit_that_is_never_answered_is_not_committing(host: PipelineHost, topic: str) -> None:
    host.worker["offset.flush.timeout.ms"] = "300"
    host.offsets.gate.clear()
    Behaviour.poll = lambda task: (task.context.wait(0.05), [SourceRecord({"p": 1}, {"o": 1}, topic, "a")])[1]
    spec = host.start_source(topic, SOURCE)
    host.await_condition(spec, Condition.NOT_COMMITTING)
    host.offsets.gate.set()
    host.await_condition(spec, Condition.HEALTHY)


@pytest.mark.parametrize("method", ["start", "poll", "commit"])
def test_a_call_of_a_source_that_does_not_return_is_named_with_the_authors_line(
    host: PipelineHost, topic: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    Behaviour.hang_in = method
    if method == "commit":
        Behaviour.poll = lambda task: (task.context.wait(0.05), [SourceRecord({"p": 1}, {"o": 1}, topic, "a")])[1]
    assert_named(host, host.start_source(topic, SOURCE, kconnect_task_stuck_after_ms="300"), method, caplog)


@pytest.mark.parametrize("method", ["start", "put", "flush"])
def test_a_call_of_a_sink_that_does_not_return_is_named_with_the_authors_line(
    host: PipelineHost, broker: DevBroker, topic: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    host.worker["kconnect.task.stuck.after.ms"] = "300"
    Behaviour.hang_in = method
    produce_lines(broker.bootstrap, topic, ["a"])
    called = {"flush": "pre_commit"}.get(method, method)
    assert_named(host, host.start_sink(topic, SINK, topics=topic), called, caplog)


def assert_named(host: PipelineHost, spec: Any, method: str, caplog: pytest.LogCaptureFixture) -> None:
    def is_named() -> TaskCondition:
        found = host.condition(spec)  # on a slow machine another call may be overdue before
        assert found.condition is Condition.STUCK, found
        assert f"{method}() has not returned: it is at " in (found.cause or ""), found
        assert "cls._gate.wait(" in (found.cause or ""), found
        return found

    found = eventually(is_named, 20, f"{method}() is named", pause_s=0.02)
    assert "pipeline_host.py:" in (found.cause or "")
    assert "Behaviour.called(" in (found.stack or ""), "the stack begins with the plugin's call"
    assert "runtime/pipeline/source.py" not in (found.stack or "")
    assert "plugin_call" not in (found.stack or "")
    for _ in range(3):
        host.condition(spec)
    assert len(lines_with(caplog, f"{method}() has not returned")) == 1, "reported once"
    Behaviour.release()
    host.await_condition(spec, Condition.HEALTHY)
    eventually(lambda: host.condition(spec) and len(lines_with(caplog, f"{method}() has returned after")) == 1, 5)


def test_a_stop_that_does_not_return_is_abandoned_with_the_place_where_it_hangs(
    host: PipelineHost, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    Behaviour.hang_in = "stop"
    spec = host.start_source(topic, SOURCE)
    host.await_state(spec, RunState.RUNNING)
    assert host.stop(spec, timeout_s=1.0) == {spec.id}
    (line,) = lines_with(caplog, "was abandoned")
    late = f"Task {spec.id} did not stop within 1.0 s (task.shutdown.graceful.timeout.ms) and was abandoned"
    assert line.startswith(f"{late}: ScriptedSourceTask.stop() ")
    assert "pipeline_host.py:" in line
