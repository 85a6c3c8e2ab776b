"""Automatic restarts as a leader decides them: when, how often, which, and when not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kconnect.errors import ConnectError
from kconnect.model import (
    LogRecord,
    RunState,
    TargetState,
    TaskId,
)
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.assignment.protocol import MemberState, decode_metadata, encode_metadata
from kconnect.runtime.herder.decisions.auto_restarts import (
    AT_ONCE,
    Notice,
    NoticeKind,
)
from kconnect.runtime.herder.decisions.events import Claimed, Placed, StatusesRead
from kconnect.runtime.herder.decisions.failures import Failure, NoHelp
from kconnect.runtime.herder.decisions.instructions import Announce, Instruction, RestartByPlan, Write
from kconnect.runtime.herder.decisions.writes import ForAutoRestart
from kconnect.runtime.herder.membership import Joining
from kconnect.runtime.storage.config_topic import (
    AutomaticRestart,
    PartRestarts,
    RestartRequested,
    decode,
    encode_restart,
)
from kit.failing_member import GONE, KEYS, LONG_MS, T0, fail, leader, restarts, stands
from kit.herder_state import Member
from kit.trace_replay import replay


def notices(reported: list[Instruction]) -> list[Notice]:
    return [each.notice for each in reported if isinstance(each, Announce)]


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


def test_a_clock_that_is_ahead_puts_nothing_off() -> None:
    member = leader()
    member.step(StatusesRead(((T0, replace(GONE, at_ms=member.now_ms + 3_600_000)),)))
    assert restarts(member.wait(1_200))


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
