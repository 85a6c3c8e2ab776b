"""What a runtime calls, in which order and with what: Java Connect and ours do the same to the same connectors."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from kconnect.java.devbroker import DevBroker
from kit.distributed_worker import Distributed, cluster_settings
from kit.java_connect import JavaConnect
from kit.java_plugin_folder import java_plugin_folder
from kit.kafka_test_connectors import PACKAGE, kafka_test_jars, kafka_test_path, logged_calls, settled
from kit.mixed_cluster import Node
from kit.pace import ample_s
from kit.recorded_calls import Recorded, comparable
from kit.topics import consume, create_topic, end_offset, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(600)]

T = TypeVar("T")
R = TypeVar("R")
_STRINGS = "org.apache.kafka.connect.storage.StringConverter"
_SETTINGS = {
    "offset.flush.interval.ms": "200",
    "connector.client.config.override.policy": "All",
}


@pytest.fixture(scope="module")
def sides(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """A Java worker and one of ours, each a cluster of its own."""
    folder = tmp_path_factory.mktemp("calls")
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    java = JavaConnect(
        folder / "java",
        broker.bootstrap,
        mode="distributed",
        worker={**cluster_settings("calls-java"), **_SETTINGS, "plugin.path": str(plugins)},
        jars=kafka_test_jars(),
    )
    own = {
        **_SETTINGS,
        "plugin.path": f"{plugins},{kafka_test_path()}",
        "kconnect.slots": "1",
        "spark.master": "local[1]",
    }
    ours = Distributed(folder / "ours", broker.bootstrap, "calls-ours", own)
    nodes = [Node("java", java), Node("ours", ours)]
    try:
        at_both(Node.start, nodes)
        yield nodes
        at_both(Node.stop, nodes)
    finally:
        java.kill()
        ours.__exit__(None, None, None)


def at_both(do: Callable[[T], R], sides: list[T]) -> list[R]:
    with ThreadPoolExecutor(len(sides)) as pool:
        return list(pool.map(do, sides))


def recorded(sides: list[Node], name: str, folder: Path) -> list[Recorded]:
    made = []
    for node in sides:
        (folder / node.name).mkdir()
        made.append(Recorded(node, f"{name}-{node.name}", folder / node.name / "calls"))
    return made


def assert_equal_calls(sides: list[Recorded], *actors: str) -> None:
    java, ours = sides
    for actor in actors:
        by_java, by_us = (comparable(one.lines(actor), str(one.journal.parent), one.node.name) for one in (java, ours))
        assert by_us == with_known_differences(by_java), actor


def with_known_differences(by_java: list[str]) -> list[str]:
    """Java's calls with what docs/differences.md says of ours: a resumed connector is a new object, a failed one is
    stopped."""
    made: list[str] = []
    for line in by_java:
        before = made[-1] if made else ""
        if line.startswith("start {") and before == "stop":
            made.append("initialize")
        if line == "initialize" and before not in ("", "stop"):
            made.append("stop")
        made.append(line)
    return made


def test_source(sides: list[Node], broker: DevBroker, tmp_path: Path) -> None:
    def scenario(side: Recorded) -> None:
        topic = f"calls-{side.node.name}"
        create_topic(broker.bootstrap, topic)
        config = {"connector.class": "kit.RecordedSource", "topic": topic, "tasks.max": "1", "errors.restart.max": "0"}
        side.create(**config)
        side.await_states("RUNNING", "RUNNING")
        side.feed("records", 3)
        side.await_count("task", "commitRecord", 3)
        side.await_last("task", "commit")
        side.order("PUT", "/pause", expect=202)
        side.await_states("PAUSED", "PAUSED")
        side.order("PUT", "/resume", expect=202)
        side.await_states("RUNNING", "RUNNING")
        side.feed("records", 5)
        side.await_count("task", "commitRecord", 5)
        side.configure(**config, round="2")
        side.await_count("task", "start", 2)
        side.await_states("RUNNING", "RUNNING")
        side.feed("reconfigure")
        side.await_count("task", "start", 3)
        side.feed("retry")
        side.await_count("task", "poll: retry", 1)
        side.feed("records", 7)
        side.await_count("task", "commitRecord", 7)
        side.feed("fail")
        side.await_states("RUNNING", "FAILED")
        side.feed("")
        side.order("POST", "/restart?includeTasks=true&onlyFailed=true", expect=202)
        side.await_states("RUNNING", "RUNNING")
        side.feed("raise")
        side.await_states("FAILED", "RUNNING")
        side.feed("")
        side.order("POST", "/restart?includeTasks=true&onlyFailed=true", expect=202)
        side.await_count("task", "start", 5)
        side.await_last("task", "commit")
        side.await_states("RUNNING", "RUNNING")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        (offset,) = offsets = side.order("GET", "/offsets", expect=200)["offsets"]
        assert offset["offset"]["long"] == 7, f"{side.node.name}: {offset}"
        side.order("PATCH", "/offsets", {"offsets": offsets}, expect=200)
        side.order("PUT", "/resume", expect=202)
        side.await_count("task", "start", 6)
        side.await_last("task", "commit")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        side.order("DELETE", "/offsets", expect=200)
        side.order("DELETE", "", expect=204)

    both = recorded(sides, "source", tmp_path)
    at_both(scenario, both)
    assert_equal_calls(both, "questions", "connector", "task")
    by_java, by_us = (offset_records(broker, one) for one in both)
    shared = by_java.keys() & by_us.keys()
    assert {7, None} <= shared, "the last offset, and its removal"
    # What a request altered Java writes once more, with the fields in the order of a hash map
    assert not [number for number in shared if not by_us[number] <= by_java[number]], f"{by_us}\n{by_java}"


def offset_records(broker: DevBroker, side: Recorded) -> dict[int | None, set[tuple[bytes, bytes]]]:
    """What is in the offsets topic, key and value, by the number of the record; None for removals."""
    topic = f"calls-{side.node.name}-offset"
    count = sum(end_offset(broker.bootstrap, topic, part) for part in range(3))
    made: dict[int | None, set[tuple[bytes, bytes]]] = {}
    for message in consume(broker.bootstrap, topic, count):
        key, value = message.key() or b"", message.value() or b""
        if side.name.encode() in key:
            number = json.loads(value)["long"] if value else None
            made.setdefault(number, set()).add((key.replace(side.name.encode(), b"NAME"), value))
    return made


def test_sink(sides: list[Node], broker: DevBroker, tmp_path: Path) -> None:
    def scenario(side: Recorded) -> None:
        topic = f"calls-in-{side.node.name}"
        create_topic(broker.bootstrap, topic, partitions=2)

        def produce(*values: str) -> None:
            for part in (0, 1):
                produce_lines(broker.bootstrap, topic, values, partition=part)

        def puts(start: str) -> Callable[[Sequence[str]], object]:
            return lambda lines: all(any(f"{part}/{start}" in line for line in lines) for part in (0, 1))

        config = {
            "connector.class": "kit.RecordedSink",
            "topics": topic,
            "tasks.max": "1",
            "errors.restart.max": "0",
            "consumer.override.auto.offset.reset": "earliest",
        }
        produce("a")
        side.create(**config)
        side.await_lines("task-0", puts("0=a"), "records")
        side.await_last("task-0", "flush")
        side.order("PUT", "/pause", expect=202)
        side.await_states("PAUSED", "PAUSED")
        produce("b")
        side.order("PUT", "/resume", expect=202)
        side.await_states("RUNNING", "RUNNING")
        side.await_lines("task-0", puts("1=b"), "records")
        side.feed("retry")
        produce("c")
        side.await_lines("task-0", lambda lines: any("retry" in line for line in lines), "a put that fails for now")
        side.feed("go")
        side.await_lines("task-0", puts("2=c"), "records")
        side.await_last("task-0", "flush")
        side.configure(**config, round="2")
        side.await_count("task-0", "start", 2)
        side.await_states("RUNNING", "RUNNING")
        side.feed("fail")
        produce("d")
        side.await_states("RUNNING", "FAILED")
        side.feed("go")
        side.order("POST", "/restart?includeTasks=true&onlyFailed=true", expect=202)
        side.await_lines("task-0", puts("3=d"), "records")
        side.await_last("task-0", "flush")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        place = {"kafka_topic": topic, "kafka_partition": 0}
        side.order("PATCH", "/offsets", {"offsets": [{"partition": place, "offset": {"kafka_offset": 2}}]}, expect=200)
        side.order("PUT", "/resume", expect=202)
        side.await_states("RUNNING", "RUNNING")
        side.await_last("task-0", "flush")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        side.order("DELETE", "/offsets", expect=200)
        side.order("DELETE", "", expect=204)

    both = recorded(sides, "sink", tmp_path)
    at_both(scenario, both)
    assert_equal_calls(both, "questions", "connector", "task-0")


def test_metrics_of_plugins_have_the_names_and_tags_that_jmx_shows(
    sides: list[Node], broker: DevBroker, tmp_path: Path
) -> None:
    """Of a connector, its task and a transformation."""
    java, ours = sides
    file = tmp_path / "beans"
    config = {
        "connector.class": "kit.TestPlugins$Numbers",
        "topic": "calls-metrics",
        "count": "50",
        "transforms": "seen,beans",
        "transforms.seen.type": "kit.TestPlugins$Counted",
        "transforms.beans.type": "kit.Beans",
        "transforms.beans.file": str(file),
        "transforms.beans.connector": "metered",
        "key.converter": _STRINGS,
        "value.converter": _STRINGS,
    }
    create_topic(broker.bootstrap, "calls-metrics")
    java.order("PUT", "/connectors/metered/config", config, expect=201)
    by_java = eventually(lambda: file.exists() and beans_of(file.read_text()), 60, "Java's beans are written down")
    # Of ours nothing is there to be asked: /metrics has them
    file.write_text("")
    ours.order("PUT", "/connectors/metered/config", config, expect=201)

    def are_equal() -> bool:
        assert samples_of(ours.url, "metered") == by_java
        return True

    assert len(by_java) == 4
    eventually(are_equal, 60, "ours are the same")
    for node in sides:
        node.order("DELETE", "/connectors/metered", expect=204)


def beans_of(text: str) -> set[str]:
    """Beans of JMX and their attributes, as the exporter of Prometheus spells them."""
    made = set()
    for line in text.splitlines():
        bean, _, attribute = line.rpartition(" ")
        tags = [tag.split("=") for tag in bean.split(",")[1:]]
        labels = ",".join(f'{name}="{value}"' for name, value in tags)
        made.add(f"kafka_connect_plugins_{attribute.replace('-', '_')}{{{labels}}}")
    return made


def samples_of(url: str, connector: str) -> set[str]:
    """The plugins' samples in /metrics; a text is a label of ours, which JMX has as the value."""
    lines = urllib.request.urlopen(f"{url}/metrics", timeout=ample_s(10)).read().decode().splitlines()
    found = [line.rpartition(" ")[0] for line in lines if line.startswith("kafka_connect_plugins_")]
    return {re.sub(r',value="[^"]*"}', "}", line) for line in found if f'connector="{connector}"' in line}


