"""Automatic restarts as a leader decides them: when, how often, which, and when not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kconnect.clock import SystemClock
from kconnect.errors import ConnectError
from kconnect.model import (
    AutoRestart,
    Condition,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    LogRecord,
    Restarts,
    RunState,
    TargetState,
    TaskCondition,
    TaskId,
    TaskState,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.health.views import ConnectorHealth, PartView
from kconnect.runtime.herder.assignment.protocol import MemberState, decode_metadata, encode_metadata
from kconnect.runtime.herder.decisions.auto_restarts import (
    AT_ONCE,
    AutoRestarts,
    Notice,
    NoticeKind,
    budget_of,
    restarts_of,
)
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.events import Claimed, Placed, StatusesRead
from kconnect.runtime.herder.decisions.failures import Failure, NoHelp, failure_of
from kconnect.runtime.herder.decisions.instructions import Announce, Instruction, RestartByPlan, Write
from kconnect.runtime.herder.decisions.writes import ForAutoRestart, PutRestart
from kconnect.runtime.herder.membership import Joining
from kconnect.runtime.herder.queries.restart_views import RestartViews
from kconnect.runtime.storage.config_topic import (
    AutomaticRestart,
    PartRestarts,
    RestartRequested,
    decode,
    encode_restart,
)
from kconnect.runtime.storage.status_topic import Subject
from kit.herder_state import Member
from kit.trace_replay import replay

T0 = TaskId("c", 0)
FAILED_TASK = TaskState(0, RunState.FAILED, "w:1", "the shop has burnt down")
SETTINGS = RestartSettings(max_restarts=2, backoff_ms=1_000, window_ms=600_000)
GONE = Failure("w:1", "the shop has burnt down")
KEYS = {"errors.restart.max": "2", "errors.restart.backoff.ms": "1000", "errors.restart.window.ms": "600000"}
LONG_MS = 1_300
"""After the first back-off, with its spread."""


def leader(tasks: int = 1, **config: str) -> Member:
    member = Member()
    member.connector("c", tasks, **{**KEYS, **{key.replace("_", "."): value for key, value in config.items()}})
    return member.settled(["c"], [TaskId("c", number) for number in range(tasks)])


def fail(member: Member, failure: Failure = GONE, *tasks: TaskId) -> list[Instruction]:
    return member.step(StatusesRead(tuple((task, failure) for task in tasks or (T0,))))


class CountedBudgets:
    """Implements Budgets: counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def settings(self, connector: str) -> RestartSettings:
        self.asked += 1
        return SETTINGS

    def most(self, connector: str) -> int:
        return self.settings(connector).max_restarts

    def why_none(self, connector: str) -> NoHelp | None:
        return None

    def restarts(self, connector: str) -> tuple[PartRestarts, ...]:
        self.asked += 1
        return ()

    def may_run(self, subject: Subject) -> bool:
        self.asked += 1
        return True

    def is_here(self, worker_id: str) -> bool:
        return True


def test_what_no_restart_helps_costs_an_event_nothing_once_it_was_reported() -> None:
    """Each event comes by: of a thousand that lack a class the work grew with the square."""
    restarts, budgets = AutoRestarts(), CountedBudgets()
    for number in range(50):
        restarts.fails(f"c{number}", replace(GONE, no_help=NoHelp.CLASS), 0)
    assert len(restarts.notices(0, budgets)) == 50
    budgets.asked = 0
    assert restarts.notices(1, budgets) == []
    assert restarts.restart(1, budgets) is None
    assert restarts.next_due_ms(1, budgets) is None
    assert budgets.asked == 0


