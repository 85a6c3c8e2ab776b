"""Source offsets in a compacted topic: the OffsetStore on a RecordLog, and a pure cache of the topic's content.

On a `MemoryRecordLog` it is a store in memory. Source: KafkaOffsetBackingStore (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from kconnect.errors import ConnectError, TimedOutError
from kconnect.java.compat.jackson import jackson_text
from kconnect.model import LogPosition, LogRecord
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key
from kconnect.runtime.storage.record_log import RecordLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stored:
    key: bytes
    value: bytes
    age: tuple[int, int]  # time and order of arrival: two spellings of a key may be in two partitions


class OffsetCache:
    """The folded content of an offsets topic: the last value of each key. Threads: one at a time.

    Keys with equal values are one key, which may occur in several spellings in the topic.
    """

    def __init__(self) -> None:
        self._found: dict[str | bytes, tuple[_Stored, ...]] = {}  # canonical form -> one value a spelling
        self._arrived = 0
        self._on_their_way: dict[str | bytes, list[bytes]] = {}  # the spellings of values sent but not read back yet

    def apply(self, key: bytes, value: bytes | None, timestamp_ms: int | None = None) -> None:
        """Apply a record."""
        self.unexpect(key)
        form = canonical_key(key)
        kept = tuple(stored for stored in self._found.get(form, ()) if stored.key != key)
        if value is not None:
            self._arrived += 1
            self._found[form] = (*kept, _Stored(key, value, (timestamp_ms or 0, self._arrived)))
        elif kept:
            self._found[form] = kept
        else:
            self._found.pop(form, None)

    def value(self, key: bytes) -> bytes | None:
        """The value of the most recently written spelling."""
        spellings = self._found.get(canonical_key(key))
        return None if spellings is None else _newest(spellings).value

    def entries(self) -> dict[bytes, bytes | None]:
        """One entry per key, under its most recently written spelling, in order of arrival."""
        newest = map(_newest, self._found.values())
        return {stored.key: stored.value for stored in newest}

    def duplicates(self) -> dict[bytes, list[bytes]]:
        """Keys that occur in more than one spelling: the effective one, and the others."""
        found = {}
        for spellings in self._found.values():
            if len(spellings) > 1:
                newest = _newest(spellings)
                found[newest.key] = [stored.key for stored in spellings if stored is not newest]
        return found

    def spellings_to_write(self, key: bytes, value: bytes | None) -> list[bytes]:
        """The keys under which to write an offset, so that no reader sees an older one.

        A tombstone goes to every existing spelling. A value goes to each one that Java may have written (it compares
        bytes), and to the given one if there is none.
        """
        form = canonical_key(key)
        stored = [each.key for each in self._found.get(form, ())]
        found = list(dict.fromkeys([*stored, *self._on_their_way.get(form, ())]))
        if value is not None:
            found = [spelling for spelling in found if _is_javas(spelling)]
        return found or [key]

    def expect(self, key: bytes) -> None:
        """Note that a value is being written under the key."""
        self._on_their_way.setdefault(canonical_key(key), []).append(key)

    def unexpect(self, key: bytes) -> None:
        """Note that a value was read back, or will not be."""
        if not self._on_their_way:
            return
        form = canonical_key(key)
        keys = self._on_their_way.get(form, [])
        if key in keys:
            keys.remove(key)
        if not keys:
            self._on_their_way.pop(form, None)


class TopicOffsetStore:
    """The OffsetStore on a topic: reads first catch up to its end, and writes are durable.

    Differs: Java waits forever; we wait for `read_timeout_s` and `write_timeout_s`. Java keeps different spellings
    apart; we write all existing spellings of a key, see `OffsetCache.spellings_to_write`.
    """

    def __init__(self, records: RecordLog, *, read_timeout_s: float = 60.0, write_timeout_s: float = 5.0) -> None:
        """`read_timeout_s` is default.api.timeout.ms of the consumer; with transactions it must outlast
        those that killed tasks left open. `write_timeout_s` is offset.flush.timeout.ms.
        """
        self._records = records
        self._read_timeout_s = read_timeout_s
        self.write_timeout_s = write_timeout_s
        self._lock = threading.Lock()  # never held while the log is called
        self._cache = OffsetCache()  # guarded by _lock

    @property
    def topic(self) -> str:
        return self._records.topic

    @property
    def place(self) -> str:
        """Where the offsets are stored, for messages."""
        return f"topic {self._records.topic}"

    def start(self) -> None:
        self._records.start(self._on_record)

    def stop(self) -> None:
        self._records.stop()

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """Errors: TimedOutError, ConnectError if the end of the topic is not reached."""
        self._records.read_to_end(self._read_timeout_s)
        with self._lock:
            return {key: self._cache.value(key) for key in keys}

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        """Errors: as `get`."""
        self._records.read_to_end(self._read_timeout_s, awaits_open_transactions=awaits_open_transactions)
        with self._lock:
            return self._cache.entries()

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        await_written(self.send(entries), self.write_timeout_s, self.place)

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        records = self.spelled(entries)
        with self._lock:
            for key, value in records:
                if value is not None:
                    self._cache.expect(key)
        return _all_of([self._send(key, value) for key, value in records])

    def spelled(self, entries: Mapping[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
        """The records to write for these, under every existing spelling of a key; see `OffsetCache`."""
        with self._lock:
            return [
                (spelling, value)
                for key, value in entries.items()
                for spelling in self._cache.spellings_to_write(key, value)
            ]

    def _send(self, key: bytes, value: bytes | None) -> Future[LogPosition]:
        try:
            sent = self._records.send(key, value)
        except ConnectError as err:
            sent = Future()
            sent.set_exception(err)
        if value is not None:
            sent.add_done_callback(lambda done: self._on_sent(key, done))
        return sent

    def _on_sent(self, key: bytes, done: Future[LogPosition]) -> None:
        if done.cancelled() or done.exception() is not None:
            with self._lock:
                self._cache.unexpect(key)

    def _on_record(self, record: LogRecord) -> None:
        if record.key is None:
            log.warning(
                "Record %s-%d@%d of the offsets topic is ignored: it has no key",
                record.topic,
                record.partition,
                record.offset,
            )
            return
        if record.value is not None and isinstance(canonical_key(record.key), bytes):
            log.warning(
                "Record %s-%d@%d of the offsets topic belongs to no connector: its key %.200r is not "
                '["connector", {partition}]',
                record.topic,
                record.partition,
                record.offset,
                record.key,
            )
        with self._lock:
            self._cache.apply(record.key, record.value, record.timestamp_ms)


def await_written(sent: Future[None], timeout_s: float, place: str) -> None:
    """Wait until the writes are durable. Errors: TimedOutError that names the setting; the error of a failed write.

    A write that timed out may still succeed.
    """
    try:
        sent.result(timeout_s)
    except TimeoutError as err:
        raise TimedOutError(
            f"Offsets were not written to {place} within {timeout_s:g} s (offset.flush.timeout.ms)",
            hint="Is the broker there, and has the topic enough replicas in sync?",
        ) from err


def _newest(spellings: Sequence[_Stored]) -> _Stored:
    return max(spellings, key=lambda stored: stored.age)


def _is_javas(key: bytes) -> bool:
    """Whether this is Java's spelling, in any order of the fields."""
    decoded = decode_key(key)
    try:
        return decoded is None or jackson_text(decoded).encode() == key
    except RecursionError:  # not an offset: left unchanged
        return True


def _all_of(sent: Sequence[Future[LogPosition]]) -> Future[None]:
    """A future that completes when all have, or with the first failure."""
    done: Future[None] = Future()
    if not sent:
        done.set_result(None)
        return done
    lock = threading.Lock()
    left, has_ended = len(sent), False  # guarded by lock

    def on_end(one: Future[LogPosition]) -> None:
        nonlocal left, has_ended
        problem = ConnectError("the write was cancelled") if one.cancelled() else one.exception()
        with lock:
            left -= 1
            is_end = not has_ended and (problem is not None or left == 0)
            has_ended = has_ended or is_end
        if is_end and problem is not None:
            done.set_exception(problem)
        elif is_end:
            done.set_result(None)

    for one in sent:
        one.add_done_callback(on_end)
    return done
