"""What the broker's description of a group says of the cluster: leader, protocol, work, config offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.admin.direct.group.live_group import LiveGroup, read_group
from kconnect.admin.direct.read.cluster_state import ClusterState, await_leader, leader_of
from kconnect.errors import ConflictError, NotFoundError
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import (
    Assignment,
    MemberState,
    Work,
    encode_assignment,
    encode_metadata,
)
from kconnect.runtime.herder.group.admin_frames import GroupDescription, MemberDescription
from kconnect.testing import ManualClock


def member(number: int, work: Work, *, version: int = 2, delay_ms: int = 0) -> MemberDescription:
    assignment = Assignment(version, "m1", "http://w1:8083/", 17, work, Work(), delay_ms)
    state = MemberState(version, f"http://w{number}:8083/", 10 + number)
    return MemberDescription(
        f"m{number}", f"client-{number}", f"/10.0.0.{number}", encode_metadata(state), encode_assignment(assignment)
    )


def group(state: str = "Stable", protocol: str = "sessioned") -> LiveGroup:
    members = (
        member(2, Work((), (TaskId("b", 10), TaskId("b", 2)))),
        member(1, Work(("b", "a"), (TaskId("a", 0),)), delay_ms=700),
    )
    return read_group(GroupDescription("g", state, "connect", protocol, members))


def test_a_settled_group_tells_who_leads_and_what_each_member_runs() -> None:
    reported = ClusterState(group(), 20).to_json()
    assert {key: reported[key] for key in reported if key != "members"} == {
        "group": "g",
        "state": "Stable",
        "protocol": "sessioned",
        "leader": "http://w1:8083",
        "config_offset": 17,
        "config_end": 20,
        "delay_ms": 700,
        "connectors": 2,
        "tasks": 3,
    }
    assert reported["members"] == [
        {
            "url": "http://w1:8083",
            "host": "10.0.0.1",
            "client_id": "client-1",
            "member_id": "m1",
            "leader": True,
            "config_offset": 11,
            "connectors": ["a", "b"],
            "tasks": ["a-0"],
        },
        {
            "url": "http://w2:8083",
            "host": "10.0.0.2",
            "client_id": "client-2",
            "member_id": "m2",
            "leader": False,
            "config_offset": 12,
            "connectors": [],
            "tasks": ["b-2", "b-10"],
        },
    ]


def _leader(found: LiveGroup) -> dict[str, object]:
    return leader_of(ClusterState(found).to_json())


def test_the_eager_protocol_is_called_as_the_setting_calls_it() -> None:
    assert ClusterState(replace(group(), protocol="default")).protocol == "eager"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nobody_leads_while_the_group_rebalances(state: str) -> None:
    found = ClusterState(group(state))
    assert (found.leader, found.to_json()["leader"], found.to_json()["config_offset"]) == (None, None, None)
    with pytest.raises(ConflictError, match="rebalancing"):
        leader_of(found.to_json())


def test_without_workers_there_is_no_leader_to_be_found() -> None:
    found = ClusterState(read_group(GroupDescription("g", "Dead", "", "")))
    assert found.to_json()["members"] == []
    with pytest.raises(NotFoundError, match="No worker of group g is running"):
        leader_of(found.to_json())


def test_a_leader_is_awaited_while_the_group_rebalances() -> None:
    looks = iter([group("PreparingRebalance"), group("CompletingRebalance"), group()])
    clock = ManualClock()
    assert await_leader(lambda: _leader(next(looks)), 10, clock)["member_id"] == "m1"
    assert clock.monotonic() == pytest.approx(0.4)


@pytest.mark.parametrize(("patience_s", "reported"), [(3.0, r"decided yet; waited 3 s$"), (0.0, r"decided yet$")])
def test_a_wait_for_a_leader_ends_and_says_how_long_it_was(patience_s: float, reported: str) -> None:
    clock = ManualClock()
    with pytest.raises(ConflictError, match=reported) as caught:
        await_leader(lambda: _leader(group("PreparingRebalance")), patience_s, clock)
    assert caught.value.hint == "--retry TIME waits longer."
    assert patience_s - 0.3 < clock.monotonic() <= patience_s


def test_nobody_is_awaited_where_there_are_no_workers() -> None:
    clock = ManualClock()
    with pytest.raises(NotFoundError):
        await_leader(lambda: _leader(read_group(GroupDescription("g", "Dead", "", ""))), 10, clock)
    assert clock.waits == []
