"""Topics edited with `connect topics` while no worker runs: real Java starts on them and shows just that; then its live
workers make the same edits refused.
"""

from __future__ import annotations

import io
import json
import sys

import pytest

from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.model import TargetState
from kconnect_cli.app import run
from kit.cli import CliResult
from kit.java_connect import JavaConnect
from kit.topics import create_topic
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = [pytest.mark.broker, pytest.mark.java]

PARTITION = {"filename": "/nowhere"}


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("edited")
    more = {"scheduled.rebalance.max.delay.ms": "0"}
    more |= {f"{name}.storage.replication.factor": "1" for name in ("config", "status", "offset")}
    with WrittenCluster(broker.bootstrap, folder, more=more) as running:
        running.folder = folder
        running.topic = f"{running.access.group_id}-t"
        create_topic(broker.bootstrap, running.topic)
        _write(running)
        _edit(running)
        yield running


@pytest.fixture(scope="module")
def java(cluster, broker):
    worker = JavaConnect(cluster.folder / "java", broker.bootstrap, mode="distributed", worker=cluster.worker)
    with worker:
        eventually(lambda: _state(worker, "restored") == "RUNNING", 60, "the restored connector runs")
        eventually(lambda: _state(worker, "imported") == "RUNNING", 30, "the imported connector runs")
        yield worker


def _source(cluster, **more):
    file = cluster.folder / "lines.txt"
    file.touch()
    base = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": cluster.topic}
    return {**base, **more}


def _topics(cluster, *args, expect=0, stdin=""):
    with pytest.MonkeyPatch.context() as patch:
        out, err = io.StringIO(), io.StringIO()
        for name, stream in (("stdin", io.StringIO(stdin)), ("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, stream)
        patch.setenv("XDG_CONFIG_HOME", str(cluster.folder / "config"))
        code = run(["topics", *args, "--worker", str(cluster.worker_file)])
    assert code == expect, f"connect topics {args} ended with {code}\n{out.getvalue()}\n{err.getvalue()}"
    return CliResult(code, out.getvalue(), err.getvalue())


def _write(cluster):
    """What workers had left: four connectors, two of them gone wrong."""
    for name in ("restored", "deleted", "stopped", "changed"):
        cluster.add_connector(name, _source(cluster), [_source(cluster, **{"task.class": "x"})], state=None)
    cluster.commit_offsets("stopped", [(PARTITION, {"position": 7})])
    cluster.commit_offsets("changed", [(PARTITION, {"position": 7})])


def _edit(cluster):
    """One edit of each kind, by the command."""
    with ClusterReader(cluster.access) as reader:
        at = reader.configs().snapshot.offset - 1
    cluster.configs.put_connector_config("restored", _source(cluster, topic="wrong"), TargetState.STOPPED)
    cluster.configs.remove_connector_config("restored")
    _topics(cluster, "config", "restore", "restored", "--at", str(at), "--yes")
    _topics(cluster, "config", "delete", "connector-deleted", "target-state-deleted", "--yes", "--force")
    _topics(cluster, "config", "put", "commit-stopped", '{"tasks": 0}', "--yes")
    stopped = '{"state": "PAUSED", "state.v2": "STOPPED"}'
    _topics(cluster, "config", "put", "target-state-stopped", "-", "--yes", stdin=stopped)
    _topics(cluster, "offsets", "put", json.dumps(["stopped", PARTITION]), '{"position": 42}', "--yes")
    _topics(cluster, "offsets", "delete", json.dumps(["changed", PARTITION]), "--yes")
    config = json.dumps({"properties": {**_source(cluster), "name": "changed", "batch.size": "77"}})
    _topics(cluster, "config", "put", "connector-changed", config, "--yes")
    _topics(cluster, "config", "put", "target-state-changed", '{"state":"PAUSED","state.v2":"PAUSED"}', "--yes")
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": cluster.topic, "name": "imported"}
    document = {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [
            {"name": "imported", "config": {**sink, "file": str(cluster.folder / "out.txt")}},
            {"name": "asleep", "target_state": "STOPPED", "config": _source(cluster, name="asleep")},
        ],
        "offsets": {"asleep": {"offsets": [{"partition": PARTITION, "offset": {"position": 5}}]}},
        "groups": {
            "imported": {
                "group": f"connect-imported-{cluster.access.group_id}",
                "offsets": [
                    {
                        "partition": {"kafka_topic": cluster.topic, "kafka_partition": 0},
                        "offset": {"kafka_offset": 0},
                    }
                ],
            }
        },
    }
    document["connectors"][0]["config"]["consumer.override.group.id"] = document["groups"]["imported"]["group"]
    cluster.file = cluster.folder / "state.json"
    cluster.file.write_text(json.dumps(document))
    _topics(cluster, "import", str(cluster.file), "--yes")


def _get(java, path):
    status, body = java.request("GET", path)
    assert status == 200, body
    return body


def _state(java, name):
    status, body = java.request("GET", f"/connectors/{name}/status")
    states = {part["state"] for part in [body["connector"], *body["tasks"]]} if status == 200 else set()
    return states.pop() if len(states) == 1 and body["tasks"] else None


def test_java_shows_just_what_was_edited(java, cluster):
    assert set(_get(java, "/connectors")) == {"restored", "stopped", "changed", "imported", "asleep"}
    assert _get(java, "/connectors/restored/config") == {**_source(cluster), "name": "restored"}
    assert _get(java, "/connectors/changed/config")["batch.size"] == "77"
    eventually(lambda: _status_of(java, "changed")["connector"]["state"] == "PAUSED", 30, "changed is paused")
    for name in ("stopped", "asleep"):
        status = eventually(lambda name=name: _status_of(java, name), 30, f"{name} has a status")
        assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])


