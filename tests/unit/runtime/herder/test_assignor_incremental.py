"""Rules of incremental cooperative assignment (KIP-415), one by one."""

from __future__ import annotations

import pytest

from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.assignment.work_set import WorkSet
from kit.simulated_group import SimulatedGroup

DELAY_MS = 300_000


@pytest.fixture
def group():
    """Three members, settled, with four connectors of three tasks."""
    group = SimulatedGroup(["m1", "m2", "m3"], {f"c{n}": 3 for n in range(4)}, max_delay_ms=DELAY_MS)
    group.settle(3)
    return group


def delays(plan):
    return {assignment.delay_ms for assignment in plan.assignments.values()}


def revoked(plan):
    return {name for name, assignment in plan.assignments.items() if assignment.revoked}


def test_work_of_a_lost_member_waits_and_all_are_reported_how_long(group):
    lost = group.running()["m3"]
    group.leave("m3")
    plan = group.round()
    assert delays(plan) == {DELAY_MS}
    assert {assignment.held for assignment in plan.assignments.values()} == {WorkSet.of_all([lost]).sorted()}
    assert not any(assignment.work for assignment in plan.assignments.values())
    assert plan.owner_url(lost.tasks[0]) is None


def test_rounds_while_work_waits_tell_the_time_that_is_left(group):
    group.leave("m3")
    group.round()
    group.now_ms += 100_000
    assert delays(group.round()) == {200_000}
    group.now_ms += 199_999
    assert delays(group.round()) == {1}


def test_work_that_nobody_came_back_for_is_spread_when_the_delay_is_over(group):
    lost = group.running()["m3"]
    group.leave("m3")
    group.round()
    group.now_ms += DELAY_MS
    plan = group.round()
    assert delays(plan) == {0}
    given_now = [task for assignment in plan.assignments.values() for task in assignment.work.tasks]
    assert sorted(given_now) == sorted(lost.tasks)
    assert [len(assignment.work.tasks) for assignment in plan.assignments.values()] == [2, 2]


def test_a_worker_that_is_back_at_its_url_gets_its_work_at_once_and_others_are_waited_for(group):
    lost, other = group.running()["m3"], group.running()["m2"]
    group.leave("m3")
    group.leave("m2")
    assert delays(group.round()) == {DELAY_MS}
    group.now_ms += 1_000
    group.members["m3-again"] = None
    group.urls["m3-again"] = "http://m3/"
    plan = group.round()
    assert set(plan.assignments["m3-again"].work.tasks) == set(lost.tasks)
    assert delays(plan) == {DELAY_MS - 1_000}
    assert plan.owner_url(other.tasks[0]) is None
    group.members["m2-again"] = None
    group.urls["m2-again"] = "http://m2/"
    plan = group.round()
    assert set(plan.assignments["m2-again"].work.tasks) == set(other.tasks)
    assert delays(plan) == {0}
    assert group.settle(1) == 1


def test_the_only_worker_of_a_group_does_not_wait_for_itself():
    group = SimulatedGroup(["m1"], {"c": 3}, max_delay_ms=DELAY_MS)
    group.settle(2)
    work, memory = group.running()["m1"], (group.last_generation, group._assignor)
    group.leave("m1")  # it was cut off for longer than its session
    group.members["m1-again"] = None
    group.urls["m1-again"] = "http://m1/"
    group._leader, (group.last_generation, group._assignor) = "m1-again", memory  # the same process, with its memory
    plan = group.round()
    assert set(plan.assignments["m1-again"].work.tasks) == set(work.tasks)
    assert delays(plan) == {0}


def test_work_that_went_to_others_meanwhile_is_not_taken_from_them(group):
    group.leave("m3")
    group.round()
    group.now_ms += DELAY_MS
    group.round()
    group.members["m3-again"] = None
    group.urls["m3-again"] = "http://m3/"
    plan = group.round()
    assert not plan.assignments["m3-again"].work
    group.settle(4)
    assert [len(work.tasks) for work in group.running().values()] == [4, 4, 4]


def test_connectors_created_while_work_waits_are_assigned_at_once(group):
    group.leave("m3")
    group.round()
    group.connectors["new"] = 2
    plan = group.round()
    given_now = {task for assignment in plan.assignments.values() for task in assignment.work.tasks}
    assert given_now == {TaskId("new", 0), TaskId("new", 1)}


def test_lost_work_of_a_connector_deleted_meanwhile_is_not_waited_for(group):
    group.connectors = {"c0": 1}
    group.settle(5)
    (owner,) = [name for name, work in group.running().items() if work.tasks]
    if owner == group.leader:
        group.members = dict(reversed(group.members.items()))
        group.round()
    group.leave(owner)
    assert delays(group.round()) == {DELAY_MS}
    group.connectors = {}
    assert delays(group.round()) == {0}


def test_without_a_delay_lost_work_goes_on_at_once():
    group = SimulatedGroup(["m1", "m2", "m3"], {"c": 6}, max_delay_ms=0)
    group.settle(3)
    group.leave("m3")
    group.round()
    assert sorted(task for work in group.running().values() for task in work.tasks) == [
        TaskId("c", number) for number in range(6)
    ]


def test_an_assignment_that_did_not_arrive_is_given_again_without_delay(group):
    group.connectors["new"] = 3
    lost = group.round(missed_by=["m2"]).assignments["m2"].work
    assert lost.tasks
    plan = group.round()
    assert delays(plan) == {0}
    assert {task for assignment in plan.assignments.values() for task in assignment.work.tasks} == set(lost.tasks)


