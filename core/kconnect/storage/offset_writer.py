"""What a source task commits with: offsets are gathered, and flushed as a snapshot while new ones come in.

Source: OffsetStorageWriter (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from kconnect.errors import ConnectError, DataError, TimedOutError
from kconnect.storage.offset_store import OffsetStore
from kconnect.storage.offset_topic import encode_key, encode_value

__all__ = ["OffsetWriter"]

log = logging.getLogger(__name__)

_Partition = Mapping[str, Any] | None
_Pending = dict[str, tuple[_Partition, Mapping[str, Any] | None]]
OnFlushed = Callable[[BaseException | None], None]


class OffsetWriter:
    """Buffers the offsets of one connector's task. Threads: any.

    States: idle -> begin_flush() -> do_flush() -> idle when the write has ended; cancel_flush() leads back to idle from
    anywhere. What could not be flushed goes back to the buffer, under what has come since.
    """

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._one_flush = threading.Semaphore(1)
        self._lock = threading.Lock()
        self._buffer: _Pending = {}  # guarded by _lock
        self._snapshot: _Pending | None = None  # guarded by _lock: what is being flushed
        self._flush_id = 0  # guarded by _lock: tells the end of a cancelled flush from that of the present one

    def offset(self, partition: _Partition, offset: Mapping[str, Any] | None) -> None:
        """Take an offset for the next flush; None removes the partition's."""
        with self._lock:
            self._buffer[_identity(partition)] = (partition, offset)

    def begin_flush(self, timeout_s: float | None = None) -> bool:
        """Take the snapshot that do_flush writes; False when there is nothing to flush.

        After True one of do_flush and cancel_flush has to follow. A flush before this one is waited for `timeout_s`.
        Errors: TimedOutError after the timeout; ConnectError when none is given and a flush is under way.
        """
        if timeout_s is None:
            if not self._one_flush.acquire(blocking=False):
                raise ConnectError(f"The offsets of connector {self._connector} are being flushed already")
        elif not self._one_flush.acquire(timeout=max(0.0, timeout_s)):
            raise TimedOutError(
                f"The flush before of connector {self._connector}'s offsets has not ended within {timeout_s:g} s "
                "(offset.flush.timeout.ms)"
            )
        with self._lock:
            if not self._buffer:
                self._one_flush.release()
                return False
            self._snapshot, self._buffer = self._buffer, {}
            return True

    def do_flush(self, on_flushed: OnFlushed | None = None) -> Future[None] | None:
        """Begin to write the snapshot; `on_flushed` gets None or what went wrong, unless the flush is cancelled before.

        Gives None when an offset can be no record: nothing is written, `on_flushed` is told, and cancel_flush or
        another offset for its partition is needed. Errors: ConnectError without begin_flush before.
        """
        problem: DataError | None = None
        entries: dict[bytes, bytes | None] = {}
        with self._lock:
            if self._snapshot is None:
                raise ConnectError(f"No flush of connector {self._connector}'s offsets has begun")
            flush_id = self._flush_id
            try:
                for partition, offset in self._snapshot.values():
                    entries[encode_key(self._connector, partition)] = encode_value(offset)
            except DataError as err:
                problem = err
        if problem is not None:
            log.error(
                "The offsets of connector %s cannot be written: %s; none is until that one is replaced",
                self._connector,
                problem,
            )
            if on_flushed is not None:
                on_flushed(problem)
            return None
        written = self._store.send(entries)
        written.add_done_callback(lambda done: self._end(flush_id, done.exception(), on_flushed))
        return written

    def cancel_flush(self) -> None:
        """Put the snapshot back; the end of a write under way is not told. Fine when no flush is under way."""
        with self._lock:
            self._put_back()

    def _put_back(self) -> None:
        """With the lock held."""
        if self._snapshot is not None:
            self._buffer = self._snapshot | self._buffer
            self._leave_flush()

    def _leave_flush(self) -> None:
        """With the lock held."""
        self._snapshot = None
        self._flush_id += 1
        self._one_flush.release()

    def _end(self, flush_id: int, problem: BaseException | None, on_flushed: OnFlushed | None) -> None:
        with self._lock:
            if flush_id != self._flush_id:
                return
            if problem is None:
                self._leave_flush()
            else:
                self._put_back()
        if on_flushed is not None:
            on_flushed(problem)


def _identity(partition: _Partition) -> str:
    """A form equal for partitions equal in value; of anything, as what is no partition is refused at the flush."""
    return repr(sorted(partition.items(), key=repr)) if isinstance(partition, Mapping) else repr(partition)
