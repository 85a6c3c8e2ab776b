"""RowSource: a query that sends what Spark streams of any format to a topic.

The position is in source offsets: what is planned is committed before a batch is sent, what is done after it. Spark's
checkpoint is made from them at each start, and thrown away at its end.
"""

from __future__ import annotations

import datetime
import decimal
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kconnect.errors import ConfigError, ConnectError, FencedError
from kconnect.logs.log_context import set_log_context
from kconnect.runtime.config.exactly_once_settings import is_exactly_once
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.spark.arrow_types import check_record_types
from kconnect.spark.query.arrow_map import mapped
from kconnect.spark.query.batch_loop import BatchDone, BatchLoop
from kconnect.spark.query.checkpoint import kept_conf, new_files, offset_of, seed, seed_files
from kconnect.spark.query.column_names import quoted
from kconnect.spark.query.row_sender import SendOrder, last_batch, sender
from kconnect.spark.query.sink_settings import EXACTLY_ONCE
from kconnect.spark.query.source_positions import ReadFiles, RowPosition, files_from, partition_of, text_of
from kconnect.spark.query.source_settings import SourceQuerySettings
from kconnect.spark.query.starts import Starts

if TYPE_CHECKING:
    from kconnect.spark.query.engine import QueryEngine
    from kconnect.spark.slot_spec import TallyAddress

log = logging.getLogger(__name__)

VIEW: Final = "records"
_LOG_OFFSET: Final = "logOffset"  # the only member of a file source's offset in Spark


