"""A query that hangs when it is stopped, and wakes after the next start: it must not touch what that one does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pyspark.sql.functions
import pytest

from kconnect.errors import ConnectError, RetriableError
from kconnect.model import ConnectorOffset, ConnectorType, TaskId, TaskSpec, TopicPartition
from kconnect.runtime.kafka import CommittedOffset
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.spark.query.batch_loop import BatchLoop
from kconnect.spark.query.positions import TopicPosition
from kconnect.spark.query.row_source import RowSource
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.starts import Starts
from kconnect.spark.query.topic_batches import TopicBatches
from kit.pace import ample_s
from kit.pipeline_host import MemoryOffsets
from kit.waiting import eventually

_DONE = {"cursor": "100"}


class Column:
    """A condition, which all rows meet."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self

    def __gt__(self, other: object) -> Column:
        return self

    def __le__(self, other: object) -> Column:
        return self


class Rows:
    """A table whose cursor column, id, ends with this value."""

    columns = ("id",)
    schema: Any = {"id": SimpleNamespace(dataType=None)}  # noqa: RUF012  # as Spark's, read only

    def __init__(self, end: int | None) -> None:
        self._end = end

    def where(self, *_: object) -> Rows:
        return self

    select = orderBy = limit = agg = where

    def collect(self) -> list[list[int | None]]:
        return [[self._end]]


class Session:
    """A session of Spark. The database answers the first query once `gate` is open, and others that nothing is new."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = threading.Event()
        self.sparkContext: Any = SimpleNamespace(
            setJobGroup=lambda *_, **__: None, setLocalProperty=lambda *_: None, cancelJobGroup=lambda _: None
        )

    @property
    def read(self) -> Session:
        return self

    def format(self, _: str) -> Session:
        return self

    def options(self, **_: str) -> Session:
        return self

    def load(self) -> Rows:
        if self.asked.is_set():
            return Rows(None)
        self.asked.set()
        assert self.gate.wait(ample_s(20)), "the test forgot to open the gate"
        return Rows(200)


class Offsets(MemoryOffsets):
    """`asked`: a commit has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def commit(self, connector: str, offsets: Sequence[ConnectorOffset]) -> None:
        self.asked.set()
        super().commit(connector, offsets)


class World:
    """A source with a cursor that has got to 100."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("col", "lit", "max"):  # Spark's own ask for a JVM
            monkeypatch.setattr(pyspark.sql.functions, name, lambda _: Column())
        self.offsets = Offsets()
        self.session = Session()
        self.starts: list[BatchLoop] = []
        config = {"spark.format": "jdbc", "topic": "t", "cursor.column": "id", "spark.trigger.ms": "50"}
        worker = {"task.shutdown.graceful.timeout.ms": "20"}
        ports = TaskPorts(
            report=lambda *_: None,
            offsets=self.offsets,
            reconfigure=lambda name: None,
            housekeeping=cast("Any", None),
            plugins=cast("Any", None),
        )
        control = TaskControl(TaskSpec(TaskId("db", 0), 1, ConnectorType.SOURCE, config, config, worker), ports)
        engine = SimpleNamespace(session=lambda give_up: self.session, tally_address=lambda: None)
        self.source = RowSource(control, ports, cast("Any", engine))
        self.offsets.commit("db", [RowPosition("q", 5, _DONE).to_commit("db")])
        self.offsets.asked.clear()

    def begin(self) -> BatchLoop:
        query = self.source.begin()
        assert isinstance(query, BatchLoop)
        self.starts.append(query)
        return query

    def give_up(self, query: BatchLoop) -> threading.Thread:
        """Stop it, as for a pause. The thread is the one that would wait for its end, for some seconds."""
        self.source.end()
        stop = threading.Thread(target=query.stop)
        stop.start()
        self.source.close()
        return stop

    def position(self) -> RowPosition:
        (found,) = self.offsets.of("db")
        return RowPosition.of(found)


def test_a_query_that_wakes_after_the_next_start_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would get a new batch number, so that nothing knew them again, and its position would be committed."""
    world = World(monkeypatch)
    hung = world.begin()
    assert world.session.asked.wait(ample_s(10))
    stop = world.give_up(hung)
    second = world.begin()

    world.session.gate.set()
    eventually(lambda: not hung.isActive, 10, "the first query ends")

    assert world.position() == RowPosition("q", 5, _DONE)
    assert world.source.failure() is None
    world.give_up(second).join()
    stop.join()


