"""Rules for requests: who may do what, what is refused, what waits for a rebalance."""

from __future__ import annotations

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    FencedError,
    NotFoundError,
    WrongWorkerError,
)
from kconnect.model import ConnectorOffset, TargetState, TaskId
from kconnect.runtime.herder.decisions.events import Asked, Claimed, FirstOffsetsWritten, GivenUp, StopAsked
from kconnect.runtime.herder.decisions.instructions import (
    Complete,
    FenceZombies,
    ModifyOffsets,
    Redirect,
    Refuse,
    Restart,
    Write,
    WriteFirstOffsets,
)
from kconnect.runtime.herder.decisions.requests import (
    AskFence,
    AskOffsets,
    AskPut,
    AskRemove,
    AskRestart,
    AskRestartByPlan,
    AskStop,
    AskTaskCount,
    AskTasks,
)
from kconnect.runtime.herder.decisions.writes import (
    PutConfig,
    PutRestart,
    PutStopped,
    PutTaskCount,
    PutTasks,
    RemoveConfig,
)
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.config_topic import RestartRequested
from kit.herder_state import LEADER_URL, Member, kinds, of

C, T0, T1 = "fsrc", TaskId("fsrc", 0), TaskId("fsrc", 1)
CONFIG = {"name": C, "connector.class": "source"}
PLAN = RestartRequested(C, only_failed=False, include_tasks=True)
OF_LEADERS = [
    AskPut(C, CONFIG, None, replace=True),
    AskRemove(C),
    AskStop(C),
    AskRestartByPlan(PLAN),
    AskTasks(C, [{}]),
    AskFence(C),
    AskTaskCount(C, 2, 0),
    AskOffsets(C, None),
]


def member_with(*, leads: bool = True, connectors=(C,), tasks=(T0,)) -> Member:
    member = Member(leads=leads)
    member.connector(C, tasks=2)
    return member.settled(connectors, tasks)


def refusal(reported) -> ConnectError:
    return of(Refuse, reported).error


def test_a_new_connector_is_written_and_the_asker_reported_that_it_is_new():
    member = Member().settled()
    write = of(Write, member.ask(AskPut(C, CONFIG, TargetState.PAUSED, replace=False)))
    assert write.write == PutConfig(C, CONFIG, TargetState.PAUSED)
    assert member.written(write) == [Complete(1, True)]


def test_a_new_connector_is_started_though_a_pause_of_a_deleted_one_of_its_name_came_late():
    member = member_with()
    member.store.remove_connector_config(C)
    member.store.put_target_state(C, TargetState.PAUSED)
    member.read()
    write = of(Write, member.ask(AskPut(C, CONFIG, None, replace=True)))
    assert write.write == PutConfig(C, CONFIG, TargetState.STARTED)


def test_a_change_of_a_paused_connector_leaves_it_paused():
    member = member_with()
    member.store.put_target_state(C, TargetState.PAUSED)
    member.read()
    assert of(Write, member.ask(AskPut(C, CONFIG, None, replace=True))).write == PutConfig(C, CONFIG, None)


def test_a_changed_connector_is_not_new():
    member = member_with()
    assert member.written(of(Write, member.ask(AskPut(C, CONFIG, None, replace=True)))) == [Complete(1, False)]


def test_a_name_that_is_taken_is_refused():
    error = refusal(member_with().ask(AskPut(C, CONFIG, None, replace=False)))
    assert isinstance(error, AlreadyExistsError)
    assert str(error) == "Connector fsrc already exists"


def test_of_two_creates_of_one_name_the_second_sees_the_first():
    member = Member().settled()
    write = of(Write, member.ask(AskPut(C, CONFIG, None, replace=False)))
    assert member.ask(AskPut(C, CONFIG, None, replace=False)) == []
    member.connector(C)
    reported = member.written(write)
    assert kinds(reported) == ["Complete", "Refuse"]
    assert isinstance(refusal(reported), AlreadyExistsError)


def test_a_patch_of_a_config_that_was_changed_meanwhile_is_refused_and_made_anew():
    member = member_with()
    patch = AskPut(C, {**CONFIG, "a": "1"}, None, replace=True, patch_of={"name": C, "other": "x"})
    assert isinstance(refusal(member.ask(patch)), ConflictError)
    same = AskPut(C, {**CONFIG, "a": "1"}, None, replace=True, patch_of=dict(member.snapshot.configs[C]))
    assert of(Write, member.ask(same))


@pytest.mark.parametrize("request_", OF_LEADERS, ids=lambda request: type(request).__name__)
def test_a_follower_sends_what_only_leaders_may_do_to_the_leader(request_):
    error = refusal(member_with(leads=False).ask(request_))
    assert isinstance(error, WrongWorkerError)
    assert error.url == LEADER_URL


@pytest.mark.parametrize("request_", OF_LEADERS[1:], ids=lambda request: type(request).__name__)
def test_an_unknown_connector_is_not_found(request_):
    error = refusal(Member().settled().ask(request_))
    assert isinstance(error, NotFoundError)
    assert C in str(error)


