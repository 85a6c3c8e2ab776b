"""Names of objects as Confluent's S3 sink gives them: topics/TOPIC/partition=0/TOPIC+0+0000000000.json. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.joda import Format
from kconnect.builtin.connectors.objects.object_names import instant, local_time

_MINUTE_MS = 60_000
_MOST_KNOWN = 10_000
_LONGEST_KEY = 1024  # in bytes, https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
_SHORT = 150  # characters of a folder that need not be counted
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Folders of time: `form` of the beginning of the bucket of `length_ms` that a time is in.

    Source: io.confluent.connect.storage.partitioner.TimeBasedPartitioner.
    """

    form: Format
    length_ms: int
    zone: tzinfo

    def folder(self, time_ms: int) -> str:
        """Errors: DataError."""
        local = local_time(time_ms, self.zone).replace(tzinfo=UTC)
        local_ms = (local - _EPOCH) // timedelta(milliseconds=1)
        start = local_time(local_ms - local_ms % self.length_ms, UTC)
        return self.form(start.replace(tzinfo=self.zone))


class ConfluentNames:
    """Objects of one partition are named by the offset of their first row; a folder has one for each unit.

    `fields`: of the record's value, for folders by field or the time in one. Stands where ObjectNames does.
    """

    names_first_of_folder = True

    def __init__(
        self,
        *,
        topics_dir: str,
        directory_delim: str,
        file_delim: str,
        width: int,
        extension: str,
        fields: Sequence[str] = (),
        buckets: TimeBuckets | None = None,
        by_field: bool = False,
    ) -> None:
        """`by_field`: folders are `fields`; with `buckets` one field may be the time, else it is the record's."""
        self._topics_dir, self._delim, self._file_delim = topics_dir, directory_delim, file_delim
        self._width, self._extension = width, extension
        self.fields = tuple(fields)
        self._buckets, self._by_field = buckets, by_field
        self.has_dates = buckets is not None and not self.fields
        # Zones differ by whole minutes
        self.grain_ms = _MINUTE_MS if buckets is None or buckets.length_ms % _MINUTE_MS == 0 else 1
        self._known: dict[int, str] = {}

    def folder(self, topic: str, partition: int, time_ms: int | None, values: Sequence[Any] = ()) -> str:
        """Errors: DataError for a record without time, or with a value that names no folder."""
        if self._by_field:
            pairs = zip(self.fields, values, strict=True)
            encoded = self._delim.join(f"{name}={_text(name, value)}" for name, value in pairs)
        elif self._buckets is not None:
            encoded = self._bucket(self._buckets, self.time_ms(time_ms, values))
        else:
            encoded = f"partition={partition}"
        found = self._delim.join(part for part in (self._topics_dir, topic, encoded) if part)
        if self._by_field and len(found) > _SHORT:
            size = len(self.path(found, self.name(topic, partition, 0, 0)).encode())
            if size > _LONGEST_KEY:
                raise DataError(f"Its object's name would have {size} bytes, where S3 takes {_LONGEST_KEY}")
        return found

    def _bucket(self, buckets: TimeBuckets, time_ms: int) -> str:
        """A look-up costs 0.2 us, a folder 6."""
        place = time_ms // self.grain_ms
        found = self._known.get(place)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[place] = buckets.folder(time_ms)
        return found

    def time_ms(self, time_ms: int | None, values: Sequence[Any]) -> int:
        """The time of a record, by which it rotates. Errors: DataError."""
        if self.fields and not self._by_field:
            when = instant(values[0], self.fields[0])
            time_ms = None if when is None else (when - _EPOCH) // timedelta(milliseconds=1)
        if time_ms is None:
            where = f"its field {self.fields[0]} (timestamp.field)" if self.fields else "it"
            raise DataError(f"It has no time: {where} is null" if self.fields else "It has no timestamp")
        return time_ms

    def path(self, folder: str, name: str) -> str:
        return self._delim.join(part for part in (folder, name) if part)

    def name(self, topic: str, partition: int, first: int, last: int) -> str:
        return f"{topic}{self._file_delim}{partition}{self._file_delim}{first:0{self._width}d}{self._extension}"

    def replay_name(self, topic: str, partition: int, token: str) -> str:
        """For rows from outside, whose offsets say nothing."""
        return f"{topic}{self._file_delim}{partition}{self._file_delim}replay-{token}{self._extension}"

    def prefix(self, topic: str | None, partition: int, read_from: str) -> str | None:
        """Returns None if nothing can be found in the store, as names say where units begin, and not where they end."""
        return None

    def ends(self, topic: str, partition: int, paths: Iterable[str]) -> list[int]:
        return []


class TombstoneNames(ConfluentNames):
    """Objects of records without value: their folder says so, whatever the others' are made of.

    Source: io.confluent.connect.s3.util.TombstoneSupportedPartitioner.
    """

    def __init__(self, encoded: str, **more: Any) -> None:
        """`more`: as of ConfluentNames, but for what makes folders."""
        super().__init__(**more)
        self._encoded = encoded

    def folder(self, topic: str, partition: int, time_ms: int | None, values: Sequence[Any] = ()) -> str:
        return self._delim.join(part for part in (self._topics_dir, topic, self._encoded) if part)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, str | int):
        return "null" if value is None else str(value)
    raise DataError(f"Field {name} is {type(value).__name__}; folders are named by texts, whole numbers and booleans")


def next_schedule_s(now_s: float, interval_ms: int, zone: tzinfo) -> float:
    """When the next rotation by the clock is due: a multiple of the interval since midnight of the zone.

    Source: io.confluent.connect.storage.util.DateTimeUtils.getNextTimeAdjustedByDay.
    """
    local = datetime.fromtimestamp(now_s, zone)
    midnight_s = local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    passed_ms = round((now_s - midnight_s) * 1000)
    next_ms = (passed_ms // interval_ms + 1) * interval_ms
    tomorrow = (local + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    return min(midnight_s + next_ms / 1000, tomorrow)
