"""CursorBatches: new rows of a table that Spark cannot stream, found by a column that only grows."""

from __future__ import annotations

import datetime
import decimal
import time
from collections.abc import Callable
from typing import Any, Final

from kconnect.errors import ConfigError
from kconnect.spark.query.batch_loop import BatchDone
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.source_settings import SourceQuerySettings

_VIEW: Final = "records"


class CursorBatches:
    """Implements Batches. Threads: the loop's.

    Each batch has the rows between the last value of the column and a new one, so a replay has the same rows as long as
    nobody changes or deletes any. A row that is committed late with a lower value is not seen.
    """

    def __init__(
        self, session: Any, settings: SourceQuerySettings, position: RowPosition, send: Callable[[Any, Any], int]
    ) -> None:
        self._session = session
        self._settings = settings
        self._done = None if position.done is None else str(position.done["cursor"])
        self._planned = None if position.planned is None else str(position.planned["cursor"])
        self._batch = position.batch
        self._send = send

    def once(self, is_stopping: Callable[[], bool]) -> BatchDone | None:
        """Send what is new. Errors: ConfigError; Spark's; those of `send`."""
        from pyspark.sql import functions as f

        settings = self._settings
        rows = self._rows()
        if settings.cursor_column not in rows.columns:
            why = f"There is no such column, but {', '.join(rows.columns)}"
            raise ConfigError.invalid("cursor.column", settings.cursor_column, why)
        column, kind = f.col(settings.cursor_column), rows.schema[settings.cursor_column].dataType
        left = rows.where(column.isNotNull() if self._done is None else column > f.lit(self._done).cast(kind))
        end = self._planned if self._planned is not None else self._end_of(left, column)
        if end is None or is_stopping():  # the next start may have begun, and has a view of the same name
            return None
        planned_s = time.monotonic()
        batch = left.where(column <= f.lit(end).cast(kind)).orderBy(column)
        if settings.query:
            batch.createOrReplaceTempView(_VIEW)
            batch = self._session.sql(settings.query)
        count = self._send(batch, {"cursor": end})
        self._done, self._planned, self._batch = end, None, self._batch + 1
        return BatchDone(self._batch, count, planned_s)

    def _rows(self) -> Any:  # a DataFrame
        settings = self._settings
        reader = self._session.read.format(settings.format).options(**settings.options)
        if settings.schema:
            reader = reader.schema(settings.schema)
        return reader.table(settings.table) if settings.table else reader.load()

    def _end_of(self, left: Any, column: Any) -> str | None:
        """The last value of the next batch, None if there is nothing new."""
        from pyspark.sql import functions as f

        first = left.select(column.alias("at")).orderBy("at").limit(self._settings.max_records)
        value = first.agg(f.max("at")).collect()[0][0]
        return None if value is None else cursor_text(value)


def cursor_text(value: Any) -> str:
    """A value of the column as text that Spark casts back to its type. Errors: ConfigError for one without an order."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | str | decimal.Decimal | datetime.date | datetime.datetime
    ):
        raise ConfigError(f"cursor.column needs numbers, times or texts, not {type(value).__name__}")
    if isinstance(value, datetime.datetime):
        # Spark gives times without a zone in that of this process
        return value.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)
