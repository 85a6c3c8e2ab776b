"""Connectors of Kafka's own tests that block for ever in one of their methods: the worker lives, answers, tells.

As BlockingConnectorTest of Kafka 4.3, which is about Java Connect. `make java-plugins` blocks in more methods, and in
those of that test at a worker of Java's, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from kconnect.java.devbroker import DevBroker
from kit.distributed_worker import Distributed, cluster_settings
from kit.java_connect import JavaConnect
from kit.kafka_test_connectors import PACKAGE, kafka_test_jars, kafka_test_path, logged_calls
from kit.mixed_cluster import Node
from kit.topics import create_topic, end_offset, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(600)]

_LONG = os.environ.get("KCONNECT_JAVA_PLUGINS") == "long"
_WITHIN_S = 90.0
_NORMAL = "normal"
_SOURCE, _SINK = "BlockingSourceConnector", "BlockingSinkConnector"
_FEW = [(_SOURCE, "SourceTask::poll"), (_SOURCE, "Task::stop"), (_SINK, "SinkTask::put")]
# Those of BlockingConnectorTest, but for two that Java's worker answers after 90 s
_JAVAS = [
    ("InitializeBlockingConnector", "Connector::initialize"),
    ("BlockingConnector", "Connector::start"),
    ("BlockingConnector", "Connector::stop"),
    (_SOURCE, "Task::start"),
    (_SOURCE, "Task::stop"),
    (_SINK, "Task::start"),
    (_SINK, "Task::stop"),
]
_MORE = [
    ("BlockingConnector", "Connector::taskClass"),
    ("BlockingConnector", "Connector::taskConfigs"),
    ("TaskInitializeBlockingSourceConnector", "SourceTask::initialize"),
    (_SOURCE, "SourceTask::commit"),
    ("TaskInitializeBlockingSinkConnector", "SinkTask::initialize"),
    (_SINK, "SinkTask::open"),
]
_REFUSED = [("ValidateBlockingConnector", "validate"), ("ConfigBlockingConnector", "config")]
# What starts with these never comes up; what else blocks is RUNNING, as in Java
_NEVER_UP = ("Connector::initialize", "Connector::start")


@pytest.fixture(scope="module")
def ours(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    settings = {
        "plugin.path": str(kafka_test_path()),
        "kconnect.slots": "1",
        "spark.master": "local[1]",
        "offset.flush.interval.ms": "500",
        "task.shutdown.graceful.timeout.ms": "1000",
        "kconnect.connector.start.timeout.ms": "8000",
    }
    with Distributed(tmp_path_factory.mktemp("blocked"), broker.bootstrap, "blocked-ours", settings) as worker:
        node = Node("ours", worker)
        yield from with_a_normal_connector(node, broker)
        node.stop()


if _LONG:

    @pytest.fixture(scope="module")
    def java(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
        folder = tmp_path_factory.mktemp("blocked-java")
        settings = {**cluster_settings("blocked-java"), "offset.flush.interval.ms": "500"}
        worker = JavaConnect(folder, broker.bootstrap, mode="distributed", worker=settings, jars=kafka_test_jars())
        node = Node("java", worker)
        try:
            yield from with_a_normal_connector(node, broker)
        finally:
            node.kill()  # what blocks would keep it until its deadline


def with_a_normal_connector(node: Node, broker: DevBroker) -> Iterator[Node]:
    """The node, up, with a source that goes on and on."""
    topic = f"{_NORMAL}-{node.name}"
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, f"blocked-{node.name}")
    produce_lines(broker.bootstrap, f"blocked-{node.name}", ["a", "b"])
    node.start()
    node.order("PUT", f"/admin/loggers/{PACKAGE}", {"level": "INFO"}, expect=200)
    config = {"connector.class": f"{PACKAGE}.MonitorableSourceConnector", "tasks.max": "1", "topic": topic}
    node.order("PUT", f"/connectors/{_NORMAL}/config", {**config, "throughput": "50"}, expect=201)
    assert_goes_on(node, broker)
    yield node


def assert_goes_on(node: Node, broker: DevBroker) -> None:
    """The normal connector is RUNNING and makes records, also when its JVM had to go because of others."""
    topic = f"{_NORMAL}-{node.name}"
    before = end_offset(broker.bootstrap, topic)

    def more() -> bool:
        status = node.get(f"/connectors/{_NORMAL}/status")
        states = [part["state"] for part in (status["connector"], *status["tasks"])]
        assert states == ["RUNNING", "RUNNING"], f"{status}"
        assert end_offset(broker.bootstrap, topic) > before + 20
        return True

    eventually(more, _WITHIN_S, f"the normal connector goes on at {node.name}")


def blocking(node: Node, kind: str, place: str) -> tuple[str, dict[str, str]]:
    """Name and settings of a connector that blocks there."""
    name = f"{kind}-{place.replace('::', '-')}".lower()
    config = {
        "connector.class": f"{PACKAGE}.BlockingConnectorTest${kind}",
        "tasks.max": "1",
        "block": place,
        "topics": f"blocked-{node.name}",
        # A JVM with many that block is killed, and whoever else is in it has to come back
        "errors.restart.max": "0" if place in _NEVER_UP else "100",
        "errors.restart.backoff.ms": "200",
    }
    return name, config | ({"consumer.override.auto.offset.reset": "earliest"} if "Sink" in kind else {})


def await_block(node: Node, name: str, place: str) -> None:
    def blocks() -> bool:
        lines = [*logged_calls(node, name, "worker"), *logged_calls(node, name, "task-0")]
        assert f"Will block on {place}" in lines, f"{node.name}: {lines}"
        return True

    eventually(blocks, _WITHIN_S, f"{name} blocks on {place} at {node.name}")


def block_and_delete(node: Node, broker: DevBroker, kind: str, place: str) -> None:
    name, config = blocking(node, kind, place)
    node.order("PUT", f"/connectors/{name}/config", config, expect=201)
    at_its_end = place in ("Connector::stop", "Task::stop")
    if at_its_end:
        await_states(node, name, ["RUNNING", "RUNNING"])
    else:
        await_block(node, name, place)
        assert_goes_on(node, broker)
        assert_reported(node, name, place)
    node.order("DELETE", f"/connectors/{name}", expect=204)
    if at_its_end:
        await_block(node, name, place)
    assert_goes_on(node, broker)
    assert name not in node.get("/connectors")


def await_states(node: Node, name: str, wanted: list[str]) -> dict[str, Any]:
    def seen() -> dict[str, Any]:
        code, status = node.request("GET", f"/connectors/{name}/status")
        assert code == 200, f"{node.name}: {code} {status}"
        states = [part["state"] for part in (status["connector"], *status["tasks"])]
        assert states == wanted, f"{node.name}: {status}"
        return dict(status)

    found: dict[str, Any] = eventually(seen, _WITHIN_S, f"{name} is {wanted} at {node.name}")
    return found


def assert_reported(node: Node, name: str, place: str) -> None:
    """Java's worker has no status of what never came up; ours fails it after a while and says where it hangs."""
    if place not in _NEVER_UP:
        code, status = node.request("GET", f"/connectors/{name}/status")
        assert (code, status["connector"]["state"]) == (200, "RUNNING"), f"{node.name}: {status}"
    elif node.is_java:
        assert node.request("GET", f"/connectors/{name}/status")[0] == 404
    else:
        trace = await_states(node, name, ["FAILED"])["connector"]["trace"]
        assert "did not return within 8 s" in trace, trace