def test_no_query_starts_while_a_batch_of_the_one_before_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.offsets.gate.clear()  # the commit of the plan hangs
    first = world.begin()
    world.session.gate.set()
    assert world.offsets.asked.wait(ample_s(10))
    stop = world.give_up(first)

    with pytest.raises(RetriableError, match="has not ended yet"):
        world.begin()
    world.offsets.gate.set()
    stop.join()

    second = world.begin()
    assert world.position() == RowPosition("q", 5, _DONE, {"cursor": "200"}), "it begins with what was planned"
    world.give_up(second).join()


def test_a_start_that_is_over_sends_no_batch_and_none_begins_beside_one() -> None:
    starts = Starts()
    control = cast(
        "Any", SimpleNamespace(spec=SimpleNamespace(worker_config={"task.shutdown.graceful.timeout.ms": 20}))
    )
    first = starts.begin()
    with starts.batch(first):
        starts.end(control)  # it waits no longer than a task may take to stop
        with pytest.raises(RetriableError, match="has not ended yet"):
            starts.begin()
    with pytest.raises(ConnectError, match="is being stopped"), starts.batch(first):
        pytest.fail("after the end")
    second = starts.begin()
    with pytest.raises(ConnectError, match="is being stopped"), starts.batch(first):
        pytest.fail("of an earlier start")
    assert (starts.is_latest(first), starts.is_latest(second)) == (False, True)
    with starts.batch(second):
        pass


class Writer:
    """What was written, in place of a table."""

    query_id = "q"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def write(self, rows: object, batch: int) -> None:
        self.batches.append(batch)


def sink_of(
    group: Group, starts: Starts, key: str, position: TopicPosition, *partitions: TopicPartition
) -> TopicBatches:
    spec = TaskSpec(TaskId("lake", 0), 1, ConnectorType.SINK, {"spark.format": "delta"}, {}, {})
    ports = SimpleNamespace(report=lambda *_: None, topic_used=lambda *_: None)
    ends = SimpleNamespace(partitions=lambda: list(partitions))
    return TopicBatches(
        TaskControl(spec, cast("Any", ports)), starts, key, position, cast("Any", group), cast("Any", ends)
    )


def test_a_late_batch_of_a_sink_writes_nothing_with_the_position_of_the_next_start() -> None:
    """Spark gives a query up that does not end in 10 s, and its thread goes on."""
    at, starts, group, writer = TopicPartition("t", 0), Starts(), Group(), Writer()
    position = TopicPosition("q", 6, {at: 3})
    late = sink_of(group, starts, starts.begin(), position, at)
    now = sink_of(group, starts, starts.begin(), position, at)

    with pytest.raises(ConnectError, match="is being stopped"):
        late.write(cast("Any", writer), None, 7, {at: 5})
    assert (writer.batches, group.commits) == ([], [])

    now.write(cast("Any", writer), None, 8, {at: 5})
    assert writer.batches == [8]
    assert now.position.done == {at: 5}


class Group:
    """The offsets of a group, and what each commit had."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, CommittedOffset]] = []

    def write(self, offsets: Mapping[TopicPartition, CommittedOffset], give_up: Callable[[], bool]) -> bool:
        self.commits.append(dict(offsets))
        return True

    def await_settled(self, partitions: Collection[TopicPartition], give_up: Callable[[], bool]) -> bool:
        return True


def test_offsets_of_partitions_without_records_are_committed_again_before_kafka_forgets_them() -> None:
    """A group without members keeps each offset for a week from its commit, also while the query runs."""
    busy, idle, gone = (TopicPartition(name, 0) for name in ("busy", "idle", "gone"))
    starts, group = Starts(), Group()
    key = starts.begin()
    sink = sink_of(group, starts, key, TopicPosition("q", 4, {busy: 7, idle: 3, gone: 1}), busy, idle)
    over = sink_of(group, starts, "an earlier start", TopicPosition("q", 4, {busy: 7}), busy, idle)

    over.renew()
    assert group.commits == []
    sink.renew()
    sink.renew()
    (first,) = group.commits  # not again before an hour has passed
    assert {at: to.offset for at, to in first.items()} == {busy: 7, idle: 3}
    found = TopicPosition.of(first, {"busy", "idle", "gone"})
    assert (found.id, found.batch, found.planned, found.is_altered) == ("q", 4, {}, False)

    sink._renewed_s = float("-inf")
    sink._position = sink._position.plan({busy: 9})
    sink.renew()
    assert len(group.commits) == 1, "what is planned stays planned"
    sink._position = sink._position.ended()
    with sink._writing:
        sink.renew()  # comes back at once: the batch that is written does it
    starts.end(sink._control)
    sink.renew()
    assert len(group.commits) == 1
