"""External changes to the offsets of an exactly-once connector: one transaction, in the name of its first task.

Source: Worker#modifySourceConnectorOffsets, ConnectorOffsetBackingStore (Kafka 4.3; KIP-618, KIP-875).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final

from kconnect.errors import ConnectError
from kconnect.runtime.storage.connector_offsets import ConnectorOffsetStore
from kconnect.runtime.storage.offset_store import OffsetStore
from kconnect.runtime.storage.record_log import ExclusiveWriter
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore

log = logging.getLogger(__name__)

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

    def entries(self) -> dict[bytes, bytes | None]:
        return self._both.entries()

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
