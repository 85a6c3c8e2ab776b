"""The offsets of one connector, which may have its own topic besides the worker's store.

Source: ConnectorOffsetBackingStore (Kafka 4.3; KIP-618, KAFKA-15018).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from kconnect.errors import ConnectError
from kconnect.runtime.storage.offset_store import OffsetStore
from kconnect.runtime.storage.offset_topic import canonical_key
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore, await_written

log = logging.getLogger(__name__)


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
