"""SqlSink: records as rows of a database; with upserts, or exactly once, each row exists once.

Connections are opened by SQLAlchemy from a URL, or by a DB-API driver that the settings name. Statements are made here
and go to the driver: measured with upserts of four columns into PostgreSQL 6.9 us of CPU a row, by SQLAlchemy's 9.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from kconnect.api import (
    ConfigError,
    ConnectError,
    DataError,
    RecordBatch,
    RetriableError,
    SinkRecord,
    SinkTask,
    TopicPartition,
)
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector, said
from kconnect.builtin.connectors.sql.sql_blocks import Block, blocks_of_batch, blocks_of_records
from kconnect.builtin.connectors.sql.sql_config import CONFIG, EXACTLY_ONCE
from kconnect.builtin.connectors.sql.sql_connection import refused_login
from kconnect.builtin.connectors.sql.sql_errors import (
    OF_POOLERS,
    OF_PYTHON,
    Cause,
    blame,
    code_of,
    hint_of,
    reported_of_row,
)
from kconnect.builtin.connectors.sql.sql_offsets import (
    MovedOffsetsError,
    OffsetTable,
    Span,
    WrittenOffsets,
    alter,
    found_offsets,
    place_of,
    range_of_batch,
    ranges_of,
    writer_of,
)
from kconnect.builtin.connectors.sql.sql_rows import Row, RowMaker
from kconnect.builtin.connectors.sql.sql_shapes import TableShapes
from kconnect.builtin.connectors.sql.sql_sink_database import refused_by_driver, sink_database
from kconnect.builtin.connectors.sql.sql_source_config import credential_problems, settings_of
from kconnect.builtin.connectors.sql.sql_url import is_url_of_engine, reported_ignored
from kconnect.builtin.connectors.sql.sql_writer import ChangedTableError, TableWriter
from kconnect.builtin.types.contracts import INFER, DiscardedRowError, Discards, contract_problems
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

_Placed = tuple[Row, SinkRecord]


class SqlSinkConnector(UniformSinkConnector):
    """Writes rows; each task has its own connection."""

    table = CONFIG

    def start(self, props: Mapping[str, str]) -> None:
        super().start(props)
        if reported := reported_ignored(sink_database(settings_of(CONFIG, props), props).ignored):
            log.warning("%s", reported)

    def task_class(self) -> type[SinkTask]:
        return SqlSinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Combinations of settings, the driver, and whether the database takes the login."""
        config = settings_of(CONFIG, props)
        found = list(_problems(config, props))
        if not found:
            setting = "connection.driver" if config["connection.driver"] else "connection.url"
            refusal = refused_by_driver(config, props) if config["connection.driver"] else refused_login(config)
            found += [(setting, refusal)] if refusal else []
        return found

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        """With exactly_once commit them to the table of offsets as well, in which the tasks look first.

        Errors: RetriableError, ConnectError.
        """
        parsed = settings_of(CONFIG, config)
        if parsed["delivery.guarantee"] == EXACTLY_ONCE:
            database = sink_database(parsed, config)
            alter(OffsetTable(database, parsed["offsets.table"], writer_of(config)), database, offsets)
        return True


# Settings of Confluent's sink that change what is written
_NOT_DONE = ("timestamp.fields.list", "string.output.value.column.name")


