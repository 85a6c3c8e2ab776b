"""`connect config history|diff|rollback` on a live cluster, and with --direct on one without workers."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.worker import DistributedWorker
from kconnect_cli.app import run
from kit.distributed_worker import cluster_settings, workers
from kit.java_connect import write_properties
from kit.standalone import STRING_CONVERTERS
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

Connect = Callable[..., tuple[str, str]]
SINK = {"connector.class": "FileStreamSink", "topics": "t", "file": "/tmp/versions", "db.password": "opensesame-8"}


@pytest.fixture
def worker(broker: DevBroker) -> Iterator[DistributedWorker]:
    with workers(broker.bootstrap, "config-versions", 1) as (one,):
        yield one


@pytest.fixture(scope="module")
def file(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"bootstrap.servers": broker.bootstrap, **STRING_CONVERTERS, **cluster_settings("config-versions")}
    return write_properties(tmp_path_factory.mktemp("versions") / "worker.properties", settings)


@pytest.fixture
def connect(worker: DistributedWorker, file: Path, monkeypatch, capsys, tmp_path: Path) -> Connect:
    monkeypatch.setenv("KCONNECT_URL", worker.rest_url)
    monkeypatch.setenv("KCONNECT_WORKER", str(file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def call(*args: object, expect: int = 0) -> tuple[str, str]:
        code = run([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert code == expect, f"connect {args} ended with {code}\n{out}\n{err}"
        assert "opensesame" not in out + err
        return out, err

    return call


def versions(connect: Connect, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(connect("config", "history", name, "-o", "json")[0])
    return found


def test_a_change_is_found_compared_and_taken_back_on_a_live_cluster(
    worker: DistributedWorker, connect: Connect
) -> None:
    worker.herder.put_connector("a", SINK, replace=False)
    connect("config", "set", "a", "topics=t,u", "tasks.max=2")
    connect("config", "set", "a", "topics=broken")
    found = versions(connect, "a")
    assert [(one["kind"], one["changed"], one["is_current"]) for one in found] == [
        ("reconfigured", ["topics"], True),
        ("reconfigured", ["tasks.max", "topics"], False),
        ("created", sorted([*SINK, "name"]), False),
    ]
    newest, middle, oldest = (one["version"] for one in found)
    out, _ = connect("config", "history", "a")
    newest_line = rf"{newest} \(current\) +\S+Z +ANONYMOUS +127\.0\.0\.1 +topics"
    assert re.fullmatch(newest_line, out.splitlines()[1].rstrip()), out
    assert connect("config", "diff", "a")[0] == "update a\n  - topics = t,u\n  + topics = broken\n"
    assert connect("config", "diff", "a", oldest, middle, "-o", "name")[0] == "tasks.max\ntopics\n"
    out, _ = connect("config", "rollback", "a", "--dry-run", "-o", "json")
    assert json.loads(out) == {
        "name": "a",
        "action": "update",
        "settings": [{"key": "topics", "old": "broken", "new": "t,u"}],
        "from": newest,
        "to": middle,
    }
    _, err = connect("config", "rollback", "a", expect=2)
    assert "--yes" in err
    _, err = connect("config", "rollback", "a", "--yes")
    assert err == "update a\n  - topics = broken\n  + topics = t,u\nupdated a: topics\n"
    connect("config", "rollback", "a", oldest, "--yes")
    assert dict(worker.herder.connector_info("a").config) == {**SINK, "name": "a"}
    _, err = connect("config", "rollback", "a", oldest, "--yes")
    assert err == f"unchanged a: version {oldest} has the settings that it has now\n"


def test_what_cannot_be_rolled_back_says_why(worker: DistributedWorker, connect: Connect, tmp_path: Path) -> None:
    worker.herder.put_connector("b", SINK, replace=False)
    _, err = connect("config", "rollback", "b", expect=3)
    assert "There is no version of connector b before its current config" in err
    _, err = connect("config", "rollback", "b", 99_999, expect=3)
    assert "Connector b has no version 99999" in err
    _, err = connect("config", "history", "bb", expect=3)
    assert "Did you mean b" in err
    elsewhere = cluster_settings("config-versions") | {"bootstrap.servers": "127.0.0.1:1"}
    other = write_properties(tmp_path / "w.properties", elsewhere)
    connect("config", "history", "b", "--worker", other, expect=5)


def test_a_config_that_the_worker_does_not_accept_today_is_refused_before_anything_is_asked(
    worker: DistributedWorker, connect: Connect, file: Path
) -> None:
    """As after a plugin of another version: the old config is written past the worker's checks."""
    worker.herder.put_connector("c", SINK, replace=False)
    bad = json.dumps({"properties": {**SINK, "name": "c", "tasks.max": "none"}})
    good = json.dumps({"properties": {**SINK, "name": "c", "topics": "other"}})
    for value in (bad, good):
        connect("topics", "config", "put", "connector-c", value, "--force", "--yes")
    _, err = connect("config", "rollback", "c", "--yes", expect=1)
    assert "The worker does not accept that config of c any more: tasks.max: " in err


def test_with_direct_the_topic_is_written_and_state_and_tasks_stay(
    broker: DevBroker, connect: Connect, tmp_path: Path
) -> None:
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster:
        cluster.add_connector("d", SINK, [{"file": "/in"}])
        cluster.add_connector("d", {**SINK, "topics": "other"}, [{"file": "/in"}])
        _, err = connect("config", "rollback", "d", "--direct", "--yes", "--worker", cluster.worker_file)
        assert "topics" in err
        (now, *_) = json.loads(connect("config", "history", "d", "--worker", cluster.worker_file, "-o", "json")[0])
        assert now["config"]["topics"] == "t"
        assert now["config"]["db.password"] == "[hidden]"
        kept, _ = connect("topics", "config", "get", "task-d-0", "--worker", cluster.worker_file)
        assert "/in" in kept
