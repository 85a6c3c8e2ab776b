"""What plugins reach for behind Connect's API is as in Java's worker; what is not there is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.java_connect import JavaConnect
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import JavaWorker, java_worker
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark]

_ALIKE = ("context", "command", "thread", "loader", "mdc", "member", "subscription", "position", "elsewhere",
          "committed", "ends", "times", "paused", "position")  # fmt: skip


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return java_plugin_folder(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def worker(tmp_path: Path, broker: DevBroker, plugins: Path) -> Iterator[JavaWorker]:
    with java_worker(tmp_path, broker.bootstrap, plugins) as running:
        yield running


def reaching(broker: DevBroker, topic: str) -> dict[str, str]:
    """Its journal is a file of the folder in which the worker was started."""
    return {
        "connector.class": "kit.Reaching",
        "topics": topic,
        "servers": broker.bootstrap,
        "journal": "reported",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.auto.offset.reset": "earliest",
    }


def journal(folder: Path, lines: int) -> list[str]:
    def written() -> list[str]:
        file = folder / "reported-task"
        found = file.read_text().splitlines() if file.exists() else []
        assert len(found) >= lines, found
        return found

    return eventually(written, 60, f"the sink has written {lines} lines")


def test_a_sink_finds_behind_the_api_what_it_finds_in_javas_worker(
    worker: JavaWorker, broker: DevBroker, plugins: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic, partitions=2)
    config = reaching(broker, topic)
    produce_lines(broker.bootstrap, topic, list(_ALIKE), partition=0)
    reported = {}
    with JavaConnect(tmp_path / "java", broker.bootstrap, worker={"plugin.path": str(plugins)}) as java:
        status, answer = java.request("POST", "/connectors", {"name": "reaching", "config": config})
        assert status == 201, answer
        reported["java"] = journal(java.folder, len(_ALIKE) + 1)
        java.request("DELETE", "/connectors/reaching")
    # A group of its own: the other's has come to the end
    worker.create("reaching", **{**config, "consumer.override.group.id": f"{topic}-ours"})
    reported["ours"] = [
        line.replace(f"{topic}-ours", "connect-reaching") for line in journal(worker.folder, len(_ALIKE) + 1)
    ]
    assert reported["ours"] == reported["java"]
    assert "command: org.apache.kafka.connect.cli.ConnectStandalone true" in reported["ours"]
    worker.delete("reaching")


def test_what_the_context_does_not_give_is_refused_with_plugin_folder_and_what_to_do(
    worker: JavaWorker, broker: DevBroker, plugins: Path, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, topic, ["commit"])
    worker.create("reaching", **reaching(broker, topic))
    refused = (
        f"commit: java.lang.UnsupportedOperationException: kit.Reaching$ReachingTask in {plugins / 'kit'} called "
        "commitSync() of the consumer in its task's context, which kconnect does not give to plugins. Return from "
        "preCommit() what may be committed, or call requestCommit() of the context."
    )
    assert journal(worker.folder, 2)[1].startswith(refused)
    worker.await_task("reaching", RunState.RUNNING)
    worker.delete("reaching")
