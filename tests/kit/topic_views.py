"""What `kconnect.admin.direct` makes of topics that hold some records, each written a second after the one before."""

from __future__ import annotations

from collections.abc import Iterable

from kconnect.admin.direct.read.reader import ConfigView, Latest, OffsetView, Seen, StatusView
from kconnect.model import LogRecord
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import decode_record
from kconnect.runtime.storage.topic_offsets import OffsetCache

Entry = tuple[bytes, bytes | None]


def records_of(entries: Iterable[Entry], topic: str = "configs", begin: int = 0) -> list[LogRecord]:
    return [LogRecord(topic, 0, at, key, value, at * 1000) for at, (key, value) in enumerate(entries, begin)]


def config_view(records: Iterable[LogRecord]) -> ConfigView:
    fold, latest, seen = ConfigFold(), Latest(), Seen()
    for record in records:
        fold.apply(record)
        latest.apply(record)
        seen.count(record, is_stranger=False)
    return ConfigView(fold.snapshot(), latest, seen)


def status_view(entries: Iterable[Entry]) -> StatusView:
    cache, latest = StatusCache(), Latest()
    for record in records_of(entries, "status"):
        cache.apply(decode_record(record.key, record.value))
        latest.apply(record)
    return StatusView(cache, latest)


def offset_view(entries: Iterable[Entry] = ()) -> OffsetView:
    cache, latest = OffsetCache(), Latest()
    for record in records_of(entries, "offsets"):
        cache.apply(record.key or b"", record.value, None)
        latest.apply(record)
    return OffsetView(cache, latest)
