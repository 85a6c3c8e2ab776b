"""What statuses say of automatic restarts: when the next is due, how many are left, why there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.clock import SystemClock
from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    TargetState,
    TaskCondition,
    TaskState,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.health.views import ConnectorHealth, PartView
from kconnect.runtime.herder.decisions.auto_restarts import (
    budget_of,
    restarts_of,
)
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.events import StatusesRead
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.herder.queries.restart_views import RestartViews
from kconnect.runtime.storage.config_topic import (
    PartRestarts,
)
from kit.failing_member import FAILED_TASK, GONE, SETTINGS, T0, fail, leader, restarts, stands
from kit.herder_state import Member


def test_a_status_from_before_the_last_restart_is_not_taken_for_a_failure_after_it() -> None:
    failed = TaskState(0, RunState.FAILED, "w:1", "Traceback: boom")
    settings = RestartSettings(max_restarts=2, backoff_ms=1_000, backoff_max_ms=1_000, window_ms=600_000)
    budget = budget_of(settings)

    def seen(count: int, after_ms: int, trace: str = "Traceback: boom") -> Restarts | None:
        known = PartRestarts(0, count, 1_000_000)
        return restarts_of(T0, replace(failed, trace=trace), known, budget, 1_000_000 + after_ms)

    assert seen(2, 100) == Restarts(AutoRestart.WAITING, 1, 2), "restart 2 of 2 is under way"
    assert seen(2, 5_000) == Restarts(AutoRestart.GIVEN_UP, 2, 2, due_ms=1_600_000)
    assert seen(1, 5_000) == Restarts(AutoRestart.WAITING, 1, 2)
    off = budget_of(replace(settings, max_restarts=0))
    assert restarts_of(T0, failed, PartRestarts(0, 2, 1_000_000), off, 1_000_100) == Restarts(
        AutoRestart.NOT_RESTARTED, 2, 0, "errors.restart.max is 0"
    )


def test_when_the_next_restart_is_due_is_what_is_done_then() -> None:
    """By the time of the status, which all workers read: a follower says what its leader will do."""
    member, follower = leader(), Member(leads=False)
    written_ms = member.now_ms - 300
    failure = replace(GONE, at_ms=written_ms)
    for each in (member, follower):
        each.step(StatusesRead(((T0, failure),)))
    assert member.state.failed_ms(T0) == follower.state.failed_ms(T0) == written_ms
    shown = restarts_of(T0, FAILED_TASK, None, budget_of(SETTINGS), member.now_ms, follower.state.failed_ms(T0))
    assert shown.state is AutoRestart.WAITING
    left_ms = shown.due_ms - member.now_ms
    assert 500 <= left_ms <= 900
    assert not restarts(member.wait(left_ms - 1))
    assert restarts(member.wait(1))
    stands(member, RunState.RUNNING)
    assert member.state.failed_ms(T0) is None


def test_what_is_paused_waits_until_it_is_resumed() -> None:
    views = RestartViews(SETTINGS, lambda _name: (), lambda _subject: 1_000_000, lambda: None, SystemClock())
    status = ConnectorStatus("c", ConnectorState(RunState.PAUSED, "w:1"), (FAILED_TASK,), ConnectorType.SINK)
    entry = ConnectorEntry("c", {}, target_state=TargetState.PAUSED)
    (paused,) = views.shown(entry, status).tasks
    assert paused.restarts == Restarts(AutoRestart.WAITING, 0, 2, "once it is resumed")
    (runs,) = views.shown(entry.with_target(TargetState.STARTED), status).tasks
    assert (runs.restarts.why, runs.restarts.due_ms is not None) == (None, True)


def test_what_fails_again_and_again_is_not_healthy_in_between() -> None:
    now_ms = SystemClock().time_ms()
    settings = replace(SETTINGS, backoff_max_ms=300_000)
    healthy = TaskCondition(Condition.HEALTHY, 1)
    entry = ConnectorEntry("c", {})

    def condition(count: int, ago_ms: int, found: TaskCondition = healthy, task: int = 0) -> TaskCondition:
        counted = (PartRestarts(task, count, now_ms - ago_ms, ""),)
        views = RestartViews(
            settings, lambda _: counted, lambda _: None, lambda: None, SystemClock(), lambda _: "the shop burns"
        )
        return views.conditions({T0: found}, lambda _: entry)[T0]

    again = condition(2, 70_000)
    assert again == TaskCondition(Condition.KEEPS_FAILING, now_ms - 70_000, 2, "the shop burns")
    view = PartView(0, replace(FAILED_TASK, state=RunState.RUNNING, trace=None, condition=again))
    assert (view.health, view.why(now_ms)) == (
        ConnectorHealth.DEGRADED,
        "keeps failing after 2 restarts: the shop burns",
    )
    assert condition(1, 70_000) is healthy, "the first restart may have helped"
    assert condition(2, 300_000) is healthy, "it has run for longer than any pause before a restart"
    assert condition(2, 70_000, task=1) is healthy, "another task"
    stuck = TaskCondition(Condition.STUCK, 1)
    assert condition(2, 70_000, stuck) is stuck, "nothing is worse"


def test_the_last_failure_is_known_while_the_task_runs_again() -> None:
    member = leader()
    fail(member)
    assert member.state.last_said(T0) == GONE.said
    stands(member, RunState.RUNNING)
    assert member.state.last_said(T0) == GONE.said


@pytest.mark.parametrize(
    ("given", "in_group", "most", "why"),
    [
        (None, None, 5, None),
        (3, None, 3, None),
        (0, None, 0, NoHelp.OFF),
        (None, NoHelp.JAVA_MEMBER, 0, NoHelp.JAVA_MEMBER),
        (3, NoHelp.JAVA_MEMBER, 3, None),
        (0, NoHelp.JAVA_MEMBER, 0, NoHelp.OFF),
        (None, NoHelp.JAVA_LEADS, 0, NoHelp.JAVA_LEADS),
        (3, NoHelp.JAVA_LEADS, 0, NoHelp.JAVA_LEADS),
    ],
)
def test_nothing_is_promised_that_nobody_does(given, in_group, most, why) -> None:
    found = budget_of(replace(SETTINGS, max_restarts=given), in_group)
    assert (found.most, found.why_none) == (most, why)
    shown = restarts_of(T0, FAILED_TASK, None, found, 1_000_000, 1_000_000)
    assert (shown.state is AutoRestart.WAITING) == (why is None)
    assert shown.why == (None if why is None else str(why))
