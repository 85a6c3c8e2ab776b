"""ObjectSink: records as files and objects whose names have the offsets, each record in exactly one."""

from __future__ import annotations

import logging
import math
import secrets
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import (
    DataError,
    RecordBatch,
    Schema,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector, raised_by
from kconnect.builtin.connectors.objects.confluent_layout import ConfluentNames
from kconnect.builtin.connectors.objects.object_columns import ObjectColumns, columns_of
from kconnect.builtin.connectors.objects.object_config import SINK_CONFIG, delimiter_in, object_store
from kconnect.builtin.connectors.objects.object_names import ObjectNames, batch_field_values, field_values
from kconnect.builtin.connectors.objects.object_units import Unit, folder_runs
from kconnect.builtin.connectors.objects.object_writers import TEXT_FORMATS, Content, Encoder
from kconnect.builtin.stores.flush_plan import FlushLimits
from kconnect.builtin.types.contracts import CONTRACT, INFER, Contracts, DiscardedRowError, Discards, contract_problems
from kconnect.builtin.types.declarations import declarations
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# A task that nobody called for so long may have been frozen, and its partitions be another's: groups wait 6 s at least
_AWAY_S = 3.0
# Single records from outside are written in pre_commit, never in a put(): of one that fails nothing is kept
_NEVER = FlushLimits(sys.maxsize, sys.maxsize, math.inf)


class ObjectSinkConnector(UniformSinkConnector):
    """Each task writes the objects of its partitions. Any offset is fine: objects written again have the same names."""

    table = SINK_CONFIG

    def task_class(self) -> type[SinkTask]:
        return ObjectSinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """The store, which is opened: that needs no network."""
        config = SINK_CONFIG.parse(props)
        look = partial(object_store, config["object.url"], props)
        found = [*raised_by(look, SINK_CONFIG, "object.url"), *contract_problems(props)]
        if len(found) == 0 and not Contracts.parse(props).is_open and config["object.format"] in TEXT_FORMATS:
            found.append(
                (CONTRACT, f"object.format={config['object.format']} has no columns, which schema.contract keeps")
            )
        if declarations(props, is_sink=True):
            from kconnect.builtin.types.table import refusals  # here: few declare any

            found += refusals(config["object.format"], props)
        return found


class ObjectSinkTask(SinkTask):
    """Keeps the records of each partition until enough came or enough time passed, then writes them as a unit.

    Offsets are committed up to the first record that is not in a complete object. The name of an object has the first
    and last offset of its unit. After a kill the records of units that were written and not committed come again: the
    task finds their objects, ends its units where those ended, and so replaces them. Nothing is written when partitions
    are given away: their next owner reads on from the last unit. A task that was frozen looks what others wrote
    meanwhile, and does the same with that.

    Dead letters that are put again (kconnect.testing.SinkChain) come in any order, beside the task that runs: all of
    them are written at each pre_commit, into objects with names of their own, which end no unit of that task.
    """

    supports_batches = True

    def __init__(self) -> None:
        self.now_s = time.monotonic

    def version(self) -> str:
        return KAFKA_VERSION

    def set_up(self, props: Mapping[str, str]) -> FlushLimits:
        """Make store, names and encoder of the settings, and give the limits of a unit."""
        config = SINK_CONFIG.parse(props)
        self._store = object_store(config["object.url"], props)
        self._names: ObjectNames | ConfluentNames = ObjectNames(
            config["object.path"], config["object.format"], config["object.compression"]
        )
        self._format = config["object.format"]
        columns = ObjectColumns(
            Contracts.parse(props), self._discards, infers=config[INFER], last=self._columns_written_last
        )
        self._encoder = Encoder(self._format, config["object.compression"], delimiter_in(props) or ",", columns)
        return FlushLimits(config["flush.rows"], config["flush.bytes"], config["flush.ms"] / 1000)

    def start(self, props: Mapping[str, str]) -> None:
        self._discards = Discards(self.context.plugin_metrics)
        limits = self.set_up(props)
        self._is_replay = props.get("kconnect.replay") == "true"  # as kconnect.testing.SinkChain says
        self._limits = _NEVER if self._is_replay else limits
        self._units: dict[TopicPartition, Unit] = {}
        self._added: dict[TopicPartition, Mark] = {}  # the last row that is in a unit
        self._ends: dict[TopicPartition, list[int]] = {}  # where units end that were written before
        self._sought: dict[TopicPartition, int] = {}  # partitions that are read from this offset after this put
        self._called_s = self.now_s()

    def put(self, records: list[SinkRecord]) -> None:
        """Errors: RetriableError while the store is away; then the same records come again, and are not kept twice."""
        self._begin_put()
        self._put_all(records)
        self._write_due()

    def put_batch(self, batch: RecordBatch) -> None:
        self._begin_put()
        if batch.kafka_offsets is None or batch.original_kafka_partition is None:
            raise DataError(f"A batch of {batch.topic} has no offsets")
        place = TopicPartition(batch.original_topic, batch.original_kafka_partition)
        times = batch.timestamp
        stamps = [times] * len(batch) if times is None or isinstance(times, int) else times.to_pylist()
        try:
            self._keep(
                place,
                batch.topic,
                batch.value_schema,
                marks_of((place, offset) for offset in batch.kafka_offsets.to_pylist()),
                stamps,
                lambda start, end: self._encoder.piece_of_batch(batch.slice(start, end - start)),
                lambda: batch_field_values(batch, self._names.fields),
            )
        except DataError:  # of one of its records: those that are in a unit are left out
            self._put_all(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records
        self._write_due()

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Up to where all records are in complete objects.

        Errors: RetriableError, where what is kept must be written: of a replay, and at the end of a batch.
        """
        if self._is_replay or self.context.is_ending():
            for place, unit in list(self._units.items()):
                self._write(place, unit)
        waiting = {place: unit.first for place, unit in self._units.items()}
        held = {**waiting, **self._sought}
        return {place: min(offset, held.get(place, offset)) for place, offset in current_offsets.items()}

    def open(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._forget(partitions)

    def stop(self) -> None:
        """What is kept is read again at the next start."""

    # --- records into units ---

    def _put_all(self, records: list[SinkRecord]) -> None:
        marks = iter(marks_of((_PLACE(record), record.original_kafka_offset) for record in records))
        for (topic, partition, _, _), group in groupby(records, _KIND):
            some = list(group)
            self._put_some(TopicPartition(topic, partition), some, list(islice(marks, len(some))))

    def _put_some(self, place: TopicPartition, records: list[SinkRecord], marks: list[Mark]) -> None:
        """Records of one partition, topic and schema; when they cannot be kept together, one by one."""
        try:
            self._keep_records(place, records, marks)
            return
        except DataError as error:
            if len(records) == 1:
                self._give_up(records[0], error)
                return
        for record, mark in zip(records, marks, strict=True):
            self._put_some(place, [record], [mark])

    def _keep_records(
        self,
        place: TopicPartition,
        records: Sequence[SinkRecord],
        marks: list[Mark],
        names: ObjectNames | ConfluentNames | None = None,
    ) -> None:
        names = names or self._names
        self._keep(
            place,
            records[0].topic,
            records[0].value_schema,
            marks,
            [record.timestamp for record in records],
            lambda start, end: self._encoder.piece(records[start:end]),
            lambda: [field_values(record.value, names.fields) for record in records],
            names,
        )

    def _keep(
        self,
        place: TopicPartition,
        topic: str,
        schema: Schema | None,
        marks: list[Mark],
        times: Sequence[int | None],
        piece: Callable[[int, int], Any],
        values: Callable[[], list[tuple[Any, ...]]],
        names: ObjectNames | ConfluentNames | None = None,
    ) -> None:
        """Add rows to the unit of a partition, writing each unit that is full. Errors: DataError, RetriableError.

        Rows that are in a unit already, because they came before, are left out. `names` give the folders.
        """
        names = names or self._names
        held = values() if names.fields else []
        offsets = [offset for offset, _ in marks]
        row = 0 if self._is_replay else bisect_right(marks, self._added.get(place, (-1, 0)))
        while row < len(offsets) and place not in self._sought:
            unit = self._unit(place, topic, offsets[row])
            end = row + self._room(unit, topic, offsets[row:], times[row:], held[row:], names)
            if end > row:
                runs = folder_runs(names, topic, place.partition, times[row:end], held[row:end])
                for folder, first, last in runs:
                    made = piece(row + first, row + last)
                    if not self._fits(unit, folder, made, schema):
                        self._write(place, unit)
                        if place in self._sought:
                            return
                        unit = self._unit(place, topic, offsets[row + first])
                    unit.add(folder, made, last - first, offsets[row + last - 1], offsets[row + first], schema)
                    self._added[place] = marks[row + last - 1]
                row = end
            if end == row and unit.is_full(self._limits, offsets[row] if row < len(offsets) else None):
                self._write(place, unit)

    def _room(
        self,
        unit: Unit,
        topic: str,
        offsets: Sequence[int],
        times: Sequence[int | None],
        held: Sequence[tuple[Any, ...]],
        names: ObjectNames | ConfluentNames,
    ) -> int:
        """How many of the next rows come into the unit."""
        return unit.room(self._limits, offsets)

    def _fits(self, unit: Unit, folder: str, piece: Any, schema: Schema | None) -> bool:
        """Whether these rows can be in the unit's object in this folder."""
        return unit.fits(folder, piece)

    def _unit(self, place: TopicPartition, topic: str, first: int) -> Unit:
        unit = self._units.get(place)
        if unit is None and self._is_replay:
            unit = self._units[place] = Unit(first, self._encoder.content, self.now_s(), token=secrets.token_hex(8))
        elif unit is None:
            if place not in self._ends:
                self._ends[place] = self._written_ends(place, topic)
            ends = self._ends[place]
            known = bisect_right(ends, first - 1)
            end = ends[known] if known < len(ends) else None
            unit = self._units[place] = Unit(first, self._encoder.content, self.now_s(), end)
        return unit

    def _written_ends(self, place: TopicPartition, topic: str | None) -> list[int]:
        """Where the units end whose objects are in the store. `topic`: where the rows go, None if that is not known."""
        prefix = self._names.prefix(topic if topic == place.topic else None, place.partition, place.topic)
        if prefix is None:
            return []
        return self._names.ends(place.topic, place.partition, self._store.below(self._store.at(prefix)))

    def _columns_written_last(self, topic: str, partition: int | None) -> pa.Schema | None:
        """Gives the columns of the newest object with rows of a partition. Errors: RetriableError."""
        if partition is None or self._format not in ("parquet", "avro"):
            return None
        prefix = self._names.prefix(topic, partition, topic)
        if prefix is None:
            return None
        found = [path for path in self._store.below(self._store.at(prefix)) if path.endswith(self._format)]
        if not found:
            return None
        with self._store.open(max(found, key=lambda path: path.rpartition("/")[2])) as file:
            return columns_of(self._format, file)

    def _give_up(self, record: SinkRecord, error: DataError) -> None:
        where = f"{record.original_topic}-{record.original_kafka_partition}, offset {record.original_kafka_offset}"
        if isinstance(error, DiscardedRowError):
            self._discards.row(error, where)
            return
        failure = DataError(f"The record at {where} cannot be written: {error}", hint=error.hint)
        failure.__cause__ = error
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise failure
        reporter.report(record, failure)

    # --- units into objects ---

    def _begin_put(self) -> None:
        """Errors: RetriableError."""
        self._sought.clear()  # the runtime went there behind the last put
        now = self.now_s()
        if now - self._called_s >= _AWAY_S and not self._is_replay:
            self._ends.clear()
            for place, unit in list(self._units.items()):
                self._look_again(place, unit)
        self._called_s = now  # before the looks: whoever is frozen in one of them looks again
        self._write_due()

    def _look_again(self, place: TopicPartition, unit: Unit) -> None:
        """Read a unit again from its first row, if somebody else has written rows of it or behind it."""
        ends = self._ends[place] = self._written_ends(place, None)
        behind = bisect_left(ends, unit.first)
        if behind == len(ends) or ends[behind] == (unit.last if unit.end is None and unit.is_due else unit.end):
            return
        log.warning(
            "%s is written by another task up to offset %d; rows from %d on are read again, into the same objects",
            place,
            ends[-1],
            unit.first,
        )
        del self._units[place]
        self._added[place] = (unit.first, -1)
        self._sought[place] = unit.first
        self.context.offset({place: unit.first})

    def _write_due(self) -> None:
        now = self.now_s()
        for place, unit in list(self._units.items()):
            if unit.is_full(self._limits, None) or unit.is_late(self._limits, now):
                self._write(place, unit)

    def _write(self, place: TopicPartition, unit: Unit) -> None:
        """Write the objects of a unit, unless it is read again.

        Whoever is frozen while the store gets an object has looked too early: no store refuses one because of others.
        Errors: RetriableError; the unit stays, and is written with the next put.
        """
        unit.is_due = True
        for folder, content in unit.contents.items():
            for name, rows in self._objects(self._name(place, unit, folder), content):
                if rows.is_empty:
                    continue
                path = self._store.at(self._names.path(folder, name))
                body = rows.body()
                # In this put: encoding and writing take their time
                if unit.token is None and self.now_s() - self._called_s >= _AWAY_S:
                    self._look_again(place, unit)
                    if place in self._sought:
                        return
                self._store.write(path, body)
                log.debug("Wrote %s", path)
        del self._units[place]

    def _objects(self, name: str, content: Content) -> Iterable[tuple[str, Content]]:
        """The objects that rows become, with their names; `name` is that of the values' object."""
        return ((name, content),)

    def _name(self, place: TopicPartition, unit: Unit, folder: str) -> str:
        if unit.token is not None:
            return self._names.replay_name(place.topic, place.partition, unit.token)
        first = unit.starts[folder] if self._names.names_first_of_folder else unit.first
        return self._names.name(place.topic, place.partition, first, unit.last if unit.end is None else unit.end)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for place in partitions:
            self._units.pop(place, None)
            self._added.pop(place, None)
            self._ends.pop(place, None)
            self._sought.pop(place, None)


Mark = tuple[int, int]
"""A row: the offset of its record, and which of the rows it is that a transformation has made of that one."""


def marks_of(rows: Iterable[tuple[Hashable, int]]) -> list[Mark]:
    """The mark of each row, given its partition and offset; rows of one record follow each other."""
    found: list[Mark] = []
    last: dict[Hashable, Mark] = {}
    for place, offset in rows:
        before = last.get(place)
        made = last[place] = (offset, before[1] + 1 if before is not None and before[0] == offset else 0)
        found.append(made)
    return found


_PLACE: Final = attrgetter("original_topic", "original_kafka_partition")
# What records share that are kept together
_KIND: Final = attrgetter("original_topic", "original_kafka_partition", "topic", "value_schema")
