"""`connect topics config|status|offsets show|get` on topics that no worker looks after."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.storage.config_topic import encode_logger_level, encode_session_key
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_topic import StoredStatus
from kconnect_cli.app import run
from kit.cli import cli_env, connect_command
from kit.screen import Terminal
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

SOURCE = {"connector.class": "FileStreamSource", "file": "/data/in", "db.password": "hunter2"}
SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "t"}


@pytest.fixture(scope="module")
def cluster(broker, tmp_path_factory):
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("cluster")) as running:
        running.add_connector("src", SOURCE, [{"file": "/data/in", "db.password": "hunter2"}], topics=["t"])
        running.add_connector("a/b c%", SINK, target=TargetState.PAUSED, state=RunState.PAUSED)
        trace = "java.lang.X: no\n\tat y\nCaused by: java.io.IOException: disk full\n\tat z"
        running.statuses.put(TaskId("src", 0), StoredStatus(RunState.FAILED, "gone:8083", 2, trace))
        running.statuses.flush(20)
        running.commit_offsets("src", [({"filename": "/data/in"}, {"position": 7})])
        now_ms = int(time.time() * 1000)
        for key, value in (
            encode_session_key(SessionKey(b"the key of all", "HmacSHA256", now_ms - 7_300_000)),
            encode_logger_level("org.x", "DEBUG"),
        ):
            running.put_raw(InternalTopic.CONFIG, key, value)
        running.put_raw(InternalTopic.CONFIG, b"\xff\x00", b"\x00\x01")
        yield running


@pytest.fixture
def topics(cluster, monkeypatch, capsysbinary, tmp_path):
    """Run `connect topics ARGS` on the cluster; gives code, stdout, stderr."""
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args):
        code = run(["topics", *args])
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return call


def lines_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_config_topic_as_a_table(topics):
    code, out, err = topics("config", "show")
    assert code == 0
    table, _, below = out.partition("\n\n")
    assert table.splitlines()[0].split() == ["NAME", "TYPE", "CLASS", "STATE", "TASKS", "OFFSET", "NOTE"]
    assert table.splitlines()[1].startswith("a/b c%   sink     FileStreamSinkConnector   PAUSED    0       ")
    assert table.splitlines()[2].startswith("src      source   FileStreamSource          STARTED   1       0")
    assert below.startswith("session key: HmacSHA256, made ")
    assert below.endswith("2 hours ago\nlogger org.x: DEBUG\n")
    assert "Keys of no known kind: 1." in err


def test_json_yaml_and_names_of_the_config_topic(topics):
    document = json.loads(topics("config", "show", "-o", "json")[1])
    assert list(document) == ["offset", "connectors", "session_key", "loggers"]
    assert [found["name"] for found in document["connectors"]] == ["src", "a/b c%"]
    assert document["connectors"][0]["config"]["db.password"] == "[hidden]"
    assert document["session_key"]["key"] == "[hidden]"
    again = yaml.safe_load(topics("config", "show", "-o", "yaml")[1])
    document["session_key"].pop("age_s")
    again["session_key"].pop("age_s")
    assert again == document
    assert topics("config", "show", "-o", "name")[1] == "src\na/b c%\n"


def test_named_connectors_are_shown_with_their_settings_and_secrets_only_when_asked(topics):
    code, out, _ = topics("config", "show", "src")
    assert code == 0
    assert "  db.password = [hidden]\n" in out
    assert "hunter2" not in out + topics("config", "show", "--raw")[1] + topics("config", "get", "connector-src")[1]
    assert topics("config", "show", "src", "--show-secrets")[1].count("hunter2") == 2
    assert "hunter2" in topics("config", "show", "--raw", "--show-secrets")[1]


def test_a_connector_that_is_not_there_gives_names_that_are(topics):
    for word in ("config", "status", "offsets"):
        code, out, err = topics(word, "show", "scr")
        assert (code, out) == (3, "")
        assert "has no connector scr" in err
        assert "Did you mean src?" in err


def test_raw_records_have_place_time_size_key_and_value(topics, cluster):
    code, out, _ = topics("config", "show", "--raw", "-o", "json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert list(rows[0]) == ["partition", "offset", "timestamp", "key", "value", "size"]
    assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)
    assert rows[0]["key"] == "connector-src"
    assert rows[0]["size"] == len("connector-src" + json.dumps({"properties": {**SOURCE, "name": "src"}})) - 8
    odd = next(row for row in rows if isinstance(row["key"], dict))
    assert (odd["key"], odd["value"]) == ({"base64": "/wA="}, "\x00\x01")
    table = topics("config", "show", "--raw")[1].splitlines()
    assert table[0].split() == ["PLACE", "TIME", "SIZE", "KEY", "VALUE"]
    assert next(line for line in table if "base64:/wA=" in line).endswith("\\x00\\x01")
    only = topics("offsets", "show", "src", "--raw", "-o", "name")[1]
    assert only == '["src",{"filename":"/data/in"}]\n'
    keys = topics("config", "show", "a/b c%", "--raw", "-o", "name")[1].split("\n")
    assert set(keys) == {"connector-a/b c%", "target-state-a/b c%", ""}


def test_the_state_as_of_an_offset_or_a_time(topics):
    assert topics("config", "show", "--at", "0", "-o", "name")[1] == "src\n"
    code, out, err = topics("config", "show", "--until", "-1h", "-o", "json")
    assert (code, json.loads(out)["connectors"]) == (0, [])
    assert "holds no records up to there" in err
    assert topics("config", "show", "--until", "2999-01-01T00:00:00Z", "-o", "name")[1] == "src\na/b c%\n"
    assert len(topics("config", "show", "--raw", "--at", "1")[1].splitlines()) == 3
    shown = [topics("status", "show", "--at", f"{number}:0", "-o", "json")[0] for number in range(3)]
    assert shown == [0, 0, 0]
    for args in (("config", "--at", "x"), ("status", "--at", "3"), ("config", "--until", "noon")):
        code, out, err = topics(args[0], "show", *args[1:])
        assert (code, out) == (2, ""), err
    assert topics("config", "show", "--follow", "--at", "1")[0] == 2


def test_the_status_topic_as_a_table_and_as_json(topics):
    code, out, _ = topics("status", "show")
    assert code == 0
    assert lines_of(out) == [
        ["NAME", "TASK", "STATE", "WORKER", "GEN", "TOPICS", "WHY"],
        ["a/b", "c%", "PAUSED", "gone:8083", "1"],
        ["src", "RUNNING", "gone:8083", "1", "t"],
        ["src", "0", "FAILED", "gone:8083", "2", "java.io.IOException:", "disk", "full"],
    ]
    (src,) = json.loads(topics("status", "show", "src", "-o", "json")[1])
    assert src["connector"] == {"state": "RUNNING", "worker_id": "gone:8083", "generation": 1, "version": "4.3.0"}
    assert src["tasks"][0]["trace"].startswith("java.lang.X: no\n")
    assert [topic["name"] for topic in src["topics"]] == ["t"]
    assert topics("status", "show", "-o", "name")[1] == "a/b c%\nsrc\n"


def test_offsets_are_what_alter_takes(topics, tmp_path):
    from kconnect_cli.files.offset_files import read_offsets

    assert lines_of(topics("offsets", "show")[1])[1] == ["src", '{"filename":"/data/in"}', '{"position":7}']
    for args, names in ((("src",), ["src"]), ((), [])):
        file = tmp_path / "offsets.json"
        file.write_text(topics("offsets", "show", *args, "-o", "json")[1])
        (found,) = read_offsets(str(file)).chosen(names)["src"]
        assert (found.partition, found.offset) == ({"filename": "/data/in"}, {"position": 7})


def test_get_prints_the_newest_value_of_a_key(topics, cluster):
    code, out, err = topics("status", "get", "status-task-src-0")
    assert code == 0
    assert json.loads(out)["state"] == "FAILED"
    assert cluster.worker["status.storage.topic"] in err
    assert topics("offsets", "get", '["src", {"filename": "/data/in"}]', "--raw")[1] == '{"position":7}'
    assert topics("config", "get", "base64:/wA=", "--raw")[1] == "\x00\x01"
    code, out, err = topics("config", "get", "base64:/wA=")
    assert (code, out) == (0, "\x00\x01\n")
    assert "is not JSON" in err


def test_get_of_a_key_that_is_not_there_or_deleted(topics, cluster):
    code, out, err = topics("config", "get", "conector-src")
    assert (code, out) == (3, "")
    assert "connector-src" in err
    cluster.put_raw(InternalTopic.STATUS, b"status-task-old-3", b"{}")
    cluster.put_raw(InternalTopic.STATUS, b"status-task-old-3", None)
    code, out, err = topics("status", "get", "status-task-old-3")
    assert (code, out) == (3, "")
    assert "it was deleted at 0:" in err


def test_a_topic_of_another_kind_is_reported_with_those_that_look_right(topics, cluster):
    status, configs = cluster.worker["status.storage.topic"], cluster.worker["config.storage.topic"]
    code, out, err = topics("config", "show", "--config-topic", status)
    assert (code, out) == (1, "")
    assert "is not the config topic" in err
    assert "status.storage.topic" in err
    assert configs in err


@pytest.mark.parametrize(
    "command",
    [
        ("connectors", "list", "--direct"),
        ("connectors", "delete", "src", "--direct", "--yes"),
        ("offsets", "show", "src", "--direct"),
        ("topics", "export", "-"),
        ("topics", "config", "put", "target-state-src", '{"state":"PAUSED"}', "--yes"),
        ("topics", "config", "delete", "status-connector-src", "--yes"),
        ("topics", "config", "restore", "src", "--at", "3", "--yes"),
    ],
    ids=" ".join,
)
def test_nothing_is_made_of_a_topic_of_another_kind_nor_written_to_it(
    cluster, monkeypatch, capsysbinary, tmp_path, command
):
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with ClusterReader(cluster.access) as reader:
        before = reader.statuses().seen.records
        assert run([*command, "--config-topic", cluster.worker["status.storage.topic"]]) == 1
        out, err = capsysbinary.readouterr()
        assert out == b""
        assert b"is not the config topic" in err
        assert reader.statuses().seen.records == before


def test_a_topic_that_is_not_there_is_reported_with_those_that_look_right(topics, cluster):
    code, out, err = topics("offsets", "show", "--offset-topic", cluster.worker["group.id"] + "-ofsets")
    assert (code, out) == (3, "")
    assert "Correct offset.storage.topic or --offset-topic" in err
    assert cluster.worker["offset.storage.topic"] in err


def test_an_unreachable_broker_is_code_5_in_one_sentence(topics):
    code, out, err = topics("config", "show", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "500ms")
    assert (code, out) == (5, "")
    assert "No Kafka broker answers at 127.0.0.1:1" in err
    assert "bootstrap.servers" in err
    assert "Connection refused" in err


def test_without_any_cluster_the_way_to_name_one_is_reported(topics, monkeypatch):
    monkeypatch.delenv("KCONNECT_WORKER")
    code, out, err = topics("config", "show")
    assert (code, out) == (2, "")
    assert "--worker" in err
    code, out, err = topics("config", "show", "--bootstrap-servers", "127.0.0.1:1")
    assert (code, out) == (2, "")
    assert "--config-topic" in err


def test_names_are_completed_from_the_config_topic(topics, cluster, capsysbinary, monkeypatch):
    def completed(*words: str) -> list[str]:
        assert run(["complete", "--", "topics", *words]) == 0
        return [line.partition("\t")[0] for line in capsysbinary.readouterr().out.decode().splitlines()]

    def live(*words: str) -> list[str]:
        """Brokers are asked for less than a second, which may be too short for a busy machine."""
        return eventually(lambda: completed(*words), why=f"something is offered behind {words}")

    assert live("status", "show", "s") == ["src"]
    assert completed("config", "show", "--worker", "")[0] == ":files"
    monkeypatch.delenv("KCONNECT_WORKER")
    assert completed("status", "show", "s") == []
    assert live("status", "show", "--worker", str(cluster.worker_file), "s") == ["src"]


@pytest.mark.parametrize("raw", [False, True])
def test_follow_tells_what_is_written_until_ctrl_c(raw, cluster, home):
    command = [*connect_command(), "topics", "config", "show", "--follow", *(["--raw"] if raw else [])]
    env = cli_env(home, {"KCONNECT_WORKER": str(cluster.worker_file)})
    name = f"live-{raw}"
    with Terminal(command, env, cwd=str(home), columns=120) as terminal:
        terminal.until("connector-src" if raw else "logger org.x")
        cluster.configs.put_connector_config(name, {**SOURCE, "name": name}, None)
        shown = terminal.until(f"connector-{name}" if raw else f"{name}: created")
        assert "hunter2" not in shown
        terminal.interrupt()
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.text
