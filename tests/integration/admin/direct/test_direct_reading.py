"""What a cluster's topics hold is read without any worker, now and as of an earlier point."""

from __future__ import annotations

import time

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.group.live_group import live_group
from kconnect.admin.direct.read.reader import Bounds, ClusterReader
from kconnect.errors import ConnectError, NotFoundError, TimedOutError, UnreachableError
from kconnect.model import RunState, TargetState, TaskId
from kit.pace import ample_s
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/data/in", "topic": "t"}


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.add_connector("src", FILE_SOURCE, [{"file": "/data/in"}], topics=["t"])
        running.commit_offsets("src", [({"filename": "/data/in"}, {"position": 7})])
        yield running


@pytest.fixture
def reader(cluster):
    with ClusterReader(cluster.access) as opened:
        yield opened


def test_configs_are_folded_as_a_worker_does(reader):
    view = reader.configs()
    assert view.snapshot.connectors == ("src",)
    assert view.snapshot.tasks("src") == (TaskId("src", 0),)
    assert view.latest.get(b"connector-src").offset == 0


def test_statuses_and_offsets_are_folded(reader):
    statuses = reader.statuses().statuses
    assert statuses.status("src").state is RunState.RUNNING
    assert list(statuses.topics("src")) == ["t"]
    assert reader.offsets().entries == {b'["src",{"filename":"/data/in"}]': b'{"position":7}'}


def test_the_state_as_of_an_offset_is_what_was_written_up_to_it(reader, cluster):
    end = reader.configs().snapshot.offset
    cluster.configs.put_target_state("src", TargetState.PAUSED)
    assert reader.configs().snapshot.target_state("src") is TargetState.PAUSED
    assert reader.configs(Bounds(at={0: end - 1})).snapshot.target_state("src") is TargetState.STARTED
    assert reader.configs(Bounds(at={0: 0})).snapshot.tasks("src") == ()


def test_the_state_until_a_time_leaves_out_what_came_later(reader, cluster):
    now_ms = int(time.time() * 1000)
    eventually(lambda: time.time() * 1000 > now_ms + 1, 5, "the clock has gone on", pause_s=0.001)
    cluster.configs.put_target_state("src", TargetState.STOPPED)
    assert reader.configs(Bounds(until_ms=now_ms)).snapshot.target_state("src") is not TargetState.STOPPED
    assert reader.configs().snapshot.target_state("src") is TargetState.STOPPED


def test_a_topic_that_is_not_there_is_named(cluster):
    access = ClusterAccess({**cluster.worker, "config.storage.topic": "no-such-topic"}, ample_s(1))
    with ClusterReader(access) as reader, pytest.raises(NotFoundError, match="no-such-topic"):
        reader.configs()


def test_brokers_that_do_not_answer_are_named_within_the_deadline(cluster):
    access = ClusterAccess({**cluster.worker, "bootstrap.servers": "127.0.0.1:1"}, 1.0)
    with ClusterReader(access) as reader, pytest.raises(ConnectError, match=r"--timeout|127\.0\.0\.1:1"):
        list(reader.records(InternalTopic.STATUS))


def test_brokers_that_refuse_the_connection_are_reported_at_once_instead_of_the_group():
    access = ClusterAccess({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, 0.5)
    with pytest.raises((UnreachableError, TimedOutError)) as error:
        live_group(access)
    assert str(error.value) == "No Kafka broker answers at 127.0.0.1:1: Connection refused"
    assert "bootstrap.servers" in error.value.hint