def test_what_waits_for_its_restart_is_weighed_again_when_its_connector_changed_and_not_before() -> None:
    """Each event comes by: a thousand that fail one after the other took the leader 36 s of CPU."""
    restarts, budgets = AutoRestarts(), CountedBudgets()
    for number in range(50):
        restarts.fails(f"c{number}", GONE, 0)
    assert len(restarts.notices(0, budgets)) == 50
    due_ms = restarts.next_due_ms(0, budgets)
    budgets.asked = 0
    assert restarts.notices(1, budgets) == []
    assert restarts.restart(1, budgets) is None
    assert restarts.next_due_ms(1, budgets) == due_ms
    assert budgets.asked == 0
    restarts.weigh_again(lambda name: name == "c7")
    assert restarts.notices(2, budgets) == []
    assert restarts.next_due_ms(2, budgets) == due_ms
    assert 0 < budgets.asked < 10


def test_a_config_that_comes_while_its_task_waits_decides_about_it_and_about_no_other() -> None:
    member = leader()
    member.connector("d", 1, **KEYS)
    member.read()
    fail(member, GONE, T0, TaskId("d", 0))
    member.connector("c", 1, **{**KEYS, "errors.restart.max": "0"})
    assert not restarts(member.read())
    (request,) = restarts(member.wait(LONG_MS))
    assert request.connector == "d"


def test_a_trace_is_read_once_whoever_asks() -> None:
    trace = "Connector c failed: No module named 'x'. Since 2026-01-01 00:00:00 UTC.\n\nTraceback .."
    one, other = failure_of("w:1", trace), failure_of("w:2", trace, 7)
    assert (one.no_help, one.said) == (NoHelp.CLASS, "Connector c failed: No module named 'x'.")
    assert (other.worker_id, other.at_ms) == ("w:2", 7)
    assert one.said is other.said


def stands(member: Member, state: RunState, task: TaskId = T0) -> list[Instruction]:
    return member.step(StatusesRead((), ((task, state),)))


def notices(reported: list[Instruction]) -> list[Notice]:
    return [each.notice for each in reported if isinstance(each, Announce)]


def restarts(reported: list[Instruction]) -> list[RestartRequested]:
    return [each.write.request for each in reported if isinstance(each, Write) and isinstance(each.write, PutRestart)]


def carry_out(member: Member, reported: list[Instruction]) -> list[Instruction]:
    """Write the restart that was decided, and read it back."""
    (write,) = [each for each in reported if isinstance(each, Write)]
    member.store.put_restart_request(write.write.request)
    return [*member.written(write), *member.read()]


def restart(member: Member) -> list[Instruction]:
    """Wait for the restart, and have it carried out."""
    reported = carry_out(member, member.wait(5_000))
    stands(member, RunState.RESTARTING)
    return reported


def test_a_failed_task_is_restarted_after_its_back_off_on_the_worker_that_has_it() -> None:
    member = leader()
    reported = fail(member)
    (notice,) = notices(reported)
    assert (notice.kind, notice.restarts, notice.most, notice.subject) == (NoticeKind.FAILED, 0, 2, T0)
    assert 800 <= notice.restart_in_ms <= 1_200
    assert not restarts(member.wait(700))
    reported = member.wait(600)
    (request,) = restarts(reported)
    assert request.automatic.parts == (0,)
    reported = carry_out(member, reported)
    (plan,) = [each for each in reported if isinstance(each, RestartByPlan)]
    assert plan.request == request
    replay(member.state.trace())


def test_it_has_recovered_once_it_has_run_for_a_while() -> None:
    member = leader()
    fail(member)
    restart(member)
    assert not notices(stands(member, RunState.RUNNING))
    (notice,) = notices(member.wait(1_000))
    assert (notice.kind, notice.restarts) == (NoticeKind.RECOVERED, 1)
    assert not notices(member.wait(100_000))


def test_the_budget_is_used_up_and_full_again_after_the_window() -> None:
    member = leader()
    for count in range(2):
        (notice,) = notices(fail(member))
        assert notice.restarts == count
        restart(member)
    (notice,) = notices(fail(member))
    assert (notice.kind, notice.restarts, notice.said) == (NoticeKind.GIVEN_UP, 2, GONE.said)
    assert not restarts(member.wait(590_000))
    (request,) = restarts(member.wait(15_000))
    assert [each.count for each in request.automatic.restarts] == [1]


