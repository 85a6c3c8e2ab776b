"""Our worker takes over the very files of a Java worker, and gives them back: sources and sinks go on where it stopped.

The worker's file is Java's, with its plugin.path of jars; only the listener of ours is another one, so that a port that
the other has just left does not matter.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.java_connect import JavaConnect
from kit.ports import free_port
from kit.runs import Run
from kit.topics import consume_values, end_offset
from kit.waiting import eventually, wait_http

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(240)]

_LINES = 200


@contextmanager
def _ours_on(files: list[Path], folder: Path) -> Iterator[str]:
    """Our worker on these files, but for `listeners`; stopped by SIGTERM as an operator would."""
    worker, *connectors = files
    url = f"http://127.0.0.1:{free_port()}"
    settings = [line for line in worker.read_text("latin-1").splitlines() if not line.startswith("listeners=")]
    own = folder / "ours.properties"
    own.write_text("\n".join([*settings, f"listeners={url}", ""]), "latin-1")
    with Run(folder, [str(own), *map(str, connectors)]) as run:
        wait_http(f"{url}/health", 60)
        yield url
        run.signal(signal.SIGTERM)
        ended = run.end()
        assert ended.code == 143, ended.stderr[-3000:]
        assert not run.left_running()


def test_a_source_and_a_sink_go_on_on_the_same_files_from_java_to_ours_and_back(
    broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    """Java reads and writes, ours goes on, Java goes on: no line is missing, none comes twice."""
    folder = tmp_path / "java"
    lines, out, offsets = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "connect.offsets"
    source = {"name": "lines", "connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
    sink = {
        "name": f"copy-{uuid.uuid4().hex[:6]}",  # its group is of the whole session's broker
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "consumer.override.auto.offset.reset": "earliest",
    }
    java = JavaConnect(
        folder,
        broker.bootstrap,
        worker={"offset.storage.file.filename": str(offsets), "offset.flush.interval.ms": "60000"},  # stop commits
        connectors=[source, sink],
    )
    files = [folder / name for name in ("worker.properties", "connector-0.properties", "connector-1.properties")]
    expected: list[str] = []

    def moves(who: str) -> None:
        new = [f"{who} {len(expected) + number}" for number in range(_LINES)]
        with lines.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        expected.extend(new)
        consume_values(broker.bootstrap, topic, len(expected), 60)
        eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= len(expected), 30, "the sink wrote")

    with java:
        moves("java")
    before = offsets.read_bytes()
    with _ours_on(files, tmp_path) as url:
        moves("ours")
        with ConnectClient(url) as client:
            for name in ("lines", sink["name"]):

                def states(name: str = name) -> list[RunState]:
                    return [task.state for task in client.connector_status(name).tasks]

                eventually(lambda states=states: states() == [RunState.RUNNING], 10, f"{name} is RUNNING")
    assert offsets.read_bytes() != before
    with java:
        moves("java again")

    came = consume_values(broker.bootstrap, topic, end_offset(broker.bootstrap, topic))
    assert [value.decode() for value in came if value] == expected, "no line is missing, none came twice"
    assert out.read_text().splitlines() == expected
