"""Rules for changes of the config topic: what restarts here, and when the group rebalances."""

from __future__ import annotations

import pytest

from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.events import ValuesChanged
from kconnect.runtime.herder.decisions.instructions import (
    ApplyLogLevel,
    RestartByPlan,
    RestartHere,
    SetTarget,
    StartWork,
    StopWork,
)
from kconnect.runtime.herder.membership import Joining
from kconnect.runtime.storage.config_topic import RestartRequested
from kit.herder_state import Member, kinds, of

C, T0, T1 = "fsrc", TaskId("fsrc", 0), TaskId("fsrc", 1)


def member_with_all(**how: bool) -> Member:
    member = Member(**how)
    member.connector(C, tasks=2)
    return member.settled([C], [T0, T1])


def test_a_new_connector_brings_one_rebalance_after_a_quiet_while():
    member = Member().settled()
    member.connector("a")
    assert member.read() == []
    assert member.wait(99) == []
    assert kinds(member.wait(1)) == ["RequestRejoin"]


def test_changes_that_follow_each_other_are_one_rebalance():
    member = Member().settled()
    for number in range(9):
        member.connector(f"c{number}")
        assert member.read() == []
        assert member.wait(60) == []
    assert kinds(member.wait(100)) == ["RequestRejoin"]


def test_changes_without_end_are_placed_after_the_longest_quiet_while():
    member = Member().settled()
    reported = []
    for number in range(20):
        member.connector(f"c{number}")
        reported += [*member.read(), *member.wait(60)]
    assert kinds(reported) == ["RequestRejoin"]


def test_a_rebalance_of_another_member_that_knows_the_change_is_enough():
    member = Member(leads=False).settled()
    member.connector("a")
    member.read()
    member.step(Joining())
    member.place(["a"])
    assert member.wait(5_000) == []


def test_another_config_restarts_a_connector_here_and_needs_no_rebalance():
    member = member_with_all()
    member.connector(C, topic="other")
    reported = member.read()
    assert of(StopWork, reported).work == of(StartWork, reported).work == Work((C,))
    assert member.wait(5_000) == []


def test_another_config_of_a_connector_elsewhere_does_nothing_here():
    member = Member()
    member.connector(C)
    member.settled()
    member.connector(C, topic="other")
    assert member.read() == []


def test_a_change_while_the_group_rebalances_waits_for_its_end():
    member = member_with_all(leads=False)
    member.step(Joining())
    reported = member.snapshot
    member.connector(C, topic="other")
    assert member.read() == []
    offset = reported.offset
    found = member.place(offset=offset, reported=reported)
    assert kinds(found) == ["TakeGeneration", "StopWork", "StartWork"]
    assert of(StartWork, found).snapshot.raw_config(C)["topic"] == "other"


def test_other_task_configs_stop_tasks_before_the_group_joins_and_start_them_after():
    member = member_with_all(leads=False)
    member.store.put_task_configs(C, [{"n": "9"}, {"n": "8"}])
    assert member.read() == []
    reported = member.wait(100)
    assert kinds(reported) == ["StopWork", "RequestRejoin"]
    assert of(StopWork, reported).work == Work((), (T0, T1))
    member.step(Joining())
    assert of(StartWork, member.place()).work == Work((), (T0, T1))


def test_tasks_with_other_configs_also_stop_for_a_rebalance_that_another_member_began():
    member = member_with_all(leads=False)
    member.store.put_task_configs(C, [{"n": "9"}, {"n": "8"}])
    member.read()
    assert of(StopWork, member.step(Joining())).work == Work((), (T0, T1))


def test_a_deleted_connector_stops_at_once_and_is_placed_away():
    member = member_with_all(leads=False)
    member.store.remove_connector_config(C)
    assert of(StopWork, member.read()).work == Work((C,), (T0, T1))
    assert kinds(member.wait(100)) == ["RequestRejoin"]


def test_a_connector_deleted_and_made_again_at_once_starts_anew():
    member = member_with_all(leads=False)
    member.store.remove_connector_config(C)
    member.connector(C, topic="new")
    assert of(StopWork, member.read()).work == Work((C,), (T0, T1))
    member.wait(100)
    member.step(Joining())
    started = of(StartWork, member.place(revoked=Work((), (T0, T1))))
    assert started.work == Work((C,))


def test_another_target_state_reaches_what_runs_here():
    member = member_with_all(leads=False)
    member.target(C, TargetState.PAUSED)
    assert of(SetTarget, member.read()) == SetTarget(C, TargetState.PAUSED, Work((C,), (T0, T1)))


