"""What `connect topics doctor` and `history` print, and their exit codes, on topics of a real broker."""

from __future__ import annotations

import io
import json
import sys

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.logs.redaction import HIDDEN
from kconnect.model import RunState, TargetState
from kconnect_cli.app import run
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

SOURCE = {"connector.class": "FileStreamSource", "file": "/in", "topic": "t", "db.password": "hunter2"}


@pytest.fixture(scope="module")
def well(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("well")) as cluster:
        cluster.add_connector("src", SOURCE, [{"file": "/in"}], state=RunState.UNASSIGNED, topics=["t"])
        cluster.configs.put_target_state("src", TargetState.PAUSED)
        cluster.configs.put_connector_config("src", {**SOURCE, "name": "src", "file": "/new", "db.password": "hunter3"})
        cluster.commit_offsets("src", [({"filename": "/in"}, {"position": 7})])
        yield cluster


@pytest.fixture(scope="module")
def degraded(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("degraded")) as cluster:
        cluster.add_connector("src", SOURCE, [{"file": "/in"}], worker_id="gone:8083")
        cluster.put_raw(InternalTopic.CONFIG, b"commit-src", b'{"tasks":7}')
        cluster.put_raw(InternalTopic.CONFIG, b"task-gone-0", b'{"properties":{}}')
        yield cluster


@pytest.fixture
def connect(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def call(cluster, *args):
        code = run(["topics", *args, "--worker", str(cluster.worker_file)])
        return code, *capsys.readouterr()

    return call


def test_a_cluster_that_is_well_ends_with_0_and_prints_nothing(connect, well):
    assert connect(well, "doctor") == (0, "", "No problems were found in what was checked.\n")
    code, out, _ = connect(well, "doctor", "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "ok": True,
        "counts": {"error": 0, "warning": 0, "info": 0},
        "findings": [],
        "not_checked": [],
    }


def test_a_degraded_cluster_ends_with_7_and_shows_place_and_repair_under_each_severity(connect, degraded):
    code, out, err = connect(degraded, "doctor")
    assert code == 7
    assert err == "Found: 1 error, 1 warning, 1 info.\n"
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert heads == ["ERROR", "WARNING", "INFO"]
    assert "  inconsistent-tasks: Connector src has committed 7 tasks" in out
    assert f"    at {degraded.worker['config.storage.topic']}-0@3 commit-src" in out
    assert f"    $ connect topics config put --worker {degraded.worker_file} commit-src '{{\"tasks\":0}}'" in out


def test_monitoring_reads_codes_and_documents(connect, degraded):
    code, out, _ = connect(degraded, "doctor", "-o", "name")
    assert (code, out.split()) == (7, ["inconsistent-tasks", "stale-running", "orphan-tasks"])
    code, out, err = connect(degraded, "doctor", "-o", "json")
    document = json.loads(out)
    assert (code, err) == (7, "")
    assert document["ok"] is False
    assert document["counts"] == {"error": 1, "warning": 1, "info": 1}
    stale = document["findings"][1]
    assert stale["code"] == "stale-running"
    assert [item["key"] for item in stale["evidence"]] == ["status-connector-src", "status-task-src-0"] or [
        item["key"] for item in stale["evidence"]
    ] == ["status-task-src-0", "status-connector-src"]
    assert {item["topic"] for item in stale["evidence"]} == {degraded.worker["status.storage.topic"]}


def test_topics_are_looked_at_though_the_password_for_workers_cannot_be_read(capsys, degraded, monkeypatch):
    monkeypatch.setenv("KCONNECT_USER", "ann")
    monkeypatch.setenv("KCONNECT_PASSWORD_FILE", "/nowhere/password")
    assert run(["topics", "doctor", "--worker", str(degraded.worker_file), "-o", "name"]) == 7
    assert capsys.readouterr().out.split() == ["inconsistent-tasks", "stale-running", "orphan-tasks"]
    run(["topics", "doctor", "--worker", str(degraded.worker_file)])
    assert "Not checked: what workers tell the user of this context (" in capsys.readouterr().err


def test_without_a_group_what_was_not_checked_is_said(capsys, degraded):
    flags = ["--bootstrap-servers", degraded.worker["bootstrap.servers"]]
    code = run(["topics", "doctor", *flags, "--status-topic", degraded.worker["status.storage.topic"]])
    out, err = capsys.readouterr()
    assert (code, out) == (0, "")
    assert "Not checked: the config topic (config.storage.topic is not known)." in err
    assert "(group.id is not known)" in err


def test_commands_to_repair_name_the_cluster_as_it_was_named(capsys, degraded):
    flags = ["--bootstrap-servers", degraded.worker["bootstrap.servers"]]
    flags += ["--config-topic", degraded.worker["config.storage.topic"]]
    assert run(["topics", "doctor", *flags]) == 7
    assert f"$ connect topics config put {' '.join(flags)} commit-src" in capsys.readouterr().out


def test_brokers_that_are_not_there_end_with_5_or_6(capsys, degraded):
    flags = ["--bootstrap-servers", "127.0.0.1:1", "--timeout", "1s", "--worker", str(degraded.worker_file)]
    assert run(["topics", "doctor", *flags]) in (5, 6)
    out, err = capsys.readouterr()
    assert out == ""
    assert "127.0.0.1:1" in err or "--timeout" in err


def test_the_history_of_configs_shows_changes_and_no_secret(connect, well):
    code, out, err = connect(well, "config", "history", "src")
    assert code == 0
    lines = out.splitlines()
    heads = [line.split("Z  ")[1] for line in lines if "Z  " in line]
    assert heads == ["created", "tasks 0 -> 1", "paused", "reconfigured: 2 settings changed"]
    assert lines[-3:] == [
        f"  ~ db.password = {HIDDEN} (another secret: --show-secrets)",
        "  - file = /in",
        "  + file = /new",
    ]
    assert "hunter" not in out
    assert err == "The config topic does not record who made a change.\n"
    _, revealed, _ = connect(well, "config", "history", "src", "--show-secrets")
    assert "  - db.password = hunter2\n  + db.password = hunter3\n" in revealed


def test_offsets_of_the_history_can_be_restored_by_name(connect, well):
    _, out, _ = connect(well, "config", "history", "src", "-o", "name")
    assert [int(line) for line in out.split()] == [0, 2, 3, 4]
    _, out, _ = connect(well, "config", "history", "src", "-o", "json")
    assert [version["kind"] for version in json.loads(out)["versions"]] == [
        "created",
        "tasks",
        "paused",
        "reconfigured",
    ]


def test_the_histories_of_statuses_and_offsets_name_worker_and_values(connect, well):
    _, out, _ = connect(well, "status", "history", "src")
    assert "gone:8083 (generation 1)" in out
    assert "UNASSIGNED" in out
    _, out, _ = connect(well, "offsets", "history", "src", "-o", "json")
    (step,) = json.loads(out)
    assert (step["source_partition"], step["before"], step["value"]) == ({"filename": "/in"}, None, {"position": 7})


@pytest.mark.parametrize("word", ["config", "status", "offsets"])
def test_a_connector_without_a_history_ends_with_3_and_names_alike(connect, well, word):
    code, out, err = connect(well, word, "history", "scr")
    assert (code, out) == (3, "")
    assert "Did you mean src?" in err
