"""IcebergBatches: a batch goes into an Iceberg table once, however many queries try, and never after a later one.

An append to Iceberg never meets a conflict, so a look before the write is not enough: a query that was cut off for a
minute in between would write its batch a second time. So each batch is staged as a snapshot that no reader sees, and
published by a commit that fails if the table has it: Iceberg's own write-audit-publish, for which tables have the
property write.wap.enabled. What a killed query has staged stays out of sight until snapshots expire.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kconnect.errors import RetriableError
from kconnect.spark.query.failures import full_text

log = logging.getLogger(__name__)

_WAP_CONF: Final = "spark.wap.id"
_WAP_TABLE: Final = "write.wap.enabled"
_WAP_IDS: Final = ("wap.id", "published-wap-id")
# Somebody else has committed meanwhile. Each attempt of a change computes it again; one of an append takes
# milliseconds, and Iceberg itself tries that four times (commit.retry.num-retries)
_ATTEMPTS: Final = 5
_PUBLISHED: Final = ("DuplicateWAPCommitException", "CherrypickAncestorCommitException")
_CONFLICT: Final = ("CommitFailedException", "ValidationException")


class IcebergBatches:
    """Threads: one. Errors: Spark's and Iceberg's; RetriableError when others commit all the time."""

    def __init__(self, session: Any, table: str, query_id: str) -> None:
        """`table` exists. `query_id`: what the batches' numbers belong to."""
        self._session = session
        self._query_id = query_id
        # Not by SQL: a session's catalog may keep a table as it was half a minute ago
        spark3 = session._jvm.org.apache.iceberg.spark.Spark3Util
        self._table = spark3.loadIcebergTable(session._jsparkSession, table)

    def append(self, batch: int, write: Callable[[], object]) -> None:
        """Have `write` append to the table in this session, unless the table has the batch or a later one."""
        self._table.refresh()
        if self._has(self._table.currentSnapshot(), batch):
            return
        staged = self._staged(batch, write)
        if staged is not None:
            self._attempt(batch, lambda: self._pick(staged))

    def change(self, batch: int, write: Callable[[], object]) -> None:
        """Have `write` change rows that are there (MERGE, overwrite); again when somebody else commits meanwhile."""
        self._attempt(batch, lambda: self._changed(batch, write))

    def _changed(self, batch: int, write: Callable[[], object]) -> None:
        self._table.refresh()
        if self._has(self._table.currentSnapshot(), batch):
            return
        staged = self._staged(batch, write)
        if staged is None:
            return
        # What it has changed is its parent. That one is looked at again: other batches may have come since
        seen = staged.parentId()
        if seen is not None and self._has(self._table.snapshot(seen), batch):
            return
        self._move_to(staged)

    def _pick(self, staged: Any) -> None:
        """Publish an append on top of what is there. Iceberg refuses a second one of the same wap.id, atomically."""
        self._table.manageSnapshots().cherrypick(staged.snapshotId()).commit()

    def _move_to(self, staged: Any) -> None:
        """Publish a snapshot whose parent is what readers see, by one exchange of the table's metadata."""
        operations = self._table.operations()
        base = operations.refresh()
        current, seen = base.currentSnapshot(), staged.parentId()
        if (None if current is None else current.snapshotId()) != seen:
            raise RetriableError("The table was changed by others while a batch was written")
        made = self._session._jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
        operations.commit(base, made.setBranchSnapshot(staged.snapshotId(), "main").build())

    def _attempt(self, batch: int, publish: Callable[[], None]) -> None:
        for left in reversed(range(_ATTEMPTS)):
            try:
                publish()
            except Exception as error:  # py4j's and Spark's errors share no root
                said = full_text(error)
                if any(name in said for name in _PUBLISHED):
                    log.info("Batch %d is in the table already", batch)
                    return
                if not isinstance(error, RetriableError) and not any(name in said for name in _CONFLICT):
                    raise
                if not left:
                    raise RetriableError(f"Batch {batch} meets other commits to its table again and again") from error
            else:
                return

    def _staged(self, batch: int, write: Callable[[], object]) -> Any | None:
        """The snapshot that `write` has made beside the table's; None if it changed nothing."""
        if str(self._table.properties().get(_WAP_TABLE)) != "true":
            self._table.updateProperties().set(_WAP_TABLE, "true").commit()
        mark = self._mark(batch)
        with session_conf(self._session, {_WAP_CONF: mark}):
            write()
        self._table.refresh()
        snapshots = self._table.snapshots()  # a list, as metadata has them: new ones last
        for place in reversed(range(len(snapshots))):
            # One that an earlier query has staged and not published is the same batch, and as good
            if snapshots[place].summary().get(_WAP_IDS[0]) == mark:
                return snapshots[place]
        return None

    def _has(self, snapshot: Any | None, batch: int) -> bool:
        """Whether this snapshot, or one that it stands on, has the batch or a later one."""
        while snapshot is not None:
            summary = snapshot.summary()
            for key in _WAP_IDS:
                found = batch_in(summary.get(key), self._query_id)
                if found is not None:
                    if found >= batch:
                        log.info("Batch %d is in the table already: it has %d", batch, found)
                    return found >= batch
            before = snapshot.parentId()
            snapshot = None if before is None else self._table.snapshot(before)  # None if it has expired
        return False

    def _mark(self, batch: int) -> str:
        return f"{_PREFIX}{self._query_id}-{batch}"


_PREFIX: Final = "kconnect-"


def batch_in(wap_id: str | None, query_id: str) -> int | None:
    """The number of the batch in a mark of this query; None for a mark of somebody else."""
    query, _, number = (wap_id or "").removeprefix(_PREFIX).rpartition("-")
    return int(number) if query == query_id and number.isdecimal() else None


@contextmanager
def session_conf(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session for a while."""
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(key)
