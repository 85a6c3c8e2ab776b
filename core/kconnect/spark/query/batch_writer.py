"""BatchWriter: writes one batch of rows into a table of any format, once if the format can tell that it has it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kconnect.errors import ConfigError
from kconnect.spark.query.formats import known
from kconnect.spark.query.sink_settings import MERGE, SinkQuerySettings

log = logging.getLogger(__name__)

_QUERY: Final = "kconnect.query"
_BATCH: Final = "kconnect.batch"


class BatchWriter:
    """Threads: one. Errors: Spark's."""

    def __init__(self, settings: SinkQuerySettings, query_id: str) -> None:
        """`query_id`: what the batches' numbers belong to."""
        self._settings = settings
        self._format = settings.format.lower()
        self.query_id = query_id

    def write(self, rows: Any, batch: int) -> None:  # a DataFrame
        """Write the batch; does nothing if the table says that it has it."""
        if self._settings.mode == MERGE:
            self._merge(rows, batch)
            return
        if self._format == "iceberg" and self._iceberg_has(rows.sparkSession, batch):
            log.info("Batch %d is in the table already", batch)
            return
        mode = "overwrite" if self._settings.output_mode == "complete" else "append"
        writer = rows.write.format(self._settings.format).mode(mode).options(**self._marks(batch))
        writer = writer.options(**self._settings.options)
        if self._settings.table:
            writer.saveAsTable(self._settings.table)
        else:
            writer.save()

    def _marks(self, batch: int) -> Mapping[str, str]:
        """Options by which the table remembers the batch."""
        match self._format:
            case "delta":
                return {"txnAppId": self.query_id, "txnVersion": str(batch)}
            case "iceberg":
                return {f"snapshot-property.{_QUERY}": self.query_id, f"snapshot-property.{_BATCH}": str(batch)}
        return {}

    def _merge(self, rows: Any, batch: int) -> None:
        """The last row of each key replaces that of the table; one that is deleted goes. Twice is once."""
        if not known(self._format).merges:
            raise ConfigError(f"Spark cannot merge into {self._format}")
        session, keys = rows.sparkSession, self._settings.merge_keys
        target = self._settings.table or f"{self._format}.`{self._settings.options.get('path', '')}`"
        missing = [key for key in keys if key not in rows.columns]
        if missing:
            raise ConfigError.invalid("merge.keys", ",".join(keys), f"The rows have no column {missing[0]}")
        newest = newest_of_each(rows, keys)
        columns = [name for name in newest.columns if name not in _ABOUT_MERGE or name in keys]
        self._make_table(session, newest.select(*columns), target)
        view = f"kconnect_batch_{batch}"
        newest.createOrReplaceTempView(view)
        try:
            session.sql(merge_sql(target, view, keys, columns, deletes="_deleted" in newest.columns))
        finally:
            session.catalog.dropTempView(view)

    def _make_table(self, session: Any, rows: Any, target: str) -> None:
        """Create an empty table of these columns unless there is one."""
        if self._settings.table:
            if not session.catalog.tableExists(self._settings.table):
                rows.limit(0).write.format(self._settings.format).options(**self._settings.options).saveAsTable(
                    self._settings.table
                )
            return
        writer = rows.limit(0).write.format(self._settings.format).mode("ignore")
        writer.options(**self._settings.options).save()

    def _iceberg_has(self, session: Any, batch: int) -> bool:
        if not self._settings.table or not session.catalog.tableExists(self._settings.table):
            return False
        found = session.sql(
            f"SELECT max(cast(summary['{_BATCH}'] AS bigint)) FROM {self._settings.table}.snapshots "
            f"WHERE summary['{_QUERY}'] = '{self.query_id}'"
        ).collect()
        return found[0][0] is not None and found[0][0] >= batch


_ABOUT_MERGE: Final = frozenset({"_key", "_partition", "_offset", "_timestamp", "_deleted", "_topic"})


def newest_of_each(rows: Any, keys: Sequence[str]) -> Any:  # a DataFrame
    """The last row of each key, where records have an order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = [name for name in ("_timestamp", "_offset") if name in rows.columns]
    if not order:
        return rows.dropDuplicates(list(keys))
    window = Window.partitionBy(*keys).orderBy(*(f.col(name).desc_nulls_last() for name in order))
    return rows.withColumn("__rank", f.row_number().over(window)).where("__rank = 1").drop("__rank")


def merge_sql(target: str, source: str, keys: Sequence[str], columns: Sequence[str], *, deletes: bool) -> str:
    """The MERGE of a batch."""

    def quoted(name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

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