def _problems(config: Mapping[str, Any], props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Invalid combinations of settings: pairs of setting and message."""
    if config["insert.mode"] != "insert" and config["pk.mode"] == "none":
        yield "pk.mode", f"insert.mode={config['insert.mode']} needs a primary key: set pk.mode"
    if not config["connection.driver"] and not config["connection.url"]:
        yield "connection.url", "Set connection.url, or connection.driver and what its connect() takes"
        return
    if config["pk.mode"] == "kafka" and len(config["pk.fields"]) not in (0, 3):
        yield "pk.fields", "pk.mode=kafka takes three names (topic, partition, offset) or none"
    if config["delete.enabled"] and config["pk.mode"] != "record_key":
        yield "delete.enabled", "delete.enabled needs pk.mode=record_key: a tombstone has nothing else"
    yield from contract_problems(props)
    for name in _NOT_DONE:
        if name in props:
            yield "connection.url", f"{name} is not supported: leave it out"
    if config["date.timezone"].lower() != "utc" and config["db.timezone"] != "UTC":
        yield "db.timezone", "date.timezone would write other days than records have: set it to UTC, or leave it out"
    yield from credential_problems(props)
    if config["connection.driver"] and is_url_of_engine(config["connection.url"] or ""):
        yield "connection.url", "It names its driver itself: leave connection.driver out"
        return
    try:
        sink_database(config, props)
    except ImportError as err:
        yield "connection.driver", f"The module {config['connection.driver']} cannot be imported: {err}"
    except ConfigError as err:
        yield "dialect" if config["connection.driver"] else "connection.url", said(err)


class SqlSinkTask(SinkTask):
    """One put is one transaction: all of it is in the database when put returns, or nothing is.

    Records are delivered again after a crash between the database's commit and Connect's; with insert.mode=upsert they
    then overwrite their rows, so that each exists once. With delivery.guarantee=exactly_once the transaction has the
    offsets as well, from which reading goes on, so that each record is written once in any mode. A record that the
    database refuses goes to the error reporter if the connector has one, else the task fails with the record's topic,
    partition and offset.
    """

    supports_batches = True
    fewest_in_batch = 500  # each of them is a transaction, where those of all partitions are one as records

    _writer: TableWriter

    def __init__(self) -> None:
        self._failures = 0
        self._offsets: OffsetTable | None = None  # exactly once
        self._written = WrittenOffsets()
        self._looked_at: set[str] = set()  # tables that have transactions

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = settings_of(CONFIG, props)
        for _, message in _problems(config, props):
            raise ConfigError(message)
        database = sink_database(config, props)
        self._dialect = database.dialect
        self._of_database = (database.driver.Error, OSError, DataError, *OF_PYTHON)
        self._discards = Discards(self.context.plugin_metrics)
        self._writer = TableWriter(database, config, TableShapes(database, config, props, self._discards))
        is_replay = props.get("kconnect.replay") == "true"  # as kconnect.testing.SinkChain says
        if config["delivery.guarantee"] == EXACTLY_ONCE and not is_replay:
            self._offsets = OffsetTable(database, config["offsets.table"], writer_of(props))
            self.keeps_offsets = True
        self._rows = RowMaker(
            config["table.name.format"],
            config["pk.mode"],
            config["pk.fields"],
            config["fields.whitelist"],
            config["delete.enabled"],
            config["replace.null.with.default"],
        )

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """With exactly_once go on from where the table is; a database that is away is asked again by put."""
        if self._offsets is None:
            return
        try:
            self._look_up(partitions)
        except RetriableError as error:
            log.warning("%s", error)
            return
        self.context.request_commit()  # so that the group follows at once

    def put(self, records: list[SinkRecord]) -> None:
        """Write them in one transaction. Errors: RetriableError while max.retries lasts; ConnectError, DataError."""
        spans: tuple[Span, ...] = ()
        if self._offsets is not None:
            spans, sought = self._moved_by(ranges_of(records))
            records = [record for record in records if place_of(record) not in sought] if sought else records
        self._put(blocks_of_records(self._rows, records), lambda: records, spans)

    def put_batch(self, batch: RecordBatch) -> None:
        """Works as put."""
        spans: tuple[Span, ...] = ()
        if self._offsets is not None:
            spans, sought = self._moved_by(range_of_batch(batch))
            if sought:
                return  # all of it is read from elsewhere
        self._put(blocks_of_batch(self._rows, batch), batch.to_records, spans)  # type: ignore[arg-type]  # of a sink

    def _put(
        self, blocks: Sequence[Block] | None, records: Callable[[], list[SinkRecord]], spans: Sequence[Span]
    ) -> None:
        """`records`: the same as the blocks, which may not do."""
        try:
            if not self._has_written(blocks or (), spans):
                rows = list(self._made(records()))
                if rows or spans:
                    self._write_all(rows, spans)
        except MovedOffsetsError:
            self._go_on_from_table(spans)
        else:
            self._written.written(spans)
        self._failures = 0

    def pre_commit(self, current_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """All that was put, as put has committed it."""
        return {at: offset for at, offset in current_offsets.items() if at not in self._written.sought}

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self._written.forget(partitions)

    def stop(self) -> None:
        if hasattr(self, "_writer"):  # start may have failed
            self._writer.close()

    # --- offsets, exactly once ---

    def _moved_by(
        self, ranges: Mapping[TopicPartition, tuple[int, int]]
    ) -> tuple[tuple[Span, ...], set[TopicPartition]]:
        """What records of these offsets move, and the partitions that are read from elsewhere after this put."""
        self._written.sought.clear()  # the runtime went there behind the last put
        sought: set[TopicPartition] = set()
        if unknown := self._written.unknown(ranges):
            sought = self._look_up(unknown)
            self._written.sought |= sought
        return self._written.spans({at: span for at, span in ranges.items() if at not in sought}), sought

    def _look_up(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Have the partitions read from where the table is; those that it has. Errors: RetriableError, ConnectError."""
        places = self._written.learn(self._in_table(), partitions)
        self._go_to(places)
        return set(places)

    def _go_on_from_table(self, spans: Sequence[Span]) -> None:
        """After a refused transaction. Errors: RetriableError, ConnectError."""
        places = self._written.moved(spans, self._in_table())
        if places:
            message = ", ".join(f"{at} from offset {offset}" for at, offset in places.items())
            log.warning(
                "Another writer has committed since: nothing of this put was written, and %s is read on", message
            )
        self._go_to(places)

    def _go_to(self, places: Mapping[TopicPartition, int]) -> None:
        if places:
            self.context.offset(dict(places))

    def _in_table(self) -> dict[TopicPartition, int]:
        """What the table of offsets has; it is made if it is missing. Errors: RetriableError, ConnectError."""
        assert self._offsets is not None
        try:
            return found_offsets(self._offsets, self._writer.begin, lambda: self._writer.connection)
        except Exception as error:  # as in put
            self._writer.roll_back()
            if blame(self._dialect.name, error) in (Cause.AWAY, Cause.REFUSED):
                self._fail(error)
            self._fail(
                error,
                f"The table of offsets {self._offsets.name} cannot be read",
                "Make it, or let the user of the connection create tables, or name another in offsets.table.",
            )

    # --- rows ---

    def _made(self, records: Sequence[SinkRecord]) -> Iterable[tuple[Row, SinkRecord]]:
        infers = self._config[INFER]
        for record in records:
            try:
                if record.value_schema is None and record.value is not None and not infers:
                    raise DataError("Its value has no schema, and schema.infer is false")
                yield self._rows.row(record), record
            except DataError as error:
                self._give_up(record, error)

    def _give_up(self, record: SinkRecord, error: Exception, row: Row | None = None) -> None:
        """To the error reporter if there is one; else the task fails, with the record's position."""
        where = f"{record.original_topic}-{record.original_kafka_partition}, offset {record.original_kafka_offset}"
        if isinstance(error, DiscardedRowError):
            self._discards.row(error, where)
            return
        columns, values = (row.columns, row.values) if row is not None else ((), ())
        if row is not None and self._config["insert.mode"] == "update" and not row.is_delete:
            key = len(row.keys)  # whose values are the last of the statement
            columns, values = columns[key:] + columns[:key], values[key:] + values[:key]
        target = "" if row is None else f" to table {row.table}"
        what = reported_of_row(error, columns, values)
        hint = error.hint if isinstance(error, ConnectError) else hint_of(self._dialect.name, error)
        failure = DataError(f"The record at {where} cannot be written{target}: {what}", hint=hint)
        failure.__cause__ = error
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise failure
        reported = reporter.report(record, failure)
        if self._offsets is not None:
            reported.result()  # it would not come again once its offset is committed; the producer has a deadline

    # --- writing ---

    def _has_written(self, blocks: Sequence[Block], spans: Sequence[Span]) -> bool:
        """Whether there are blocks, and all of their rows are written. Errors: as of put; MovedOffsetsError."""
        if not blocks or any(block.is_seen and not self._config[INFER] for block in blocks):
            return False
        try:
            cursor = self._writer.begin()
            fitted = self._writer.fitted(cursor, blocks)
            if fitted is None:
                self._writer.cancel()
                return False
            self._look_at(cursor, {block.table for block in fitted})
            self._move_offsets(cursor, spans)
            for block in fitted:
                self._writer.write(cursor, block)
            self._writer.commit()
        except Exception as error:  # a driver's: any class of its own
            self._writer.roll_back()
            if isinstance(error, MovedOffsetsError) or not isinstance(error, self._of_database):
                raise
            if blame(self._dialect.name, error) is Cause.AWAY:
                self._fail(error)
            return False  # row by row the error is a record's, or does not come: two keys that the table has as one
        return True

    def _write_all(self, rows: Sequence[_Placed], spans: Sequence[Span]) -> None:
        """In one transaction. Errors: as of put; MovedOffsetsError, and nothing is written."""
        try:
            cursor = self._writer.begin([row for row, _ in rows])
            if self._dialect.commits_at_ddl:
                self._writer.shape(cursor, [row for row, _ in rows])
            self._look_at(cursor, {row.table for row, _ in rows})
            self._move_offsets(cursor, spans)
            self._writer.run(cursor, [row for row, _ in rows])
            self._writer.commit()
        except Exception as error:  # as above
            self._writer.roll_back()
            self._require_of_record(error)
            self._write_one_by_one(rows, spans)

    def _look_at(self, cursor: Any, tables: Collection[str]) -> None:
        """Exactly once needs tables that have transactions. Errors: ConnectError."""
        if self._offsets is not None and (new := {*tables} - self._looked_at):
            self._offsets.require_transactions(cursor, new)
            self._looked_at |= new

    def _write_one_by_one(self, rows: Sequence[_Placed], spans: Sequence[Span], *, at_once: bool = False) -> None:
        """The same transaction again, with a savepoint before each row, so that only refused rows are skipped.

        `at_once`: constraints that wait for the commit are looked at after each row.
        """
        refused: list[tuple[_Placed, Exception]] = []
        is_commit = False
        try:
            cursor = self._writer.begin([row for row, _ in rows])
            if at_once:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            wanted = self._with_tables(cursor, rows, refused) if self._dialect.commits_at_ddl else rows
            self._move_offsets(cursor, spans)
            for placed in wanted:
                cursor.execute("SAVEPOINT kconnect_row")
                try:
                    self._writer.run(cursor, [placed[0]])
                except Exception as error:  # as in put
                    self._refuse(placed, error, refused)
                    cursor.execute("ROLLBACK TO SAVEPOINT kconnect_row")
                    if not self._dialect.commits_at_ddl:  # else they are there, and making them again would commit
                        self._writer.forget_tables()
                cursor.execute("RELEASE SAVEPOINT kconnect_row")
            self._writer.require_same_tables(cursor, [(row, error) for (row, _), error in refused])
            if self._offsets is not None:
                self._report(refused)
            is_commit = True
            self._writer.commit()
        except Exception as error:  # as in put
            self._writer.roll_back()
            if isinstance(error, ConnectError):  # of the record that failed the task, of offsets, of a dead letter
                raise
            if not (is_commit and not at_once and blame(self._dialect.name, error) is Cause.RECORD):
                self._fail(error)
            self._write_one_by_one(rows, spans, at_once=True)
            return
        if self._offsets is None:
            self._report(refused)

    def _report(self, refused: Sequence[tuple[_Placed, Exception]]) -> None:
        for (row, record), cause in refused:
            self._give_up(record, cause, row)

    def _move_offsets(self, cursor: Any, spans: Sequence[Span]) -> None:
        """Errors: MovedOffsetsError."""
        if self._offsets is not None:
            self._offsets.move(cursor, spans)

    def _refuse(self, placed: _Placed, error: Exception, refused: list[tuple[_Placed, Exception]]) -> None:
        """Keep a row that the database refuses. Errors: the error if it is not the record's; those of `_give_up`."""
        if not blame(self._dialect.name, error).is_of_record:
            raise error
        if self.context.errant_record_reporter() is None and not isinstance(error, DiscardedRowError):
            self._give_up(placed[1], error, placed[0])
        refused.append((placed, error))

    def _with_tables(
        self, cursor: Any, rows: Sequence[_Placed], refused: list[tuple[_Placed, Exception]]
    ) -> list[_Placed]:
        """The rows whose tables have a place for them now; others are refused. Errors: what is not the record's."""
        kept = []
        for placed in rows:
            try:
                self._writer.shape(cursor, [placed[0]])
            except Exception as error:  # as in put
                self._refuse(placed, error, refused)
            else:
                kept.append(placed)
        return kept

    # --- failures ---

    def _require_of_record(self, error: Exception) -> None:
        """Errors: those of `_fail` unless the error may be a record's; the error itself if it is a mistake of ours."""
        if isinstance(error, MovedOffsetsError) or not isinstance(error, self._of_database):
            raise error
        if not blame(self._dialect.name, error).is_of_record:
            self._fail(error)

    def _fail(
        self, error: Exception, said: str = "The database cannot be written to", hint: str | None = None
    ) -> NoReturn:
        """For all that is not a record's: nothing was written, and no offset moves.

        Errors: RetriableError while max.retries lasts; ConnectError, at once where the next time is the same.
        """
        found = error
        if isinstance(error, ChangedTableError):
            found, said = error.found, "A table has changed: it takes no rows of the columns that it had"
        cause = blame(self._dialect.name, found)
        hint = hint or hint_of(self._dialect.name, found)
        if code_of(self._dialect.name, found) in OF_POOLERS:
            self._writer.prepares = False  # a pooler that does not look like one
        text = f"{type(found).__name__}: {found}"
        if cause is Cause.REFUSED:
            raise ConnectError(f"The database refuses the connector: {text}", hint=hint) from error
        self._failures += 1
        most = self._config["max.retries"]
        if self._failures > most:
            times = f"The database failed {pluralize(self._failures, 'time')} in a row (max.retries={most})"
            raise ConnectError(f"{times}: {text}", hint=hint) from error
        self.context.timeout(self._config["retry.backoff.ms"])
        said = "The database is away or busy" if cause is Cause.AWAY else said
        raise RetriableError(f"{said}: {text}", hint=hint) from error