class RowSource:
    """Implements Query. Threads: the task's; batches run on one of py4j's or the cursor's, one at a time."""

    def __init__(self, control: TaskControl, ports: TaskPorts, engine: QueryEngine) -> None:
        """`control.spec` has its references resolved."""
        self._control = control
        self._ports = ports
        self._engine = engine
        self._settings = SourceQuerySettings.parse(control.spec.connector_config)
        self._name = control.spec.id.connector
        wanted = self._settings.guarantee
        self._is_exactly_once = wanted == EXACTLY_ONCE or (
            wanted == "any" and is_exactly_once(control.spec.worker_config)
        )
        self._starts = Starts()
        self._writer = ""  # the RowSender of the last batch
        self._tally: TallyAddress | None = None
        self._folder: Path | None = None
        self._position = RowPosition("")
        self._files = ReadFiles(self._name, "")
        self._last_log = -1
        self._failure: BaseException | None = None

    def begin(self) -> Any | None:
        control, settings = self._control, self._settings
        key = self._starts.begin()
        self._failure, self._writer = None, ""
        session = self._engine.session(lambda: control.is_stopping)
        if session is None:
            return None
        self._tally = self._engine.tally_address()
        self._check_run()
        self._position = self._find_position()
        guarantee = "exactly once" if self._is_exactly_once else "at least once"
        log.info("Batch %d is the next of query %s; %s", self._position.batch + 1, self._position.id, guarantee)
        if settings.cursor_column:
            send = partial(self._send_planned, key)
            batches = CursorBatches(session, settings, self._position, send)
            return BatchLoop(session, control.spec.id, settings.trigger_ms, batches).start()
        return self._streamed(session, key)

    def failure(self) -> BaseException | None:
        return self._failure

    def end(self) -> None:
        self._starts.end(self._control)

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _find_position(self) -> RowPosition:
        """Finds the committed position; under exactly once also after earlier senders were fenced off, and with new
        batch numbers.

        A topic that has later batches tells that somebody has set the offsets back.
        """
        position = RowPosition.of(self._ports.offsets.read(self._name, [partition_of(self._name)])[0])
        if not self._is_exactly_once:
            return position
        control = self._control
        said = last_batch(control.spec, self._settings.topic, lambda: control.is_stopping)
        if said is None or said[0] != position.id or said[1] <= position.highest:
            return position
        log.info("The offsets of %s were set back: batch %d is written already, and comes again", self._name, said[1])
        return position.after(said[1])

    # --- what Spark streams ---

    def _streamed(self, session: Any, key: str) -> Any:  # a StreamingQuery
        settings = self._settings
        session.conf.set("spark.sql.streaming.schemaInference", "true")
        reader = session.readStream.format(settings.format).options(**settings.options)
        if settings.schema:
            reader = reader.schema(settings.schema)
        rows = reader.table(settings.table) if settings.table else reader.load()
        if settings.query:
            rows.createOrReplaceTempView(VIEW)
            rows = session.sql(settings.query)
        folder = self._folder = Path(tempfile.mkdtemp(prefix="query-", dir=self._engine.app.folder))
        self._seed(folder, kept_conf(session))
        return (
            rows.writeStream.queryName(self._name)
            .option("checkpointLocation", folder.as_uri())
            .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
            .foreachBatch(partial(self._on_batch, key))
            .start()
        )

    def _seed(self, folder: Path, conf: Mapping[str, str]) -> None:
        """A checkpoint for the position; none for a query that has not begun, which Spark then numbers from 0."""
        at = self._position
        self._files, self._last_log = ReadFiles(self._name, at.id), -1
        if at.done is None and at.planned is None:
            return
        done, planned = at.done, at.planned
        if _is_of_files(done) or _is_of_files(planned):
            chunks = self._ports.offsets.read(self._name, ReadFiles.partitions(self._name, at))
            self._files = ReadFiles(self._name, at.id, [chunk for chunk in chunks if chunk is not None], done)
            next_files = None if planned is None else files_from(planned["list"])
            read = [file for file in self._files.files() if file not in set(next_files or ())]
            seed_files(folder, read, next_files)
            done, planned = {_LOG_OFFSET: 0}, None if planned is None else {_LOG_OFFSET: 1}
            self._last_log = 0
        seed(folder, batch=at.batch, done=done, planned=planned, now_ms=time.time_ns() // 1_000_000, conf=conf)

    def _on_batch(self, key: str, rows: Any, number: int) -> None:
        """Called by Spark for each batch. Errors end the query; they are kept for the task."""
        set_log_context(self._name, self._control.spec.id.task)
        try:
            folder = self._folder
            if folder is None:
                raise ConnectError("The query is being stopped")
            offset = offset_of((folder / "offsets" / str(number)).read_text())
            if isinstance(offset, dict) and offset.keys() == {_LOG_OFFSET}:
                found = new_files(folder, self._last_log, offset[_LOG_OFFSET])
                self._send_planned(key, rows, {"list": [[file.path, file.time_ms] for file in found]})
                self._last_log = offset[_LOG_OFFSET]
            else:
                self._send_planned(key, rows, offset)
        except BaseException as error:
            if self._starts.is_latest(key):
                self._failure = self._failure or error
            raise

    # --- one batch ---

    def _send_planned(self, key: str, rows: Any, planned: Any) -> int:
        """Commit the plan, send the rows, commit that it is done; gives their number. Errors: Spark's; ConnectError."""
        with self._starts.batch(key):
            if self._control.is_cancelled:
                raise FencedError("The task was abandoned: it sends nothing more")
            position = self._position
            self._check_run()
            if planned != position.planned:
                position = self._position = position.plan(planned)
                self._commit([position.to_commit(self._name)])
            count = self._send(key, rows, position)
            more = self._files.add(files_from(planned["list"])) if _is_of_files(planned) else []
            self._check_run()
            ended = position.ended(self._files.done() if _is_of_files(planned) else planned)
            self._commit([*more, ended.to_commit(self._name)])
            self._position = ended
            self._control.used_topics((self._settings.topic,))
            return count

    def _check_run(self) -> None:
        """Errors: ConnectError if another worker has this query by now: one that was frozen must not overwrite it."""
        if self._is_exactly_once:
            self._ports.may_run(self._control.spec.id, self._control.spec.run)

    def _send(self, key: str, rows: Any, position: RowPosition) -> int:
        settings, app = self._settings, self._engine.app
        for name in (*settings.key_columns, *filter(None, [settings.value_column])):
            if name not in rows.columns:
                key = "value.column" if name == settings.value_column else "key.columns"
                raise ConfigError.invalid(key, name, f"The column does not exist; there are {', '.join(rows.columns)}")
        check_record_types(rows.schema)
        order = SendOrder(
            key=key,
            spec=self._control.spec.to_json(),
            plugin_path=self._engine.settings.plugin_path,
            plugins=app.shipped_plugins,
            topic=settings.topic,
            key_columns=settings.key_columns,
            value_column=settings.value_column or None,
            is_exactly_once=self._is_exactly_once,
            query_id=position.id,
            batch=position.batch + 1,
            writer=self._writer,
            planned=text_of(position.planned),
            tally=self._tally,
        )
        if self._is_exactly_once:
            rows = rows.coalesce(1)  # one transaction: a replay cannot divide the rows in another way
        sent = sent_rows(rows, sender(order))
        self._writer = next((writer for _, writer in sent), "")
        return sum(count for count, _ in sent)

    def _commit(self, offsets: list[Any]) -> None:
        counters, health, began_s = self._control.counters, self._control.health, time.monotonic()
        health.commit_began(began_s)
        try:
            self._ports.offsets.commit(self._name, offsets)
        except ConnectError:
            counters.commit_failures += 1
            raise
        finally:
            health.commit_done()
        counters.commits += 1
        counters.commit_ms.note((time.monotonic() - began_s) * 1000)


def sent_rows(rows: Any, run: Any) -> list[tuple[int, str]]:
    """Runs a `sender` over all rows; gives what each Spark task says: how many it has sent, and which RowSender."""
    reported = mapped(rows, run, "rows bigint, writer string").collect()
    return [(int(row[0]), str(row[1])) for row in reported]


def _is_of_files(value: Any) -> bool:
    """Whether a position's `done` or `planned` is of a file source."""
    return isinstance(value, dict) and ("chunks" in value or value.keys() == {"list"})


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
            why = f"The column does not exist; there are {', '.join(rows.columns)}"
            raise ConfigError.invalid("cursor.column", settings.cursor_column, why)
        column, kind = f.col(quoted(settings.cursor_column)), rows.schema[settings.cursor_column].dataType
        left = rows.where(column.isNotNull() if self._done is None else column > f.lit(self._done).cast(kind))
        end = self._planned if self._planned is not None else self._end_of(left, column)
        if end is None or is_stopping():  # the next start may have begun, and has a view of the same name
            return None
        planned_s = time.monotonic()
        batch = left.where(column <= f.lit(end).cast(kind)).orderBy(column)
        if settings.query:
            batch.createOrReplaceTempView(VIEW)
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
