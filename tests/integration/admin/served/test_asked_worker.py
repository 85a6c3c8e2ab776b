"""One URL is enough: a worker reads its Kafka for commands that name no brokers, as they do with its file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.testing.thread_launcher import ThreadLauncher
from kconnect_cli.app import run
from kit.distributed_worker import worker_settings, workers
from kit.topics import create_topic, produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker

JSON = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}


@dataclass(frozen=True, slots=True)
class World:
    """A worker with a sink that has read ten lines, of which one is a dead letter."""

    url: str
    topic: str
    file: Path


@dataclass(frozen=True, slots=True)
class Told:
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def connect(world, monkeypatch, capfdbinary, tmp_path):
    """Run `connect ARGS` on the world's worker, with or without its file."""
    monkeypatch.setenv("KCONNECT_URL", world.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str, by_file: bool = False) -> Told:
        given = [world.topic if word == "TOPIC" else word for word in arguments]
        code = run([*given, *(["--worker", str(world.file)] if by_file else [])])
        out, err = capfdbinary.readouterr()
        return Told(code, out.decode(), err.decode())

    return call


@pytest.fixture(scope="module")
def world(broker, tmp_path_factory):
    home = tmp_path_factory.mktemp("served")
    group, topic, letters = "served", "served-orders", "served-letters"
    create_topic(broker.bootstrap, topic, partitions=2)
    lines = [json.dumps({"id": number}) for number in range(9)] + ["no JSON"]
    produce_lines(broker.bootstrap, topic, lines[:5], partition=0)
    produce_lines(broker.bootstrap, topic, lines[5:], partition=1)
    settings = worker_settings(broker.bootstrap, group, offset_flush_interval_ms="200")
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
    flush = {"offset_flush_interval_ms": "200"}
    with (
        workers(broker.bootstrap, group, 1, ThreadLauncher, **flush) as (worker,),
        ConnectClient(worker.rest_url) as client,
    ):
        client.create_connector("orders", sink)
        made = World(worker.rest_url, topic, file)

        def is_read() -> bool:
            offsets = client.connector_offsets("orders")
            return sum(item.offset["kafka_offset"] for item in offsets if item.offset) == 10

        eventually(is_read, 60, "the sink has read all")
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
    if "--dry-run" in command:
        assert asked.stderr == read.stderr
        assert "kafka_offset" in asked.stderr


def test_a_look_at_many_records_is_continued_where_an_answer_ended(world: World):
    with ConnectClient(world.url) as client:
        first = client.records(world.topic, [("from", "earliest"), ("limit", "4")])
        rest = client.records(world.topic, [("from", "earliest"), ("positions", json.dumps(first["positions"]))])
        places = [(one["partition"], one["offset"]) for page in (first, rest) for one in page["records"]]
        assert (first["more"], rest["more"]) == (True, False)
        assert sorted(places) == sorted(set(places))
        assert len(places) == 10
        none = client.records(world.topic, [("from", "earliest"), ("positions", json.dumps(rest["positions"]))])
        assert none["records"] == []


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (("records", "no-such-topic"), 3, "Topic 'no-such-topic' does not exist"),
        (("records", "TOPIC", "--as", "nobody"), 3, "nobody"),
        (("records", "TOPIC", "--where", "id >"), 1, "The condition cannot be used: It does not parse at line 1"),
        (("records", "TOPIC", "--registry", "http://r"), 2, "--registry needs the brokers"),
        (("dlq", "list", "nobody"), 3, "nobody"),
        (("dlq", "show", "orders", "--offset", "x"), 2, "--offset x is not a range of offsets"),
        (("offsets", "reset", "orders", "--to-offset", "999", "--yes"), 1, "has no offset 999"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_said_as_with_the_workers_file(connect, command, code, message):
    told = connect(*command)
    assert (told.code, message in told.stderr) == (code, True), told.stderr


def test_slots_are_shown(connect):
    told = connect("slots")
    assert (told.code, told.stderr) == (0, "")
    assert "orders-0" in told.stdout