@pytest.fixture
def talking(sides: list[Node]) -> Iterator[list[Node]]:
    """Both, while connectors of Kafka's tests log all of their calls."""
    for level in ("TRACE", "INFO"):
        for node in sides:
            node.order("PUT", f"/admin/loggers/{PACKAGE}", {"level": level}, expect=200)
        if level == "TRACE":
            yield sides


def test_a_source_of_kafkas_own_tests(talking: list[Node], broker: DevBroker, tmp_path: Path) -> None:
    def scenario(side: Recorded) -> None:
        topic = f"kafkas-{side.node.name}"
        create_topic(broker.bootstrap, topic)
        config = {
            "connector.class": f"{PACKAGE}.TestableSourceConnector",
            "tasks.max": "1",
            "topic": topic,
            "messages.per.poll": "5",
            "throughput": "10",
            "max.messages": "20",
        }
        side.create(**config)
        await_logged(side, "task-0", "Committing record", 20)
        await_last(side, "committing offsets")
        side.order("PUT", "/pause", expect=202)
        side.await_states("PAUSED", "PAUSED")
        side.order("PUT", "/resume", expect=202)
        side.await_states("RUNNING", "RUNNING")
        side.configure(**{**config, "max.messages": "40"})
        await_logged(side, "task-0", "Committing record", 40)
        await_last(side, "committing offsets")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        (offset,) = side.order("GET", "/offsets", expect=200)["offsets"]
        assert offset == {"partition": {"task.id": f"{side.name}-0"}, "offset": {"saved": 40}}
        offset["offset"]["saved"] = 35
        side.order("PATCH", "/offsets", {"offsets": [offset]}, expect=200)
        side.order("PUT", "/resume", expect=202)
        await_logged(side, "task-0", "Committing record", 45)
        await_last(side, "committing offsets")
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        side.order("DELETE", "", expect=204)

    both = recorded(talking, "kafkas-source", tmp_path)
    at_both(scenario, both)
    assert_equal_logs(both)


