"""TopicSink: a query that reads topics and writes batches of them into a table of any format of Spark.

What is done and what is planned is in the consumer group's offsets (positions.py), committed before and after each
write. A query without state is a loop of batch jobs (topic_jobs.py); one with state is Spark's streaming, whose
checkpoint has the state, and the position with it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kconnect.api import RecordBatch, Schema, SinkRecord, Type
from kconnect.api.columns import arrow_type
from kconnect.builtin.types.column_type import schema_of
from kconnect.builtin.types.contracts import Contracts
from kconnect.builtin.types.declared import declared_type
from kconnect.builtin.types.fitting import as_mapping
from kconnect.builtin.types.meaning import meant_schema
from kconnect.builtin.types.seen import joined_schemas
from kconnect.errors import ConfigError, ConnectError
from kconnect.logs.log_context import set_log_context
from kconnect.model import TopicPartition
from kconnect.runtime.config.client_config import consumer_config, producer_config
from kconnect.runtime.kafka import FencedOffsets
from kconnect.runtime.pipeline.build_transactions import warn
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts, Ticket
from kconnect.spark.arrow_types import struct_type
from kconnect.spark.query.batch_loop import BatchLoop
from kconnect.spark.query.batch_writer import BatchWriter
from kconnect.spark.query.checkpoint import Checkpoint, offset_of
from kconnect.spark.query.failures import RestartQueryError, root_cause
from kconnect.spark.query.formats import guarantee_of
from kconnect.spark.query.positions import TopicPosition
from kconnect.spark.query.sink_settings import MERGE, SinkQuerySettings
from kconnect.spark.query.starts import Starts
from kconnect.spark.query.table_columns import table_columns, with_exact_numbers
from kconnect.spark.query.topic_batches import TopicBatches
from kconnect.spark.query.topic_ends import TopicEnds
from kconnect.spark.query.topic_jobs import TopicJobs, keeps_state, needs_all, records
from kconnect.spark.query.topic_order import TopicOrder
from kconnect.spark.query.topic_reader import TopicPath
from kconnect.spark.query.topic_rows import ABOUT, VALUE, SchemaGrownError, fields_of, possible_fields
from kconnect.spark.query.topic_source import from_json, to_json, topic_source

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.spark.query.engine import QueryEngine
    from kconnect.spark.query.topic_reader import TopicPath

log = logging.getLogger(__name__)

VIEW: Final = "records"
_TIMEOUT_S: Final = 30.0
# How often a topic without records is looked at, while their fields are not known
_FIRST_RECORDS_S: Final = 1.0
# What Spark says of a query until then, and how long others that start wait for it at most
_BEFORE_LOOK: Final = ("Initializing", "Getting offsets")
_FIRST_LOOK_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.05
# How often to see whether offsets must be committed again
_RENEW_LOOK_S: Final = 600.0


class TopicSink:
    """Implements Query. Threads: the task's; batches run on the loop's or one of py4j's, one at a time."""

    def __init__(self, control: TaskControl, ports: TaskPorts, engine: QueryEngine) -> None:
        """`control.spec` has its references resolved."""
        self._control = control
        self._ports = ports
        self._engine = engine
        self._settings = SinkQuerySettings.parse(control.spec.connector_config)
        self._found: pa.Schema | None = None  # fields that records turned out to have
        self._fixed: tuple[str, ...] | None = None  # the columns of a table that takes no others
        self._ends: TopicEnds | None = None
        self._offsets: FencedOffsets | None = None
        self._session: Any = None
        self._failure: BaseException | None = None
        self._starts = Starts()
        self._renewal: Ticket | None = None

    def begin(self) -> Any | None:
        control, settings = self._control, self._settings
        key, self._failure = self._starts.begin(), None
        session = self._session = self._engine.session(lambda: control.is_stopping)
        if session is None:
            return None
        self._ports.may_run(control.spec.id, control.spec.run)  # claiming the offsets would fence off who may
        ends = self._ends = TopicEnds(control.spec)
        position = self._find_position(ends)
        if position is None:
            return None
        about = self._columns_about()
        schema = self._find_schema(position, about)
        if schema is None:
            return None
        guarantee = guarantee_of(settings.format, settings.mode)
        log.info("Batch %d is the next of query %s; %s", position.batch + 1, position.id, guarantee)
        assert self._offsets is not None
        batches = TopicBatches(control, self._starts, key, position, self._offsets, ends)
        running = self._run(session, self._order(schema, about, position), batches, ends, key)
        if running is not None:
            self._renewal = self._ports.housekeeping.every(
                _RENEW_LOOK_S, batches.renew, f"offsets of {control.spec.id}"
            )
        return running

    def failure(self) -> BaseException | None:
        return self._failure

    def end(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        self._starts.end(self._control)

    def close(self) -> None:
        for part in (self._ends, self._offsets):
            if part is not None:
                part.close()
        self._ends = self._offsets = self._session = None

    # --- where to begin, and with which fields ---

    def _find_position(self, ends: TopicEnds) -> TopicPosition | None:
        """What the group says, after older queries were fenced off; None if the task is stopping meanwhile."""
        spec, control = self._control.spec, self._control
        name = spec.id.connector
        ids = {"client_id": f"connector-consumer-{spec.id}", "group_id": f"connect-{name}"}
        consumer, _ = consumer_config(spec.worker_config, spec.connector_config, **ids)
        producer, warnings = producer_config(
            spec.worker_config, spec.connector_config, client_id=f"connector-producer-{spec.id}"
        )
        warn(warnings)
        fixed = {"enable.idempotence": "true", "transactional.id": f"{consumer['group.id']}-query"}
        offsets = self._offsets = FencedOffsets({**producer, **fixed}, consumer, str(spec.id))
        if not offsets.claim(_TIMEOUT_S, lambda: control.is_stopping):
            return None
        first = ends.first()
        position = TopicPosition.of(offsets.read(first.keys(), _TIMEOUT_S), {at.topic for at in first})
        if position.is_altered:
            log.info("Offsets of consumer group %s were altered: the query begins there", consumer["group.id"])
            self._engine.tallies.forget_reported(spec.id)
        return position.from_first(first)

    def _find_schema(self, position: TopicPosition, about: tuple[str, ...]) -> Any | None:
        """Spark's schema of the records. None if the task is stopping before there are any."""
        if self._settings.schema:
            declared = declared_fields(self._settings.schema)
            return spark_schema(with_exact_numbers(self._session, self._settings, declared), about)
        if self._found is not None:  # later starts: what is written has these columns, whatever the next records have
            if not self._settings.widens:  # a table may have columns that an earlier start did not ask it for
                self._use(self._found)
            return spark_schema(self._found, about)
        path = TopicPath(self._control.spec, self._ports.plugins, is_sample=True)
        try:
            while True:
                assert self._ends is not None
                found = found_fields(path, position.done, self._ends.look(), self._names)
                if found is not None:
                    break
                if self._control.wait(_FIRST_RECORDS_S) or self._control.should_pause:
                    return None
        finally:
            path.close()
        return spark_schema(self._use(found), about)

    def _use(self, found: pa.Schema) -> pa.Schema:
        """Keeps the fields with the types that the table has for them."""
        contracts = Contracts.parse(self._control.spec.connector_config)
        columns = table_columns(self._session, self._settings, found, contracts)
        self._found, self._fixed = columns.schema, columns.fixed
        return columns.schema

    def _names(self, column: str) -> bool:
        """Whether the query, its watermark, the merge or an option of the table names this column."""
        settings = self._settings
        texts = " ".join((settings.query, settings.watermark, *settings.merge_keys, *settings.options.values()))
        return re.search(rf"(?<!\w){re.escape(column)}(?!\w)", texts, re.IGNORECASE) is not None

    def _columns_about(self) -> tuple[str, ...]:
        """The columns about records that the query or the merge asks for."""
        settings = self._settings
        wanted = {
            name for name in ABOUT if re.search(rf"(?<!\w){name}(?!\w)", f"{settings.query} {settings.watermark}")
        }
        if settings.mode == MERGE and not settings.query:
            wanted |= {"_timestamp", "_offset", "_deleted", *(key for key in settings.merge_keys if key in ABOUT)}
        return tuple(name for name in ABOUT if name in wanted)

    def _order(self, schema: Any, about: tuple[str, ...], position: TopicPosition) -> TopicOrder:
        settings, app = self._settings, self._engine.app
        return TopicOrder(
            key=uuid.uuid4().hex,
            spec=self._control.spec.to_json(),
            plugin_path=self._engine.settings.plugin_path,
            plugins=app.shipped_plugins,
            schema=schema.jsonValue(),
            about=about,
            is_inferred=not settings.schema,
            fixed=self._fixed,
            keeps_tombstones=settings.mode == MERGE,
            merge_keys=settings.merge_keys if settings.mode == MERGE else (),
            max_records=settings.max_records,
            begin=to_json({**position.done, **position.planned}),
            first=self._first_begin(position),
            tally=self._engine.tally_address(),
        )

    # --- the query ---

    def _run(self, session: Any, order: TopicOrder, batches: TopicBatches, ends: TopicEnds, key: str) -> Any | None:
        """The query, a loop or a stream by its plan; None if the task is stopping. Errors: ConfigError, Spark's."""
        settings = self._settings
        plan = _plan_of(self._result(session, records(session, order, ())))
        is_stateful = keeps_state(plan)
        if is_stateful or settings.checkpoint:
            return self._streamed(session, order, batches, key, is_stateful=is_stateful)
        if (what := needs_all(plan)) is not None:
            why = f"{what} would apply to each batch alone, as records have no end. Leave it to who reads the table"
            raise ConfigError.invalid("spark.query", settings.query, why)
        writer = BatchWriter(settings, batches.position.id)
        jobs = TopicJobs(session, order, ends, batches, writer, partial(self._result, session), partial(self._end, key))
        return BatchLoop(session, self._control.spec.id, settings.trigger_ms, jobs).start()

    def _streamed(
        self, session: Any, order: TopicOrder, batches: TopicBatches, key: str, *, is_stateful: bool
    ) -> Any | None:  # a StreamingQuery
        settings, control = self._settings, self._control
        where = self._own_checkpoint(batches.position, is_stateful=is_stateful)
        checkpoint = Checkpoint(session, where)
        # A table knows a batch by its number: numbers go with what counts them, once Spark has made that
        writer = BatchWriter(settings, "")
        with self._engine.one_start(lambda: control.is_stopping) as is_mine:
            if not is_mine:
                return None
            name = f"kconnect-{control.spec.id.connector}"
            session.dataSource.register(topic_source(name, order))
            running = (
                self._result(session, session.readStream.format(name).load())
                .writeStream.queryName(control.spec.id.connector)
                .outputMode(settings.output_mode)
                .option("checkpointLocation", where)
                .trigger(processingTime=f"{settings.trigger_ms} milliseconds")
                .foreachBatch(partial(self._on_batch, key, batches, writer, checkpoint))
                .start()
            )
            self._await_first_look(running)
        return running

    def _result(self, session: Any, rows: Any) -> Any:  # DataFrames
        settings = self._settings
        if settings.watermark:
            column, _, delay = settings.watermark.partition(" ")
            rows = rows.withWatermark(column, delay.strip())
        if not settings.query:
            return rows
        rows.createOrReplaceTempView(VIEW)
        return session.sql(settings.query)

    def _await_first_look(self, running: Any) -> None:
        """Until its Python process has said for the first time how far the topics go."""
        deadline_s = time.monotonic() + _FIRST_LOOK_S
        while running.isActive and str(running.status["message"]).startswith(_BEFORE_LOOK):
            if self._control.wait(_LOOK_AGAIN_S) or time.monotonic() > deadline_s:
                return

    def _first_begin(self, position: TopicPosition) -> Any | None:
        """Where the first batch of the query's own checkpoint begins; None if it has none."""
        if not self._settings.checkpoint:
            return None
        begun_at = Checkpoint(self._session, _uri(self._settings.checkpoint)).begun_at()
        return to_json(position.done) if begun_at is None else begun_at

    def _own_checkpoint(self, position: TopicPosition, *, is_stateful: bool) -> str:
        """The folder that the config names, for state that cannot be made from topics. Errors: ConfigError."""
        folder = self._settings.checkpoint
        if not folder:
            why = "spark.query has aggregations or joins of records, whose state needs a folder that lasts"
            raise ConfigError.invalid("spark.checkpoint", "", why)
        where = _uri(folder)
        if position.is_altered and Checkpoint(self._session, where).exists():
            raise ConfigError(
                f"The offsets of {self._control.spec.id.connector} were altered, but its query keeps its position with "
                f"its state, in {folder}",
                hint="Remove that folder, or name another one in spark.checkpoint: it then begins at the offsets.",
            )
        spec = self._control.spec
        Checkpoint(self._session, where).claim(
            spec.id.connector, spec.worker_config.get("group.id", ""), to_json(position.done)
        )
        if is_stateful:
            log.info("The position of this query is in its checkpoint, %s: altered offsets need another folder", folder)
        return where

    # --- one batch ---

    def _on_batch(
        self, key: str, batches: TopicBatches, writer: BatchWriter, checkpoint: Checkpoint, rows: Any, number: int
    ) -> None:
        """Called by Spark for each batch. Errors end the query; they are kept for the task."""
        set_log_context(self._control.spec.id.connector, self._control.spec.id.task)
        try:
            if not writer.query_id:
                writer.query_id = checkpoint.id()
            end = from_json(offset_of(checkpoint.text("offsets", str(number))))
            batches.write(writer, rows, number, end)
        except BaseException as error:
            self._end(key, error)
            raise

    def _end(self, key: str, error: BaseException) -> None:
        """Keep what ends the query of this start."""
        if self._starts.is_latest(key):
            self._failure = self._failure or self._reported(error)

    def _reported(self, error: BaseException) -> BaseException:
        """The error for the task; one that new fields explain has the query start again with them."""
        if isinstance(error, ConnectError):
            return error
        grown = SchemaGrownError.fields_in(root_cause(error).trace)
        if grown is None:
            return error
        self._found = grown if self._found is None else joined_schemas([self._found, grown])
        return RestartQueryError(f"Records have new fields, which become columns: {', '.join(grown.names)}")


def _uri(folder: str) -> str:
    return folder if "://" in folder or folder.startswith("file:") else Path(folder).absolute().as_uri()


def _plan_of(rows: Any) -> str:  # a DataFrame
    return str(rows._jdf.queryExecution().analyzed().toString())


# Records looked at in each partition
_SAMPLE: Final = 500


def found_fields(
    path: TopicPath,
    begin: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    is_named: Callable[[str], bool] = lambda name: False,
) -> pa.Schema | None:
    """The fields of the first records of each partition; None if there are no records with a value yet.

    `is_named`: whether somebody names a field, which is there then though it has only been null.

    Without those that a frame of Spark cannot have: a record with one is an error, when it is taken.
    Errors: StageError for records that cannot be converted.
    """
    rows: list[dict[str, Any]] = []
    schemas: list[pa.Schema] = []
    for at, to in sorted(end.items()):
        first = begin.get(at, 0)
        for payload in path.read(at, first, min(to, first + _SAMPLE)):
            _look(payload, rows, schemas)
    if rows:
        schemas.append(fields_of(rows, is_named))
    found = possible_fields(joined_schemas(schemas)) if schemas else ()
    return found if len(found) else None


def declared_fields(text: str) -> pa.Schema:
    """The fields that `value.schema` declares. Errors: ConfigError."""
    kind = arrow_type(schema_of(declared_type(text), is_fine=True))
    return pa.schema(list(kind) if pa.types.is_struct(kind) else [(VALUE, kind)])


def spark_schema(fields: pa.Schema, about: tuple[str, ...]) -> Any:  # a StructType
    """Spark's schema: these fields, then the columns about the record. Errors: ConfigError."""
    from pyspark.sql.types import StructField, StructType

    own = struct_type(fields)
    if taken := [field.name for field in own if field.name in ABOUT]:
        raise ConfigError(
            f"The records have a field {taken[0]}, which is the name of a column about records: rename it, for example "
            "with the transformation ReplaceField"
        )
    more = struct_type(pa.schema([(name, ABOUT[name]) for name in about]))
    return StructType([*(StructField(field.name, field.dataType, True) for field in own), *more])


def _look(payload: RecordBatch | list[SinkRecord], rows: list[dict[str, Any]], schemas: list[pa.Schema]) -> None:
    if isinstance(payload, RecordBatch):
        column = payload.value
        if payload.value_schema is None and column is not None and pa.types.is_struct(column.type):
            payload = payload.to_records()  # type: ignore[assignment]  # a sink's batch gives sink records
        elif payload.value_schema is not None:
            _add(schemas, payload.value_schema)
            return
        else:
            payload = payload.to_records()  # type: ignore[assignment]  # as above
    for record in payload:  # type: ignore[union-attr]  # records by now
        if record.value_schema is not None:
            _add(schemas, record.value_schema)
            continue
        row = as_mapping(record.value)
        if row is not None:
            rows.append(row if isinstance(row, dict) else {VALUE: row})


def _add(schemas: list[pa.Schema], schema: Schema) -> None:
    kind = arrow_type(meant_schema(schema))
    made = pa.schema(list(kind)) if schema.type is Type.STRUCT else pa.schema([(VALUE, kind)])
    if made not in schemas:
        schemas.append(made)
