"""Dead letters that come back: a real sink, a real broker, `connect dlq` as a user calls it, killed in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from kconnect.admin.dead_letters import (
    DeadLetterTopic,
    KafkaAccess,
    MarkWriter,
    Outcome,
    Preparation,
    ReplayRules,
    replay,
)
from kconnect.admin.dead_letters.letter import dead_letter
from kconnect.admin.dead_letters.marks import MarkState, Run, mark_entry, run_entry
from kconnect.admin.dead_letters.planning import outgoing
from kconnect.api import ConsumerRecord, Schema, SourceRecord
from kconnect.errors import FencedError, TimedOutError
from kconnect.java.devbroker import DevBroker
from kconnect.model import TaskSpec
from kconnect.runtime.kafka import KafkaRecord
from kconnect_cli.app import run as cli
from kit.cli import CliResult, cli_env, connect_command
from kit.pace import ample_s
from kit.pipeline_host import SOURCE, Behaviour, PipelineHost
from kit.topics import await_committed, consume, create_topic, delete_topic, end_offset, produce_lines
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

JSON = "org.apache.kafka.connect.json.JsonConverter"
PREFIX = "__connect.errors."


@pytest.fixture(scope="module")
def cluster(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenCluster]:
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("letters")) as running:
        yield running


@dataclass
class World:
    """A sink with a dead letter topic, and the commands on it."""

    bootstrap: str
    cluster: WrittenCluster
    topic: str
    folder: Path
    host: PipelineHost
    capture: pytest.CaptureFixture[str]
    config: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"sink-{self.topic}"

    @property
    def dlq(self) -> str:
        return f"{self.topic}-dlq"

    @property
    def out(self) -> Path:
        return self.folder / "out.txt"

    def start(self, **more: str) -> TaskSpec:
        self.config = config = {
            "connector.class": "FileStreamSink",
            "topics": self.topic,
            "file": str(self.out),
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": self.dlq,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            **more,
        }
        self.cluster.add_connector(self.name, config, [config], topics=[self.topic])
        task = {key: value for key, value in config.items() if key != "connector.class"}
        return self.host.start_sink(self.name, config["connector.class"], **task)

    def lines(self) -> list[str]:
        return self.out.read_text().splitlines() if self.out.exists() else []

    def run(self, verb: str, *args: str, expect: int = 0) -> CliResult:
        """In this process: a start of Python costs a second."""
        self.capture.readouterr()
        code = cli(self.command(verb, *args))
        reported = self.capture.readouterr()
        assert code == expect, f"{verb} {args} ended with {code}, not {expect}\n{reported.out}\n{reported.err}"
        return CliResult(code, reported.out, reported.err)

    def command(self, verb: str, *args: str) -> list[str]:
        return ["dlq", verb, self.name, "--direct", "--worker", str(self.cluster.worker_file), *args]

    def await_lines(self, count: int) -> list[str]:
        try:
            eventually(lambda: len(self.lines()) >= count, 20, f"{count} lines in the sink's file")
        except AssertionError as late:
            ends = {name: end_offset(self.bootstrap, name) for name in (self.topic, self.dlq)}
            message = f"{len(self.lines())} lines, topics end at {ends}, {self.host.host.conditions()}"
            raise AssertionError(f"{late}; {message}, {self.host.host.counters()}") from late
        return self.lines()

    def await_letters(self, count: int) -> None:
        eventually(lambda: end_offset(self.bootstrap, self.dlq) >= count, 20, f"{count} dead letters")

    def access(self) -> KafkaAccess:
        clients = self.cluster.access.clients()
        return KafkaAccess(producer=clients.producer, consumer=clients.consumer, admin=clients.admin)


@pytest.fixture
def world(
    broker: DevBroker,
    cluster: WrittenCluster,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with PipelineHost(broker.bootstrap, offset_flush_interval_ms="100") as host:
        yield World(broker.bootstrap, cluster, topic, tmp_path, host, capsys)


def test_poison_is_listed_shown_edited_and_replayed_into_the_sink_once(world: World) -> None:
    world.start()
    produce_lines(world.bootstrap, world.topic, ['{"id":1}', "oops", '{"id":3}'], key=b"k")
    world.await_lines(2)
    world.await_letters(1)

    found = world.run("list", "-o", "json").json
    (group,) = found["groups"]
    assert (found["count"], found["replayed"], group["stage"], group["topic"]) == (1, 0, "VALUE_CONVERTER", world.topic)
    (shown,) = world.run("show", "-o", "json").json
    assert shown["origin"] == {"topic": world.topic, "partition": 0, "offset": 1}
    assert (shown["key"], shown["value"], shown["task"]) == ("k", "oops", 0)
    assert "oops" not in shown["headers"]
    assert shown["problems"], "its converter says why it cannot be read"
    page = world.run("show").stdout
    assert page.splitlines()[1].startswith("  cause")

    patch = world.folder / "fix.json"
    patch.write_text(json.dumps([{"op": "replace", "path": "/value", "value": {"id": 2}}]))
    dry = world.run("replay", "--edit", str(patch), "--dry-run")
    assert '  - value: "oops"\n  + value: {"id":2}' in dry.stdout
    assert end_offset(world.bootstrap, world.topic) == 3
    done = world.run("replay", "--edit", str(patch), "--yes", "-o", "json")
    assert done.json["outcomes"] == {"replay": 1}
    assert world.await_lines(3)[2] == "{id=2}"

    again = world.run("replay", "--yes", "-o", "json")
    assert again.json["outcomes"] == {"already replayed": 1}
    assert world.run("list", "-o", "json").json["replayed"] == 1
    assert world.lines()[2:] == ["{id=2}"]


def test_a_replay_that_is_killed_in_the_middle_neither_loses_nor_doubles(world: World) -> None:
    count = 2_000
    world.start()
    bad = [f"oops {number}" for number in range(count)]
    produce_lines(world.bootstrap, world.topic, bad)
    world.await_letters(count)
    (world.folder / "repairs.py").write_text(
        "import os, time\n"
        "asked = []\n"
        "def repair(record):\n"
        f"    if record.value == {bad[-1]!r} and 'KIT_HOLDS' in os.environ:\n"
        "        asked.append(record)\n"
        "        while len(asked) > 1:\n"
        "            time.sleep(1)\n"
        "    return record.new_record(value={'text': record.value}, value_schema=None)\n"
    )
    begun = end_offset(world.bootstrap, world.topic)
    command = [*connect_command(), *world.command("replay", "--edit", "repairs:repair", "--yes")]
    # All are counted before one is sent; the last one then waits to be killed, so that the kill is never too late
    env = cli_env(world.folder, {"KIT_HOLDS": "yes"})
    killed = subprocess.Popen(command, env=env, cwd=world.folder, stderr=subprocess.PIPE)

    def is_sending() -> bool:
        """Its first transaction is open and has records, which the sink reads and nobody commits."""
        return end_offset(world.bootstrap, world.topic, isolation="read_uncommitted") > begun

    try:
        eventually(is_sending, 40, "records are sent", pause_s=0.001)
    finally:
        killed.kill()
        _, reported = killed.communicate(timeout=ample_s(10))
    assert killed.returncode == -signal.SIGKILL, f"it ended before it was killed: {reported!r}"

    done = world.run("replay", "--edit", "repairs:repair", "--yes", "-o", "json").json["outcomes"]
    assert sum(done.values()) == count
    world.await_lines(count)
    assert world.run("replay", "--yes", "-o", "json").json["outcomes"] == {"already replayed": count}
    assert sorted(world.lines()) == sorted(f"{{text={each}}}" for each in bad)


@pytest.mark.parametrize(
    ("isolation", "outcome"), [("read_uncommitted", Outcome.ARRIVED), ("read_committed", "replay")]
)
def test_what_an_aborted_transaction_left_is_sent_again_only_to_a_sink_that_did_not_read_it(
    world: World, isolation: str, outcome: str
) -> None:
    world.start()
    produce_lines(world.bootstrap, world.topic, ["oops"])
    world.await_letters(1)
    with DeadLetterTopic(world.dlq, world.access()) as letters:

        def prepare(marks: Any, arrived: Any) -> Preparation:
            return Preparation(ReplayRules(), marks, letters.partitions, arrived=arrived)

        def run() -> dict[str, int]:
            with MarkWriter(letters, world.name) as writer:
                return dict(replay(writer, world.name, lambda: [letter], prepare, isolation=isolation).counts)

        (letter,) = letters.letters()
        with MarkWriter(letters, world.name) as writer:
            writer.claim()
            writer.transact([run_entry(Run(world.name, 1, letters.topic_ends({world.topic: 1})))])
            record = outgoing(letter, letter.as_read(), ReplayRules(), {world.topic: 1})
            assert record is not None
            settings = {"bootstrap.servers": world.bootstrap, "transactional.id": f"connect-dlq-{world.name}"}
            lost = Producer(settings)
            lost.init_transactions(10)
            lost.begin_transaction()
            lost.produce(record.topic, record.value, headers=list(record.headers))
            assert lost.flush(10) == 0
        assert run() == {outcome: 1}
        assert run() == {Outcome.ALREADY: 1}


def test_a_replay_waits_for_marks_behind_a_transaction_of_another_connector(world: World) -> None:
    create_topic(world.bootstrap, world.dlq)
    letter = dead_letter(ConsumerRecord(world.dlq, 0, 3, None, b"x", 1_000))
    open_one = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": f"connect-dlq-other-{world.topic}"})
    open_one.init_transactions(10)
    with (
        DeadLetterTopic(world.dlq, replace(world.access(), timeout_s=ample_s(0.5))) as hasty,
        DeadLetterTopic(world.dlq, world.access()) as letters,
        MarkWriter(letters, world.name) as writer,
    ):
        writer.claim()
        open_one.begin_transaction()
        open_one.produce(f"{world.dlq}.replayed", b"1", key=b"a")
        assert open_one.flush(10) == 0
        writer.transact([mark_entry(letter, MarkState.SENT, 5, None)])
        assert not letters.marks().is_replayed(letter), "a list does not wait"
        with pytest.raises(TimedOutError, match="--timeout"):
            hasty.settled_marks()
        open_one.commit_transaction()
        assert letters.settled_marks().is_replayed(letter)


def test_a_letter_that_is_too_large_for_its_topic_is_rejected_alone(world: World) -> None:
    create_topic(world.bootstrap, world.dlq)
    narrow = f"{world.topic}-narrow"
    create_topic(world.bootstrap, narrow, config={"max.message.bytes": "2000"})
    records = [KafkaRecord(narrow, value=b"x" * size) for size in (1_500, 1_500, 5_000, 1_500)]
    with DeadLetterTopic(world.dlq, world.access()) as letters, MarkWriter(letters, world.name) as writer:
        writer.claim()
        refused = writer.transact([], records)
        assert list(refused) == [2]
        assert str(refused[2]).startswith(
            f"A record of 5,000 bytes without a key could not be written to topic '{narrow}'"
        )
        kept = [one for number, one in enumerate(records) if number not in refused]
        assert writer.transact([], kept) == {}
    assert end_offset(world.bootstrap, narrow) >= len(kept)


def test_a_second_replay_takes_over_from_one_that_runs(world: World) -> None:
    create_topic(world.bootstrap, world.dlq)
    with (
        DeadLetterTopic(world.dlq, world.access()) as letters,
        MarkWriter(letters, world.name) as first,
        MarkWriter(letters, world.name) as second,
    ):
        first.claim()
        first.transact([(b"a", b"1")])
        second.claim()
        with pytest.raises(FencedError, match=f"Another replay of the dead letters of {world.name} has begun"):
            first.transact([(b"b", b"2")])
        second.transact([(b"c", b"3")])
    await_committed(world.bootstrap, f"{world.dlq}.replayed", [b"1", b"3"])


def test_a_record_that_fails_again_comes_back_with_its_count_until_the_budget_is_spent(world: World) -> None:
    world.start()
    produce_lines(world.bootstrap, world.topic, ["oops"])
    for number in range(1, 3):
        world.await_letters(number)
        assert world.run("replay", "--max-replays", "2", "--yes", "-o", "json").json["outcomes"]["replay"] == 1
    world.await_letters(3)
    last = world.run("replay", "--max-replays", "2", "--yes", "-o", "json", expect=1)
    assert last.json["outcomes"] == {"already replayed": 2, "failed too often": 1}
    message = consume(world.bootstrap, world.topic, 3)[-1]
    assert message.value() == b"oops"
    assert dict(message.headers() or []) == {
        "__connect.replays": b"2",
        "__connect.replay.of": f"{world.dlq}-0@1".encode(),
    }
    shown = world.run("show", "--offset", "2", "-o", "json").json
    assert shown[0]["replays"] == 2
    assert PREFIX not in json.dumps(shown[0]["headers"])


def test_straight_through_the_sink_in_this_process(world: World) -> None:
    spec = world.start()
    produce_lines(world.bootstrap, world.topic, ["oops", "worse"])
    world.await_letters(2)
    world.host.stop(spec)
    delete_topic(world.bootstrap, world.topic)
    refused = world.run("replay", "--yes", "-o", "json", expect=1)
    assert refused.json["outcomes"] == {"without a topic": 2}
    patch = world.folder / "fix.json"
    patch.write_text(json.dumps([{"op": "replace", "path": "/value", "value": {"id": 2}}]))
    failed = world.run("replay", "--through", "--offset", "0", "--yes", "-o", "json", expect=1)
    assert failed.json["outcomes"] == {"failed": 1}
    done = world.run("replay", "--through", "--edit", str(patch), "--yes", "-o", "json")
    assert done.json["outcomes"] == {"replay": 2}
    assert world.lines() == ["{id=2}", "{id=2}"]
    assert world.run("replay", "--through", "--yes", "-o", "json").json["outcomes"] == {"already replayed": 2}


def test_a_topic_with_foreign_and_broken_records_and_an_open_transaction(world: World) -> None:
    world.start()
    produce_lines(world.bootstrap, world.topic, ["oops"])
    world.await_letters(1)
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce(world.dlq, b"foreign")
    producer.produce(world.dlq, b"other", headers=[(f"{PREFIX}connector.name", b"another")])
    broken = [(f"{PREFIX}connector.name", world.name.encode()), (f"{PREFIX}offset", b"x"), (f"{PREFIX}topic", b"\xff")]
    producer.produce(world.dlq, b"\xff\x00", headers=broken)
    producer.flush(10)
    open_one = Producer({"bootstrap.servers": world.bootstrap, "transactional.id": world.topic})
    open_one.init_transactions(10)
    open_one.begin_transaction()
    open_one.produce(world.dlq, b"later", headers=[(f"{PREFIX}connector.name", world.name.encode())])
    open_one.flush(10)
    listed = world.run("list", "-o", "json")
    assert (listed.json["count"], listed.json["others"], listed.json["unknown"], listed.json["broken"]) == (2, 1, 1, 1)
    assert "a transaction is open from offset 4" in listed.stderr
    assert world.run("list", "--all", "-o", "json").json["count"] == 4
    done = world.run("replay", "--yes", "-o", "json", expect=1)
    assert done.json["outcomes"] == {"replay": 1, "without a topic": 1}
    open_one.abort_transaction()


def test_an_exported_file_is_replayed_as_it_was_edited_though_the_letters_are_gone(world: World) -> None:
    world.start()
    produce_lines(world.bootstrap, world.topic, ["oops", "worse"])
    world.await_letters(2)
    lines = [json.loads(line) for line in world.run("export").stdout.splitlines()]
    assert [line["record"]["value"] for line in lines] == ["oops", "worse"]
    lines[0]["record"]["value"] = {"id": 1}
    lines[1]["record"]["value"] = {"id": 2}
    file = world.folder / "letters.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    done = world.run("replay", "--file", str(file), "--yes", "-o", "json")
    assert done.json["outcomes"] == {"replay": 2}
    assert sorted(world.await_lines(2)) == ["{id=1}", "{id=2}"]
    assert world.run("replay", "--yes", "-o", "json").json["outcomes"] == {"already replayed": 2}


def test_letters_of_a_source_pass_its_chain_again(world: World) -> None:
    Behaviour.reset()
    record = SourceRecord({"a": 1}, {"b": 2}, world.topic, "text", value_schema=Schema.STRING_SCHEMA)
    given = [[record]]
    Behaviour.poll = lambda task: given.pop() if given else task.context.wait(0.01)
    config = {
        "connector.class": SOURCE,
        "transforms": "t",
        "transforms.t.type": "kit.failing_transform:FailsOnText",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": world.dlq,
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    world.cluster.add_connector(world.name, config, [config])
    spec = world.host.start_source(world.name, config.pop("connector.class"), **config)
    world.await_letters(1)
    world.host.stop(spec)
    produce_lines(world.bootstrap, world.topic, ["there"])
    (shown,) = world.run("show", "-o", "json").json
    assert (shown["value"], shown["source"]["offset"], shown["stage"]) == ("text", {"b": 2}, "TRANSFORMATION")
    failed = world.run("replay", "--yes", "-o", "json", expect=1).json
    assert failed["why"]["failed"].endswith("fails again in TRANSFORMATION: reported to fail on text")
    patch = world.folder / "fix.json"
    patch.write_text(json.dumps([{"op": "replace", "path": "/value", "value": "fine"}]))
    assert world.run("replay", "--edit", str(patch), "--yes", "-o", "json").json["outcomes"] == {"replay": 1}
    assert [message.value() for message in consume(world.bootstrap, world.topic, 2)] == [b"there", b"fine"]
    assert world.run("replay", "--yes", "-o", "json").json["outcomes"] == {"already replayed": 1}


def test_a_put_that_was_killed_leaves_its_letters_in_doubt_until_they_are_asked_for(world: World) -> None:
    spec = world.start()
    produce_lines(world.bootstrap, world.topic, ["oops"])
    world.await_letters(1)
    world.host.stop(spec)
    (world.folder / "killing.py").write_text(
        "import os, signal\ndef kill(record):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (world.folder / "repairs2.py").write_text("def repair(record):\n    return record.new_record(value={'id': 1})\n")
    world.cluster.add_connector(
        world.name,
        {
            **world.config,
            "transforms": "k",
            "transforms.k.type": "PythonTransform",
            "transforms.k.function": "killing:kill",
        },
    )
    command = [*connect_command(), *world.command("replay", "--through", "--edit", "repairs2:repair", "--yes")]
    env = cli_env(world.folder, {"PYTHONPATH": str(world.folder)})
    killed = subprocess.run(command, env=env, cwd=world.folder, capture_output=True, timeout=ample_s(60), check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    world.cluster.add_connector(world.name, world.config)
    left = world.run("replay", "--through", "--edit", "repairs2:repair", "--yes", "-o", "json", expect=1)
    assert left.json["outcomes"] == {"in doubt": 1}
    assert world.lines() == []
    again = world.run("replay", "--through", "--again", "--edit", "repairs2:repair", "--yes", "-o", "json")
    assert again.json["outcomes"] == {"replay": 1}
    assert world.lines() == ["{id=1}"]


def test_without_context_headers_or_without_a_topic_it_says_what_to_do(world: World) -> None:
    spec = world.start(**{"errors.deadletterqueue.context.headers.enable": "false"})
    produce_lines(world.bootstrap, world.topic, ["oops"])
    world.await_letters(1)
    world.host.stop(spec)
    assert world.run("list", "-o", "json").json["groups"][0]["stage"] is None
    assert world.run("replay", "--yes", "-o", "json", expect=1).json["outcomes"] == {"without a topic": 1}
    done = world.run("replay", "--to-topic", world.topic, "--yes", "-o", "json").json
    assert (done["outcomes"], done["targets"]) == ({"replay": 1}, {world.topic: 1})
    world.cluster.add_connector(world.name, {**world.config, "value.converter": "com.example.NotHere"})
    shown = world.run("show", "-o", "json")
    assert (shown.json[0]["value"], "Shown as bytes" in shown.stderr) == ("oops", True)
    delete_topic(world.bootstrap, world.dlq)
    missing = world.run("list", expect=3).stderr
    assert f"The dead letter topic {world.dlq} does not exist" in missing
    world.cluster.add_connector(world.name, {"connector.class": "FileStreamSink", "topics": "t"})
    assert "has no dead letter topic\nHint: connect config set" in world.run("list", expect=3).stderr


def test_letters_of_a_connector_with_brokers_of_its_own_are_read_there(world: World, own_broker: DevBroker) -> None:
    there = own_broker.bootstrap
    overrides = {f"{client}.override.bootstrap.servers": there for client in ("producer", "admin")}
    world.start(**overrides)
    produce_lines(world.bootstrap, world.topic, ["oops"])
    eventually(lambda: end_offset(there, world.dlq) == 1, 20, "the letter is there")
    found = world.run("list", "-o", "json")
    assert found.json["count"] == 1
    assert f"are in Kafka at {there}, as its config says" in found.stderr
    refused = world.run("replay", "--yes", expect=1)
    assert f"lie in Kafka at {there}, and its records come from {world.bootstrap}" in refused.stderr
    (world.folder / "fix.json").write_text(json.dumps([{"op": "replace", "path": "/value", "value": {"id": 2}}]))
    done = world.run("replay", "--through", "--edit", "fix.json", "--yes", "-o", "json")
    assert done.json["outcomes"] == {"replay": 1}
    assert world.lines() == ["{id=2}"]
    assert world.run("list", "-o", "json").json["replayed"] == 1
