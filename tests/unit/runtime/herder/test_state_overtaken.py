"""Snapshots of configs are quicker than the news of what is in them: of a member that reads on they come after it."""

from __future__ import annotations

import pytest

from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.decisions.instructions import StartWork, StopWork
from kconnect.runtime.herder.membership import Joining
from kit.herder_state import Member, kinds, of

C, T0, T1 = "fsrc", TaskId("fsrc", 0), TaskId("fsrc", 1)


def joining(*, connectors=(C,), tasks=(T0, T1), version: int = 2) -> Member:
    """A follower that runs this and is about to join again."""
    member = Member(leads=False, version=version)
    member.connector(C, tasks=2)
    member.settled(connectors, tasks)
    member.step(Joining())
    return member


def caught_up(member: Member, *connectors: str, tasks=(), **how) -> list:
    """Work is placed with configs of which the member had not read the last ones when it joined; it reads on."""
    behind = how.pop("behind")
    assert "CatchUp" in kinds(member.place(connectors, tasks, reported=behind, **how))
    return member.caught_up()


def test_a_member_that_caught_up_stops_tasks_with_older_configs_and_starts_them_with_these():
    member = joining()
    behind = member.snapshot
    member.store.put_task_configs(C, [{"n": "9"}, {"n": "8"}])
    assert caught_up(member, behind=behind) == []
    reported = member.read()
    assert of(StopWork, reported).work == of(StartWork, reported).work == Work((), (T0, T1))
    assert of(StartWork, reported).snapshot.raw_task_config(T0) == {"n": "9"}
    assert member.wait(5_000) == [], "the group has placed them: no rebalance is needed"


def test_a_member_that_caught_up_restarts_a_connector_with_an_older_config():
    member = joining(tasks=())
    behind = member.snapshot
    member.store.put_connector_config(C, {"name": C, "topic": "other"})
    assert caught_up(member, behind=behind) == []
    reported = member.read()
    assert kinds(reported) == ["StopWork", "StartWork"]
    assert of(StartWork, reported).snapshot.raw_config(C)["topic"] == "other"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_was_started_with_a_config_is_not_started_again_for_the_news_of_it(version):
    member = joining(connectors=(), tasks=(), version=version)
    behind = member.snapshot
    member.connector("new", tasks=1)
    task = TaskId("new", 0)
    reported = caught_up(member, "new", tasks=[task], behind=behind)
    assert of(StartWork, reported).work == Work(("new",), (task,))
    assert member.read() == []
    assert member.wait(5_000) == []
    stopped = [reported.work for reported in member.step(Joining()) if isinstance(reported, StopWork)]
    assert stopped == ([Work(("new",), (task,))] if version == 0 else []), "an eager rebalance stops all anyway"


def test_tasks_started_with_their_configs_run_through_the_next_rebalance():
    member = joining(connectors=(), tasks=())
    behind = member.snapshot
    member.store.put_task_configs(C, [{"n": "9"}, {"n": "8"}])
    assert of(StartWork, caught_up(member, tasks=[T0], behind=behind)).work == Work((), (T0,))
    assert member.read() == []
    assert member.step(Joining()) == []
    assert kinds(member.place()) == ["TakeGeneration"]


def test_a_connector_made_again_is_not_stopped_for_the_news_that_the_former_one_was_deleted():
    member = joining(connectors=(), tasks=())
    behind = member.snapshot
    member.store.remove_connector_config(C)
    member.connector(C, tasks=1)
    assert of(StartWork, caught_up(member, C, tasks=[T0], behind=behind)).work == Work((C,), (T0,))
    assert member.read() == []
    assert C in member.state.facts.running_connectors


def test_a_connector_that_was_deleted_and_made_again_meanwhile_starts_anew():
    member = joining(tasks=(T0,))
    behind = member.snapshot
    member.store.remove_connector_config(C)
    member.connector(C, tasks=1, topic="new")
    caught_up(member, behind=behind)
    reported = member.read()
    assert of(StopWork, reported).work == of(StartWork, reported).work == Work((C,), (T0,))
    assert of(StartWork, reported).snapshot.raw_config(C)["topic"] == "new"


def test_changes_from_after_the_assignment_still_wait_for_the_next_one():
    member = joining(connectors=(), tasks=(T0,))
    behind = member.snapshot
    member.store.put_task_configs(C, [{"n": "9"}, {"n": "8"}])
    assert caught_up(member, behind=behind) == []
    member.store.put_task_configs(C, [{"n": "7"}, {"n": "6"}])
    reported = member.read()
    assert of(StartWork, reported).snapshot.raw_task_config(T0) == {"n": "9"}, "as the group knows it"
    assert kinds(member.wait(100)) == ["StopWork", "RequestRejoin"]


def test_a_target_state_read_while_catching_up_reaches_what_runs_here():
    member = joining()
    behind = member.snapshot
    member.target(C, TargetState.PAUSED)
    assert caught_up(member, behind=behind) == []
    assert kinds(member.read()) == ["SetTarget"]