@pytest.mark.parametrize(("kind", "place"), list(dict.fromkeys([*_FEW, *_JAVAS, *_MORE])) if _LONG else _FEW)
def test_one_that_blocks_harms_no_other(ours: Node, broker: DevBroker, kind: str, place: str) -> None:
    block_and_delete(ours, broker, kind, place)


if _LONG:

    @pytest.mark.parametrize(("kind", "place"), _JAVAS)
    def test_at_a_worker_of_javas_too(java: Node, broker: DevBroker, kind: str, place: str) -> None:
        block_and_delete(java, broker, kind, place)

    @pytest.mark.parametrize(("kind", "what"), _REFUSED)
    def test_settings_that_cannot_be_checked_are_refused_at_the_deadline_and_others_meanwhile_checked(
        ours: Node, broker: DevBroker, kind: str, what: str
    ) -> None:
        name, config = blocking(ours, kind, f"Connector::{what}")
        with ThreadPoolExecutor(1) as pool:
            asked: Future[Any] = pool.submit(ours.request, "PUT", f"/connectors/{name}/config", config)
            eventually(lambda: f"Will block on Connector::{what}" in ours.worker.log.read_text(), 60, "it blocks")
            assert_goes_on(ours, broker)
            code, reported = asked.result()
        assert code == 500, reported
        assert f"of connector {name} did not return within 8 s" in reported["message"]
        assert name not in ours.get("/connectors")

    def test_a_restart_of_one_that_blocks_in_its_start_ends_at_the_deadline_and_says_so(
        ours: Node, broker: DevBroker
    ) -> None:
        _, config = blocking(ours, "BlockingConnector", "Connector::start")
        name = "restarted"
        ours.order("PUT", f"/connectors/{name}/config", config, expect=201)
        await_block(ours, name, "Connector::start")
        code, reported = ours.request("POST", f"/connectors/{name}/restart")
        assert code == 500, reported
        assert "did not return within 8 s" in reported["message"]
        ours.order("DELETE", f"/connectors/{name}", expect=204)
        assert_goes_on(ours, broker)