def test_what_another_connectors_plugin_ends_costs_no_restart_and_is_never_given_up() -> None:
    member = leader()
    ended = Failure("w:1", "The JVM that runs Java's plugins ended", ended_by="exits-0")
    for _ in range(4):
        (notice,) = notices(fail(member, ended))
        assert (notice.kind, notice.restarts) == (NoticeKind.FAILED, 0)
        assert 800 <= notice.restart_in_ms <= 1_200, "each time after the first pause"
        restart(member)
    (notice,) = notices(fail(member))
    assert (notice.kind, notice.restarts) == (NoticeKind.FAILED, 0), "its own failure is its first"
    replay(member.state.trace())


def test_who_ended_the_jvm_pays_for_it() -> None:
    member = leader()
    for count in range(2):
        (notice,) = notices(fail(member, Failure("w:1", "The JVM ended", ended_by="c-0")))
        assert notice.restarts == count
        restart(member)
    (notice,) = notices(fail(member, Failure("w:1", "The JVM ended", ended_by="c-0")))
    assert notice.kind is NoticeKind.GIVEN_UP


def test_the_next_leader_goes_on_with_the_count_of_the_one_before() -> None:
    member = leader()
    fail(member)
    restart(member)
    fail(member)
    restart(member)
    new = Member()
    new.topic, new.store = member.topic, member.store
    new.now_ms = member.now_ms
    new.settled(["c"], [T0])
    reported = new.step(StatusesRead(((T0, GONE),), is_all=True))
    assert [notice.kind for notice in notices([*reported, *new.wait(10_000)])] == [NoticeKind.GIVEN_UP]
    assert not restarts(new.wait(10_000))


def test_a_follower_that_takes_over_in_a_back_off_makes_the_restarts_that_are_left() -> None:
    """It has seen how the task was restarted, by a leader and not by somebody: that counts."""
    member, heir = leader(), Member(leads=False)
    heir.topic, heir.store, heir.now_ms = member.topic, member.store, member.now_ms
    heir.settled()
    for each in (member, heir):
        fail(each)
    restart(member)
    assert not heir.wait(member.now_ms - heir.now_ms)
    heir.read()
    stands(heir, RunState.RESTARTING)
    for each in (member, heir):
        stands(each, RunState.RUNNING)
        fail(each)
    assert not restarts(member.wait(100)), "it goes before the second one is due"

    heir.lead()
    heir.step(Joining())
    heir.place(["c"], [T0])
    reported = [*heir.step(Claimed()), *heir.step(StatusesRead(((T0, GONE),), is_all=True))]
    assert not restarts(reported), "the back-off is waited out"
    (again,) = restarts(due := heir.wait(5_000))
    assert [each.count for each in again.automatic.restarts] == [2]
    carry_out(heir, due)
    stands(heir, RunState.RESTARTING)
    (notice,) = notices(fail(heir))
    assert (notice.kind, notice.restarts) == (NoticeKind.GIVEN_UP, 2)
    assert not restarts(heir.wait(100_000))


def test_only_the_leader_restarts() -> None:
    member = Member(leads=False)
    member.connector("c", 1, **KEYS)
    member.settled(["c"], [T0])
    assert not fail(member)
    assert not member.wait(100_000)


@pytest.mark.parametrize("how", ["request", "config"])
def test_a_restart_by_request_and_a_new_config_refill_the_budget(how: str) -> None:
    member = leader()
    for _ in range(2):
        fail(member)
        restart(member)
    fail(member)
    if how == "request":
        member.store.put_restart_request(RestartRequested("c", only_failed=True, include_tasks=True))
    else:
        member.connector("c", 1, **KEYS, changed="yes")
    member.read()
    stands(member, RunState.RUNNING)
    (notice,) = notices(fail(member))
    assert (notice.kind, notice.restarts) == (NoticeKind.FAILED, 0)


