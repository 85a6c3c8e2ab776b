"""`connect connectors rename`, `copy` and `delete --with-offsets` on the topics, with no worker."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import KafkaException, Producer

from kconnect.admin.direct.access import InternalTopic
from kconnect.model import RunState, TargetState
from kit.direct_commands import SOURCE, DirectCommands, commit_one, committed, end_of_configs, records_of, snapshot
from kit.group_offsets import member_of
from kit.places import KIT
from kit.topics import create_topic
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

AT_7 = {"offsets": [{"partition": {"filename": "/in"}, "offset": {"position": 7}}]}


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    more = {"plugin.path": str(KIT / "plugins/refusing")}
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("moves"), more=more) as running:
        yield running


@pytest.fixture
def connect(cluster, monkeypatch, capsys, tmp_path):
    return DirectCommands(cluster, monkeypatch, capsys, tmp_path)


@pytest.fixture
def name():
    return f"mv-{uuid.uuid4().hex[:6]}"


def offsets(connect, name):
    return json.loads(connect("offsets", "show", name, "--direct", "-o", "json")[0])


def test_a_source_is_renamed_in_one_write_at_its_offsets_in_its_state(cluster, connect, name):
    new = f"{name}-new"
    cluster.add_connector(name, SOURCE, [{"file": "/in"}], target=TargetState.PAUSED)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    cluster.commit_offsets(new, [({"filename": "/former"}, {"position": 1})])
    _, err = connect("connectors", "rename", name, new, "--direct", "--dry-run")
    assert err.startswith(f"Rename {name} to {new}\n")
    assert err.endswith("Dry run: nothing was changed.\n")
    assert "geheim" not in err
    since = end_of_configs(cluster)
    _, err = connect("connectors", "rename", name, new, "--direct", "--yes")
    assert err.splitlines()[-1] == f"renamed {name} to {new}"
    found = snapshot(cluster)
    assert not found.contains(name)
    assert found.target_state(new) is TargetState.PAUSED
    assert found.raw_config(new) == {**SOURCE, "name": new}
    assert offsets(connect, new) == AT_7, "and nothing of a former one"
    assert [key for key, _ in records_of(cluster, InternalTopic.CONFIG, name, since)] == [
        f"target-state-{new}",
        f"connector-{new}",
        f"connector-{name}",
        f"target-state-{name}",
    ]
    statuses = dict(records_of(cluster, InternalTopic.STATUS, name))
    assert statuses == {f"status-connector-{name}": None, f"status-task-{name}-0": None}


def test_a_copy_is_stopped_or_runs_and_the_old_one_stays(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    cluster.commit_offsets(f"{name}-a", [({"filename": "/former"}, {"position": 1})])
    _, err = connect("connectors", "copy", name, f"{name}-a", "--direct", "--yes")
    assert f"Copy {name} to {name}-a; it has no offsets\n" in err
    assert err.splitlines()[-1] == f"copied {name} to {name}-a, which is STOPPED"
    assert offsets(connect, f"{name}-a") == {"offsets": []}, "as the old one, so nothing of a former one"
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    connect("connectors", "copy", name, f"{name}-b", "--direct", "--yes", "--start")
    found = snapshot(cluster)
    states = [found.target_state(each) for each in (name, f"{name}-a", f"{name}-b")]
    assert states == [TargetState.STARTED, TargetState.STOPPED, TargetState.STARTED]
    assert offsets(connect, f"{name}-b") == offsets(connect, name) == AT_7


def test_what_cannot_be_copied_is_refused_and_nothing_is_written(cluster, connect, name):
    cluster.add_connector(name, SOURCE)
    cluster.add_connector(f"{name}-there", SOURCE)
    since = end_of_configs(cluster)
    assert "already exists" in connect("connectors", "rename", name, f"{name}-there", "--direct", "--yes", expect=4)[1]
    assert "Unknown connector" in connect("connectors", "copy", f"{name}x", "y", "--direct", "--yes", expect=3)[1]
    connect("connectors", "rename", name, "y", "--direct", expect=2)
    connect("connectors", "rename", name, "y", "--dry-run", expect=2)
    assert end_of_configs(cluster) == since


def test_a_sink_is_renamed_with_its_group_unless_a_task_is_left_and_deleted_with_it(cluster, connect, name, broker):
    create_topic(broker.bootstrap, name, partitions=2)
    config = {"connector.class": "FileStreamSink", "topics": name}
    cluster.add_connector(name, config)
    with member_of(broker.bootstrap, f"connect-{name}", name):
        for command in (("rename", name, f"{name}-new"), ("delete", name, "--with-offsets")):
            assert "has 1 member" in connect("connectors", *command, "--direct", "--yes", expect=4)[1]
    assert snapshot(cluster).target_state(name) is TargetState.STARTED
    body = {"offsets": [{"partition": {"kafka_topic": name, "kafka_partition": 0}, "offset": {"kafka_offset": 0}}]}
    connect("connectors", "stop", name, "--direct", "--yes")
    connect("offsets", "alter", name, "-f", "-", "--direct", "--yes", stdin=json.dumps(body))
    connect("connectors", "rename", name, f"{name}-new", "--direct", "--yes")
    assert committed(broker.bootstrap, f"connect-{name}-new", name) == [0, -1001]
    assert committed(broker.bootstrap, f"connect-{name}", name) == [0, -1001], "as after any deletion"
    connect("connectors", "delete", f"{name}-new", "--with-offsets", "--direct", "--yes")
    assert committed(broker.bootstrap, f"connect-{name}-new", name) == [-1001, -1001]
    assert not snapshot(cluster).contains(f"{name}-new")


def test_a_source_is_deleted_with_its_offsets(cluster, connect, name):
    cluster.add_connector(name, SOURCE, [{"file": "/in"}])
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    _, err = connect("connectors", "delete", name, "--with-offsets", "--direct", "--dry-run")
    assert err.startswith(f"Delete {name} and its offsets\nStop {name}\n")
    assert err.endswith("Dry run: nothing was changed.\n")
    assert err.count(f"delete status-task-{name}-0") == 1
    assert snapshot(cluster).target_state(name) is TargetState.STARTED
    _, err = connect("connectors", "delete", name, "--with-offsets", "--direct", "--yes")
    assert err.splitlines()[-1] == f"deleted {name}"
    assert not snapshot(cluster).contains(name)
    cluster.add_connector(name, SOURCE)
    assert offsets(connect, name) == {"offsets": []}


def test_when_the_offsets_cannot_be_reset_the_connector_is_as_before(cluster, connect, name):
    config = {**SOURCE, "connector.class": "refusing_connectors.RefusingSource"}
    cluster.add_connector(name, config, [{"file": "/in"}], target=TargetState.PAUSED)
    cluster.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
    _, err = connect("connectors", "delete", name, "--with-offsets", "--direct", "--yes", expect=1)
    assert f"Connector {name} refuses these offsets: not these" in err
    assert snapshot(cluster).target_state(name) is TargetState.PAUSED
    assert offsets(connect, name) == AT_7


def test_with_exactly_once_the_old_producers_are_fenced_before_a_rename(broker, connect, name, monkeypatch, tmp_path):
    more = {"exactly.once.source.support": "enabled"}
    with WrittenCluster(broker.bootstrap, tmp_path, more=more) as exactly_once:
        monkeypatch.setenv("KCONNECT_WORKER", str(exactly_once.worker_file))
        exactly_once.add_connector(name, SOURCE, [{"file": "/in"}], state=RunState.UNASSIGNED)
        exactly_once.commit_offsets(name, [({"filename": "/in"}, {"position": 7})])
        zombie_id = f"{exactly_once.access.group_id}-{name}-0"
        zombie = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": zombie_id, "log_level": 2})
        zombie.init_transactions(10)
        connect("connectors", "rename", name, f"{name}-new", "--direct", "--yes")
        assert snapshot(exactly_once).connectors == (f"{name}-new",)
        assert offsets(connect, f"{name}-new") == AT_7
        with pytest.raises(KafkaException, match=r"(?i)fence|epoch|newer"):
            commit_one(zombie, exactly_once)
