"""Kill things while lines stream from file to Kafka to file: every line arrives, work goes on where it stood."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState
from kit.processes import below, named
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

_LINES_A_STEP = 200
_STEP_S = 0.02
_LINE_BYTES = 14


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

    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
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
            {"task.shutdown.graceful.timeout.ms": "30000"},
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


@pytest.fixture
def stream(broker: DevBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stream]:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    made = Stream(tmp_path, broker.bootstrap, topic)
    with made.worker, made.writer:
        made.worker.start()
        made.flows()
        yield made


def test_a_killed_slot_is_back_and_no_line_is_lost(stream: Stream) -> None:
    slots = stream.worker.slots()
    assert slots
    slots[0].kill()
    stream.flows()
    # Its parent may not have noticed yet: what is in the other slots flows on
    eventually(lambda: slots[0].pid not in [slot.pid for slot in stream.worker.slots()], 30, "it is gone")
    stream.every_line_arrives()
    stream.worker.stop()


def test_when_all_slots_are_killed_no_line_is_lost(stream: Stream) -> None:
    before = stream.worker.slots()
    for slot in before:
        slot.kill()
    stream.flows()
    # One that is back is enough for both tasks
    eventually(lambda: len(stream.worker.slots()) == len(before), 60, "as many slots as before")
    stream.every_line_arrives()
    stream.worker.stop()


def test_after_kill_9_of_the_worker_the_next_one_goes_on_and_no_line_is_lost(stream: Stream) -> None:
    stream.worker.kill()
    stream.worker.start()
    stream.flows()
    stream.every_line_arrives()
    stream.worker.stop()


def test_after_kill_9_of_sparks_jvm_the_worker_says_it_and_ends_and_the_next_one_loses_no_line(stream: Stream) -> None:
    family = stream.worker.descendants()
    (jvm,) = named(below(stream.worker.pid, deep=False), "java")
    jvm.kill()
    assert stream.worker.wait() == 2
    stream.worker.assert_gone(family)
    assert "RuntimeWarning" not in stream.worker.log_text()
    assert stream.worker.log_text().splitlines()[-1] == "Slots cannot start: Spark's JVM has ended (killed by signal 9)"
    stream.worker.start()
    stream.flows()
    stream.every_line_arrives()
    stream.worker.stop()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_after_a_signal_the_next_worker_goes_on_at_the_very_next_line(
    stream: Stream, number: signal.Signals, code: int
) -> None:
    family = stream.worker.descendants()
    stream.worker.signal(number)
    assert stream.worker.wait() == code
    stream.worker.assert_gone(family)
    stream.worker.start()
    stream.flows()
    stream.every_line_arrives(once=True)
    stream.worker.stop()


def test_a_broker_that_is_away_for_20_s_costs_no_line(own_broker: DevBroker, tmp_path: Path) -> None:
    topic = "away"
    create_topic(own_broker.bootstrap, topic)
    made = Stream(tmp_path, own_broker.bootstrap, topic)
    with made.worker, made.writer:
        made.worker.start()
        made.flows()
        own_broker.stop()
        threading.Event().wait(20)  # the outage itself, not a wait for something
        own_broker.start()
        made.flows(within_s=60)
        for name in made.names:
            made.worker.await_task(name, RunState.RUNNING)
        made.every_line_arrives()
        made.worker.stop()
