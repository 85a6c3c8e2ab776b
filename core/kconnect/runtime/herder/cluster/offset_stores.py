"""Offsets of connectors of a cluster: which store they are in, and the three commands on them (KIP-875).

Changes to the offsets of an exactly-once connector are one transaction, in the name of its first task.
Source: Worker#offsetStoreForRegularSourceTask, Worker#modifySourceConnectorOffsets, ConnectorOffsetBackingStore
(Kafka 4.3; KIP-618).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Final

from kconnect.errors import ConflictError, ConnectError
from kconnect.model import ConnectorOffset, ConnectorType
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.decisions.etags import require_offsets_match
from kconnect.runtime.herder.offsets.offsets_admin import GroupOffsetsFactory, OffsetsAdmin
from kconnect.runtime.storage import OffsetStore
from kconnect.runtime.storage.offset_store import ConnectorOffsetStore
from kconnect.runtime.storage.record_log import ExclusiveWriter
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore

if TYPE_CHECKING:
    from kconnect.runtime.herder.connectors.host import ConnectorHost

log = logging.getLogger(__name__)

MakeWriter = Callable[[str, str, Mapping[str, str]], ExclusiveWriter]
"""Creates a writer of offsets in place of a connector's tasks, from connector, topic and resolved config."""
OpenOwnOffsets = Callable[[str], TopicOffsetStore]
"""From the name of a topic to its store, not started; the topic is made where it is missing. Errors: ConnectError."""
_OWN_TOPIC = "offsets.storage.topic"


class ClusterOffsets:
    """States: open -> closed. Threads: any; only the leader changes offsets, and only of STOPPED connectors.

    A connector with its own topic (`offsets.storage.topic`) has its offsets there and in the worker's store; the topic
    is opened when the first of its tasks, or another caller, requests them, and read until the worker stops.
    """

    def __init__(
        self,
        store: OffsetStore,
        config: ClusterConfig,
        groups: GroupOffsetsFactory,
        open_own: OpenOwnOffsets | None,
        make_writer: MakeWriter | None = None,
    ) -> None:
        """`make_writer` is set if tasks deliver exactly once: then they write offsets themselves."""
        self._store = store
        self._config = config
        self._groups = groups
        self._open_own = open_own
        self._make_writer = make_writer
        self._lock = threading.Lock()
        self._is_closed = False  # guarded by _lock
        self._own: dict[str, Future[TopicOffsetStore]] = {}  # guarded by _lock; by topic, from when it is being opened
        self._changes: dict[str, threading.Lock] = {}  # guarded by _lock; one for each connector ever changed

    def store_of(self, connector: str) -> OffsetStore:
        """Where the tasks of a connector read. Blocks while its own topic is opened. Errors: ConnectError."""
        own = self._own_of(connector)
        return self._store if own is None else ConnectorOffsetStore(connector, own, self._store)

    def commit_store_of(self, connector: str) -> OffsetStore:
        """Where tasks' commits go; for exactly-once tasks, the copy of what they wrote to their own topic."""
        return self._store if self._make_writer is not None else self.store_of(connector)

    def _own_of(self, connector: str) -> TopicOffsetStore | None:
        entry = self._config.find(connector)
        return None if entry is None else self._own_topic(entry)

    def _own_topic(self, entry: ConnectorEntry) -> TopicOffsetStore | None:
        topic, open_own = (entry.config.get(_OWN_TOPIC) or "").strip(), self._open_own
        if not topic or open_own is None:
            return None
        with self._lock:
            if self._is_closed:
                raise ConflictError("The worker is shutting down")
            known = self._own.get(topic)
            opened = self._own[topic] = known or Future()
        if known is None:
            self._open(topic, open_own, opened)
            log.info("Offsets of connector %s are in topic %s as well", entry.name, topic)
        return opened.result()

    def _open(self, topic: str, open_own: OpenOwnOffsets, opened: Future[TopicOffsetStore]) -> None:
        """Open it on this thread, without the lock: it may take a minute. Who needs the topic next tries again."""
        try:
            own = open_own(topic)
            own.start()
        except BaseException as err:
            with self._lock:
                self._own.pop(topic, None)
            opened.set_exception(err)
            raise
        opened.set_result(own)

    def read(self, name: str, host: ConnectorHost, timeout_s: float) -> list[ConnectorOffset]:
        """Errors: NotFoundError."""
        entry = self._config.get(name)
        admin = OffsetsAdmin(self.store_of(name), self._groups, timeout_s)
        return admin.read(name, host.kind(entry.config), host.resolved(entry).values)

    def modify(
        self,
        name: str,
        offsets: Sequence[ConnectorOffset] | None,
        host: ConnectorHost,
        timeout_s: float,
        before_write: Callable[[], None],
        expected: Collection[str] | None = None,
    ) -> str:
        """Alter them, or (None) remove all. Returns the message that REST shows.

        `before_write` is called once the connector's plugin was asked, right before the write, and may forbid it.
        `expected`: entity tags of which those that are there must have one. Errors: PreconditionFailedError.
        """
        with self._lock:
            order = self._changes.setdefault(name, threading.Lock())
        with order:  # nothing may come between the look and the change
            if expected is not None:
                require_offsets_match(expected, name, self.read(name, host, timeout_s))
            entry = self._config.get(name)
            kind, config = host.kind(entry.config), host.resolved(entry).values
            admin = OffsetsAdmin(self._store_to_change(entry, kind, config), self._groups, timeout_s, host.java_stack)
            make = partial(host.new_plugin, config)
            if offsets is None:
                return admin.reset(name, kind, config, make, before_write)
            return admin.alter(name, kind, config, offsets, make, before_write)

    def begin_with(
        self, entry: ConnectorEntry, offsets: Sequence[ConnectorOffset], host: ConnectorHost, timeout_s: float
    ) -> str:
        """Set the offsets of a connector that is about to be created. Gives the message REST shows."""
        kind, config = host.kind(entry.config), host.resolved(entry).values
        admin = OffsetsAdmin(self._store_to_change(entry, kind, config), self._groups, timeout_s, host.java_stack)
        return admin.begin_with(entry.name, kind, config, offsets, lambda: host.new_plugin(config))

    def _store_to_change(self, entry: ConnectorEntry, kind: ConnectorType, config: Mapping[str, str]) -> OffsetStore:
        make_writer, name = self._make_writer, entry.name
        own = self._own_topic(entry)
        if make_writer is None or kind is not ConnectorType.SOURCE:
            return self._store if own is None else ConnectorOffsetStore(name, own, self._store)
        first = own if own is not None else self._store
        if not isinstance(first, TopicOffsetStore):
            raise ConnectError(
                f"The offsets of connector {name} are not in a topic: they cannot be written exactly once"
            )
        copy = self._store if own is not None else None
        return TransactionalOffsets(name, first, copy, lambda: make_writer(name, first.topic, config))

    def close(self) -> None:
        """Idempotent; the worker's store is stopped by its owner. A topic that is being opened is not waited for."""
        with self._lock:
            self._is_closed = True
            all_opened = list(self._own.values())
            self._own.clear()
        for opened in all_opened:
            opened.add_done_callback(_stop)  # at once, or by who opens it


