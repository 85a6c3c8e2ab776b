"""What tasks read source offsets with: a read that waits for the store ends when the task is closed.

Source: OffsetStorageReaderImpl, CloseableOffsetStorageReader (Kafka 4.3).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from kconnect.errors import ConnectError, DataError
from kconnect.storage.offset_store import OffsetStore
from kconnect.storage.offset_topic import check_format, decode_value, encode_key

__all__ = ["OffsetReader"]

log = logging.getLogger(__name__)

_TOO_LATE = "The task was told to stop and has taken longer than task.shutdown.graceful.timeout.ms for it."
_Values = dict[bytes, bytes | None]


class OffsetReader:
    """Reads the offsets of one connector until close(). Threads: any.

    The store is asked on a thread of its own, so that close() ends the wait; the thread ends with the store's answer,
    at the latest at the store's own deadline.
    """

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._lock = threading.Lock()
        self._is_closed = False  # guarded by _lock
        self._waiting: set[Future[_Values]] = set()  # guarded by _lock

    def offset(self, partition: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The committed offset of one partition; as `offsets`."""
        return self.offsets([partition])[0]

    def offsets(self, partitions: Sequence[Mapping[str, Any] | None]) -> list[Mapping[str, Any] | None]:
        """The committed offset of each partition, None where there is none or it cannot be told (logged).

        Errors: ConnectError when the reader is closed, before or meanwhile, or the store cannot be read.
        """
        keys = [self._key_of(partition) for partition in partitions]
        values = self._read([key for key in keys if key is not None])
        return [None if key is None else self._offset_of(key, values.get(key)) for key in keys]

    def close(self) -> None:
        """End all reads that wait, refuse those to come. Idempotent."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, set()
        for answer in waiting:
            answer.cancel()

    def _read(self, keys: Sequence[bytes]) -> _Values:
        answer: Future[_Values] = Future()
        with self._lock:
            if self._is_closed:
                raise ConnectError(
                    f"The offsets of connector {self._connector} are not read: their reader is closed",
                    hint=_TOO_LATE,
                )
            self._waiting.add(answer)
        threading.Thread(
            target=self._ask, args=(keys, answer), name=f"offset-reader-{self._connector}", daemon=True
        ).start()
        try:
            return answer.result()  # the store has a deadline
        except CancelledError as err:
            raise ConnectError(
                f"The reader was closed while it read offsets of connector {self._connector}",
                hint=_TOO_LATE,
            ) from err
        except ConnectError as err:
            raise ConnectError(
                f"The offsets of connector {self._connector} cannot be read: {err}", hint=err.hint
            ) from err
        finally:
            with self._lock:
                self._waiting.discard(answer)

    def _ask(self, keys: Sequence[bytes], answer: Future[_Values]) -> None:
        problem: Exception | None = None
        values: _Values = {}
        try:
            values = self._store.get(keys)
        except Exception as err:  # the top of a thread: whoever waits is told
            problem = err
        if not answer.set_running_or_notify_cancel():
            return  # nobody waits any more
        if problem is None:
            answer.set_result(values)
        else:
            answer.set_exception(problem)

    def _key_of(self, partition: Mapping[str, Any] | None) -> bytes | None:
        try:
            return encode_key(self._connector, partition)
        except DataError:
            log.exception(
                "A partition of connector %s can be no key of an offset; none is given for it, so that data may be "
                "read again or left out",
                self._connector,
            )
            return None

    def _offset_of(self, key: bytes, value: bytes | None) -> Mapping[str, Any] | None:
        try:
            offset = decode_value(value)
            check_format(offset)
        except DataError:
            log.exception(
                "The offset of %r of connector %s cannot be read; none is given, so that data may be read again",
                key,
                self._connector,
            )
            return None
        return offset