def test_a_revocation_that_did_not_arrive_is_made_again(group):
    group.members["m4"] = None
    first = group.round(missed_by=["m1", "m2", "m3"])
    assert revoked(first) == {"m1", "m2", "m3"}
    group.now_ms += 40
    group.settle(4)
    assert [len(work.tasks) for work in group.running().values()] == [3, 3, 3, 3]


def test_what_runs_on_two_members_is_revoked_from_both_and_then_given_to_one(group):
    had = group.leave("m3")  # frozen for longer than its session
    group.settle(3)
    group.members["m3-again"] = had
    plan = group.round()
    for name in ("m1", "m2"):
        assert set(plan.assignments[name].revoked.tasks) & set(had.work.tasks)
    assert set(plan.assignments["m3-again"].revoked.tasks) == set(had.work.tasks)
    group.settle(3)
    tasks = [task for work in group.running().values() for task in work.tasks]
    assert len(tasks) == len(set(tasks)) == 12


def test_deleted_connectors_are_revoked_from_who_runs_them(group):
    group.connectors.pop("c1")
    plan = group.round()
    gone = {task for assignment in plan.assignments.values() for task in assignment.revoked.tasks}
    assert {task for task in gone if task.connector == "c1"} == {TaskId("c1", number) for number in range(3)}
    group.settle(3)
    assert not any(task.connector == "c1" for work in group.running().values() for task in work.tasks)


def test_a_deleted_connector_is_revoked_again_when_the_revocation_did_not_arrive(group):
    group.connectors["new"] = 2
    group.settle(3)
    task = TaskId("new", 1)
    (owner,) = [name for name, work in group.running().items() if task in work.tasks]
    assert owner != group.leader
    group.connectors.pop("new")
    assert task in group.round(missed_by=[owner]).assignments[owner].revoked.tasks
    assert task in group.round().assignments[owner].revoked.tasks


def test_fewer_tasks_of_a_connector_are_revoked_and_more_are_assigned(group):
    group.connectors["c0"] = 1
    group.connectors["c1"] = 5
    group.settle(4)
    tasks = {task for work in group.running().values() for task in work.tasks}
    assert tasks == set(group.configured().tasks)


def test_a_new_leader_takes_what_members_report_for_what_was(group):
    before = group.running()
    group.leave("m1")
    plan = group.round()
    # It does not know who left: nothing is lost, and all that nobody runs is new
    assert plan.assignments["m2"].leader == "m2"
    assert delays(plan) == {0}
    for name in ("m2", "m3"):
        assert set(before[name].tasks) <= set(group.running()[name].tasks)


def test_a_leader_whose_own_assignment_did_not_arrive_forgets_what_it_thought_assigned(group):
    group.round(missed_by=["m1"])  # the leader: its last completed generation is the one before
    group.leave("m3")
    assert delays(group.round()) == {0}


def test_a_round_after_one_that_revoked_waits_before_it_revokes_as_well():
    group = SimulatedGroup(["m1"], {"c": 32}, max_delay_ms=DELAY_MS)
    group.settle(2)
    seen = []
    for number in range(5):
        group.members[f"new{number}"] = None
        plan = group.round()
        seen.append((bool(revoked(plan)), *delays(plan)))
    # A round that waits counts as one that did not revoke: the one after it may, however little time has passed
    assert seen == [(True, 0), (False, 40), (False, 40), (True, 0), (False, 1600)]


def test_waits_between_rounds_that_revoke_grow_up_to_the_delay():
    group = SimulatedGroup(["m1"], {"c": 64}, max_delay_ms=DELAY_MS)
    group.settle(2)
    waits = []
    for number in range(12):
        group.members[f"new{number}"] = None
        plan = group.round()
        (delay_ms,) = delays(plan)
        group.now_ms += delay_ms
        waits.append(delay_ms)
    assert [delay_ms for delay_ms in waits if delay_ms][:3] == [40, 1600, 64_000]
    assert max(waits) <= DELAY_MS


def test_a_settled_round_starts_the_waits_between_revocations_anew():
    group = SimulatedGroup(["m1"], {"c": 64}, max_delay_ms=DELAY_MS)
    group.settle(2)
    for number in range(4):
        group.members[f"new{number}"] = None
        assert revoked(group.round())
        group.settle(3)


def test_lost_work_goes_to_the_member_that_came_empty_while_it_waited(group):
    lost = group.running()["m3"]
    group.leave("m3")
    group.round()
    group.members["new"] = None
    group.round()
    group.now_ms += DELAY_MS
    group.round()
    assert set(group.running()["new"].tasks) == set(lost.tasks)
    assert set(group.running()["new"].connectors) == set(lost.connectors)


def test_nothing_is_revoked_for_balance_while_work_waits(group):
    group.leave("m3")
    group.round()
    group.members["new1"] = group.members["new2"] = None
    assert revoked(group.round()) == set()


def test_a_group_without_connectors_gets_nothing_and_waits_for_nothing():
    group = SimulatedGroup(["m1", "m2"], {}, max_delay_ms=DELAY_MS)
    plan = group.round()
    assert {name: assignment.work for name, assignment in plan.assignments.items()} == {"m1": Work(), "m2": Work()}
    group.leave("m2")
    assert delays(group.round()) == {0}
