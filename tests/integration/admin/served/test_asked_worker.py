"""One URL is enough: a worker reads its Kafka for commands that name no brokers, as they do with its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kconnect.client import ClientAccess, ConnectClient
from kconnect.testing.thread_launcher import ThreadLauncher
from kconnect_cli.app import run
from kit.distributed_worker import worker_settings, workers
from kit.topics import create_topic, produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
ROLES = """
[[grant]]
role = "admin"
users = ["ann"]

[[grant]]
role = "editor"
users = ["eve"]
connectors = ["orders"]
files = ["/"]
topics = ["others-*"]

[[grant]]
role = "operator"
users = ["bob"]
"""
ANN = ClientAccess(user="ann", password="anns-word")
JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


@dataclass(frozen=True, slots=True)
class World:
    """A worker with a sink that has read ten lines, of which one is a dead letter."""

    url: str
    topic: str
    file: Path


@dataclass(frozen=True, slots=True)
class Reported:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def connect(world, monkeypatch, capfdbinary, tmp_path):
    """Run `connect ARGS` on the world's worker, with or without its file."""
    monkeypatch.setenv("KCONNECT_URL", world.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, by_file: bool = False, user: str = "ann") -> Reported:
        monkeypatch.setenv("KCONNECT_USER", user)
        monkeypatch.setenv("KCONNECT_PASSWORD", f"{user}s-word")
        words = {"TOPIC": world.topic, "PATCH": str(world.file.with_name("patch.json"))}
        given = [words.get(word, word) for word in arguments]
        code = run([*given, *(["--worker", str(world.file)] if by_file else [])])
        out, err = capfdbinary.readouterr()
        return Reported(code, out.decode(), err.decode())

    return call


