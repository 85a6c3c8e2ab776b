"""The Java worker of the tests is the real thing: it runs a file source and a file sink, and answers REST."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.java.devbroker import KAFKA_VERSION, DevBroker
from kit.java_connect import JavaConnect
from kit.topics import consume_values, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(180)]


def _source(file: Path, topic: str) -> dict[str, str]:
    return {
        "name": "lines",
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


def test_java_standalone_moves_lines_and_goes_on_after_a_restart(
    broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    java = JavaConnect(
        tmp_path / "java",
        broker.bootstrap,
        connectors=[_source(file, topic)],
        worker={"offset.flush.interval.ms": "500"},
    )

    with java:
        java.await_running("lines")
        assert consume_values(broker.bootstrap, topic, 2) == [b"one", b"two"]
        assert java.request("GET", "/")[1]["version"] == KAFKA_VERSION
        assert java.request("GET", "/connectors") == (200, ["lines"])
        assert java.process.cpu_times().user > 0
        eventually(java.offsets_file.exists, 10, "the Java worker writes its offsets")
    with file.open("a") as more:
        more.write("three\n")
    with java:
        assert consume_values(broker.bootstrap, topic, 3) == [b"one", b"two", b"three"]


def test_java_distributed_takes_a_connector_over_rest(
    broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    file = tmp_path / "in.txt"
    file.write_text("one\n")

    with JavaConnect(tmp_path / "java", broker.bootstrap, mode="distributed") as java:
        config = _source(file, topic)
        status, body = java.request("PUT", f"/connectors/{config['name']}/config", config)

        assert status == 201, body
        java.await_running("lines")
        assert consume_values(broker.bootstrap, topic, 1) == [b"one"]


def test_a_java_worker_that_can_not_start_says_why(tmp_path: Path, broker: DevBroker) -> None:
    java = JavaConnect(tmp_path / "java", broker.bootstrap, worker={"offset.flush.interval.ms": "soon"})

    with pytest.raises(RuntimeError, match=r"offset\.flush\.interval\.ms"):
        java.start()
