"""Kill things while lines stream from file to Kafka to file: every line arrives, work goes on where it stood."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.processes import below, named
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(300)]

_LINES_A_STEP = 200
_STEP_S = 0.02
_LINE_BYTES = 14
# A third of the defaults: the partitions of a killed sink wait for its session
_QUICK = {
    "consumer.session.timeout.ms": "2000",
    "consumer.heartbeat.interval.ms": "500",
    "kconnect.kafka.heartbeat.interval.ms": "1000",
}
# Longer than four such sessions, and than the longest pause between two connection attempts, which is set below it
_OUTAGE_S = 9.0
_RECONNECT = {f"{client}.reconnect.backoff.max.ms": "3000" for client in ("consumer", "producer", "admin")}


class Writer:
    """Appends numbered lines to a file, some 10,000 a second, until it is stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-writer")
        path.touch()

    def _run(self) -> None:
        with self.path.open("a") as file:
            while not self._stop.wait(_STEP_S):
                file.writelines(f"line {self.written + n:08d}\n" for n in range(_LINES_A_STEP))
                file.flush()
                self.written += _LINES_A_STEP

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def stop(self) -> list[str]:
        """All lines written."""
        self._stop.set()
        self._thread.join(10)
        return [f"line {n:08d}" for n in range(self.written)]

    def __exit__(self, *_error: object) -> None:
        self.stop()


class Stream:
    """A worker with a file source and a file sink on one topic."""

    def __init__(self, folder: Path, bootstrap: str, topic: str, worker: Mapping[str, str] | None = None) -> None:
        self.topic, self.bootstrap = topic, bootstrap
        self.source, self.sink = folder / "in.txt", folder / "out.txt"
        self.writer = Writer(self.source)
        # The sink's group is named after it, and the broker is shared: names of the test's own
        self.names = (f"{topic}-in", f"{topic}-out")
        self.worker = Standalone(
            folder,
            bootstrap,
            {
                self.names[0]: {"connector.class": "FileStreamSource", "file": str(self.source), "topic": topic},
                self.names[1]: {"connector.class": "FileStreamSink", "file": str(self.sink), "topics": topic},
            },
            # A task that is given up before it has committed reads lines again, as it may on a busy machine
            {"task.shutdown.graceful.timeout.ms": "30000", **(worker or {})},
        )

    def arrived(self) -> int:
        return end_offset(self.bootstrap, self.topic)

    def sunk(self) -> list[str]:
        return self.sink.read_text().splitlines() if self.sink.exists() else []

    def sunk_count(self) -> int:
        """How many that are, repeats counted, without reading them."""
        return self.sink.stat().st_size // _LINE_BYTES if self.sink.exists() else 0

    def flows(self, more: int = 5_000, within_s: float = 30.0) -> None:
        """Wait until so many more lines are in the topic and in the sink's file."""
        topic_goal, sink_goal = self.arrived() + more, self.sunk_count() + more
        eventually(
            lambda: self.arrived() >= topic_goal, within_s, f"{self.topic} grows; {self.worker.log_text()[-3000:]}"
        )
        eventually(
            lambda: self.sunk_count() >= sink_goal, within_s, f"the sink grows; {self.worker.log_text()[-3000:]}"
        )

    def every_line_arrives(self, *, once: bool = False) -> None:
        """No line is missing in topic and sink; the topic's first appearances are in order."""
        lines = self.writer.stop()
        assert lines, "the writer wrote nothing"
        wanted = set(lines)
        eventually(
            lambda: self.sunk_count() >= len(lines) and wanted <= set(self.sunk()),
            60.0,
            "every line is in the sink's file",
        )
        values = [(value or b"").decode() for value in consume_values(self.bootstrap, self.topic, self.arrived())]
        assert list(dict.fromkeys(values)) == lines
        if once:
            assert len(values) == len(lines)


@contextmanager
def streaming(broker: DevBroker, folder: Path, topic: str, worker: Mapping[str, str] | None = None) -> Iterator[Stream]:
    """A stream that flows; its worker is stopped behind it."""
    create_topic(broker.bootstrap, topic)
    made = Stream(folder, broker.bootstrap, topic, worker)
    with made.worker, made.writer:
        made.worker.start()
        made.flows()
        yield made
        made.worker.stop()


def test_no_line_is_lost_whatever_is_killed(own_broker: DevBroker, tmp_path: Path) -> None:
    """One after another, while lines stream: the worker that is left, or the next one, goes on where it stood."""
    with streaming(own_broker, tmp_path, "killed", _QUICK | _RECONNECT) as stream:
        kill_one_slot(stream)
        kill_all_slots(stream)
        kill_the_broker_for_a_while(stream, own_broker)
        kill_sparks_jvm(stream)
        kill_the_worker(stream)
        stream.every_line_arrives()


def kill_one_slot(stream: Stream) -> None:
    slots = stream.worker.slots()
    assert slots
    slots[0].kill()
    stream.flows()
    # Its parent may not have noticed yet: what is in the other slots flows on
    eventually(lambda: slots[0].pid not in [slot.pid for slot in stream.worker.slots()], 30, "it is gone")
    eventually(lambda: len(stream.worker.slots()) == len(slots), 60, "another is in its place")


def kill_all_slots(stream: Stream) -> None:
    before = stream.worker.slots()
    for slot in before:
        slot.kill()
    stream.flows()
    # One that is back is enough for both tasks
    eventually(lambda: len(stream.worker.slots()) == len(before), 60, "as many slots as before")


def kill_the_broker_for_a_while(stream: Stream, broker: DevBroker) -> None:
    broker.kill()
    threading.Event().wait(_OUTAGE_S)  # the outage itself, not a wait for something
    broker.start()
    stream.flows(within_s=60)
    for name in stream.names:
        stream.worker.await_task(name, RunState.RUNNING)


def kill_sparks_jvm(stream: Stream) -> None:
    """The worker says it and ends; the next one goes on."""
    family = stream.worker.descendants()
    (jvm,) = named(below(stream.worker.pid, deep=False), "java")
    jvm.kill()
    assert stream.worker.wait() == 2
    stream.worker.assert_gone(family)
    assert "RuntimeWarning" not in stream.worker.log_text()
    assert stream.worker.log_text().splitlines()[-1] == "Slots cannot start: Spark's JVM has ended (killed by signal 9)"
    stream.worker.start()
    stream.flows()


def kill_the_worker(stream: Stream) -> None:
    stream.worker.kill()
    stream.worker.start()
    stream.flows()


def test_after_a_signal_the_next_worker_goes_on_at_the_very_next_line(
    broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with streaming(broker, tmp_path, topic_for(request)) as stream:
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
            family = stream.worker.descendants()
            stream.worker.signal(number)
            assert stream.worker.wait() == code
            stream.worker.assert_gone(family)
            stream.worker.start()
            stream.flows()
        stream.every_line_arrives(once=True)
