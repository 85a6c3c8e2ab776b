"""SqlSource: rows of a database's tables, or of a query, as records; with the settings and offsets of Confluent's."""

from __future__ import annotations

import logging
import time
import zoneinfo
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api import (
    Backoff,
    Config,
    ConfigDef,
    ConnectError,
    ConnectorUtils,
    DataError,
    ExactlyOnceSupport,
    RecordBatch,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.checked_settings import with_problems
from kconnect.builtin.connectors.sql.sql_chunks import Chunk, Target
from kconnect.builtin.connectors.sql.sql_columns import Misfit, RowShape, TypeSettings
from kconnect.builtin.connectors.sql.sql_connection import (
    cause_of,
    engine_of,
    error_text,
    may_pass,
)
from kconnect.builtin.connectors.sql.sql_cursor import Place, offset_columns
from kconnect.builtin.connectors.sql.sql_dialect import kind_of
from kconnect.builtin.connectors.sql.sql_reader import (
    ReadSettings,
    RoundBegin,
    RoundEnd,
    RoundLeftError,
    RoundReader,
    TableChangedError,
)
from kconnect.builtin.connectors.sql.sql_source_checks import database_problems, problems
from kconnect.builtin.connectors.sql.sql_source_config import CONFIG, query_of, settings_of
from kconnect.builtin.connectors.sql.sql_tables import TABLES, TableId, TableMonitor, joined, mapped, parted
from kconnect.builtin.connectors.sql.sql_url import address_of, kind_of_url, reported_ignored
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

QUERY_PARTITION: Final = {"query": "query"}
# A poll that waits for the database returns after this, so that a stop is seen
_POLL_S: Final = 0.1
_IDLE_S: Final = 1.0
TOLERANCE: Final = "errors.tolerance"
_FIRST_BACKOFF_S: Final = 0.1
_STOP_S: Final = 5.0
# A table that cannot be read is tried again after this
_ASIDE_S: Final = 30.0


class SqlSourceConnector(SourceConnector):
    """Deals the tables to the tasks, and looks for tables that are new or gone.

    Source: io.confluent.connect.jdbc.JdbcSourceConnector 10.x: settings, records, offsets.
    Differs: docs/differences.md.
    """

    _props: Mapping[str, str]
    _monitor: TableMonitor | None = None

    def start(self, props: Mapping[str, str]) -> None:
        config = settings_of(CONFIG, props)
        for name, message in problems(config, props):
            raise ConnectError(f"{name}: {message}")
        if reported := reported_ignored(address_of(config).ignored):
            log.warning("%s", reported)
        self._props = props
        if not query_of(config):
            self._monitor = TableMonitor(props.get("name", ""), engine_of(config), config, self.context)
            self._monitor.start()

    def task_class(self) -> type[SourceTask]:
        return SqlSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Errors: RetriableError while the database is away; ConnectError if it refuses us."""
        if self._monitor is None:
            return [{**self._props, TABLES: ""}]
        tables = self._monitor.tables()
        if not tables:
            log.warning("No table fits the settings: nothing is read until one does")
            return []
        groups = ConnectorUtils.group_partitions(tables, min(max_tasks, len(tables)))
        return [{**self._props, TABLES: joined(group)} for group in groups]

    def stop(self) -> None:
        monitor, self._monitor = self._monitor, None
        if monitor is not None:
            monitor.stop()

    def config(self) -> ConfigDef:
        return CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also checks combinations of settings, and by the database the login and the query."""

        def look() -> Iterable[tuple[str, str]]:
            config = settings_of(CONFIG, configs)
            is_renamed = bool(configs.get("transforms", "").strip())
            return list(problems(config, configs)) or database_problems(config, is_renamed)

        return with_problems(super().validate(configs), look)

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """With an id each row has an offset of its own; bulk has none, and rows of one time share theirs."""
        is_exact = "incrementing" in config.get("mode", "")
        return ExactlyOnceSupport.SUPPORTED if is_exact else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Accept what a task can begin at."""
        for partition, offset in offsets:
            if not (set(partition) <= {"protocol", "table"} and "table" in partition) and partition != QUERY_PARTITION:
                raise DataError(
                    f"A partition of SqlSource is {{'protocol': '1', 'table': name}} or {QUERY_PARTITION}, "
                    f"not {dict(partition)}"
                )
            Place.of_offset(offset)
        return True

    def offsets_at(
        self, config: Mapping[str, str], offsets: list[tuple[Mapping[str, Any], Mapping[str, Any]]], time_ms: int
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] | None:
        """The microsecond before a time, for modes with a timestamp."""
        mode = config.get("mode", "")
        if "timestamp" not in mode:
            raise DataError(f"mode={mode} keeps no times, only ids")
        found: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = []
        for partition, offset in offsets:
            last = Place.of_offset(offset).incrementing
            found.append((partition, Place(last, time_ms * 1000 - 1).to_offset()))
        return found


@dataclass(frozen=True, slots=True)
class _Ready:
    """What a poll gives, and the rows in between that are given up with it."""

    batch: RecordBatch
    errant: Sequence[tuple[SourceRecord, DataError]] = ()


@dataclass(slots=True)
class _Progress:
    """A target, and how far it was read."""

    target: Target
    partition: dict[str, str]
    topic: str
    place: Place = field(default_factory=Place)
    due_s: float = 0.0
    shape: RowShape | None = None
    """Is the shape of its rows, while it has none."""
    trouble: str = ""
    """Why it is set aside: other tables go on."""


class SqlSourceTask(SourceTask):
    """Reads its tables in turn, each to its end, then again when poll.interval.ms have passed.

    A round of a table is one statement, whose rows are fetched as they are produced: on a thread of the reader, as a
    driver's call cannot be asked to end by the thread that makes it. After an error the round begins again, behind the
    last row that was given; in mode bulk at the first. A table that cannot be read is set aside while others can.
    Source: JdbcSourceTask. Differs: rows are columns from the database to the converter; one table's error is not the
    end of all.
    """

    _reader: RoundReader | None = None
    _keeps_unbounded = False

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = settings_of(CONFIG, props)
        self._masked = config["query.masked"] is not None and bool(config["query.masked"].value)
        self._interval_s: float = config["poll.interval.ms"] / 1000
        self._ready: deque[_Ready] = deque()
        self._held: Chunk | None = None
        self._now: _Progress | None = None
        self._failures, self._failing_since = 0, 0.0
        engine = engine_of(config)
        self._kind = kind_of(engine.dialect)
        query = query_of(config)
        tables = parted(props.get(TABLES, ""), kind_of_url(config["connection.url"]))
        self._progress = [self._begun(None, query)] if query else [self._begun(table, "") for table in tables]
        settings = _read_settings(config, self._keeps_unbounded, props.get(TOLERANCE, "").strip().lower() == "all")
        self._reader = RoundReader(props.get("name", ""), engine, settings)
        self._reader.start()

    def poll(self) -> RecordBatch | None:
        """The next batch of the round; None if none is there in a tenth of a second, or no table is due."""
        if self._ready:
            return self._next_ready()
        if self._now is None and not self._next_round():
            return None
        assert self._reader is not None
        item = self._reader.take(_POLL_S)
        if isinstance(item, RoundBegin):
            assert self._now is not None
            self._now.place = item.place
            self._failures = 0
        elif isinstance(item, Chunk):
            self._give(item)
        elif isinstance(item, RoundEnd):
            if item.shape is not None and self._now is not None:
                self._now.shape = item.shape
            self._end_round(item.error)
        return self._next_ready() if self._ready else None

    def _next_ready(self) -> RecordBatch | None:
        """The next batch, after the rows among its own that cannot be read were given up."""
        ready = self._ready.popleft()
        for record, error in ready.errant:
            self.context.report_errant(record, error)
        return ready.batch if len(ready.batch) else None

    def empty_batch(self) -> RecordBatch | None:
        """Gives a batch of the first table, or the query, that was read and has no row."""
        found = next((progress for progress in self._progress if progress.shape is not None), None)
        if found is None or found.shape is None:
            return None
        shape = found.shape
        return RecordBatch(found.topic, value=shape.struct(shape.raw([])), value_schema=shape.schema, length=0)

    def stop(self) -> None:
        if self._reader is not None:
            self._reader.stop(_STOP_S)

    # --- rounds ---

    def _next_round(self) -> bool:
        """Begin the round of the table that waits longest; False after waiting for one to be due."""
        if not self._progress:
            self.context.wait(_IDLE_S)
            return False
        first = min(self._progress, key=lambda progress: progress.due_s)
        wait_s = first.due_s - time.monotonic()
        if wait_s > 0:
            self.context.wait(min(wait_s, _IDLE_S))
            return False
        self._now = first
        assert self._reader is not None
        self._reader.begin(first.target, first.place)
        return True

    def _end_round(self, error: Exception | None) -> None:
        progress, self._now = self._now, None
        held, self._held = self._held, None
        assert progress is not None
        if isinstance(error, RoundLeftError):  # after a pause: it goes on behind the last row
            log.info("%s; it is read on now", error)
            return
        if error is not None:
            failure = self._failed(error, progress.target)
            if not self._can_wait(error, progress):
                raise failure
            self._set_aside(progress, failure)
            return
        if progress.trouble:
            log.info("%s is read again", progress.target.name)
            progress.trouble = ""
        if held is not None:
            self._emit(progress, held, is_last=True)
        progress.due_s = time.monotonic() + self._interval_s

    def _can_wait(self, error: Exception, progress: _Progress) -> bool:
        """Whether the error is of this table alone, and others are read: they go on."""
        if isinstance(error, TableChangedError) or may_pass(error, self._kind):
            return False
        return any(other is not progress and not other.trouble for other in self._progress)

    def _set_aside(self, progress: _Progress, failure: ConnectError) -> None:
        """Try the table again later, and go on with the others."""
        reported_now = f"{failure}. {failure.hint}" if failure.hint else str(failure)
        level = logging.INFO if reported_now == progress.trouble else logging.ERROR
        log.log(level, "Nothing more is read of %s until this is repaired: %s", progress.target.name, reported_now)
        progress.trouble = reported_now
        progress.due_s = time.monotonic() + max(self._interval_s, _ASIDE_S)

    def _failed(self, error: Exception, target: Target) -> ConnectError:
        """What to raise: RetriableError while the database may come back."""
        if isinstance(error, TableChangedError):
            return RetriableError(str(error), retry_after_s=_FIRST_BACKOFF_S)
        if isinstance(error, ConnectError):
            return error
        text = type(cause_of(error)).__name__ if self._masked else error_text(error)
        if not may_pass(error, self._kind):
            is_value = type(cause_of(error)).__name__ == "DataError"  # of any driver: infinity, years beyond 9999
            hint = "Convert such values in a `query`, or correct the rows." if is_value else None
            found = ConnectError(f"{target.name} cannot be read: {text}", hint=hint)
            found.__cause__ = None if self._masked else cause_of(error)
            return found
        if self._failures == 0:
            self._failing_since = time.monotonic()
        self._failures += 1
        away_s = time.monotonic() - self._failing_since
        limit_ms = self._config["retry.timeout.ms"]
        most = _attempts(self._config)
        if 0 <= limit_ms <= away_s * 1000 or (most is not None and self._failures >= most):
            setting = (
                f"retry.timeout.ms={limit_ms}" if most is None or self._failures < most else pluralize(most, "attempt")
            )
            return ConnectError(f"The database has been away for {away_s:.1f} s ({setting}): {text}")
        backoff = Backoff(first_s=_FIRST_BACKOFF_S, most_s=self._config["connection.backoff.ms"] / 1000)
        wait_s = backoff.pause_s(self._failures - 1)
        return RetriableError(f"The database is away or busy: {text}", retry_after_s=wait_s)

    # --- rows ---

    def _give(self, chunk: Chunk) -> None:
        """Make batches of a chunk.

        In mode timestamp the rows of its last time are held back until it is known whether more of them follow, so
        that the offset of a batch tells that its last time is complete, unless one time fills a batch alone.
        """
        progress = self._now
        assert progress is not None
        if progress.target.mode != "timestamp" or chunk.times is None:
            self._emit(progress, chunk, is_last=True)
            return
        import pyarrow.compute as pc

        held = self._held
        if held is not None and held.times is not None:
            self._emit(progress, held, is_last=held.times[-1] != chunk.times[0])
        first_of_last = pc.index(chunk.times, chunk.times[-1]).as_py()
        if first_of_last:
            self._emit(progress, chunk.slice(0, first_of_last), is_last=True)
        self._held = chunk.slice(first_of_last, chunk.length - first_of_last)

    def _emit(self, progress: _Progress, chunk: Chunk, is_last: bool) -> None:
        mode = progress.target.mode
        offsets = None
        if mode != "bulk":
            offsets = offset_columns(mode, chunk.times, chunk.ids, progress.place, is_last)
        batch = RecordBatch(
            progress.topic,
            value=chunk.shape.struct(chunk.raw),
            value_schema=chunk.shape.schema,
            source_partition=progress.partition if offsets is not None else None,
            source_offsets=offsets,
            length=chunk.length,
        )
        if offsets is not None:
            progress.place = Place.of_offset(batch.last_source_offset())
        if chunk.misfits:
            self._ready.append(_without_misfits(batch, progress, chunk.misfits))
        else:
            self._ready.append(_Ready(batch))

    # --- start ---

    def _begun(self, table: TableId | None, query: str) -> _Progress:
        """A target at its committed offset. Errors: ConfigError, DataError."""
        config = self._config
        incrementing, timestamps = config["incrementing.column.name"], tuple(config["timestamp.column.name"])
        if table is not None and config["incrementing.column.mapping"]:
            incrementing = mapped(config["incrementing.column.mapping"], table)
        if table is not None and config["timestamp.columns.mapping"]:
            listed = mapped(config["timestamp.columns.mapping"], table).strip("[]").split("|")
            timestamps = tuple(name.strip() for name in listed)
        target = Target(
            table=table,
            query=query,
            mode=config["mode"],
            incrementing=incrementing,
            timestamps=timestamps,
            requires_values=config["validate.non.null"] and table is not None,
            initial_ms=config["timestamp.initial"],
        )
        prefix = config["topic.prefix"].strip()
        partitions = [dict(QUERY_PARTITION)] if table is None else table.partitions()
        found: Sequence[Mapping[str, Any] | None] = []
        if target.mode != "bulk":
            found = self.context.offset_storage_reader().offsets(partitions)
        place = next((Place.of_offset(offset) for offset in found if offset is not None), Place())
        return _Progress(target, partitions[0], prefix + (table.name if table is not None else ""), place)


def _without_misfits(batch: RecordBatch, progress: _Progress, misfits: Sequence[Misfit]) -> _Ready:
    """The rows that can be read, and the others as records, each with the offset that leads behind it."""
    import pyarrow as pa

    errant = []
    for one in misfits:
        offsets = batch.source_offsets
        offset = None if offsets is None else {name: column[one.row].as_py() for name, column in offsets.items()}
        record = SourceRecord(batch.source_partition, offset, batch.topic, one.known)
        message = f"A row of {progress.target.name} cannot be read: {one.error}"
        errant.append((record, DataError(message, hint=one.error.hint)))
    lost = {one.row for one in misfits}
    return _Ready(batch.filter(pa.array([row not in lost for row in range(len(batch))], pa.bool_())), errant)


def _attempts(config: Mapping[str, Any]) -> int | None:
    given = [config["connection.attempts"], config["query.retry.attempts"]]
    return min((most for most in given if most is not None and most > 0), default=None)


def _read_settings(config: Mapping[str, Any], keeps_unbounded: bool, gives_up_rows: bool) -> ReadSettings:
    zone = config["db.timezone"]
    numerics = (config["numeric.mapping"] or "").lower() or (
        "precision_only" if config["numeric.precision.mapping"] else "none"
    )
    return ReadSettings(
        types=TypeSettings(
            numerics,
            config["timestamp.granularity"].lower(),
            zone,
            keeps_unbounded,
            config["bigint.unsigned.handling.mode"],
        ),
        zone=zoneinfo.ZoneInfo(zone),
        batch_rows=config["batch.max.rows"],
        gives_up_rows=gives_up_rows,
        delay_ms=config["timestamp.delay.interval.ms"],
        suffix=config["query.suffix"].strip(),
        quotes=config["quote.sql.identifiers"].lower() == "always",
    )
