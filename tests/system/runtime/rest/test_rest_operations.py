"""Operations of REST on a real worker: what tasks in slots tell, and what slots are reported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.places import TESTS
from kit.standalone import Standalone
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]
_WITH_KIT = {"PYTHONPATH": str(TESTS)}
JOURNAL = "kit.journal_tasks:JournalSource"


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("worker"), broker.bootstrap, {}, env=_WITH_KIT) as running:
        running.start()
        yield running
        assert running.stop() == 143


def test_topics_of_source_and_sink_are_reported_forgotten_and_reported_again(
    worker: Standalone, topic: str, tmp_path: Path
) -> None:
    lines, out = tmp_path / "in.txt", tmp_path / "out.txt"
    lines.write_text("one\n")
    with worker.client() as client:
        client.create_connector(
            "reported-in", {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
        )
        client.create_connector(
            "reported-out", {"connector.class": "FileStreamSink", "file": str(out), "topics": topic}
        )
        for name in ("reported-in", "reported-out"):
            eventually(lambda name=name: client.topics(name) == [topic], 30, f"{name} uses {topic}")
        client.reset_topics("reported-in")
        assert client.topics("reported-in") == []

        def is_reported_again() -> bool:
            with lines.open("a") as file:  # more than once: the slot may hear of the reset after the first line
                file.write("two\n")
            return client.topics("reported-in") == [topic]

        eventually(is_reported_again, 20, "the topic is reported again")
        assert client.topics("reported-out") == [topic]
        for name in ("reported-in", "reported-out"):
            client.delete_connector(name)


def test_a_level_reaches_slots_and_the_ones_that_come_after(worker: Standalone, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    config = {"connector.class": JOURNAL, "journal": str(journal)}
    with worker.client() as client:
        assert client.set_logger("kit.journal_tasks", "DEBUG") == ["kit.journal_tasks"]
        client.create_connector("levels", config)
        worker.await_task("levels", RunState.RUNNING)
        worker.await_log("journal task polls", 10)
        client.set_logger("kit.journal_tasks", "WARN", scope="cluster")
        assert client.logger("kit.journal_tasks")["level"] == "WARN"
        pid = int(journal.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(journal.read_text().splitlines()) > 1, 30, "the task runs in another slot process")
        worker.await_task("levels", RunState.RUNNING)
        assert worker.log_text().count("journal task starts") == 1
        client.delete_connector("levels")


def test_a_patch_restarts_the_tasks_with_what_it_says(worker: Standalone, tmp_path: Path) -> None:
    journal, later = tmp_path / "journal", tmp_path / "later"
    with worker.client() as client:
        client.create_connector("patched", {"connector.class": JOURNAL, "journal": str(journal), "extra": "x"})
        worker.await_task("patched", RunState.RUNNING)
        config = client.patch_config("patched", {"journal": str(later), "extra": None}).config
        assert config == {"connector.class": JOURNAL, "journal": str(later), "name": "patched"}
        eventually(later.exists, 10, "the task runs with the other journal")
        status = client.restart_connector("patched", include_tasks=True)
        assert status is not None
        assert [task.state for task in status.tasks] == [RunState.RESTARTING]
        eventually(lambda: later.read_text().count("start") == 2, 10, "the task has been started anew")
        client.delete_connector("patched")
