"""What the leader of a group does when all have joined, from bytes to bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.errors import ConnectError, DataError
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.eager import GroupAssignor, GroupPlan, JoinedGroup, LeaderBehind, assign_eagerly
from kconnect.runtime.herder.assignment.protocol import (
    CONFIG_MISMATCH,
    Assignment,
    MemberState,
    Work,
    decode_assignment,
    encode_metadata,
)
from kconnect.runtime.storage.snapshot import NO_OFFSET, ClusterSnapshot
from kit.simulated_group import INCONSISTENT, SimulatedGroup

NOW_MS = 1_000
SNAPSHOT = ClusterSnapshot(offset=7, configs={"a": {}, "b": {}}, task_counts={"a": 2, "b": 1})


def member(name: str, version: int, offset: int = 7, assignment: Assignment | None = None) -> bytes:
    return encode_metadata(MemberState(version, f"http://{name}:8083/", offset, assignment))


def group_of(protocol: str, **members: bytes) -> JoinedGroup:
    leader = next(iter(members))
    return JoinedGroup(leader=leader, protocol=protocol, members=members, generation=1, last_generation=-1)


def planned(group: JoinedGroup, snapshot: ClusterSnapshot = SNAPSHOT) -> GroupPlan:
    plan = GroupAssignor(300_000).plan(group, snapshot, NOW_MS)
    assert isinstance(plan, GroupPlan)
    return plan


@pytest.mark.parametrize(("protocol", "version"), [("default", 0), ("compatible", 1), ("sessioned", 2)])
def test_all_learn_the_leader_its_url_and_the_offset_in_the_version_the_broker_chose(protocol, version):
    plan = planned(group_of(protocol, two=member("two", version), one=member("one", version)))
    for data in plan.to_bytes().values():
        got = decode_assignment(data)
        assert (got.version, got.error) == (version, 0)
        assert (got.leader, got.leader_url, got.offset) == ("two", "http://two:8083/", 7)
    assert {name: decode_assignment(data) for name, data in plan.to_bytes().items()} == plan.assignments


def test_eager_work_goes_in_turn_first_connectors_and_then_on_with_tasks():
    work = assign_eagerly(replace(SNAPSHOT, configs={"b": {}, "a": {}, "c": {}}), ["two", "one"])
    assert work == {
        "one": Work(("a", "c"), (TaskId("a", 1),)),
        "two": Work(("b",), (TaskId("a", 0), TaskId("b", 0))),
    }


def test_names_are_sorted_by_utf16_units_as_java_sorts_them():
    configs = {"\ue000": {}, "\U0001f600": {}}
    assert assign_eagerly(ClusterSnapshot(configs=configs), ["m"])["m"].connectors == ("\U0001f600", "\ue000")


@pytest.mark.parametrize("version", [0, 2])
def test_tasks_whose_configs_are_inconsistent_are_not_assigned(version):
    group = SimulatedGroup(["m1", "m2"], {"lost": INCONSISTENT, "good": 1}, max_delay_ms=0, version=version)
    assert {task for work in settled(group).values() for task in work.tasks} == {TaskId("good", 0)}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_leader_that_is_behind_is_reported_how_far_to_read_and_can_tell_all_to_read_on(version):
    protocol = ("default", "compatible", "sessioned")[version]
    group = group_of(protocol, one=member("one", version, 7), two=member("two", version, 9))
    assignor = GroupAssignor(300_000)

    behind = assignor.plan(group, SNAPSHOT, NOW_MS)

    assert isinstance(behind, LeaderBehind)
    assert behind.offset == 9
    for data in behind.to_bytes().values():
        assert decode_assignment(data) == Assignment(
            version, "one", "http://one:8083/", 9, Work(), Work(), 0, CONFIG_MISMATCH, ("one:8083", "two:8083")
        )
    caught_up = assignor.plan(group, replace(SNAPSHOT, offset=11), NOW_MS)
    assert isinstance(caught_up, GroupPlan)
    assert {assignment.offset for assignment in caught_up.assignments.values()} == {11}


def test_a_refusal_leaves_the_memory_of_the_leader_as_it_was():
    group = settled_group(["m1", "m2"], {"a": 4})
    joined = group.joined()
    ahead = {**joined.members, "m2": encode_metadata(replace(group.state("m2"), offset=99))}
    assert isinstance(group.plan(replace(joined, members=ahead), group.snapshot()), LeaderBehind)
    group.generation -= 1
    group.leave("m2")
    assert group.round().assignments["m1"].delay_ms == 300_000  # it still knows what m2 had


def test_members_behind_get_work_with_the_offset_they_have_to_read_up_to():
    plan = planned(group_of("sessioned", one=member("one", 2, 7), two=member("two", 2, 3)))
    assert {assignment.offset for assignment in plan.assignments.values()} == {7}
    assert plan.assignments["two"].work


def test_an_empty_config_topic_is_no_reason_to_wait():
    group = group_of("sessioned", one=member("one", 2, NO_OFFSET))
    assert planned(group, ClusterSnapshot()).assignments["one"].offset == NO_OFFSET


def test_the_leader_knows_the_url_of_who_runs_what():
    plan = planned(group_of("sessioned", one=member("one", 2), two=member("two", 2)))
    assert {plan.owner_url(part) for part in ("a", "b")} == {"http://one:8083/", "http://two:8083/"}
    for name, assignment in plan.assignments.items():
        for part in (*assignment.work.connectors, *assignment.work.tasks):
            assert plan.owner_url(part) == f"http://{name}:8083/"
    assert plan.owner_url("none") is None
    assert plan.owner_url(TaskId("a", 2)) is None


def test_a_member_that_speaks_something_else_is_named():
    group = group_of("sessioned", one=member("one", 2), two=b"\x00\x02\x00\xff")
    with pytest.raises(DataError, match=r"member two .*cannot be read") as caught:
        planned(group)
    assert "group.id" in caught.value.hint


def test_a_protocol_that_is_not_of_connect_is_refused():
    with pytest.raises(ConnectError, match=r"'range'.*default, compatible, sessioned"):
        planned(group_of("range", one=member("one", 2)))


def test_after_eager_rounds_work_the_members_report_stays_where_it_is():
    """An older worker had joined and left: the group falls back to eager, and comes out of it."""
    group = settled_group(["m1", "m2"], {"a": 4, "b": 3})
    group.version = 0
    eager = group.round()
    group.version = 2
    assert group.round().assignments["m1"].work == Work()
    assert {name: set(work.tasks) for name, work in group.running().items()} == {
        name: set(assignment.work.tasks) for name, assignment in eager.assignments.items()
    }


def settled_group(members: list[str], connectors: dict[str, int]) -> SimulatedGroup:
    group = SimulatedGroup(members, connectors, max_delay_ms=300_000)
    group.settle(5)
    return group


def settled(group: SimulatedGroup) -> dict[str, Work]:
    group.round()
    return group.running()
