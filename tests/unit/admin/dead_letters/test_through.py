"""Letters straight into a sink: marked as put only when the sink says that it has written them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from kconnect.admin.dead_letters.letter import DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import Entry, Marks, MarkState, Run, marks_of, run_entry
from kconnect.admin.dead_letters.planning import Outcome, ReplayRules, Tally
from kconnect.admin.dead_letters.replay import MarkWriter, Preparation
from kconnect.admin.dead_letters.through import replay_through
from kconnect.api import (
    ConfigDef,
    ConsumerRecord,
    DataError,
    ErrantRecordsError,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from kconnect.builtin.stores.file_store import FileStore
from kconnect.errors import ConnectError
from kconnect.testing import SinkHarness
from kconnect.testing.sink_chain import SinkChain

PREFIX = "__connect.errors."
PLACE = TopicPartition("orders", 0)


class LateTask(SinkTask):
    """Keeps values until it flushes, and refuses those that say "bad" then, or in the put after theirs."""

    stored: ClassVar[list[Any]] = []

    def start(self, props: Mapping[str, str]) -> None:
        self.mode = props["mode"]
        self.waiting: list[SinkRecord] = []

    def put(self, records: list[SinkRecord]) -> None:
        if self.mode in ("next put", "names in next put"):
            self.write()
        self.waiting += records

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        if self.mode == "says nothing":
            return {}
        if self.mode == "says less":
            return {place: offset - 1 for place, offset in current_offsets.items()}
        self.write()
        return current_offsets

    def write(self) -> None:
        if self.mode.startswith("names"):
            places = {(PLACE, record.original_kafka_offset): record for record in self.waiting}
            bad = {place: DataError("refused") for place, record in places.items() if record.value == "bad"}
            if bad:
                self.waiting = []
                raise ErrantRecordsError(bad)
        for record in self.waiting:
            if record.value == "bad":
                reporter = self.context.errant_record_reporter()
                assert reporter is not None
                reporter.report(record, DataError("refused"))
            else:
                self.stored.append(record.value)
        self.waiting = []

    def stop(self) -> None:
        pass

    def version(self) -> str:
        return "1"


class LateSink(SinkConnector):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self.props = props

    def task_class(self) -> type[SinkTask]:
        return LateTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)]

    def stop(self) -> None:
        pass

    def config(self) -> ConfigDef:
        return ConfigDef()


class MemoryMarks:
    """Topic of marks and its writer in memory."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.in_topic: set[str] = set()
        self.topic = self

    def marks(self) -> Marks:
        return marks_of(self.log)

    def settled_marks(self) -> Marks:
        return self.marks()

    def arrived(self, run: Run) -> set[str]:
        return self.in_topic

    def claim(self) -> None:
        pass

    def transact(self, entries: Sequence[Entry], records: Sequence[Any] = ()) -> dict[int, ConnectError]:
        self.log += entries
        return {}

    @property
    def states(self) -> dict[int, str]:
        """Offset of a letter -> the state of its mark."""
        return {offset: mark.state for (_, offset), mark in self.marks().letters.items()}


def letter(at: int, value: Any, offset: int) -> DeadLetter:
    words = {"topic": "orders", "partition": "0", "offset": str(offset), "connector.name": "sink", "stage": "TASK_PUT"}
    headers: list[tuple[str, bytes | None]] = [(PREFIX + name, text.encode()) for name, text in words.items()]
    return dead_letter(ConsumerRecord("dlq", 0, at, None, json.dumps(value).encode(), 1_000, headers=headers))


def put_through(marks: MemoryMarks, letters: Sequence[DeadLetter], connector: str, **settings: str) -> Tally:
    config = {
        "name": "sink",
        "connector.class": connector,
        "topics": "orders",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **{name.replace("_", "."): text for name, text in settings.items()},
    }

    def prepare(found: Marks, arrived: Any) -> Preparation:
        return Preparation(ReplayRules(), found, lambda topics: {}, arrived=arrived, is_through=True)

    with SinkChain(config, {}) as chain:
        return replay_through(
            cast(MarkWriter, marks), "sink", lambda: letters, prepare, chain, isolation="read_uncommitted"
        )