@pytest.mark.parametrize(
    ("request_", "write"),
    [
        (AskRemove(C), RemoveConfig(C)),
        (AskStop(C), PutStopped(C)),
        (AskRestartByPlan(PLAN), PutRestart(PLAN)),
        (AskTasks(C, [{"n": "1"}]), PutTasks(C, [{"n": "1"}])),
        (AskTaskCount(C, 2, 0), PutTaskCount(C, 2, 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_leader_decides_is_written_and_answered_when_it_was_read_back(request_, write):
    member = member_with()
    found = of(Write, member.ask(request_))
    assert found.write == write
    assert Complete(1, False) in member.written(found)


def test_tasks_that_come_late_to_a_stopped_connector_are_refused_but_its_end_is_not():
    member = member_with()
    member.store.put_target_state(C, TargetState.STOPPED)
    member.read()
    error = refusal(member.ask(AskTasks(C, [{"n": "1"}])))
    assert isinstance(error, BadRequestError)
    assert str(error) == f"Cannot submit non-empty set of task configs for stopped connector {C}"
    assert of(Write, member.ask(AskTasks(C, []))).write == PutTasks(C, [])


def test_a_write_that_failed_is_asked_to_who_asked_for_it():
    member = member_with()
    write = of(Write, member.ask(AskRemove(C)))
    error = ConnectError("Error writing to topic")
    assert member.written(write, error) == [Refuse(1, error)]


def test_a_leader_that_was_fenced_off_refuses_claims_anew_and_goes_on():
    member = member_with()
    write = of(Write, member.ask(AskRemove(C)))
    reported = member.written(write, FencedError("fenced"))
    assert kinds(reported) == ["Refuse", "Claim"]
    assert isinstance(refusal(reported), ConflictError)
    assert member.ask(AskRemove(C)) == []
    assert kinds(member.step(Claimed())) == ["Write"]


@pytest.mark.parametrize("request_", [OF_LEADERS[0], AskRestart(T0)], ids=["put", "restart"])
def test_a_request_that_meets_a_rebalance_waits_for_its_end(request_):
    member = member_with()
    member.step(Joining())
    assert member.ask(request_) == []
    reported = [*member.place(), *member.step(Claimed())]
    assert {"Write", "Restart"} & set(kinds(reported))


def test_a_request_that_waited_goes_to_the_leader_that_the_rebalance_made():
    member = member_with()
    member.step(Joining())
    member.ask(AskRemove(C))
    member._leader = "other"
    assert refusal(member.place()).url == LEADER_URL


def test_a_leader_writes_while_a_rebalance_is_only_expected():
    member = member_with()
    member.connector("new")
    member.read()
    assert kinds(member.ask(AskPut("more", {"name": "more"}, None, replace=False))) == ["Write"]


def test_a_request_nobody_waits_for_any_more_is_not_carried_out():
    member = member_with()
    member.step(Joining())
    member.step(Asked(7, AskRemove(C)))
    member.step(GivenUp(7))
    assert "Write" not in kinds([*member.place(), *member.step(Claimed())])


def test_requests_are_answered_in_the_order_they_came():
    member = member_with()
    member.step(Joining())
    for number in (3, 4):
        member.step(Asked(number, AskRestart(T0)))
    assert [reported.id for reported in member.place() if isinstance(reported, Restart)] == [3, 4]


def test_a_connector_or_task_here_is_restarted_here():
    member = member_with(leads=False)
    assert of(Restart, member.ask(AskRestart(C))).subject == C
    assert of(Restart, member.ask(AskRestart(T0))).subject == T0


def test_a_follower_sends_the_restart_of_what_is_elsewhere_to_the_leader():
    member = member_with(leads=False, connectors=())
    for subject, reported in (
        (C, "Only the leader can process restart requests."),
        (T1, "Cannot restart task since it is not assigned to this member"),
    ):
        error = refusal(member.ask(AskRestart(subject)))
        assert isinstance(error, WrongWorkerError)
        assert (str(error), error.url) == (reported, LEADER_URL)


def test_the_leader_sends_the_restart_of_what_is_elsewhere_to_its_owner():
    assert of(Redirect, member_with().ask(AskRestart(T1))).subject == T1


def test_the_restart_of_what_nobody_has_is_not_found():
    assert str(refusal(member_with().ask(AskRestart("none")))) == "Unknown connector: none"
    assert str(refusal(member_with().ask(AskRestart(TaskId(C, 9))))) == "Unknown task: fsrc-9"


def test_the_restart_of_a_task_elsewhere_waits_for_an_expected_rebalance_though_its_connector_is_here():
    member = member_with()
    member.connector("new")
    member.read()
    assert member.ask(AskRestart(T1)) == []
    assert kinds(member.ask(AskRestart(C))) == ["Restart"]
    member.wait(100)
    member.step(Joining())
    assert of(Redirect, [*member.place(), *member.step(Claimed())]).subject == T1


def test_a_connector_restarted_with_a_config_is_not_restarted_for_the_news_of_it():
    member = member_with()
    write = of(Write, member.ask(AskPut(C, CONFIG, None, replace=True)))
    member.connector(C, topic="other")
    member.written(write)
    restart = of(Restart, member.ask(AskRestart(C)))
    assert restart.snapshot.raw_config(C)["topic"] == "other"
    assert member.read() == []


def test_the_restart_of_a_connector_that_is_not_placed_yet_waits_for_that():
    member = Member().settled()
    member.connector(C)
    member.read()
    assert member.ask(AskRestart(C)) == []
    member.wait(100)
    member.step(Joining())
    assert "Restart" in kinds(member.place([C]))


def test_offsets_change_for_a_stopped_connector_without_tasks_only():
    member = member_with()
    assert isinstance(refusal(member.ask(AskOffsets(C, None))), BadRequestError)
    member.target(C, TargetState.STOPPED)
    member.read()
    assert isinstance(refusal(member.ask(AskOffsets(C, None))), BadRequestError)
    member.store.remove_task_configs(C)
    member.read()
    assert member.ask(AskOffsets(C, None)) == []
    assert "RequestRejoin" in kinds(member.wait(100))
    member.step(Joining())
    assert of(ModifyOffsets, [*member.place(), *member.step(Claimed())]).connector == C


def test_offsets_wait_for_the_rebalance_that_stops_the_tasks_even_before_its_news_is_read():
    member = member_with()
    write = of(Write, member.ask(AskStop(C)))
    member.store.remove_task_configs(C)
    member.target(C, TargetState.STOPPED)
    assert kinds(member.written(write)) == ["Complete"]
    assert member.ask(AskOffsets(C, None)) == [], "tasks elsewhere still run, and commit"
    assert "ModifyOffsets" not in kinds(member.read())


def test_offsets_of_one_connector_do_not_wait_for_a_rebalance_of_others():
    member = member_with(tasks=())
    member.store.remove_task_configs(C)
    member.target(C, TargetState.STOPPED)
    member.read()
    member.wait(100)
    member.step(Joining())
    member.place()
    member.step(Claimed())
    member.connector("new")
    assert member.read() == []
    assert kinds(member.ask(AskOffsets(C, None))) == ["ModifyOffsets"]


def test_the_leader_fences_off_former_tasks_for_who_asks():
    assert member_with().ask(AskFence(C)) == [FenceZombies(1, C)]


def test_a_member_without_a_leader_says_so_to_who_asked_when_it_knows():
    member = member_with(leads=False)
    member.step(Lost("session timed out"))
    assert member.ask(AskRemove(C)) == []
    error = refusal(member.step(StopAsked()))
    assert str(error) == "Worker is shutting down"


def test_a_stopped_worker_refuses_at_once():
    member = member_with()
    member.step(StopAsked())
    assert isinstance(refusal(member.ask(AskRemove(C))), ConflictError)


def creating(member: Member, name: str = "new") -> WriteFirstOffsets:
    offsets = (ConnectorOffset({"f": "x"}, {"n": 1}),)
    (reported,) = member.ask(AskPut(name, {"name": name}, None, replace=False, offsets=offsets))
    assert isinstance(reported, WriteFirstOffsets)
    assert reported.offsets == offsets
    return reported


def test_first_offsets_are_written_before_the_config():
    member = member_with()
    first = creating(member)
    write = of(Write, member.step(FirstOffsetsWritten(first.id, "done")))
    assert write.write == PutConfig("new", {"name": "new"}, None)
    assert Complete(first.id, "done") in member.written(write)


def test_no_config_is_written_when_first_offsets_are_refused_or_nobody_waits():
    member = member_with()
    first, error = creating(member), BadRequestError("wrong")
    assert member.step(FirstOffsetsWritten(first.id, error=error)) == [Refuse(first.id, error)]
    again = creating(member)
    member.step(GivenUp(again.id))
    assert member.step(FirstOffsetsWritten(again.id, "done")) == []


def test_a_name_is_taken_while_its_first_offsets_are_written():
    member = member_with()
    first = creating(member)
    assert member.ask(AskPut("new", {"name": "new"}, None, replace=False)) == []
    assert of(Write, member.ask(AskPut("other", {"name": "other"}, None, replace=False)))
    refused = [reported.id for reported in member.step(StopAsked()) if isinstance(reported, Refuse)]
    assert first.id in refused
    assert member.step(FirstOffsetsWritten(first.id, "done")) == []


def test_first_offsets_need_a_new_name_and_a_leader():
    member = member_with()
    offsets = (ConnectorOffset({"f": "x"}, {"n": 1}),)
    (refused,) = member.ask(AskPut(C, CONFIG, None, replace=False, offsets=offsets))
    assert isinstance(refused.error, AlreadyExistsError)
    follower = member_with(leads=False)
    (redirected,) = follower.ask(AskPut("new", {"name": "new"}, None, replace=False, offsets=offsets))
    assert isinstance(redirected.error, WrongWorkerError)
