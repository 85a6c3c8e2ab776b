"""Functions of the user and a Singer tap on a real worker whose slot is killed (-9)."""

from __future__ import annotations

import json
import shlex
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.distributed_worker import Distributed
from kit.places import KIT
from kit.topics import committed_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java, pytest.mark.timeout(240)]

COUNTED, TAPPED = 3_000, 1_500
FUNCTIONS = """
import time

def count(offset, upto: int):
    for number in range(-1 if offset is None else offset, upto - 1):
        time.sleep(0.001)
        yield number + 1, number + 1

def keep(record, file):
    with open(file, "a") as kept:
        kept.write(f"{record.value}\\n")
"""
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    """One worker with exactly-once support and one slot."""
    folder = tmp_path_factory.mktemp("stores")
    (folder / "plugins").mkdir()
    (folder / "plugins" / "killed_functions.py").write_text(FUNCTIONS)
    settings = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "300", "kconnect.slots": "1"}
    settings["plugin.path"] = str(folder / "plugins")
    with Distributed(folder / "worker", broker.bootstrap, f"stores-{uuid.uuid4().hex[:6]}", settings) as made:
        yield made.start()
        made.stop()


def test_functions_and_a_tap_go_on_behind_what_was_committed(
    broker: DevBroker, worker: Distributed, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, f"{topic}.numbers")
    kept = tmp_path / "kept.txt"
    source = {"connector.class": "PythonSource", "function": "killed_functions:count", "topic": topic, **JSON}
    sink = {"connector.class": "PythonSink", "function": "killed_functions:keep", "topics": topic, **JSON}
    program = KIT / "taps/numbers_tap.py"
    tap = {"connector.class": "SingerSource", "singer.command": shlex.join([sys.executable, str(program)]), **JSON}
    gate = tmp_path / "gate"  # so that it is not through before it is killed
    paced = {"upto": TAPPED, "pace_s": 0.002, "gate": str(gate), "gate_at": TAPPED // 2}
    tap |= {"singer.config": json.dumps(paced), "topic.prefix": f"{topic}."}
    with worker.client() as client:
        client.create_connector("count", {**source, "function.args.upto": str(COUNTED)})
        client.create_connector("keep", {**sink, "function.args.file": str(kept)})
        client.create_connector("tap", {**tap, "key.converter": JSON["value.converter"]})

    def tapped() -> list[int]:
        return [json.loads(value)["n"] for value in committed_values(broker.bootstrap, f"{topic}.numbers")]

    eventually(lambda: kept.exists() and len(tapped()) >= 300, 60, f"all go; {worker.log_text()[-3000:]}")
    taps = worker.running(str(program))
    assert taps
    for slot in worker.slots():
        slot.kill()
    worker.assert_gone(taps, 10)
    gate.touch()
    counted = [str(number).encode() for number in range(COUNTED)]
    eventually(lambda: len(committed_values(broker.bootstrap, topic)) >= COUNTED, 60, worker.log_text()[-3000:])
    assert committed_values(broker.bootstrap, topic) == counted, "each once: it has offsets"
    eventually(lambda: len(set(tapped())) > TAPPED, 60, worker.log_text()[-3000:])
    assert list(dict.fromkeys(tapped())) == list(range(TAPPED + 1)), "at least once, in order"
    eventually(lambda: {int(line) for line in kept.read_text().split()} == set(range(COUNTED)), 30, "all are kept")