def test_a_sink_of_kafkas_own_tests_that_reports_its_records(
    talking: list[Node], broker: DevBroker, tmp_path: Path
) -> None:
    """Behind a transformation of theirs that fails once for one record and always for another."""

    def scenario(side: Recorded) -> None:
        topic, letters = (f"kafkas-{what}-{side.node.name}" for what in ("in", "letters"))
        create_topic(broker.bootstrap, topic)
        create_topic(broker.bootstrap, letters)
        produce_lines(broker.bootstrap, topic, [f"value-{number}" for number in range(10)])
        config = {
            "connector.class": f"{PACKAGE}.ErrantRecordSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "transforms": "faulty",
            "transforms.faulty.type": f"{PACKAGE}.ErrorHandlingIntegrationTest$FaultyPassthrough",
            "errors.tolerance": "all",
            "errors.retry.timeout": "1000",
            "errors.deadletterqueue.topic.name": letters,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            "consumer.override.auto.offset.reset": "earliest",
        }
        side.create(**config)
        await_forwarded(side, 9)
        side.order("PUT", "/stop", expect=204)
        side.await_states("STOPPED")
        side.order("DELETE", "", expect=204)

    both = recorded(talking, "kafkas-sink", tmp_path)
    at_both(scenario, both)
    assert_equal_logs(both)
    by_java, by_us = (letters_of(broker, side) for side in both)
    assert [value for value, _ in by_java] == sorted([*(f"value-{number}" for number in range(10))])
    assert by_us == by_java


