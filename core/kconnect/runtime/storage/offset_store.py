"""Where source offsets are kept: the OffsetStore Protocol, in memory and in a file that Java reads and writes too.

ConnectorOffsetStore has the offsets of one connector, which may have its own topic besides the worker's store.

Source: ConnectorOffsetBackingStore (Kafka 4.3; KIP-618, KAFKA-15018).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, DataError
from kconnect.files.durable_file import DurableFile
from kconnect.files.folders import refuse_unwritable
from kconnect.java.compat.serialized_map import dump_map, load_map
from kconnect.runtime.storage.offset_topic import canonical_key
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore, await_written

log = logging.getLogger(__name__)


class OffsetStore(Protocol):
    """Bytes to bytes; a None value is a tombstone. Threads: any, after start().

    Keys with equal values (`canonical_key`) are one key. Source: OffsetBackingStore.
    """

    def start(self) -> None:
        """Load the stored offsets. Errors: ConnectError that names the file or topic."""
        ...

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        """The value of each key, None if there is none."""
        ...

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Store these values; returns once they are durable. Errors: ConnectError."""
        ...

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        """Like `set`, but does not wait for slow storage: the future completes once they are durable, or fails."""
        ...

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        """All entries in the order stored; including tombstones if the store keeps them (a topic does not).

        `awaits_open_transactions`: whether offsets that exactly-once tasks are about to commit are waited for.
        """
        ...

    def stop(self) -> None:
        """Write pending offsets. Idempotent."""
        ...


class MemoryOffsetStore:
    """Offsets that live as long as the process. Source: MemoryOffsetBackingStore."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # guarded by _lock: canonical form -> the key as first stored and its value
        self._data: dict[str | bytes, tuple[bytes, bytes | None]] = {}

    def start(self) -> None:
        return

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        with self._lock:
            return {key: self._data.get(canonical_key(key), (key, None))[1] for key in keys}

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        with self._lock:
            for key, value in entries.items():
                form = canonical_key(key)
                stored_key = self._data[form][0] if form in self._data else key
                self._data[form] = (stored_key, value)

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        return _outcome_of(lambda: self.set(entries))

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        with self._lock:
            return dict(self._data.values())

    def stop(self) -> None:
        return


class DamagedOffsetsError(ConnectError):
    """The offsets file cannot be understood."""


class FileOffsetStore:
    """Offsets in `offset.storage.file.filename`, in the format Java's worker reads and writes.

    Entries of connectors we do not know are kept. Source: FileOffsetBackingStore (Kafka 4.3).
    Differs: Java rewrites the file in place, so a crash midway loses all offsets, and treats a truncated file as
    empty; we write a second file, sync it and rename it, and refuse to start with a damaged file, of which we keep a
    copy. Commits that arrive during a write share the next write.
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: Clock | None = None, *, may_be_unwritable: bool = False
    ) -> None:
        """`may_be_unwritable`: for who perhaps only reads it; a worker does not start then."""
        self._path = Path(path)
        self._may_be_unwritable = may_be_unwritable
        self._file = DurableFile(self._path)  # guarded by _write_lock, once started
        self._clock = clock or SystemClock()
        self._memory = MemoryOffsetStore()
        self._count_lock = threading.Lock()
        self._changes = 0  # guarded by _count_lock
        self._write_lock = threading.Lock()  # one writer; held during the write: those waiting need nothing else
        self._written = 0  # guarded by _write_lock: changes up to this count are in the file

    def start(self) -> None:
        """Read the file, which may be missing or empty.

        Errors: ConnectError; the file is left unchanged, and of a damaged one a copy is kept.
        """
        try:
            self._memory.set(self.look())
        except DamagedOffsetsError as err:
            raise ConnectError(f"{err}; {self._kept_copy()}", hint=err.hint) from err

    def look(self) -> dict[bytes, bytes | None]:
        """What the file has, as a start reads it. Writes nothing. Errors: ConnectError; DamagedOffsetsError."""
        if not self._may_be_unwritable:
            # Differs: Java says nothing until the first flush fails, when records are in Kafka already
            refuse_unwritable(self._path, "offset.storage.file.filename", is_replaced=True)
        try:
            data = self._file.read()
        except OSError as err:
            raise ConnectError(
                f"Cannot read the offsets file {self._path} (offset.storage.file.filename): {err.strerror}",
                hint="Give this user the right to read and write the file, or name another one.",
            ) from err
        if not data:
            if data is not None and self._path.is_file():
                log.warning("The offsets file %s is empty: sources are read from the start", self._path)
            return {}
        try:
            return load_map(data)
        except DataError as err:
            raise DamagedOffsetsError(
                f"The offsets file {self._path} (offset.storage.file.filename) is damaged or no offsets file: {err}",
                hint="Restore a backup of the file, or delete it to read all sources from the start: "
                "records they have written before are then written again.",
            ) from err

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        return self._memory.get(keys)

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        return self._memory.entries()

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        if not entries:
            return
        with self._count_lock:
            self._memory.set(entries)
            self._changes += 1
            mine = self._changes
        self._write_up_to(mine)

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        return _outcome_of(lambda: self.set(entries))

    def stop(self) -> None:
        with self._count_lock:
            last = self._changes
        self._write_up_to(last)

    def _write_up_to(self, change: int) -> None:
        with self._write_lock:
            if self._written >= change:
                return
            with self._count_lock:
                data, covered = dump_map(self._memory.entries()), self._changes
            try:
                self._file.replace(data)
            except OSError as err:
                raise ConnectError(
                    f"Cannot write the offsets file {self._path} (offset.storage.file.filename): {err.strerror}",
                    hint="Offsets are only in memory until it can be written: check the folder, its rights and space.",
                ) from err
            self._written = covered

    def _kept_copy(self) -> str:
        try:
            return f"a copy is kept as {self._file.keep_copy('damaged', self._now())}"
        except OSError as err:
            return f"it was left as it is, and no copy could be made of it ({err.strerror})"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.time_ms() / 1000, tz=UTC)