def test_the_target_state_of_a_connector_elsewhere_reaches_its_tasks_here():
    member = Member(leads=False)
    member.connector(C, tasks=2)
    member.settled([], [T1])
    member.target(C, TargetState.PAUSED)
    assert of(SetTarget, member.read()).here == Work((), (T1,))


def test_a_stop_is_for_the_connector_its_tasks_go_by_their_commit():
    member = member_with_all(leads=False)
    member.store.remove_task_configs(C)
    member.target(C, TargetState.STOPPED)
    assert of(SetTarget, member.read()) == SetTarget(C, TargetState.STOPPED, Work((C,)))
    assert of(StopWork, member.wait(100)).work == Work((), (T0, T1))


def test_a_target_state_of_nobody_is_passed_over():
    member = Member(leads=False).settled()
    member.target("none", TargetState.PAUSED)
    assert member.read() == []


def test_a_logger_takes_its_level_even_while_the_group_rebalances():
    member = member_with_all(leads=False)
    member.step(Joining())
    member.store.put_logger_level("kconnect", "DEBUG")
    assert member.read() == [ApplyLogLevel("kconnect", "DEBUG")]


def test_a_restart_request_restarts_the_share_of_this_worker():
    member = Member(leads=False)
    member.connector(C, tasks=2)
    member.settled([], [T1])
    member.store.put_restart_request(RestartRequested(C, only_failed=False, include_tasks=True))
    assert of(RestartByPlan, member.read()).here == Work((), (T1,))


def test_what_is_here_of_a_connector_restarts_when_what_its_config_refers_to_has_changed():
    member = Member(leads=False)
    member.connector(C, tasks=2)
    member.settled([], [TaskId(C, 1)])
    reported = of(RestartHere, member.step(ValuesChanged(C, "a password changed")))
    assert (reported.connector, reported.here) == (C, Work((), (TaskId(C, 1),)))
    member.step(Joining())
    assert member.step(ValuesChanged(C, "a password changed")) == [], "work does not move in a rebalance"
    assert of(RestartHere, member.place()).here == Work((), (TaskId(C, 1),))


def test_values_that_change_while_the_work_goes_elsewhere_restart_nothing_here():
    member = Member(leads=False)
    member.connector(C, tasks=1)
    member.settled([C], [TaskId(C, 0)])
    member.step(Joining())
    member.step(ValuesChanged(C, "a password changed"))
    reported = member.place(revoked=Work((C,), (TaskId(C, 0),)))
    member.step(Joining())
    assert "RestartHere" not in kinds([*reported, *member.place()])


def test_of_two_restart_requests_the_one_with_the_larger_effect_counts():
    member = member_with_all(leads=False)
    small, large = RestartRequested(C, True, False), RestartRequested(C, False, True)
    for request in (small, large, small):
        member.store.put_restart_request(request)
    assert of(RestartByPlan, member.read()).request == large


def test_restart_requests_of_several_connectors_are_carried_out_once_each():
    member = Member(leads=False)
    for name in ("a", "b"):
        member.connector(name)
    member.settled(["a", "b"])
    member.step(Joining())
    for name in ("a", "b", "a"):
        member.store.put_restart_request(RestartRequested(name, False, False))
    member.read()
    assert [reported.request.connector for reported in member.place() if isinstance(reported, RestartByPlan)] == [
        "a",
        "b",
    ]
    assert member.wait(5_000) == []


@pytest.mark.parametrize(
    ("here", "restarted"),
    [
        (([], []), None),
        (([C], []), Work((C,))),
        (([], [T1]), Work((), (T1,))),
        (([C], [T0, T1]), Work((C,), (T0, T1))),
    ],
    ids=["nothing", "connector", "tasks", "both"],
)
def test_a_restart_request_is_for_what_is_here(here, restarted):
    member = Member(leads=False)
    member.connector(C, tasks=2)
    member.settled(*here)
    member.store.put_restart_request(RestartRequested(C, False, True))
    assert [reported.here for reported in member.read()] == ([] if restarted is None else [restarted])


def test_a_restart_request_that_meets_a_rebalance_is_carried_out_after_it():
    member = member_with_all(leads=False)
    member.step(Joining())
    member.store.put_restart_request(RestartRequested(C, False, True))
    assert member.read() == []
    assert "RestartByPlan" in kinds(member.place())


def test_a_restart_request_for_what_is_not_here_does_nothing():
    member = Member(leads=False)
    member.connector(C)
    member.settled()
    member.store.put_restart_request(RestartRequested(C, False, True))
    assert member.read() == []
