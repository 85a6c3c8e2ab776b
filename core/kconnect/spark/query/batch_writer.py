"""BatchWriter: writes one batch of rows into a table of any format, once if the format can tell that it has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kconnect.errors import ConfigError
from kconnect.spark.query.formats import known
from kconnect.spark.query.iceberg_batches import IcebergBatches, session_conf
from kconnect.spark.query.sink_settings import MERGE, SinkQuerySettings

# As Delta Lake's options of a write, for a MERGE, which has none. Source: DeltaSQLConf of delta-spark 4.4
_DELTA_APP: Final = "spark.databricks.delta.write.txnAppId"
_DELTA_VERSION: Final = "spark.databricks.delta.write.txnVersion"


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
        self._make_table(newest.select(*columns))
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
