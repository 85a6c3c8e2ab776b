"""A standalone worker restarts what has failed by the same rules, on the clock of its process."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from kconnect.clock import now_ms
from kconnect.model import AutoRestart, Restarts, RunState, TargetState, TaskId
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.standalone.local_connectors import AutoRestarter
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kit.herders import config, herder_bench
from kit.pace import ample_s
from kit.waiting import eventually

T0 = TaskId("fsrc", 0)
SOON = {"errors.restart.max": "2", "errors.restart.backoff.ms": "20"}


def restarts(bench) -> Restarts | None:
    return bench.herder.with_restarts(bench.herder.connector_status("fsrc")).tasks[0].restarts


def test_a_failed_task_runs_again_until_its_restarts_are_used_up() -> None:
    with herder_bench() as bench:
        bench.herder.put_connector("fsrc", {**config("fsrc"), **SOON}, replace=False)
        for count in (1, 2):
            bench.launcher.fail_task(T0, "Traceback: boom")
            eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), 5, "it is restarted")
            assert restarts(bench) == Restarts(AutoRestart.RESTARTED, count, 2)
        bench.launcher.fail_task(T0, "Traceback: boom")
        eventually(lambda: restarts(bench).state is AutoRestart.GIVEN_UP, 5, "it is not just being restarted")
        found = restarts(bench)
        assert (found.count, found.most) == (2, 2)
        assert 3_590_000 < found.due_ms - now_ms() <= 3_600_000, "when it is tried again"
        readings = {reading.metric.name: reading.value for reading in bench.herder.metrics() if not reading.labels}
        assert (readings["automatic-restarts-total"], readings["given-up"]) == (2, 1)
        bench.herder.restart_task(T0)
        bench.launcher.fail_task(T0, "Traceback: boom")
        eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), 5, "somebody has restarted it: a full budget")


def test_a_connector_that_fails_in_start_is_restarted_and_its_tasks_with_it() -> None:
    with herder_bench() as bench:
        bench.herder.put_connector("fsrc", {**config("fsrc"), **SOON}, replace=False)
        bench.herder._status.set_connector("fsrc", RunState.FAILED, "Traceback: boom")
        eventually(lambda: bench.states() == ("RUNNING", ["RUNNING"]), 5, "it is restarted")


def test_what_is_paused_or_deleted_is_not_restarted() -> None:
    with herder_bench() as bench:
        bench.herder.put_connector(
            "fsrc", {**config("fsrc"), **SOON, "errors.restart.backoff.ms": "60000"}, replace=False
        )
        bench.launcher.fail_task(T0, "Traceback: boom")
        eventually(lambda: restarts(bench).due_ms is not None, 5, "it is known when the restart is due")
        assert replace(restarts(bench), due_ms=None) == Restarts(AutoRestart.WAITING, 0, 2)
        assert 45_000 < restarts(bench).due_ms - now_ms() < 75_000
        bench.herder.set_target_state("fsrc", TargetState.PAUSED)
        bench.herder.delete_connector("fsrc")
        bench.herder._restart_failed("fsrc", [0])
        assert bench.herder.connectors() == []


class _Waits:
    """A clock that notes how long it is asked to wait, and waits for the event alone."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def time_ms(self) -> int:
        return 1_000_000

    def monotonic(self) -> float:
        return 0.0

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.asked.append(timeout_s)
        return event.wait(ample_s(20))


def test_an_error_in_a_restart_is_not_repeated_without_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    def restart(name: str, parts: object) -> None:
        raise RuntimeError(f"{name} cannot be restarted")

    clock, config_ = _Waits(), MemoryConfig()
    config_.put(ConnectorEntry("fsrc", {**config("fsrc"), "errors.restart.backoff.ms": "0"}))
    restarter = AutoRestarter(config_, RestartSettings(backoff_ms=0), restart, lambda notice: None, clock)
    restarter.start("w:8083")
    try:
        restarter.note("fsrc", RunState.FAILED, "Traceback: boom")
        eventually(lambda: "fsrc cannot be restarted" in caplog.text, 5, "the restart fails")
        eventually(lambda: len(clock.asked) == 2, 5, "it waits again")
        assert clock.asked[1] == 5.0
    finally:
        restarter.stop(5)
