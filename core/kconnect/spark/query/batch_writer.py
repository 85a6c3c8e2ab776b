"""BatchWriter: writes one batch of rows into a table of any format, once if the format can tell that it has it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kconnect.errors import ConfigError, RetriableError
from kconnect.spark.query.column_names import quoted
from kconnect.spark.query.failures import full_text
from kconnect.spark.query.formats import known
from kconnect.spark.query.sink_settings import MERGE, SinkQuerySettings

# As Delta Lake's options of a write, for a MERGE, which has none. Source: DeltaSQLConf of delta-spark 4.4
_DELTA_APP: Final = "spark.databricks.delta.write.txnAppId"
_DELTA_VERSION: Final = "spark.databricks.delta.write.txnVersion"
log = logging.getLogger(__name__)

_WAP_CONF: Final = "spark.wap.id"
_WAP_TABLE: Final = "write.wap.enabled"
_WAP_IDS: Final = ("wap.id", "published-wap-id")
# Somebody else has committed meanwhile. Each attempt of a change computes it again; one of an append takes
# milliseconds, and Iceberg itself tries that four times (commit.retry.num-retries)
_ATTEMPTS: Final = 5
_PUBLISHED: Final = ("DuplicateWAPCommitException", "CherrypickAncestorCommitException")
_CONFLICT: Final = ("CommitFailedException", "ValidationException")


class BatchWriter:
    """Threads: one. Errors: Spark's."""

    def __init__(self, settings: SinkQuerySettings, query_id: str) -> None:
        """`query_id`: what the batches' numbers belong to."""
        self._settings = settings
        self._format = settings.format.lower()
        self.query_id = query_id

    def write(self, rows: Any, batch: int) -> None:  # a DataFrame
        """Write the batch; does nothing if the table says that it has it, or a later one."""
        if self._settings.mode == MERGE:
            self._merge(rows, batch)
        elif self._format == "iceberg":
            self._write_iceberg(rows, batch)
        else:
            mode = "overwrite" if self._settings.output_mode == "complete" else "append"
            self._save(rows, mode, self._marks(batch))

    def _write_iceberg(self, rows: Any, batch: int) -> None:
        settings = self._settings
        self._make_table(rows)  # one that a first append creates would have no mark
        batches = IcebergBatches(rows.sparkSession, settings.table, self.query_id)
        if settings.output_mode == "complete":
            from pyspark.sql import functions as f

            all_rows = rows.writeTo(settings.table).options(**settings.options)
            batches.change(batch, lambda: all_rows.overwrite(f.lit(True)))
        else:
            batches.append(batch, lambda: self._save(rows, "append", {}))

    def _save(self, rows: Any, mode: str, marks: Mapping[str, str]) -> None:
        writer = rows.write.format(self._settings.format).mode(mode).options(**marks).options(**self._settings.options)
        if self._settings.table:
            writer.saveAsTable(self._settings.table)
        else:
            writer.save()

    def _marks(self, batch: int) -> Mapping[str, str]:
        """Options by which the table remembers the batch, and refuses it a second time."""
        return {"txnAppId": self.query_id, "txnVersion": str(batch)} if self._format == "delta" else {}

    def _merge(self, rows: Any, batch: int) -> None:
        """The last row of each key replaces that of the table; one that is deleted goes.

        Twice is once, but an old batch must not come after a newer one: of a query that was cut off and does not know.
        """
        if not known(self._format).merges:
            raise ConfigError(f"Spark cannot merge into {self._format}")
        session, keys = rows.sparkSession, self._settings.merge_keys
        target = self._settings.table or f"{self._format}.`{self._settings.options.get('path', '')}`"
        missing = [key for key in keys if key not in rows.columns]
        if missing:
            raise ConfigError.invalid("merge.keys", ",".join(keys), f"The rows have no column {missing[0]}")
        newest = newest_of_each(rows, keys)
        columns = [name for name in newest.columns if name not in _ABOUT_MERGE or name in keys]
        self._make_table(newest.select(*map(quoted, columns)))
        view = f"kconnect_batch_{batch}"
        newest.createOrReplaceTempView(view)
        merge = merge_sql(target, view, keys, columns, deletes="_deleted" in newest.columns)
        try:
            if self._format == "iceberg":
                IcebergBatches(session, target, self.query_id).change(batch, lambda: session.sql(merge))
            else:
                with session_conf(session, {_DELTA_APP: self.query_id, _DELTA_VERSION: str(batch)}):
                    session.sql(merge)
        finally:
            session.catalog.dropTempView(view)

    def _make_table(self, rows: Any) -> None:
        """Create an empty table of these columns unless there is one."""
        table = self._settings.table
        if table and rows.sparkSession.catalog.tableExists(table):
            return
        writer = rows.limit(0).write.format(self._settings.format).mode("ignore").options(**self._settings.options)
        if table:
            writer.saveAsTable(table)
        else:
            writer.save()


_ABOUT_MERGE: Final = frozenset({"_key", "_partition", "_offset", "_timestamp", "_deleted", "_topic"})


def newest_of_each(rows: Any, keys: Sequence[str]) -> Any:  # a DataFrame
    """The last row of each key, where records have an order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # As the topic has them, which is how batches follow one another, too: times of producers may go back
    order = [name for name in ("_offset", "_timestamp") if name in rows.columns]
    if not order:
        return rows.dropDuplicates(list(keys))
    window = Window.partitionBy(*map(quoted, keys)).orderBy(*(f.col(name).desc_nulls_last() for name in order))
    return rows.withColumn("__rank", f.row_number().over(window)).where("__rank = 1").drop("__rank")


def merge_sql(target: str, source: str, keys: Sequence[str], columns: Sequence[str], *, deletes: bool) -> str:
    """The MERGE of a batch."""
    on = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys)
    sets = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns)
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    gone = "WHEN MATCHED AND s._deleted THEN DELETE " if deletes else ""
    new = "WHEN NOT MATCHED AND NOT s._deleted" if deletes else "WHEN NOT MATCHED"
    return (
        f"MERGE INTO {target} t USING {source} s ON {on} {gone}"
        f"WHEN MATCHED THEN UPDATE SET {sets} {new} THEN INSERT ({names}) VALUES ({values})"
    )


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