def test_a_task_that_somebody_restarts_alone_has_a_full_budget() -> None:
    member = leader()
    for _ in range(2):
        fail(member)
        restart(member)
    fail(member)
    member.wait(100_000)
    stands(member, RunState.RUNNING)
    (notice,) = notices(fail(member))
    assert (notice.kind, notice.restarts) == (NoticeKind.FAILED, 0)


@pytest.mark.parametrize("why", [NoHelp.CONFIG, NoHelp.CLASS, NoHelp.RIGHTS])
def test_what_a_restart_does_not_help_stays_failed(why: NoHelp) -> None:
    member = leader()
    (notice,) = notices(fail(member, Failure("w:1", "wrong", why)))
    assert (notice.no_help, notice.restart_in_ms) == (why, None)
    assert not member.wait(100_000)


def test_a_record_that_fails_again_after_a_restart_is_not_tried_a_third_time() -> None:
    member = leader()
    bad = Failure("w:1", "not JSON", record="1234")
    fail(member, bad)
    restart(member)
    (notice,) = notices(fail(member, bad))
    assert (notice.no_help, notice.restart_in_ms) == (NoHelp.RECORD, None)
    assert not restarts(member.wait(100_000))
    stands(member, RunState.RESTARTING)
    assert notices(fail(member, Failure("w:1", "not JSON", record="5678")))[0].restart_in_ms is not None


def test_what_is_paused_stopped_or_deleted_meanwhile_is_left_alone() -> None:
    for end in ("pause", "delete", "fewer tasks"):
        member = leader()
        fail(member)
        if end == "pause":
            member.target("c", TargetState.PAUSED)
        elif end == "delete":
            member.store.remove_connector_config("c")
        else:
            member.store.put_task_configs("c", [])
        reported = [*member.read(), *member.wait(50_000)]
        assert not restarts(reported), end


def test_while_one_of_javas_is_in_the_group_only_who_asks_for_it_is_restarted() -> None:
    for config, expected in (({}, 0), ({"errors_restart_max": "1"}, 1)):
        member = Member()
        member.connector("c", 1, **{key.replace("_", "."): value for key, value in config.items()})
        member.settled(["c"], [T0])
        placed = Placed(
            member.state.facts.assignment, 7, "me", member.snapshot, workers=("java:1", "w:1"), javas=("java:1",)
        )
        member.step(placed)
        member.step(Claimed())
        fail(member)
        assert len(restarts(member.wait(15_000))) == expected


def test_what_failed_on_a_worker_that_is_gone_waits_for_the_rebalance() -> None:
    member = leader()
    member.step(Placed(member.state.facts.assignment, 7, "me", member.snapshot, workers=("w:2",)))
    fail(member)
    assert not restarts(member.wait(100_000))


def test_many_tasks_that_fail_at_once_come_back_a_few_at_a_time() -> None:
    member = leader(40)
    fail(member, GONE, *(TaskId("c", number) for number in range(40)))
    asked: list[int] = []
    reported: list[Instruction] = []
    for _ in range(200):
        reported = [*reported, *member.wait(100)]
        if not restarts(reported):
            continue
        parts = restarts(reported)[0].automatic.parts
        assert len(parts) <= AT_ONCE
        asked += parts
        reported = carry_out(member, reported)
        for part in parts:
            reported += stands(member, RunState.RESTARTING, TaskId("c", part))
            reported += stands(member, RunState.RUNNING, TaskId("c", part))
    assert sorted(asked) == list(range(40))
    replay(member.state.trace())


