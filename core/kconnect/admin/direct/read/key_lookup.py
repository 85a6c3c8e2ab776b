"""The newest record of one key, or similar keys if there is none. Pure over the records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from kconnect.admin.direct.read.record_json import shown_bytes
from kconnect.model import LogRecord
from kconnect.runtime.storage.offset_topic import canonical_key

_MOST_NEAR = 5
# difflib takes 20 us a key
_MOST_COMPARED = 10_000


@dataclass(frozen=True, slots=True)
class Found:
    """`record`: the newest one, whose value is None when the key was deleted; None when the key was never there."""

    record: LogRecord | None
    near: list[str] = field(default_factory=list)
    """Other keys with a value, the most alike first; only when there is no value."""


def look_up(records: Iterable[LogRecord], key: bytes, *, is_offset: bool = False) -> Found:
    """Go through the records of a topic. Memory: the keys.

    `is_offset`: a key of an offset is also found in another spelling; the newest of all spellings counts.
    """
    form = canonical_key(key) if is_offset else key
    newest: LogRecord | None = None
    live: dict[bytes, None] = {}
    for record in records:
        found = record.key or b""
        if found == key or (is_offset and canonical_key(found) == form):
            if newest is None or _is_newer(record, newest):
                newest = record
        elif record.value is None:
            live.pop(found, None)
        else:
            live[found] = None
    if newest is not None and newest.value is not None:
        return Found(newest)
    return Found(newest, _near(key, live))


def _is_newer(record: LogRecord, other: LogRecord) -> bool:
    """Within a partition the order decides, whatever the timestamps; between partitions there is only the time."""
    if record.partition == other.partition:
        return record.offset > other.offset
    return (record.timestamp_ms or 0) >= (other.timestamp_ms or 0)


def _near(key: bytes, live: Iterable[bytes]) -> list[str]:
    wanted = key.decode(errors="replace")
    texts = [text for text in map(shown_bytes, live) if isinstance(text, str)]
    # `connector-X` and `commit-X` before `task-X-0` for who asked for X
    holding = sorted((text for text in texts if wanted and wanted in text), key=lambda t: (not t.endswith(wanted), t))
    alike = [] if len(holding) >= _MOST_NEAR else get_close_matches(wanted, texts[:_MOST_COMPARED], n=_MOST_NEAR)
    return list(dict.fromkeys([*holding, *alike]))[:_MOST_NEAR]