def letters_of(broker: DevBroker, side: Recorded) -> list[tuple[str, dict[str, str]]]:
    """Value and context of each dead letter, by value; without stacks, which are those of other code."""
    found = []
    for message in consume(broker.bootstrap, f"kafkas-letters-{side.node.name}", 10):
        headers = {key: str(value or b"", "utf-8") for key, value in message.headers() or ()}
        headers.pop("__connect.errors.exception.stacktrace", None)
        reported = {key: value.replace(f"-{side.node.name}", "<own>") for key, value in headers.items()}
        found.append((str(message.value() or b"", "utf-8"), reported))
    return sorted(found, key=lambda one: one[0])


def await_logged(side: Recorded, scope: str, text: str, count: int) -> None:
    def seen() -> bool:
        lines = logged_calls(side.node, side.name, scope)
        assert sum(text in line for line in lines) >= count, f"{side.node.name}: {lines[-8:]}"
        return True

    eventually(seen, 90, f"{count} times {text!r} at {side.node.name}")


def await_forwarded(side: Recorded, count: int) -> None:
    """Wait until the sink has let so many records be committed."""

    def seen() -> bool:
        text = "\n".join(logged_calls(side.node, side.name, "task-0"))
        found = re.findall(r"Forwarding to framework request to commit (\d+) records", text)
        assert sum(map(int, found)) >= count, f"{side.node.name}: {text[-1000:]}"
        return True

    eventually(seen, 90, f"{count} records may be committed at {side.node.name}")


def await_last(side: Recorded, text: str) -> None:
    def seen() -> bool:
        lines = [line for line in logged_calls(side.node, side.name, "task-0") if "Returning batch" not in line]
        assert lines, "nothing is logged"
        assert text in lines[-1], f"{side.node.name}: {lines[-8:]}"
        return True

    eventually(seen, 90, f"{text!r} comes last at {side.node.name}")


def assert_equal_logs(both: list[Recorded]) -> None:
    """A connector is STOPPED once its tasks are asked to stop, and slots log by the driver: lines come late."""

    def are_equal(scope: str) -> bool:
        by_java, by_us = (settled(logged_calls(one.node, one.name, scope), f"-{one.node.name}") for one in both)
        assert len(by_java) > 1, by_java
        assert by_us == by_java, scope
        return True

    for scope in ("worker", "task-0"):
        eventually(lambda scope=scope: are_equal(scope), 10, "all lines are there")  # type: ignore[misc]
