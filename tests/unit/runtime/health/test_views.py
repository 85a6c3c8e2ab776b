"""How a connector stands and why, as a table of cases: what every screen shows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    Restarts,
    RunState,
    TaskCondition,
    TaskState,
)
from kconnect.runtime.health.views import (
    NO_CAUSE,
    ConnectorHealth,
    PartView,
    connector_view,
    restarts_text,
    worst_first,
)

RUNNING, PAUSED, STOPPED = RunState.RUNNING, RunState.PAUSED, RunState.STOPPED
FAILED, UNASSIGNED, RESTARTING = RunState.FAILED, RunState.UNASSIGNED, RunState.RESTARTING
TRACE = "org.X: wrapped\n\tat a.b\nCaused by: java.sql.SQLException: the table is gone\n"
CAUSE = "java.sql.SQLException: the table is gone"
NOW_MS = 1_000_000


def task(state: RunState, trace: str | None = None, restarts: Restarts | None = None) -> TaskState:
    return TaskState(0, state, "w:1", trace, restarts=restarts)


def degraded(condition: Condition, cause: str | None = None, count: int = 0, state: RunState = RUNNING) -> TaskState:
    return TaskState(0, state, "w:1", condition=TaskCondition(condition, NOW_MS - 34_000, count, cause))


def own_degraded(condition: Condition, cause: str, count: int) -> ConnectorState:
    return ConnectorState(RUNNING, "w:1", condition=TaskCondition(condition, NOW_MS - 34_000, count, cause))


def connector(
    name: str, own: RunState | ConnectorState, *tasks: TaskState | RunState, trace: str | None = None
) -> ConnectorStatus:
    made = [task(each) if isinstance(each, RunState) else each for each in tasks]
    numbered = tuple(
        TaskState(number, each.state, each.worker_id, each.trace, None, each.condition, each.restarts)
        for number, each in enumerate(made)
    )
    shown = ConnectorState(own, "w:1", trace) if isinstance(own, RunState) else own
    return ConnectorStatus(name, shown, numbered, ConnectorType.SINK)


GIVEN_UP = task(FAILED, TRACE, Restarts(AutoRestart.GIVEN_UP, 5, 5))
FOLLOWS = task(FAILED, TRACE, Restarts(AutoRestart.WAITING, 1, 5))
BARRED = task(FAILED, TRACE, Restarts(AutoRestart.NOT_RESTARTED, 0, 5, "it is not authorized"))
SWITCHED_OFF = task(FAILED, TRACE, Restarts(AutoRestart.NOT_RESTARTED, 0, 0))
RESTARTED = task(RUNNING, None, Restarts(AutoRestart.RESTARTED, 2, 5))
HELD = task(UNASSIGNED, None, Restarts(AutoRestart.HELD_BACK, 0, 5))
NO_SLOT = task(UNASSIGNED, "Slot 3 cannot start: the disk is full")
HELD_FAILED = task(FAILED, TRACE, Restarts(AutoRestart.HELD_BACK, 0, 5))
HELD_TEXT = "its worker left the group (scheduled.rebalance.max.delay.ms)"
STUCK = degraded(Condition.STUCK, "put() hangs")

CASES = [
    # own state, tasks; stands, shown state, why
    (RUNNING, [RUNNING, RUNNING], ConnectorHealth.RUNNING, RUNNING, ""),
    (RUNNING, [], ConnectorHealth.RUNNING, RUNNING, ""),
    (PAUSED, [PAUSED], ConnectorHealth.PAUSED, PAUSED, ""),
    (PAUSED, [RUNNING], ConnectorHealth.PAUSED, PAUSED, ""),
    (STOPPED, [], ConnectorHealth.STOPPED, STOPPED, ""),
    (RunState.DESTROYED, [], ConnectorHealth.STOPPED, RunState.DESTROYED, ""),
    (RUNNING, [RUNNING, UNASSIGNED], ConnectorHealth.WAITING, UNASSIGNED, ""),
    (UNASSIGNED, [RUNNING], ConnectorHealth.WAITING, UNASSIGNED, ""),
    (RUNNING, [RESTARTING], ConnectorHealth.WAITING, RESTARTING, ""),
    (RUNNING, [RUNNING, NO_SLOT], ConnectorHealth.WAITING, UNASSIGNED, "task 1: Slot 3 cannot start: the disk is full"),
    (RUNNING, [RUNNING, HELD], ConnectorHealth.WAITING, UNASSIGNED, f"task 1: {HELD_TEXT}"),
    (RUNNING, [HELD_FAILED], ConnectorHealth.FAILED, FAILED, f"task 0: {HELD_TEXT}: {CAUSE}"),
    (RUNNING, [RESTARTED], ConnectorHealth.RUNNING, RUNNING, ""),
    (RUNNING, [RUNNING, FOLLOWS], ConnectorHealth.FAILED, FAILED, f"task 1: restart 2 of 5 follows: {CAUSE}"),
    (PAUSED, [PAUSED, FOLLOWS], ConnectorHealth.FAILED, FAILED, f"task 1: restart 2 of 5 follows: {CAUSE}"),
    (
        RUNNING,
        [GIVEN_UP, GIVEN_UP],
        ConnectorHealth.FAILED,
        FAILED,
        f"task 0: given up after 5 restarts: {CAUSE} (and 1 more)",
    ),
    (
        RUNNING,
        [BARRED],
        ConnectorHealth.FAILED,
        FAILED,
        f"task 0: {CAUSE} (not restarted because it is not authorized)",
    ),
    (RUNNING, [SWITCHED_OFF], ConnectorHealth.FAILED, FAILED, f"task 0: {CAUSE}"),
    (RUNNING, [task(FAILED)], ConnectorHealth.FAILED, FAILED, f"task 0: {NO_CAUSE}"),
    (FAILED, [RUNNING], ConnectorHealth.FAILED, FAILED, NO_CAUSE),
    (FAILED, [GIVEN_UP], ConnectorHealth.FAILED, FAILED, f"{NO_CAUSE} (and 1 more)"),
    (RUNNING, [RUNNING, STUCK, UNASSIGNED], ConnectorHealth.DEGRADED, RUNNING, "task 1 stuck: put() hangs"),
    (RUNNING, [STUCK, FOLLOWS], ConnectorHealth.FAILED, FAILED, f"task 1: restart 2 of 5 follows: {CAUSE}"),
    (
        PAUSED,
        [degraded(Condition.STUCK, "put() hangs", state=PAUSED)],
        ConnectorHealth.DEGRADED,
        PAUSED,
        "task 0 stuck: put() hangs",
    ),
    (
        RUNNING,
        [degraded(Condition.LAGGING), STUCK],
        ConnectorHealth.DEGRADED,
        RUNNING,
        "task 1 stuck: put() hangs (and 1 more)",
    ),
    (
        own_degraded(Condition.NO_TASK_CONFIGS, "OSError: the shop is away", 3),
        [],
        ConnectorHealth.DEGRADED,
        RUNNING,
        "no task configs: OSError: the shop is away",
    ),
    (
        own_degraded(Condition.NO_TASK_CONFIGS, "OSError: the shop is away", 3),
        [degraded(Condition.LAGGING), FOLLOWS],
        ConnectorHealth.FAILED,
        FAILED,
        f"task 1: restart 2 of 5 follows: {CAUSE}",
    ),
    (RUNNING, [degraded(Condition.LAGGING)], ConnectorHealth.DEGRADED, RUNNING, "task 0 lagging"),
    (RUNNING, [degraded(Condition.HEALTHY)], ConnectorHealth.RUNNING, RUNNING, ""),
    (
        RUNNING,
        [degraded(Condition.STUCK, "put() hung", state=UNASSIGNED)],
        ConnectorHealth.WAITING,
        UNASSIGNED,
        "",
    ),
]


@pytest.mark.parametrize(("own", "tasks", "health", "state", "why"), CASES)
def test_what_a_connector_is_on_the_whole_and_why(own, tasks, health, state, why):
    view = connector_view(connector("x", own, *tasks))
    assert (view.health, view.state, view.why(NOW_MS, lasted=False)) == (health, state, why)


def test_a_connector_that_failed_itself_says_so_before_its_tasks():
    view = connector_view(connector("x", FAILED, FOLLOWS, trace="Boom"))
    assert view.why(NOW_MS) == "Boom (and 1 more)"
    assert view.own.why(NOW_MS) == "Boom"


def test_what_is_wrong_comes_first_the_worst_of_it_first_and_then_names():
    found = [
        connector("dead", PAUSED, RUNNING, FAILED),
        connector("dying", FAILED),
        connector("hangs", RUNNING, STUCK),
        connector("idles", own_degraded(Condition.NO_TASK_CONFIGS, "OSError: gone", 3)),
        connector("tries", RUNNING, degraded(Condition.RETRYING)),
        connector("unstored", RUNNING, degraded(Condition.NOT_COMMITTING)),
        connector("behind", RUNNING, degraded(Condition.LAGGING)),
        connector("orphan", RUNNING, UNASSIGNED),
        connector("waits", UNASSIGNED),
        connector("a", RUNNING, RUNNING),
        connector("b", RUNNING),
        connector("asleep", PAUSED, PAUSED),
        connector("off", STOPPED),
    ]
    mixed = [connector_view(each) for each in found]
    random.Random(1).shuffle(mixed)
    assert [view.name for view in worst_first(mixed)] == [each.name for each in found]


@pytest.mark.parametrize(
    ("seen", "named", "plain"),
    [
        (STUCK, "stuck for 34 s: put() hangs", "for 34 s: put() hangs"),
        (degraded(Condition.RETRYING, "no route", 12), "retrying for 34 s, 12 failed attempts: no route", None),
        (degraded(Condition.RETRYING, "no route", 1), "retrying for 34 s, 1 failed attempt: no route", None),
        (
            degraded(Condition.NOT_COMMITTING, "no", 2_000),
            "not committing for 34 s, 2,000 failed commits: no",
            None,
        ),
        (degraded(Condition.LAGGING, count=70), "lagging for 34 s", "for 34 s"),
        (degraded(Condition.HEALTHY), "", ""),
        (FOLLOWS, f"restart 2 of 5 follows: {CAUSE}", f"restart 2 of 5 follows: {CAUSE}"),
    ],
)
def test_a_part_says_how_long_it_has_been_degraded_where_a_screen_can_keep_that_current(seen, named, plain):
    part = PartView(0, seen)
    assert part.why(NOW_MS) == named
    if plain is not None:
        assert part.why(NOW_MS, named=False) == plain


def test_since_when_is_known_of_what_is_degraded():
    view = connector_view(connector("x", RUNNING, RUNNING, STUCK))
    assert (view.since_ms, view.running, view.own.since_ms) == (NOW_MS - 34_000, 2, None)


@pytest.mark.parametrize(
    ("restarts", "in_ms", "text"),
    [
        (None, None, ""),
        (Restarts(AutoRestart.WAITING, 1, 5), None, "restart 2 of 5 follows"),
        (Restarts(AutoRestart.WAITING, 1, 5, "once it is resumed"), None, "restart 2 of 5 follows once it is resumed"),
        (Restarts(AutoRestart.WAITING, 1, 5), 300, "restart 2 of 5 in 0.3 s"),
        (Restarts(AutoRestart.WAITING, 1, 5), 9_400, "restart 2 of 5 in 9 s"),
        (Restarts(AutoRestart.WAITING, 1, 5), 20_000, "restart 2 of 5 in 20 s"),
        (Restarts(AutoRestart.WAITING, 1, 5), -3, "restart 2 of 5 is due"),
        (Restarts(AutoRestart.GIVEN_UP, 1, 1), None, "given up after 1 restart"),
        (Restarts(AutoRestart.GIVEN_UP, 5, 5), 3_420_000, "given up after 5 restarts (tried again in 57 min)"),
        (Restarts(AutoRestart.GIVEN_UP, 5, 5), 0, "given up after 5 restarts (tried again now)"),
        (Restarts(AutoRestart.NOT_RESTARTED, 0, 5), None, "not restarted"),
        (
            Restarts(AutoRestart.NOT_RESTARTED, 0, 5, "it is not authorized"),
            None,
            "not restarted because it is not authorized",
        ),
        (Restarts(AutoRestart.RESTARTED, 2, 5), None, "restarted 2 times"),
        (
            Restarts(AutoRestart.HELD_BACK, 1, 5),
            240_000,
            "its worker left the group, which hands it out in 4 min (scheduled.rebalance.max.delay.ms)",
        ),
        (Restarts(AutoRestart.HELD_BACK, 1, 5), None, "its worker left the group (scheduled.rebalance.max.delay.ms)"),
    ],
)
def test_restarts_say_how_many_of_how_many_and_when_the_next_is(restarts, in_ms, text):
    due_ms = None if in_ms is None else NOW_MS + in_ms
    reported = None if restarts is None else replace(restarts, due_ms=due_ms)
    assert restarts_text(reported, NOW_MS) == text
    if reported is not None:
        assert Restarts.from_json(reported.to_json()) == reported
