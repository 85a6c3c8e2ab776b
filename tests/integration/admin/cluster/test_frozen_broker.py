"""Commands and pages of a worker whose broker stands still (SIGSTOP), or is not there: in time, whole or in part."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kit.brokers import PatientBroker
from kit.cli import CliResult, cli_run
from kit.distributed_worker import worker_settings
from kit.pace import now
from kit.ports import free_port
from kit.thread_worker import ThreadWorker
from kit.waiting import eventually

# Of a quiet machine; kconnect.kafka.answer.timeout.ms and the --request-timeout of commands say so
MOST_S, REFUSED_S = 5.0, 1.5


class Scene:
    """A worker with a source and a sink, beside a broker that may stand still."""

    def __init__(self, worker: ThreadWorker, broker: PatientBroker, home: Path) -> None:
        self.worker, self.broker, self.home = worker, broker, home

    def timed(self, *args: str, most_s: float) -> CliResult:
        began = now()
        result = cli_run("--url", self.worker.url, *args, home=self.home)
        took_s = now() - began
        assert took_s < most_s, f"{' '.join(args)} took {took_s:.1f} s: {result.stdout}{result.stderr}"
        return result

    def page(self, path: str, most_s: float) -> str:
        began = now()
        try:
            with urllib.request.urlopen(f"{self.worker.url}{path}", timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as err:
            with err:
                text = err.read().decode()
        took_s = now() - began
        assert took_s < most_s, f"{path} took {took_s:.1f} s: {text[-500:]}"
        return text

    def is_reported(self) -> bool:
        text = self.page("/health", MOST_S)
        assert "Kafka is away" in text, text
        return True


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("frozen-broker")
    (folder / "lines.txt").write_text("a\nb\n")
    for name in ("one", "home"):
        (folder / name).mkdir()
    with PatientBroker(free_port(), folder / "broker") as broker:
        settings = worker_settings(broker.bootstrap, folder.name)
        with ThreadWorker(folder / "one", settings) as worker, ConnectClient(worker.url) as client:
            source = {"connector.class": "FileStreamSource", "file": str(folder / "lines.txt"), "topic": "lines"}
            sink = {"connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": "lines"}
            for name, config in (("src", source), ("snk", sink)):
                client.put_connector_config(name, config)
            out = folder / "out.txt"
            eventually(lambda: out.exists() and out.read_text() == "a\nb\n", 60, "records flow")
            eventually(lambda: client.connector_offsets("snk"), 60, "offsets are committed")
            yield Scene(worker, broker, folder / "home")


def test_what_was_asked_before_the_worker_knew_is_answered_in_time(scene: Scene) -> None:
    """Asked at once: that the broker is away is known when two heartbeats have had no answer."""
    eventually(lambda: '"healthy"' in scene.page("/health", MOST_S), 60, "all is well")
    assert scene.broker.pid is not None
    os.kill(scene.broker.pid, signal.SIGSTOP)
    try:
        paused = scene.timed("connectors", "pause", "snk", most_s=MOST_S)
        known = {5: "Nothing was changed", 6: "it is not known whether this was done"}  # 5: when the machine is slow
        assert known.get(paused.code, "?") in paused.stderr, paused.stderr
        for path in ("/connectors/src/offsets", "/connectors/snk/offsets", "/ui/connectors/snk"):
            scene.page(path, MOST_S)
    finally:
        os.kill(scene.broker.pid, signal.SIGCONT)


@pytest.fixture(params=["frozen", "refused"], scope="module")
def away(scene: Scene, request: pytest.FixtureRequest) -> Iterator[str]:
    """How the broker is away; the worker knows it when this comes."""
    # What it knows is of this time, and not of the one before
    eventually(lambda: '"healthy"' in scene.page("/health", MOST_S), 60, "all is well")
    assert scene.broker.pid is not None
    if request.param == "frozen":
        os.kill(scene.broker.pid, signal.SIGSTOP)
    else:
        scene.broker.kill()
    try:
        eventually(scene.is_reported, 60, "the worker knows it")
        yield request.param
    finally:
        if request.param == "frozen":
            os.kill(scene.broker.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "connectors status",
        "connectors list",
        "describe src",
        "describe snk",
        "offsets show src",
        "offsets show snk",
        "cluster show",
        "cluster members",
        "topics doctor",
        "records lines",
    ],
)
def test_a_command_has_its_answer_or_its_part_in_time(scene: Scene, away: str, words: str) -> None:
    reported = scene.timed(*words.split(), most_s=REFUSED_S if away == "refused" else MOST_S)
    said = reported.stdout + reported.stderr
    assert "Kafka" in said, said
    if words.split()[0] in ("connectors", "describe"):
        assert "src" in said or "snk" in said, said


@pytest.mark.parametrize(
    "words",
    [
        "connectors pause src",
        "connectors resume src",
        "connectors stop src",
        "connectors restart src",
        "connectors delete src --yes",
        "config set src topic=others",
        "tasks restart src 0",
    ],
)
def test_a_change_is_refused_in_time_and_is_not_done_later(scene: Scene, away: str, words: str) -> None:
    refused = scene.timed(*words.split(), most_s=REFUSED_S if away == "refused" else MOST_S)
    assert (refused.code, "Nothing was changed: Kafka is away" in refused.stderr) == (5, True), refused.stderr


@pytest.mark.parametrize(
    "path", ["/ui", "/ui/connectors/src", "/ui/connectors/snk", "/ui/connectors/src/offsets", "/ui/workers"]
)
def test_a_page_has_its_answer_or_its_part_in_time(scene: Scene, away: str, path: str) -> None:
    assert "Kafka has been away" in scene.page(path, REFUSED_S if away == "refused" else MOST_S)


@pytest.mark.parametrize("path", ["/admin/cluster", "/admin/doctor", "/admin/topics/lines/records"])
def test_a_worker_that_knows_of_it_reads_nothing_for_others(scene: Scene, away: str, path: str) -> None:
    """A client of its own would find out in seconds, each time."""
    assert "This worker's Kafka cannot be read: Kafka is away" in scene.page(path, REFUSED_S)
