"""What changed configs and offsets is known to the cluster: from any machine, by either worker, and with --direct."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import PreconditionFailedError
from kconnect.runtime.kafka import KafkaAdmin
from kconnect.testing.thread_launcher import ThreadLauncher
from kconnect_cli.app import run
from kit.distributed_worker import worker_settings, workers
from kit.topics import produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker


@dataclass(frozen=True, slots=True)
class World:
    """Two workers of a cluster, with a sink that has read ten lines."""

    urls: tuple[str, str]
    topic: str
    file: Path
    home: Path


@dataclass(frozen=True, slots=True)
class Reported:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def world(broker, tmp_path, topic):
    home, group = tmp_path, f"{topic}-group"
    produce_lines(broker.bootstrap, topic, [str(number) for number in range(10)])
    settings = worker_settings(broker.bootstrap, group, offset_flush_interval_ms="200")
    file = home / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with workers(broker.bootstrap, group, 2, ThreadLauncher, offset_flush_interval_ms="200") as (one, other):
        yield World((one.rest_url, other.rest_url), topic, file, home)


@pytest.fixture
def connect(world, monkeypatch, capfdbinary) -> Callable[..., Reported]:
    """Run `connect ARGS` as on the machine `at`, asking the first worker, or the second one."""

    def call(*arguments: str, at: str = "laptop", worker: int = 0) -> Reported:
        monkeypatch.setenv("KCONNECT_URL", world.urls[worker])
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, str(world.home / at / name))
        monkeypatch.setenv("COLUMNS", "250")
        code = run(list(arguments))
        out, err = capfdbinary.readouterr()
        return Reported(code, out.decode(), err.decode())

    return call


@pytest.fixture
def sink(world):
    """The name of a sink that has read all."""
    name = f"{world.topic}-out"  # its group has no offsets of another test
    config = {"connector.class": "FileStreamSink", "topics": world.topic, "file": str(world.home / f"{name}.txt")}
    with ConnectClient(world.urls[0], retry_conflicts_s=30) as client:
        client.create_connector(name, config)
        eventually(lambda: offsets_of(client, name) == [10], 60, "the sink has read all")
    return name


def offsets_of(client: ConnectClient, name: str) -> list[int]:
    return [item.offset["kafka_offset"] for item in client.connector_offsets(name) if item.offset]


def test_a_move_is_shown_and_taken_back_from_another_machine_by_the_other_worker(connect, world, sink):
    assert connect("connectors", "stop", sink).code == 0
    moved = connect("offsets", "move", sink, "--to-earliest", "--yes", worker=1)
    assert (moved.code, "Warning" in moved.stderr) == (0, False), moved.stderr
    assert not list((world.home / "laptop" / "XDG_STATE_HOME").rglob("*.jsonl")), "the cluster has it, not the laptop"
    (entry,) = connect("offsets", "history", sink, "-o", "json", at="office").json
    (change,) = entry["offsets"]
    assert (entry["action"], entry["user"], entry["from"]) == ("move", "ANONYMOUS", "127.0.0.1")
    assert (change["old"], change["new"]) == ({"kafka_offset": 10}, {"kafka_offset": 0})
    reported = connect("offsets", "undo", sink, "--yes", at="office")
    assert reported.code == 0, reported.stderr
    with ConnectClient(world.urls[0]) as client:
        assert offsets_of(client, sink) == [10]
    actions = [one["action"] for one in connect("offsets", "history", sink, "-o", "json", worker=1).json]
    assert actions == ["move", "undo"]
    assert "ANONYMOUS from 127.0.0.1" in connect("offsets", "history", sink).stdout


def test_what_is_done_on_the_topics_is_written_there_too(connect, world, sink):
    assert connect("connectors", "stop", sink).code == 0
    direct = ["--direct", "--worker", str(world.file), "--force", "--yes"]

    def is_reset() -> bool:
        reset = connect("offsets", "reset", sink, *direct)
        assert reset.code == 0 or "its tasks still run" in reset.stderr, reset.stderr
        return reset.code == 0

    eventually(is_reset, 30, "its tasks have left the group, and the offsets are reset")
    (entry,) = connect("offsets", "history", sink, "-o", "json", at="office").json
    assert (entry["action"], entry["offsets"][0]["new"]) == ("reset", None)
    assert entry["user"] not in (None, "ANONYMOUS")
    undone = connect("offsets", "undo", sink, "--yes", at="office", worker=1)
    assert undone.code == 0, undone.stderr
    listed = connect("offsets", "history", sink, "--direct", "--worker", str(world.file), "-o", "json")
    assert [one["action"] for one in listed.json] == ["reset", "undo"]
    assert connect("config", "set", sink, "tasks.max=2").code == 0
    changed = connect("config", "rollback", sink, *direct)
    assert (changed.code, "not in the history" in changed.stderr) == (0, False), changed.stderr

    def have_authors() -> bool:
        rows = connect("config", "history", sink, "-o", "json").json
        return [(row["changed"], row["user"]) for row in rows[:2]] == [
            (["tasks.max"], entry["user"]),
            (["tasks.max"], "ANONYMOUS"),
        ]

    eventually(have_authors, 10, "both versions have their author")


def test_who_changed_a_config_is_shown_and_its_secrets_are_not(connect, world, sink):
    assert connect("config", "set", sink, "db.password=hunter2", worker=1).code == 0

    def is_reported() -> bool:
        rows = connect("config", "history", sink, "-o", "json", at="office").json
        return [row["user"] for row in rows] == ["ANONYMOUS", "ANONYMOUS"]

    eventually(is_reported, 10, "both versions have their author")
    reported = connect("config", "history", sink, "-o", "json")
    assert reported.json[0]["changed"] == ["db.password"]
    by_file = connect("config", "history", sink, "--worker", str(world.file), "-o", "json")
    assert (reported.code, reported.json) == (0, by_file.json)
    with ConnectClient(world.urls[0]) as client:
        changes = client.changes(sink)
    assert [one["action"] for one in changes] == ["create", "patch"]
    assert "hunter2" not in json.dumps(changes) + reported.stdout


def test_an_earlier_config_comes_back_with_its_secrets_by_whichever_worker_is_asked(connect, world, sink):
    for pairs in (["db.password=hunter2"], ["db.password=hunter3", "tasks.max=2"]):
        assert connect("config", "set", sink, *pairs).code == 0
    found = connect("config", "diff", sink, "-o", "json", at="office", worker=1)
    by_file = connect("config", "diff", sink, "--worker", str(world.file), "-o", "json")
    assert (found.code, found.json) == (0, by_file.json), found.stderr
    assert [one["key"] for one in found.json["settings"]] == ["db.password", "tasks.max"]
    newest, middle = found.json["to"], found.json["from"]
    planned = connect("config", "rollback", sink, "--dry-run", "-o", "json", worker=1)
    assert (planned.code, planned.json["from"], planned.json["to"]) == (0, newest, middle), planned.stderr
    missing = connect("config", "rollback", sink, "99999", "--yes")
    assert (missing.code, "has no version 99999" in missing.stderr) == (3, True), missing.stderr
    for worker, version, password in ((0, middle, "hunter2"), (1, newest, "hunter3")):  # one of them is no leader
        done = connect("config", "rollback", sink, str(version), "--yes", worker=worker)
        assert (done.code, "updated" in done.stderr) == (0, True), done.stderr
        assert "hunter" not in done.stderr + done.stdout
        with ConnectClient(world.urls[worker]) as client:
            assert client.connector_config(sink)["db.password"] == password
    same = connect("config", "rollback", sink, str(newest), "--yes")
    assert (same.code, "unchanged" in same.stderr) == (0, True), same.stderr

    def are_kept() -> bool:
        with ConnectClient(world.urls[0]) as client:
            return [one["action"] for one in client.changes(sink) or ()][-2:] == ["rollback", "rollback"]

    eventually(are_kept, 10, "the history has both")


def test_a_rollback_is_refused_once_somebody_changed_the_connector_since(world, sink):
    with ConnectClient(world.urls[0]) as one, ConnectClient(world.urls[1]) as other:
        one.patch_config(sink, {"tasks.max": "2"})
        _, tag = one.tagged_config(sink)
        target = one.plan_config_rollback(sink, None)["to"]
        other.patch_config(sink, {"tasks.max": "3"})
        for client in (one, other):
            with pytest.raises(PreconditionFailedError):
                client.roll_back_config(sink, target, if_match=tag)
        assert one.connector_config(sink)["tasks.max"] == "3"


def test_the_topic_is_compacted_and_as_safe_as_the_config_topic(world, broker, sink):
    with KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "test") as admin:
        name = f"{world.topic}-group-config-history"
        eventually(lambda: name in admin.describe_topics([name], 10), 20, "it is made at need")
        (topic,) = admin.describe_topics([name], 10).values()
        assert (topic.partitions, topic.replication_factor) == (1, 1)
        assert admin.topic_configs(name, 10)["cleanup.policy"] == "compact"