def page_of(url: str, path: str) -> tuple[int, str]:
    """A page of the worker's console, as ann sees it."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path, headers=ANN.headers())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def world(broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("served")
    group, topic, letters = "served", "served-orders", "served-letters"
    create_topic(broker.bootstrap, topic, partitions=2)
    lines = [json.dumps({"id": number}) for number in range(9)] + ["no JSON"]
    produce_lines(broker.bootstrap, topic, lines[:5], partition=0)
    produce_lines(broker.bootstrap, topic, lines[5:], partition=1)
    (home / "users.properties").write_text("".join(f"{user}={user}s-word\n" for user in ("ann", "bob", "eve")))
    (home / "jaas.conf").write_text(f'KafkaConnect {{ {MODULE} required file="{home / "users.properties"}"; }};')
    (home / "roles.toml").write_text(ROLES)
    (home / "patch.json").write_text(json.dumps([{"op": "replace", "path": "/value", "value": {"id": 9}}]))
    more = {
        "offset_flush_interval_ms": "200",
        "kconnect_rest_roles_file": str(home / "roles.toml"),
        "kconnect_jaas_file": str(home / "jaas.conf"),
        "rest_extension_classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
        "kconnect_audit_log_file": str(home / "audit.log"),
    }
    settings = worker_settings(broker.bootstrap, group, **more)
    file = home / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    sink = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(home / "out.txt"),
        **JSON,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with (
        workers(broker.bootstrap, group, 1, ThreadLauncher, **more) as (worker,),
        ConnectClient(worker.rest_url, access=ANN) as client,
    ):
        client.create_connector("orders", sink)
        client.patch_config("orders", {"note": "an earlier config has none"})
        made = World(worker.rest_url, topic, file)

        def is_read() -> bool:
            offsets = client.connector_offsets("orders")
            return sum(item.offset["kafka_offset"] for item in offsets if item.offset) == 10

        eventually(is_read, 60, "the sink has read all")
        assert page_of(made.url, "/ui")[0] == 200  # its threads begin here
        yield made


@pytest.mark.parametrize(
    "command",
    [
        ("records", "TOPIC", "-o", "json"),
        ("records", "TOPIC", "-o", "table"),
        ("records", "TOPIC", "-o", "raw", "--from", "earliest"),
        ("records", "TOPIC", "-n", "3", "-o", "jsonl"),
        ("records", "TOPIC", "--from", "earliest", "--limit", "4", "-o", "json"),
        ("records", "TOPIC", "--from", "-1h", "--until", "1s", "-o", "json"),
        ("records", "TOPIC", "--offset", "2", "-p", "0", "-o", "json"),
        ("records", "TOPIC", "--as", "orders", "--where", "id > 6", "-o", "json"),
        ("records", "TOPIC", "--key", "nobody", "-o", "json"),
        ("records", "served-config", "-n", "50", "-o", "json"),
        ("dlq", "list", "orders", "-o", "json"),
        ("dlq", "list", "orders", "--stage", "KEY_CONVERTER", "-o", "json"),
        ("dlq", "show", "orders", "-o", "json"),
        ("dlq", "show", "orders", "--offset", "0-3", "--trace"),
        ("dlq", "export", "orders"),
        ("dlq", "replay", "orders", "--dry-run", "-o", "json"),
        ("dlq", "replay", "orders", "--to-topic", "served-again", "--dry-run"),
        ("dlq", "replay", "orders", "--edit", "PATCH", "--max-replays", "1", "--limit", "1", "--dry-run", "-o", "json"),
        ("topics", "doctor", "-o", "json"),
        ("cluster", "show", "-o", "json"),
        ("cluster", "members", "-o", "json"),
        ("cluster", "leader"),
        ("cluster", "rebalances", "-o", "json"),
        ("offsets", "show", "orders", "-o", "json"),
        ("offsets", "move", "orders", "--to-earliest", "--dry-run"),
        ("offsets", "move", "orders", "--to-time", "1h", "--dry-run"),
        ("offsets", "move", "orders", "--shift-by", "-2", "--topic", "TOPIC", "--partition", "0", "--dry-run"),
    ],
    ids=" ".join,
)
def test_the_url_gives_what_the_workers_file_gives(connect, command: tuple[str, ...]):
    asked, read = connect(*command), connect(*command, by_file=True)
    assert (asked.code, asked.stdout) == (read.code, read.stdout)
    assert asked.code == 0, asked.stderr
    if command[0] in ("dlq", "cluster"):
        assert asked.stdout
    if command[0] == "offsets" and "--dry-run" in command:
        assert asked.stderr == read.stderr
        assert "kafka_offset" in asked.stderr


def test_a_look_at_many_records_is_continued_where_an_answer_ended(world: World):
    with ConnectClient(world.url, access=ANN) as client:
        first = client.records(world.topic, [("from", "earliest"), ("limit", "4")])
        rest = client.records(world.topic, [("from", "earliest"), ("positions", json.dumps(first["positions"]))])
        places = [(one["partition"], one["offset"]) for page in (first, rest) for one in page["records"]]
        assert (first["more"], rest["more"]) == (True, False)
        assert sorted(places) == sorted(set(places))
        assert len(places) == 10
        none = client.records(world.topic, [("from", "earliest"), ("positions", json.dumps(rest["positions"]))])
        assert none["records"] == []


def test_a_rollback_is_for_editors_whose_grants_allow_the_earlier_config_also_when_it_is_only_planned(connect):
    assert connect("config", "diff", "orders", "-o", "name", user="bob").stdout == "note\n"
    only = connect("config", "rollback", "orders", "--dry-run", user="bob")
    assert "User bob lacks the role editor for connector orders" in only.stderr
    for how in ("--dry-run", "--yes"):
        beyond = connect("config", "rollback", "orders", how, user="eve")
        assert (beyond.code, "topics" in beyond.stderr) == (1, True), beyond.stderr
    planned = connect("config", "rollback", "orders", "--dry-run", "-o", "name")
    assert (planned.code, planned.stdout) == (0, "note\n"), planned.stderr


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (("records", "no-such-topic"), 3, "Topic 'no-such-topic' does not exist"),
        (("records", "TOPIC", "--as", "nobody"), 3, "nobody"),
        (("records", "TOPIC", "--where", "id >"), 1, "The condition cannot be used: It does not parse at line 1"),
        (("records", "TOPIC", "--registry", "http://r"), 2, "--registry needs the brokers"),
        (("dlq", "list", "nobody"), 3, "nobody"),
        (("dlq", "replay", "nobody", "--yes"), 3, "nobody"),
        (("dlq", "replay", "orders", "--stage", "x", "--yes"), 2, "--stage x is not a stage"),
        (("dlq", "replay", "orders", "--through", "--yes"), 2, "--worker FILE"),
        (("dlq", "replay", "orders", "--edit", "repairs:repair", "--yes"), 2, "--worker FILE"),
        (("dlq", "show", "orders", "--offset", "x"), 2, "--offset x is not a range of offsets"),
        (("offsets", "reset", "orders", "--to-offset", "999", "--yes"), 1, "has no offset 999"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_said_as_with_the_workers_file(connect, command, code, message):
    reported = connect(*command)
    assert (reported.code, message in reported.stderr) == (code, True), reported.stderr


def test_slots_are_shown(connect):
    reported = connect("slots")
    assert (reported.code, reported.stderr) == (0, "")
    assert "orders-0" in reported.stdout


def test_who_may_not_edit_the_connector_may_not_replay_and_an_editor_only_to_topics_of_the_grant(connect, world):
    before = connect("dlq", "list", "orders", "-o", "json").json["replayed"]
    denied = connect("dlq", "replay", "orders", "--dry-run", user="bob")
    assert (denied.code, "lacks the role editor" in denied.stderr) == (1, True), denied.stderr
    assert connect("dlq", "replay", "orders", "--dry-run", user="eve").code == 0
    beyond = connect("dlq", "replay", "orders", "--yes", user="eve")
    assert (beyond.code, f"topics={world.topic} is not among the grant's topics" in beyond.stderr) == (1, True)
    own = connect("dlq", "replay", "orders", "--to-topic", "served-config", "--yes", user="eve")
    assert (own.code, "one of the worker's own topics" in own.stderr) == (1, True), own.stderr
    assert connect("dlq", "list", "orders", "-o", "json").json["replayed"] == before


def test_a_replay_by_url_sends_each_letter_once_edited_as_a_patch_or_a_file_says(connect, world, tmp_path):
    done = connect("dlq", "replay", "orders", "--edit", "PATCH", "--yes", "-o", "json")
    assert (done.code, done.json["outcomes"]) == (0, {"replay": 1}), done.stderr
    with ConnectClient(world.url, access=ANN) as client:
        (last,) = client.records(world.topic, [("last", "1")])["records"]
        assert last["value"] == {"id": 9}
    again = connect("dlq", "replay", "orders", "--yes", "-o", "json")
    assert again.json["outcomes"] == {"already replayed": 1}
    assert "Nothing to replay" in again.stderr
    audited = [json.loads(line) for line in world.file.with_name("audit.log").read_text().splitlines()]
    (line,) = [one for one in audited if one["path"].endswith("dead-letters/replay") and one["outcome"] == "done"]
    assert (line["user"], line["after"]) == ("ann", {"targets": {world.topic: 1}, "edited": True})

    exported = json.loads(connect("dlq", "export", "orders").stdout)
    file = tmp_path / "letters.jsonl"
    file.write_text(json.dumps({**exported, "letter": {**exported["letter"], "topic": "elsewhere"}}))
    other = connect("dlq", "replay", "orders", "--file", str(file), "--yes")
    assert (other.code, "has elsewhere-" in other.stderr) == (1, True), other.stderr
    repaired = {**exported, "record": {**exported["record"], "value": {"id": 10}}}
    later = {**repaired["letter"], "offset": exported["letter"]["offset"] + 1}
    file.write_text(json.dumps({**repaired, "letter": later}))
    sent = connect("dlq", "replay", "orders", "--file", str(file), "--yes", "-o", "json")
    assert (sent.code, sent.json["targets"]) == (0, {world.topic: 1}), sent.stderr


def test_the_doctor_finds_by_url_what_it_finds_by_the_workers_file_for_admins_only(connect, world, broker):
    writer = Producer({"bootstrap.servers": broker.bootstrap})
    writer.produce("served-config", b'{"properties":{}}', key=b"task-gone-0")
    assert writer.flush(10) == 0
    asked, read = connect("topics", "doctor"), connect("topics", "doctor", by_file=True)
    assert (asked.code, asked.stderr) == (read.code, read.stderr)
    assert asked.stdout == read.stdout.replace(str(world.file), "WORKER.properties")
    assert "orphan-tasks" in asked.stdout
    counted = connect("status", "-o", "json").json
    assert counted["doctor"] == connect("status", "-o", "json", by_file=True).json["doctor"]
    assert (counted["doctor"]["counts"]["info"], counted["notes"]) == (1, [])
    refused = connect("status", "-o", "json", user="eve").json
    assert (refused["doctor"], "lacks the role admin" in refused["notes"][0]) == (None, True)
    denied = connect("topics", "doctor", user="eve")
    assert (denied.code, "lacks the role admin" in denied.stderr) == (1, True), denied.stderr
    status, html = page_of(world.url, "/ui/doctor")
    assert (status, "orphan-tasks" in html, "--worker WORKER.properties" in html) == (200, True, True), html