def _outcome_of(call: Callable[[], None]) -> Future[None]:
    """A completed future with the outcome of the call."""
    done: Future[None] = Future()
    try:
        call()
    except ConnectError as err:
        done.set_exception(err)
    else:
        done.set_result(None)
    return done


class ConnectorOffsetStore:
    """An OffsetStore on a connector's own topic (`offsets.storage.topic`), the worker's store, or both.

    Reads: the connector's own topic, falling back to the worker's store. Writes: its own topic first; a failure to
    copy to the worker's store is only logged. Tombstones go to the worker's store before that, and nothing else is
    written if that fails: an offset removed from the own topic alone would reappear from the worker's store.
    The worker's store is started and stopped by its owner, not here.
    Differs: in Java a missing offset in the own topic hides the one in the worker's store, contrary to its docs.
    """

    def __init__(self, connector: str, own: TopicOffsetStore | None, worker: OffsetStore | None) -> None:
        """Errors: ValueError if both are missing."""
        if own is None and worker is None:
            raise ValueError("At least one offset store must be given")
        self._connector = connector
        self._own = own
        self._worker = worker

    def start(self) -> None:
        if self._own is not None:
            self._own.start()

    def stop(self) -> None:
        if self._own is not None:
            self._own.stop()

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        found: dict[bytes, bytes | None] = dict.fromkeys(keys)
        for store in (self._worker, self._own):
            if store is not None:
                found.update({key: value for key, value in store.get(keys).items() if value is not None})
        return found

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        """The entries of both stores; for a key in both, the one of the own topic."""
        found: dict[str | bytes, tuple[bytes, bytes | None]] = {}
        for store in (self._worker, self._own):
            if store is not None:
                entries = store.entries(awaits_open_transactions=awaits_open_transactions)
                found |= {canonical_key(key): (key, value) for key, value in entries.items()}
        return dict(found.values())

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        if self._own is None:
            self._first.set(entries)
        else:
            await_written(self.send(entries), self._own.write_timeout_s, self._own.place)

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        if self._own is None or self._worker is None:
            return self._first.send(entries)
        own, worker = self._own, self._worker
        tombstones = {key: value for key, value in entries.items() if value is None}
        if not tombstones:
            return self._send_own_first(own, worker, entries)
        return _chain(worker.send(tombstones), lambda: self._send_own_first(own, worker, entries))

    @property
    def _first(self) -> OffsetStore:
        store = self._own or self._worker
        if store is None:
            raise AssertionError("made without a store")
        return store

    def _send_own_first(
        self, own: OffsetStore, worker: OffsetStore, entries: Mapping[bytes, bytes | None]
    ) -> Future[None]:
        offsets = {key: value for key, value in entries.items() if value is not None}

        def copy_to_worker() -> Future[None]:
            if offsets:
                worker.send(offsets).add_done_callback(self._log_failed_copy)
            ended: Future[None] = Future()
            ended.set_result(None)
            return ended

        return _chain(own.send(entries), copy_to_worker)

    def _log_failed_copy(self, done: Future[None]) -> None:
        problem = done.exception()
        if problem is not None:
            log.warning(
                "Offsets of connector %s are in its own topic, but could not be copied to the worker's offsets: %s",
                self._connector,
                problem,
            )


def _chain(first: Future[None], then: Callable[[], Future[None]]) -> Future[None]:
    """The future of the second step, which runs only after the first has succeeded."""
    whole: Future[None] = Future()

    def end(done: Future[None]) -> None:
        problem = done.exception()
        if problem is None:
            whole.set_result(None)
        else:
            whole.set_exception(problem)

    def run_second(done: Future[None]) -> None:
        if done.exception() is not None:
            end(done)
            return
        try:
            second = then()
        except ConnectError as err:
            whole.set_exception(err)
        else:
            second.add_done_callback(end)

    first.add_done_callback(run_second)
    return whole
