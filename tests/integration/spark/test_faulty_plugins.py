"""A connector that raises or never returns fails alone: its neighbours in the same slots go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kit.places import KIT
from kit.standalone import Standalone
from kit.topics import create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]

_PLUGINS = KIT / "plugins"
_SOURCE, _SINK = "faulty_connectors.FaultySource", "faulty_connectors.FaultySink"
_RAISING = {
    "source-start": (_SOURCE, "start"),
    "source-poll": (_SOURCE, "poll"),
    "sink-start": (_SINK, "start"),
    "sink-put": (_SINK, "put"),
    "sink-flush": (_SINK, "flush"),
}


class Neighbour:
    """The well-behaved connector beside the faulty ones."""

    def __init__(self, folder: Path) -> None:
        self.source, self.sink, self._count = folder / "in.txt", folder / "out.txt", 0
        self.source.touch()

    def still_moves_lines(self) -> None:
        self._count += 1
        line = f"line {self._count}"
        with self.source.open("a") as file:
            file.write(line + "\n")
        eventually(lambda: self.sink.exists() and line in self.sink.read_text().splitlines(), 20, f"{line!r} arrives")


@pytest.fixture(scope="module")
def crowd(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Standalone, Neighbour]]:
    folder = tmp_path_factory.mktemp("faulty")
    for topic in ("trouble", "neighbour"):
        create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, "trouble", ["one", "two"])
    neighbour = Neighbour(folder)
    connectors = {
        "neighbour-in": {"connector.class": "FileStreamSource", "file": str(neighbour.source), "topic": "neighbour"},
        "neighbour-out": {"connector.class": "FileStreamSink", "file": str(neighbour.sink), "topics": "neighbour"},
    }
    for name, (kind, method) in _RAISING.items():
        connectors[name] = {"connector.class": kind, "raise.in": method, "topics": "trouble"}
        if kind == _SOURCE:
            del connectors[name]["topics"]
    connectors["raises-in-stop"] = {"connector.class": _SOURCE, "raise.in": "stop"}
    connectors["hangs-in-poll"] = {"connector.class": _SOURCE, "hang.in": "poll"}
    connectors["hangs-in-stop"] = {"connector.class": _SOURCE, "hang.in": "stop"}
    worker = Standalone(
        folder,
        broker.bootstrap,
        connectors,
        {"plugin.path": str(_PLUGINS), "task.shutdown.graceful.timeout.ms": "2000"},
    )
    with worker:
        worker.start(running=False)
        yield worker, neighbour


@pytest.mark.parametrize("name", sorted(_RAISING))
def test_a_task_that_raises_is_failed_with_its_trace_and_its_neighbours_go_on(
    crowd: tuple[Standalone, Neighbour], name: str
) -> None:
    worker, neighbour = crowd
    trace = worker.await_task(name, RunState.FAILED)
    method = _RAISING[name][1]
    assert f"trouble in {method}" in trace.splitlines()[0], trace
    assert "faulty_connectors.py" in trace
    neighbour.still_moves_lines()


def test_a_task_that_raises_in_stop_is_stopped_all_the_same(crowd: tuple[Standalone, Neighbour]) -> None:
    worker, neighbour = crowd
    worker.await_task("raises-in-stop", RunState.RUNNING)
    with worker.client() as client:
        client.stop_connector("raises-in-stop")
        assert client.connector_status("raises-in-stop").connector.state == RunState.STOPPED
    neighbour.still_moves_lines()
    assert "trouble in stop" in worker.log_text()


@pytest.mark.parametrize("name", ["hangs-in-poll", "hangs-in-stop"])
def test_a_task_that_never_returns_is_left_behind_at_its_deadline(
    crowd: tuple[Standalone, Neighbour], name: str
) -> None:
    worker, neighbour = crowd
    worker.await_task(name, RunState.RUNNING)
    with worker.client() as client:
        client.stop_connector(name)
        assert client.connector_status(name).tasks == ()
        client.resume_connector(name)
    worker.await_task(name, RunState.RUNNING)
    neighbour.still_moves_lines()


def test_a_worker_stops_in_time_although_tasks_never_return(crowd: tuple[Standalone, Neighbour]) -> None:
    worker, _ = crowd
    assert worker.stop(within_s=20) == 143
