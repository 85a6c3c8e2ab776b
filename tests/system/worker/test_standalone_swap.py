"""A worker is swapped for the other kind on the same files, and back: the work goes on at the next line.

That Java reads a file of offsets that ours has begun: integration/storage/test_offset_file_java.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.cli import connect_command
from kit.java_connect import JavaConnect, write_properties
from kit.pace import ended
from kit.ports import free_port
from kit.topics import consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(240)]

_STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "500",
}


@contextmanager
def _ours(folder: Path, bootstrap: str, offsets: Path, connector: dict[str, str]) -> Iterator[None]:
    """Our standalone worker on the offsets file; stopped by SIGTERM as an operator would."""
    folder.mkdir()
    worker = _STRINGS | {
        "bootstrap.servers": bootstrap,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "offset.storage.file.filename": str(offsets),
    }
    files = [
        write_properties(folder / "worker.properties", worker),
        write_properties(folder / "connector.properties", connector),
    ]
    with (folder / "connect.log").open("wb") as log:
        process = subprocess.Popen(
            [*connect_command(), "standalone", *map(str, files)],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert ended(process, 60) == 128 + signal.SIGTERM, (folder / "connect.log").read_text()[-2000:]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            ended(process, 10)


def test_the_other_worker_goes_on_at_the_next_line_and_so_does_the_first_one_behind_it(
    broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    file = tmp_path / "in.txt"
    file.write_text("")
    offsets = tmp_path / "connect.offsets"
    connector = {
        "name": "lines",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }
    expected: list[bytes | None] = []

    for turn, kind in enumerate(["java", "ours", "java"]):
        lines = [f"{kind} {turn} {number}" for number in range(100)]
        with file.open("a") as more:
            more.writelines(f"{line}\n" for line in lines)
        expected += [line.encode() for line in lines]
        if kind == "java":
            worker = _STRINGS | {"offset.storage.file.filename": str(offsets)}
            with JavaConnect(tmp_path / f"java-{turn}", broker.bootstrap, worker=worker, connectors=[connector]):
                consume_values(broker.bootstrap, topic, len(expected), 60)
        else:
            with _ours(tmp_path / f"ours-{turn}", broker.bootstrap, offsets, connector):
                consume_values(broker.bootstrap, topic, len(expected), 60)

    eventually(lambda: end_offset(broker.bootstrap, topic) >= len(expected), 10, "all lines arrived")
    assert end_offset(broker.bootstrap, topic) == len(expected), "no line came twice"
    assert consume_values(broker.bootstrap, topic, len(expected)) == expected
