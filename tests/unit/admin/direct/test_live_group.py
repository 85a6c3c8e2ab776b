"""Who is in a group and what it runs, from what real workers left with the broker (tests/golden/topics)."""

from __future__ import annotations

import base64

import pytest

from kconnect.admin.direct.group.live_group import read_group
from kconnect.errors import ConflictError
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.group.admin_frames import GroupDescription, MemberDescription
from kit.golden import load

RECORDED = load("topics/group-protocol-disabled.json")


def described(point: str, **changed: str) -> GroupDescription:
    group = RECORDED[point]
    members = tuple(
        MemberDescription(
            member["member_id"],
            member["client_id"],
            member["client_host"],
            base64.b64decode(member["metadata_b64"]),
            base64.b64decode(member["assignment_b64"]),
        )
        for member in group["members"]
    )
    given = {"state": group["state"], "protocol_type": group["protocol_type"], "protocol": group["protocol"]} | changed
    return GroupDescription(group["group"], members=members, **given)


def test_a_worker_with_a_connector_and_its_task_owns_both():
    group = read_group(described("one worker, source connector with one task"))
    (worker,) = group.workers
    assert worker.work == Work(("src",), (TaskId("src", 0),))
    assert worker.is_leader
    assert worker.config_offset == 4
    assert group.owners("src") == [worker]
    assert group.owners("other") == []


def test_a_worker_without_connectors_owns_nothing():
    group = read_group(described("one worker, no connectors"))
    assert group.is_live
    assert group.owners("src") == []


def test_while_a_rebalance_runs_every_worker_may_be_the_owner():
    group = read_group(described("one worker, no connectors", state="PreparingRebalance"))
    assert not group.is_settled
    assert group.owners("src") == list(group.workers)


def test_of_two_workers_one_leads_and_each_task_has_one_owner():
    points = [point for point, group in RECORDED.items() if len(group["members"]) == 2 and group["state"] == "Stable"]
    assert points
    for point in points:
        group = read_group(described(point))
        assert [worker.is_leader for worker in group.workers].count(True) == 1
        tasks = [task for worker in group.workers for task in worker.work.tasks]
        assert len(tasks) == len(set(tasks))


def test_a_group_that_is_not_there_has_no_workers():
    group = read_group(GroupDescription("g", "Dead", "", ""))
    assert not group.is_live


def test_a_consumer_group_of_the_same_name_is_refused():
    with pytest.raises(ConflictError, match="'consumer'"):
        read_group(described("one worker, no connectors", protocol_type="consumer"))
