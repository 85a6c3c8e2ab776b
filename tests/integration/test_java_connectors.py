"""Java's connectors in a real worker: whole chains in Java, chains that are partly ours, and JVMs that are killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kit.java_plugin_folder import java_plugin_folder
from kit.standalone import Standalone
from kit.topics import consume, consume_values, create_topic, produce_lines, topic_for
from kit.waiting import eventually

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_NUMBERS = {"connector.class": "kit.TestPlugins$Numbers"}
_MISBEHAVES = {"transforms": "bad", "transforms.bad.type": "kit.TestPlugins$Misbehaves", "transforms.bad.does": "throw"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("java-worker")
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    settings = {"plugin.path": str(plugins), "kconnect.slots": "1", "spark.master": "local[1]"}
    with Standalone(folder, broker.bootstrap, {}, settings) as made:
        made.start()
        with made.client() as client:
            client.plugins()  # the JVM beside the worker is up
        yield made
        made.stop()


def texts(broker: DevBroker, topic: str, count: int) -> list[str]:
    return [str(value, "utf-8") for value in consume_values(broker.bootstrap, topic, count) if value is not None]


def create(worker: Standalone, name: str, **config: str) -> None:
    with worker.client() as client:
        client.create_connector(name, config)


def delete(worker: Standalone, *names: str) -> None:
    with worker.client() as client:
        for name in names:
            client.delete_connector(name)


def jvms(worker: Standalone) -> list[psutil.Process]:
    """The JVMs of Java's plugins below the slots."""
    (slot,) = worker.slots()
    return [child for child in slot.children() if "java" in child.name()]


def test_a_java_source_runs_with_its_whole_chain_and_goes_on_from_its_offset(
    worker: Standalone, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    create(worker, "whole", **_NUMBERS, topic=topic, count="2500")
    values = texts(broker, topic, 2500)
    assert values == [f"number {number}" for number in range(2500)]

    def offset() -> int:
        with worker.client() as client:
            found = {json.dumps(one.partition): (one.offset or {})["next"] for one in client.connector_offsets("whole")}
        return int(found.get('{"source": "numbers"}', 0))

    eventually(lambda: offset() == 2500, 15, "the last offset is committed")
    with worker.client() as client:
        status = client.connector_status("whole")
        assert status.tasks[0].version == "1.2.3"
        client.put_connector_config("whole", {"name": "whole", **_NUMBERS, "topic": topic, "count": "3000"})
    assert texts(broker, topic, 3000)[2500:] == [f"number {number}" for number in range(2500, 3000)]
    delete(worker, "whole")


def test_a_java_source_goes_through_transformations_and_converters_of_ours(
    worker: Standalone, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    mixed = {
        **_NUMBERS,
        "topic": topic,
        "count": "300",
        "transforms": "hoist,sql,java",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "text",
        "transforms.sql.type": "SqlTransform",
        "transforms.sql.query": "SELECT upper(text) AS text, length(text) AS size FROM records "
        "WHERE text NOT LIKE '%7'",
        "transforms.java.type": "kit.TestPlugins$Identity",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "false",
    }
    create(worker, "mixed", **mixed)
    values = [json.loads(value) for value in texts(broker, topic, 270)]
    wanted = [f"NUMBER {number}" for number in range(300) if number % 10 != 7]
    assert values == [{"text": text, "size": len(text)} for text in wanted]
    delete(worker, "mixed")


def test_a_java_chain_that_fails_names_stage_plugin_record_and_javas_stack_or_is_tolerated(
    worker: Standalone, broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    failing = {**_NUMBERS, **_MISBEHAVES, "topic": topic, "count": "500", "bad": "333", "errors.restart.max": "0"}
    create(worker, "failing", **failing)
    trace = worker.await_task("failing", RunState.FAILED)
    assert "failed in TRANSFORMATION of TestPlugins$Misbehaves: This is bad" in trace
    assert "source offset {'next': 334}" in trace
    assert "at kit.TestPlugins$Misbehaves.apply(TestPlugins.java" in trace
    assert texts(broker, topic, 333) == [f"number {number}" for number in range(333)]

    with worker.client() as client:
        client.put_connector_config("failing", {"name": "failing", **failing, "errors.tolerance": "all"})
    values = texts(broker, topic, 499)
    assert values == [f"number {number}" for number in range(500) if number != 333]
    delete(worker, "failing")


def test_a_java_sink_takes_what_javas_chain_makes_and_letters_keep_what_failed(
    worker: Standalone, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic, letters = topic_for(request), topic_for(request, "-letters")
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, letters)
    produce_lines(broker.bootstrap, topic, [f"line {n}" if n != 50 else "bad" for n in range(200)])
    file = tmp_path / "out.txt"
    sink = {
        "connector.class": "java:org.apache.kafka.connect.file.FileStreamSinkConnector",
        "topics": topic,
        "file": str(file),
        **_MISBEHAVES,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    create(worker, "sink", **sink)
    (letter,) = consume(broker.bootstrap, letters, 1)
    headers = dict(letter.headers() or ())
    assert letter.value() == b"bad"
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.class.name"] == b"kit.TestPlugins$Misbehaves"
    assert headers["__connect.errors.offset"] == b"50"
    wanted = [f"line {n}" for n in range(200) if n != 50]
    eventually(lambda: file.exists() and file.read_text().splitlines() == wanted, 15, "the file has all lines")

    def committed() -> int:
        with worker.client() as client:
            return sum(int((found.offset or {})["kafka_offset"]) for found in client.connector_offsets("sink"))

    eventually(lambda: committed() == 200, 15, "the sink's offset is committed")
    delete(worker, "sink")


def test_a_jvm_that_is_killed_fails_its_tasks_alone_and_they_go_on(
    worker: Standalone, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic, lines = topic_for(request), topic_for(request, "-lines")
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, lines)
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    create(worker, "python", **{"connector.class": "FileStreamSource", "file": str(file), "topic": lines})
    create(worker, "killed", **_NUMBERS, topic=topic, count="60000", **{"errors.restart.backoff.ms": "200"})
    consume(broker.bootstrap, topic, 1)
    (jvm,) = jvms(worker)
    jvm.send_signal(signal.SIGKILL)
    jvm.wait(10)

    def has_all() -> bool:
        found = set(texts(broker, topic, 60_000))
        return found == {f"number {number}" for number in range(60_000)}

    eventually(has_all, 60, "every number is there")
    with file.open("a") as more:
        more.write("two\n")
    assert texts(broker, lines, 2) == ["one", "two"]
    with worker.client() as client:
        (state,) = {task.state for task in client.connector_status("python").tasks}
    assert state is RunState.RUNNING
    assert "The JVM that runs Java's plugins ended (killed by signal 9" in worker.log_text()
    delete(worker, "killed", "python")