def _stop(opened: Future[TopicOffsetStore]) -> None:
    """Threads: that of the close, or the one that opened it."""
    if opened.exception() is not None:
        return
    own = opened.result()
    try:
        own.stop()
    except ConnectError as err:
        log.error("Offsets in %s are still being read: %s", own.place, err)


# A claim aborts what a task left open; former tasks were fenced off before, so both take about 0.1 s
_CLAIM_S: Final = 30.0
_WRITE_S: Final = 30.0


class TransactionalOffsets:
    """An OffsetStore whose `set` is one transaction on the connector's offsets topic. Started and stopped by others.

    `copy` is the worker's store if the topic is the connector's own: tombstones go there first, since an offset
    removed from the own topic alone would reappear from there, and offsets last; neither is in the transaction.
    Differs: in Java this order sends the record in a transaction that has not begun, which hangs for 90 s and leaves
    the connector's own topic unchanged (Kafka 4.3.0).
    """

    def __init__(
        self,
        connector: str,
        offsets: TopicOffsetStore,
        copy: OffsetStore | None,
        make_writer: Callable[[], ExclusiveWriter],
    ) -> None:
        self._connector = connector
        self._offsets = offsets
        self._copy = copy
        self._make_writer = make_writer

    def start(self) -> None:
        return

    def stop(self) -> None:
        return

    def get(self, keys: Collection[bytes]) -> dict[bytes, bytes | None]:
        return self._both.get(keys)

    def entries(self, *, awaits_open_transactions: bool = True) -> dict[bytes, bytes | None]:
        return self._both.entries(awaits_open_transactions=awaits_open_transactions)

    def set(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Errors: FencedError if a task came back meanwhile; TimedOutError, ConnectError: nothing was changed except,
        possibly, tombstones in the copy.
        """
        tombstones = {key: value for key, value in entries.items() if value is None}
        values = {key: value for key, value in entries.items() if value is not None}
        if self._copy is not None and tombstones:
            self._copy.set(tombstones)
        writer = self._make_writer()
        try:
            writer.claim(_CLAIM_S)
            writer.write(self._offsets.spelled(entries), _WRITE_S)
        finally:
            writer.stop()
        if self._copy is not None and values:
            self._copy_values(self._copy, values)

    def send(self, entries: Mapping[bytes, bytes | None]) -> Future[None]:
        """Like `set`; already complete when it returns."""
        ended: Future[None] = Future()
        try:
            self.set(entries)
        except ConnectError as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)
        return ended

    @property
    def _both(self) -> OffsetStore:
        return ConnectorOffsetStore(self._connector, self._offsets, self._copy)

    def _copy_values(self, copy: OffsetStore, values: Mapping[bytes, bytes | None]) -> None:
        try:
            copy.set(values)
        except ConnectError as error:
            log.warning(
                "Offsets of connector %s are in its own topic, but could not be copied to the worker's offsets: %s",
                self._connector,
                error,
            )
