"""The doctor on a live cluster of Java Connect 4.3 with exactly-once support: well, until something is done to it."""

from __future__ import annotations

import shlex
import time

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.doctor.diagnosis import command_text, diagnose, is_degraded
from kconnect.admin.direct.doctor.gathering import gather_facts
from kconnect.admin.direct.history.connector_history import config_history
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect_cli.app import run
from kit.java_connect import JavaConnect, write_properties
from kit.topics import produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]


@pytest.fixture(scope="module")
def java(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("java")
    worker = {
        "exactly.once.source.support": "enabled",
        "offset.storage.partitions": "3",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
    }
    with JavaConnect(folder, broker.bootstrap, mode="distributed", worker=worker) as running:
        (folder / "in.txt").write_text("one\ntwo\n")
        source = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(folder / "in.txt"),
            "topic": f"doctor-{running.port}",
            "exactly.once.support": "requested",
        }
        running.order("PUT", "/connectors/src/config", source, expect=201)
        running.await_running("src")
        yield running


@pytest.fixture
def worker(java, broker):
    prefix = f"java-{java.port}"
    return {
        "bootstrap.servers": broker.bootstrap,
        "group.id": prefix,
        "config.storage.topic": f"{prefix}-config",
        "status.storage.topic": f"{prefix}-status",
        "offset.storage.topic": f"{prefix}-offset",
        "exactly.once.source.support": "enabled",
    }


def findings(worker):
    access = ClusterAccess(worker, 20.0)
    with ClusterReader(access) as reader:
        return diagnose(gather_facts(access, reader, int(time.time() * 1000)))


def test_a_live_cluster_of_java_is_well(java, worker):
    def is_well() -> bool:
        found = findings(worker)
        assert found == []
        return True

    eventually(is_well, within_s=20, why="all is written that a connector that runs leads to")


def test_java_reconfigures_and_the_history_says_so(java, worker):
    _, info = java.request("GET", "/connectors/src")
    changed = {**info["config"], "batch.size": "7"}
    java.order("PUT", "/connectors/src/config", changed, expect=200)
    java.await_running("src")

    def versions():
        access = ClusterAccess(worker, 20.0)
        with ClusterReader(access) as reader:
            return list(config_history(reader.records(InternalTopic.CONFIG), "src").versions)

    def kinds():
        return [str(version.kind) for version in versions()]

    expected = ["created", "tasks", "fenced", "reconfigured", "tasks", "fenced"]
    eventually(lambda: kinds() == expected, within_s=20, why=f"{expected}, not {kinds()}")
    java.await_running("src")
    eventually(lambda: not is_degraded(findings(worker)), within_s=20, why="its tasks run again")


def test_what_nobody_needs_is_deleted_while_java_lives(java, worker):
    produce_lines(worker["bootstrap.servers"], worker["config.storage.topic"], [b"{}"], key=b"what-is-this")
    (finding,) = [finding for finding in findings(worker) if finding.code == "unknown-key"]
    file = write_properties(java.folder / "direct.properties", worker)
    command = command_text(finding.repair, ["--worker", str(file), "--yes"])
    assert command is not None
    assert run(shlex.split(command)[1:]) == 0
    assert "unknown-key" not in {finding.code for finding in findings(worker)}


def test_two_clusters_on_the_same_topics_are_reported_by_their_live_workers(java, worker):
    degraded = {finding.code for finding in findings({**worker, "group.id": f"{worker['group.id']}-other"})}
    assert degraded == {"topics-shared", "stale-running"}


def test_a_write_past_the_leaders_transactions_is_found(java, worker):
    produce_lines(worker["bootstrap.servers"], worker["config.storage.topic"], [b'{"tasks":0}'], key=b"commit-gone")
    codes = {finding.code: finding for finding in findings(worker)}
    assert set(codes) == {"no-leader-fencing", "orphan-tasks"}
    assert codes["no-leader-fencing"].evidence[0].key == "commit-gone"


def test_a_worker_that_was_killed_leaves_what_says_running(java, worker):
    java.kill()

    def stale():
        return [finding for finding in findings(worker) if finding.code == "stale-running"]

    eventually(lambda: bool(stale()), within_s=20, why="the group has noticed (session.timeout.ms) that it is gone")
    (finding,) = stale()
    assert f"on worker 127.0.0.1:{java.port}, but no worker is in the group" in finding.sentence
    assert {item.key for item in finding.evidence} == {"status-connector-src", "status-task-src-0"}
