"""A source's producer on a real broker: its client ends when idle, the next record has another, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kconnect.runtime.kafka import KafkaRecord, RecordProducer
from kconnect.runtime.pipeline.unit_producer import IdleClosingProducer
from kit.pace import ample_s
from kit.pipeline_host import FILE_SOURCE, PipelineHost
from kit.places import TESTS
from kit.topics import consume_values
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS)}


def client_threads() -> set[str]:
    """Threads of librdkafka in this process."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended since the list was made
            if (task / "comm").read_text().startswith("rdk:"):
                found.add(task.name)
    return found


def send_three_with_pauses(bootstrap: str, topic: str) -> None:
    """Run in a process of its own: in that of the tests other clients have threads that come and go."""
    now_s, reported = 0.0, list[bool]()
    producer = IdleClosingProducer(
        "orders-0", lambda: RecordProducer({"bootstrap.servers": bootstrap}, "o"), lambda: now_s
    )
    for number in range(3):
        assert topic in producer.topic_names(ample_s(20))
        delivery = producer.delivery(reported.append)
        assert producer.send(KafkaRecord(topic, value=b"%d" % number), delivery, lambda: False)
        delivery.complete()
        del delivery
        assert producer.flush(ample_s(20))
        assert client_threads(), "a client that may be used soon stays"
        now_s += 60
        producer.serve()
        eventually(lambda: not client_threads(), 20, "the threads of the idle client end")
    producer.close()
    assert reported == [True] * 3


def test_an_idle_client_ends_with_its_threads_and_the_next_record_has_another(broker: DevBroker, topic: str) -> None:
    command = [sys.executable, __file__, broker.bootstrap, topic]
    ended = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, timeout=ample_s(90), check=False)
    assert ended.returncode == 0, ended.stderr
    assert consume_values(broker.bootstrap, topic, 3) == [b"0", b"1", b"2"]


def test_settings_that_the_client_refuses_fail_the_task_at_its_start(broker: DevBroker, tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("")
    with PipelineHost(broker.bootstrap, producer_compression_type="nope") as host:
        spec = host.start_source("refused", FILE_SOURCE, file=str(file), topic="never-written")
        eventually(lambda: host.states(spec) == [RunState.FAILED], 20, "the task fails")
        assert 'Invalid value "nope" for configuration property "compression.type"' in str(host.reports[-1])


if __name__ == "__main__":
    send_three_with_pauses(*sys.argv[1:])