@pytest.fixture
def late_sink(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(LateTask, "stored", [])
    return f"{__name__}.LateSink"


@pytest.mark.parametrize("mode", ["says nothing", "says less"])
def test_letters_of_which_the_sink_does_not_say_that_they_are_written_are_in_doubt(late_sink: str, mode: str) -> None:
    marks = MemoryMarks()
    with pytest.raises(ConnectError, match="LateTask did not confirm that it wrote the records: records of orders-0"):
        put_through(marks, [letter(0, "a", 7), letter(1, "b", 3)], late_sink, mode=mode)
    assert marks.states == {0: MarkState.PUTTING, 1: MarkState.PUTTING}


@pytest.mark.parametrize("mode", ["flush", "next put", "names in flush", "names in next put"])
def test_a_letter_that_the_sink_refuses_after_its_put_stays_and_the_others_are_marked(
    late_sink: str, mode: str
) -> None:
    marks = MemoryMarks()
    letters = [letter(0, "a", 7), letter(1, "bad", 3), letter(2, "b", 5), letter(3, "bad", 3), letter(4, "c", 9)]
    done = put_through(marks, letters, late_sink, mode=mode)
    stored = LateTask.stored
    if mode == "names in next put":  # all since the last flush come again, what it has written among them
        stored = list(dict.fromkeys(stored))
    assert stored == ["a", "b", "c"]
    assert marks.states == {0: MarkState.PUT, 2: MarkState.PUT, 4: MarkState.PUT}
    assert (done.counts[Outcome.REPLAY], done.counts[Outcome.FAILED]) == (3, 2)
    assert done.first[Outcome.FAILED] == "dlq-0@1: DataError: refused"


def test_a_letter_that_the_sink_got_from_a_killed_replay_to_its_topic_is_only_marked(late_sink: str) -> None:
    marks = MemoryMarks()
    marks.log.append(run_entry(Run("sink", 5, {"orders": {0: 0}})))
    marks.in_topic = {"dlq-0@0"}
    done = put_through(marks, [letter(0, "a", 7), letter(1, "b", 8)], late_sink, mode="flush")
    assert LateTask.stored == ["b"]
    assert marks.states == {0: MarkState.SENT, 1: MarkState.PUT}
    assert (done.counts[Outcome.ARRIVED], done.counts[Outcome.REPLAY]) == (1, 1)


OBJECT_SINK = "kconnect.builtin.connectors.objects.object_sink.ObjectSinkConnector"


def test_letters_are_in_objects_in_whatever_order_they_come_beside_those_of_the_task_that_runs(tmp_path: Path) -> None:
    into = {"object.url": str(tmp_path), "object.path": ""}
    names = {"orders+0+00000000000000000000-00000000000000000001.jsonl"}
    with SinkHarness(OBJECT_SINK, {**into, "topics": "orders", "flush.rows": "2"}) as live:
        live.put({"id": "live"}, {"id": "live"})
        marks = MemoryMarks()
        letters = [letter(0, {"id": 5}, 5), letter(1, {"id": 3}, 3), letter(2, {"id": 3}, 3)]
        done = put_through(marks, letters, OBJECT_SINK, flush_rows="1", **into)
        live.crash()
        live.start()  # reads all again: its units end where they ended
        live.deliver()
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    (replayed,) = written.keys() - names
    assert replayed.startswith("orders+0+replay-")
    assert [json.loads(line)["id"] for line in written[replayed].splitlines()] == [5, 3, 3]
    assert written.keys() - {replayed} == names
    assert done.counts[Outcome.REPLAY] == 3
    assert marks.states == dict.fromkeys(range(3), MarkState.PUT)


def test_letters_whose_objects_could_not_be_written_are_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(store: FileStore, path: str, body: bytes) -> None:
        raise RetriableError("503 Slow Down")

    monkeypatch.setattr(FileStore, "write", away)
    marks = MemoryMarks()
    with pytest.raises(ConnectError, match="503 Slow Down"):
        put_through(marks, [letter(0, {"id": 5}, 5)], OBJECT_SINK, **{"object.url": str(tmp_path)})
    assert marks.states == {0: MarkState.PUTTING}
