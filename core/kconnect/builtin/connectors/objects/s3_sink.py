"""Confluent's S3 sink by its name: ObjectSink with Java's settings, names of objects, and rotations."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kconnect.api import ConfigError, DataError, RecordBatch, Schema, SinkRecord, SinkTask, TopicPartition
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector, raised_by
from kconnect.builtin.connectors.objects.confluent_layout import ConfluentNames, next_schedule_s
from kconnect.builtin.connectors.objects.object_config import object_store
from kconnect.builtin.connectors.objects.object_sink import ObjectSinkTask
from kconnect.builtin.connectors.objects.object_units import Unit
from kconnect.builtin.connectors.objects.object_writers import Encoder
from kconnect.builtin.connectors.objects.s3_config import (
    S3_CONFIG,
    extractor_of,
    format_of,
    has_times,
    names_of,
    refusals,
    store_of,
    zone_of,
)
from kconnect.builtin.stores.flush_plan import FlushLimits


class S3SinkConnector(UniformSinkConnector):
    """ObjectSink under the name of io.confluent.connect.s3.S3SinkConnector.

    Offsets are those of the consumer group alone, as Java's: it goes on where the other stopped.
    """

    table = S3_CONFIG

    def task_class(self) -> type[SinkTask]:
        return S3SinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """What is not there, and combinations that cannot work; the store is opened, which needs no network."""
        config = S3_CONFIG.parse(props)
        yield from refusals(config)
        for look in (lambda: _checked(config), lambda: object_store(*store_of(config))):
            yield from raised_by(look, S3_CONFIG, "s3.bucket.name")


def _checked(config: Mapping[str, Any]) -> ConfluentNames:
    """Errors: ConfigError."""
    extractor_of(config)
    if config["rotate.schedule.interval.ms"] > 0 and not config["timezone"].strip():
        raise ConfigError.invalid("timezone", "", "rotate.schedule.interval.ms needs it")
    return names_of(config)


class S3SinkTask(ObjectSinkTask):
    """Objects end where Java's do: at flush.size rows of a partition, and by times and schemas of the records.

    What a kill left half-way is written again into objects of the same names, since a unit begins at the committed
    offset and ends by what is in the records; not so by rotate.schedule.interval.ms, and by Wallclock: then an object
    that was written and not committed may be there beside another one with some of its rows, as with Java's.
    Source: io.confluent.connect.s3.TopicPartitionWriter (10.5).
    """

    def __init__(self) -> None:
        super().__init__()
        self.wall_s = time.time

    def set_up(self, props: Mapping[str, str]) -> FlushLimits:
        config = self._config = S3_CONFIG.parse(props)
        for name, reported in refusals(config):
            raise ConfigError.invalid(name, config[name], reported)
        self._layout = self._names = _checked(config)
        self._store = object_store(*store_of(config))
        self._encoder = Encoder(*format_of(config), decimal_format=config["json.decimal.format"])
        self._by_wall_clock = has_times(config) and extractor_of(config) == "Wallclock"
        self._rotates_ms = config["rotate.interval.ms"] if has_times(config) else -1
        self._schedule_ms = config["rotate.schedule.interval.ms"]
        self._zone = zone_of(config)
        self._next_s = self._scheduled_s()
        return FlushLimits(config["flush.size"], sys.maxsize, math.inf)

    def put(self, records: list[SinkRecord]) -> None:
        if self._config["behavior.on.null.values"] == "ignore":
            records = [record for record in records if record.value is not None]
        super().put(records)

    def put_batch(self, batch: RecordBatch) -> None:
        if batch.value is None or batch.value.null_count:
            self.put(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records
        else:
            super().put_batch(batch)

    # --- rotations ---

    def _keep(
        self,
        place: TopicPartition,
        topic: str,
        schema: Schema | None,
        offsets: list[int],
        times: Sequence[int | None],
        piece: Any,
        values: Any,
    ) -> None:
        if self._by_wall_clock:
            times = [round(self.wall_s() * 1000)] * len(offsets)
        super()._keep(place, topic, schema, offsets, times, piece, values)

    def _keep_records(self, place: TopicPartition, records: Sequence[SinkRecord]) -> None:
        if any(record.value is None for record in records):
            raise DataError("It has no value", hint="behavior.on.null.values=ignore leaves such records out.")
        super()._keep_records(place, records)

    def _room(
        self,
        unit: Unit,
        topic: str,
        offsets: Sequence[int],
        times: Sequence[int | None],
        held: Sequence[tuple[Any, ...]],
    ) -> int:
        """Up to the first row whose time begins another unit: it is too far from the first, or in another folder."""
        room = super()._room(unit, topic, offsets, times, held)
        if self._rotates_ms <= 0 or unit.token is not None:
            return room
        for row in range(room):
            values = held[row] if held else ()
            at = self._layout.time_ms(times[row], values)
            folder = self._layout.folder(topic, 0, times[row], values)
            first, last, _ = unit.mark or (at, folder, at)
            late = self._config["append.late.data"]
            if (unit.rows or row) and (at - first >= self._rotates_ms or (folder != last and not late)):
                unit.is_due = not row
                return row
            unit.mark = first, last if late and at < first else folder, at
        return room

    def _fits(self, unit: Unit, folder: str, piece: Any, schema: Schema | None) -> bool:
        is_other = folder in unit.schemas and unit.schemas[folder] != schema
        if is_other and self._config["schema.compatibility"].upper() == "NONE":
            return False
        return super()._fits(unit, folder, piece, schema)

    def _write_due(self) -> None:
        now_s = self.wall_s()
        is_scheduled = now_s >= self._next_s
        if is_scheduled:
            self._next_s = self._scheduled_s()
        for unit in self._units.values():
            first, _, last = unit.mark or (0, "", 0)
            at = round(now_s * 1000) if self._by_wall_clock else last
            unit.is_due |= bool(unit.rows) and (is_scheduled or 0 < self._rotates_ms <= at - first)
        super()._write_due()

    def _scheduled_s(self) -> float:
        return next_schedule_s(self.wall_s(), self._schedule_ms, self._zone) if self._schedule_ms > 0 else math.inf
