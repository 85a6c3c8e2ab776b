"""What must hold of the live cluster before an edit: who runs, owns or moves what it is of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.edit.plan import (
    NoLiveGroup,
    NoLiveOwner,
    NoRunningTask,
    NotCreated,
    Stopped,
    other_group_refusals,
    refusals,
    requirements_for_keys,
)
from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker
from kconnect.admin.direct.group.other_groups import sort_other_groups
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.storage.config_topic import (
    encode_connector,
    encode_target_state,
)
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    decode_record,
    encode_status,
    status_key,
)
from kit.topic_views import config_view, records_of, status_view

C, S, O = InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET  # noqa: E741 - short names of three topics


def group(*workers, state="Stable"):
    return LiveGroup("g", state, "sessioned", workers)


def worker(url, connectors=(), tasks=()):
    return LiveWorker("m", "c", "/1.2.3.4", url, 5, Work(tuple(connectors), tuple(tasks)), True)


def test_a_live_owner_is_named_with_what_it_runs():
    live = group(worker("http://h1:8083/", ["a"], [TaskId("a", 0), TaskId("a", 1)]), worker("http://h2:8083/", ["b"]))
    (found,) = refusals([NoLiveOwner("a")], live)
    assert "http://h1:8083/ runs the connector and tasks 0, 1" in found.sentence
    assert not found.is_final
    assert refusals([NoLiveOwner("c")], live) == []


def test_while_a_rebalance_runs_any_worker_may_own_it():
    (found,) = refusals([NoLiveOwner("c")], group(worker("http://h1:8083/"), state="PreparingRebalance"))
    assert "A rebalance runs" in found.sentence


def test_a_connector_is_not_created_twice_not_even_with_force():
    there = config_view(records_of([encode_connector("a", {})])).snapshot
    (found,) = refusals([NotCreated("a"), NotCreated("b")], group(), there)
    assert found.sentence == "Connector a already exists"
    assert found.is_final


def running(*subjects, on):
    cache = StatusCache()
    for subject in subjects:
        cache.apply(decode_record(status_key(subject), encode_status(StoredStatus(RunState.RUNNING, on, 1))))
    return cache


OTHER = LiveGroup("other", "Stable", "sessioned", (worker("http://h9:8083/", ["a"], [TaskId("a", 0)]),))
NOBODY = LiveGroup("wrong", "Dead", "", ())


@pytest.mark.parametrize("subject", ["a", TaskId("a", 0)])
def test_a_group_that_runs_what_the_statuses_say_stands_against_a_wrong_group_id(subject):
    others = sort_other_groups([OTHER], running(subject, on="h9:8083"))
    (found,) = other_group_refusals([NoLiveOwner("x")], NOBODY, others)
    assert "group other runs connectors of these topics: http://h9:8083/ runs" in found.sentence
    assert "--group-id other" in found.hint
    assert not found.is_final
    assert others.warnings("wrong") == ()
    assert other_group_refusals([Stopped("a")], NOBODY, others) == []
    assert other_group_refusals([NoLiveOwner("x")], group(worker("http://h1:8083/")), others) == []


@pytest.mark.parametrize(
    "statuses", [None, StatusCache(), running("a", on="h1:8083"), running("gone", TaskId("a", 7), on="h9:8083")]
)
def test_a_group_of_which_it_is_not_proved_is_warned_of(statuses):
    """Not there, of a worker elsewhere, or left at its address by one that was there before."""
    others = sort_other_groups([OTHER, LiveGroup("asleep", "Empty", "", ())], statuses)
    assert other_group_refusals([NoLiveOwner("x")], NOBODY, others) == []
    (warning,) = others.warnings("wrong")
    assert "Group wrong has no workers" in warning
    assert "on the brokers: other." in warning


@pytest.mark.parametrize(
    ("configs", "read"),
    [(["b"], 1), (["a", "b"], 9), ([], 0)],
    ids=["runs what is not there", "has read further", "of nothing"],
)
def test_a_group_that_cannot_read_these_topics_is_not_warned_of(configs, read):
    snapshot = config_view(records_of([encode_connector(name, {}) for name in configs])).snapshot
    other = replace(OTHER, workers=tuple(replace(one, config_offset=read) for one in OTHER.workers))
    assert sort_other_groups([other], StatusCache(), snapshot).warnings("wrong") == ()
    sharing = config_view(records_of([encode_connector(name, {}) for name in ("a", "b")])).snapshot
    near = replace(OTHER, workers=tuple(replace(one, config_offset=2) for one in OTHER.workers))
    assert sort_other_groups([near], StatusCache(), sharing).warnings("wrong")


def test_while_a_neighbour_rebalances_its_address_is_enough():
    moving = replace(OTHER, state="PreparingRebalance")
    assert sort_other_groups([moving], running("gone", on="h9:8083")).users


def test_without_the_name_of_the_group_nothing_is_sure():
    (found,) = refusals([NoLiveOwner("a"), NoLiveGroup()], None)
    assert "--group-id" in found.hint
    assert not found.is_final


def test_a_connector_that_is_not_stopped_is_refused_even_with_force():
    snapshot = config_view(
        records_of(
            [
                encode_connector("a", {}),
                encode_connector("b", {}),
                encode_target_state("b", TargetState.STOPPED),
            ]
        )
    ).snapshot
    found = refusals([Stopped("a"), Stopped("b")], group(), snapshot)
    assert [refusal.is_final for refusal in found] == [True]
    assert "a must be STOPPED" in found[0].sentence


def test_running_counts_only_where_the_worker_lives():
    statuses = status_view(
        [
            (status_key(TaskId("a", 0)), encode_status(StoredStatus(RunState.RUNNING, "gone:8083", 1))),
            (status_key(TaskId("a", 1)), encode_status(StoredStatus(RunState.RUNNING, "h1:8083", 1))),
        ]
    ).statuses
    assert refusals([NoRunningTask("a")], group(), None, statuses) == []
    (found,) = refusals([NoRunningTask("a")], group(worker("http://h1:8083/")), None, statuses)
    assert "a-1 on h1:8083" in found.sentence
    assert "gone" not in found.sentence


@pytest.mark.parametrize(
    ("which", "key", "need"),
    [
        (C, b"connector-a-b", NoLiveOwner("a-b")),
        (C, b"task-a-b-3", NoLiveOwner("a-b")),
        (C, b"commit-a", NoLiveOwner("a")),
        (C, b"tasks-fencing-a", NoLiveOwner("a")),
        (C, b"restart-connector-a", NoLiveOwner("a")),
        (S, b"status-task-a-0", NoLiveOwner("a")),
        (S, b"status-topic-t:connector-a", NoLiveOwner("a")),
        (O, b'["a",{"f":1}]', NoLiveOwner("a")),
    ],
)
def test_a_record_belongs_to_its_connector(which, key, need):
    assert requirements_for_keys([(which, key)]) == (need,)


@pytest.mark.parametrize(("which", "key"), [(C, b"session-key"), (C, b"logger-cluster-x"), (C, b"\xff"), (O, b"x")])
def test_what_is_of_no_connector_needs_the_whole_cluster_at_rest(which, key):
    (need,) = requirements_for_keys([(which, key)])
    assert isinstance(need, NoLiveGroup)