def _status_of(java, name):
    status, body = java.request("GET", f"/connectors/{name}/status")
    assert status == 200, body
    return body


def test_java_reads_the_offsets_that_were_put_deleted_and_imported(java, cluster):
    offsets = {name: _get(java, f"/connectors/{name}/offsets")["offsets"] for name in ("stopped", "changed", "asleep")}
    assert offsets == {
        "stopped": [{"partition": PARTITION, "offset": {"position": 42}}],
        "changed": [],
        "asleep": [{"partition": PARTITION, "offset": {"position": 5}}],
    }
    (imported,) = _get(java, "/connectors/imported/offsets")["offsets"]
    assert imported["offset"] == {"kafka_offset": 0}


def test_what_a_live_worker_owns_is_not_edited(java, cluster):
    paused = '{"state":"PAUSED","state.v2":"PAUSED"}'
    for args in (
        ("config", "put", "target-state-restored", paused),
        ("config", "delete", "connector-restored"),
        ("config", "restore", "changed", "--at", "11"),
        ("offsets", "put", json.dumps(["restored", PARTITION]), '{"position": 1}'),
    ):
        refused = _topics(cluster, *args, "--yes", expect=4)
        assert java.url in refused.stderr, "the worker that owns it is named"
        assert "runs the connector" in refused.stderr
        assert "--force" in refused.stderr
    assert _get(java, "/connectors/restored/status")["connector"]["state"] == "RUNNING"
    refused = _topics(cluster, "import", str(cluster.file), "--replace", "--yes", expect=4)
    assert "live workers" in refused.stderr
    document = json.loads(cluster.file.read_text())
    document["connectors"][0]["name"] = document["connectors"][0]["config"]["name"] = "another"
    cluster.file.write_text(json.dumps(document))
    refused = _topics(cluster, "import", str(cluster.file), "--yes", expect=4)
    assert "live workers" in refused.stderr
    assert java.request("GET", "/connectors/another")[0] == 404


def test_force_writes_beside_a_live_worker_which_follows(java, cluster):
    paused = '{"state":"PAUSED","state.v2":"PAUSED"}'
    forced = _topics(cluster, "config", "put", "target-state-restored", paused, "--yes", "--force")
    assert "Forced: restored is owned by live workers" in forced.stderr
    eventually(lambda: _state(java, "restored") == "PAUSED", 30, "Java pauses it")