def test_a_storm_of_one_connector_does_not_keep_another_waiting() -> None:
    member = Member()
    member.connector("c", 40, **KEYS)
    member.connector("other", 1, **KEYS)
    member.settled()
    fail(member, GONE, TaskId("other", 0), *(TaskId("c", number) for number in range(40)))
    names: list[str] = []
    reported: list[Instruction] = []
    while "other" not in names:
        reported = [*reported, *member.wait(100)]
        if restarts(reported):
            request = restarts(reported)[0]
            names.append(request.connector)
            reported = carry_out(member, reported)
            for part in request.automatic.parts:
                reported += stands(member, RunState.RUNNING, TaskId(request.connector, part))
        assert member.now_ms < 4_000, "it is due within 1.2 s, and is not the last"


def test_a_restart_that_could_not_be_written_is_decided_again() -> None:
    member = leader()
    fail(member)
    reported = member.wait(LONG_MS)
    (write,) = [each for each in reported if isinstance(each, Write)]
    assert write.target == ForAutoRestart("c")
    reported = member.written(write, ConnectError("the broker is away"))
    reported += member.wait(LONG_MS)
    assert restarts(reported)


def test_a_restart_that_nobody_carries_out_is_decided_again_later() -> None:
    member = leader()
    fail(member)
    carry_out(member, member.wait(LONG_MS))
    assert not restarts(member.wait(50_000))
    assert member.state.next_due_ms() > member.now_ms
    assert not restarts(member.wait(30_000))
    assert restarts(member.wait(2_500)), "a second back-off later"


def test_settings_of_the_worker_are_defaults_and_0_switches_it_off() -> None:
    settings = RestartSettings.of_worker({"kconnect.errors.restart.max": "7", "group.id": "g"})
    assert settings.of_connector({}).max_restarts == 7
    assert settings.of_connector({"errors.restart.max": "0"}).max_restarts == 0
    assert settings.of_connector({"errors.restart.max": "many"}).max_restarts == 7
    assert settings.of_connector({"errors.restart.backoff.ms": "5"}).backoff_ms == 5
    member = leader(errors_restart_max="0")
    assert notices(fail(member))[0].restart_in_ms is None
    assert not restarts(member.wait(100_000))


def test_the_record_of_an_automatic_restart_is_javas_with_a_field_that_java_does_not_read() -> None:
    wanted = RestartRequested("c", True, True, AutomaticRestart((-1, 2), (PartRestarts(2, 3, 17, "ab"),)))
    key, value = encode_restart(wanted)
    assert json.loads(value).items() >= {"include-tasks": True, "only-failed": True}.items()
    assert decode(LogRecord("configs", 0, 0, key, value)) == wanted
    for broken in ({}, {"parts": [True], "restarts": []}, {"parts": [1], "restarts": [{"part": 1}]}, "x", None):
        body = json.dumps({"include-tasks": True, "only-failed": True, "kconnect.automatic": broken}).encode()
        assert decode(LogRecord("configs", 0, 0, key, body)) == RestartRequested("c", True, True)


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


def test_a_clock_that_is_ahead_puts_nothing_off() -> None:
    member = leader()
    member.step(StatusesRead(((T0, replace(GONE, at_ms=member.now_ms + 3_600_000)),)))
    assert restarts(member.wait(1_200))


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


def test_a_member_knows_from_its_leader_whether_one_of_javas_is_there() -> None:
    for javas, place in ((None, NoHelp.JAVA_LEADS), ((), None), (("j:8083",), NoHelp.JAVA_MEMBER)):
        member = Member(leads=False)
        member.settled(["c"], [T0], javas=javas)
        assert member.state.facts.javas_place is place


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_member_says_that_it_is_ours_behind_what_java_reads(version: int) -> None:
    java = MemberState(version, "http://w:8083/", 7, None)
    ours = replace(java, is_kconnect=True)
    assert encode_metadata(ours).startswith(encode_metadata(java))
    assert decode_metadata(encode_metadata(ours)) == ours
    assert decode_metadata(encode_metadata(java)) == java
