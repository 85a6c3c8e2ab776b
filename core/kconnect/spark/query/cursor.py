"""CursorQuery: new rows of a table that Spark cannot stream, found by a column that only grows."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

from kconnect.errors import ConfigError
from kconnect.logs.log_context import set_log_context
from kconnect.spark.query.source_positions import RowPosition
from kconnect.spark.query.source_settings import SourceQuerySettings

log = logging.getLogger(__name__)

_VIEW: Final = "records"
_MOST_PROGRESS: Final = 100


@dataclass(frozen=True, slots=True)
class _Progress:
    """As Spark's StreamingQueryProgress, as far as anybody looks at it."""

    json: str
    batchId: int  # Spark's name
    timestamp: float


class CursorQuery:
    """Behaves as a StreamingQuery: isActive, stop(), exception(), runId, recentProgress. One thread of its own.

    Each batch has the rows between the last value of the column and a new one, so a replay has the same rows as long as
    nobody changes or deletes any. A row that is committed late with a lower value is not seen.
    """

    def __init__(
        self,
        session: Any,
        settings: SourceQuerySettings,
        position: RowPosition,
        send: Callable[[Any, Any], int],
        *,
        name: str,
    ) -> None:
        self.runId = uuid.uuid4()  # names as Spark's
        self.recentProgress: deque[_Progress] = deque(maxlen=_MOST_PROGRESS)
        self._session = session
        self._settings = settings
        self._done = None if position.done is None else str(position.done["cursor"])
        self._planned = None if position.planned is None else str(position.planned["cursor"])
        self._batch = position.batch
        self._send = send
        self._name = name
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"cursor-{name}", daemon=True)

    @property
    def isActive(self) -> bool:  # Spark's name
        return self._thread.is_alive()

    @property
    def lastProgress(self) -> _Progress | None:  # Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the batch under way; its jobs are cancelled if it does not end soon."""
        self._stopping.set()
        self._thread.join(1.0)
        if self._thread.is_alive():
            self._session.sparkContext.cancelJobGroup(self._group)
            self._thread.join(5.0)

    def exception(self) -> BaseException | None:
        return self._error

    @property
    def _group(self) -> str:
        return f"kconnect-query-{self._name}-{self.runId}"

    def _run(self) -> None:
        set_log_context(self._name, 0)
        try:
            context = self._session.sparkContext
            context.setJobGroup(self._group, f"kconnect query {self._name}", interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", "queries")
            while not self._stopping.is_set():
                found = self._batch_once()
                if not found:
                    self._stopping.wait(max(self._settings.trigger_ms, 50) / 1000)
        except BaseException as error:  # the thread's top; the task asks for it
            if not self._stopping.is_set():
                self._error = error

    def _batch_once(self) -> bool:
        """Send what is new; whether there was anything."""
        from pyspark.sql import functions as f

        settings, began_s = self._settings, time.monotonic()
        rows = self._rows()
        if settings.cursor_column not in rows.columns:
            why = f"There is no such column, but {', '.join(rows.columns)}"
            raise ConfigError.invalid("cursor.column", settings.cursor_column, why)
        column, kind = f.col(settings.cursor_column), rows.schema[settings.cursor_column].dataType
        left = rows.where(column.isNotNull() if self._done is None else column > f.lit(self._done).cast(kind))
        end = self._planned if self._planned is not None else self._end_of(left, column)
        if end is None:
            return False
        if self._stopping.is_set():  # the next start may have begun, and has a view of the same name
            return False
        planned_s = time.monotonic()
        batch = left.where(column <= f.lit(end).cast(kind)).orderBy(column)
        if settings.query:
            batch.createOrReplaceTempView(_VIEW)
            batch = self._session.sql(settings.query)
        count = self._send(batch, {"cursor": end})
        self._done, self._planned, self._batch = end, None, self._batch + 1
        self._note(count, began_s, planned_s)
        return True

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

    def _note(self, count: int, began_s: float, planned_s: float) -> None:
        now_s = time.monotonic()
        took = {
            "triggerExecution": int((now_s - began_s) * 1000),
            "queryPlanning": int((planned_s - began_s) * 1000),
            "addBatch": int((now_s - planned_s) * 1000),
        }
        self.recentProgress.append(
            _Progress(
                json.dumps({"batchId": self._batch, "numInputRows": count, "durationMs": took}), self._batch, now_s
            )
        )


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
