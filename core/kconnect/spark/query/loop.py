"""QueryLoop: the life of a query task: starts Spark's query, watches it, stops it for a pause, starts it again."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.builtin.types.contracts import Discards
from kconnect.clock import Backoff, Pauses
from kconnect.errors import ConnectError, FencedError, RetriableError, TimedOutError, UnreachableError
from kconnect.model import ConnectorType
from kconnect.runtime.kafka import TransactionExpiredError
from kconnect.runtime.pipeline.error_texts import one_line
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.spark.query.failures import QueryError, RestartQueryError, root_cause

if TYPE_CHECKING:
    from kconnect.runtime.metrics import TaskCounters
    from kconnect.spark.query.engine import QueryEngine

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
_PAUSES: Final = Backoff(first_s=1.0, most_s=30.0)
_PASSING: Final = (
    RetriableError,
    UnreachableError,
    TimedOutError,
    # By a query on a worker that was cut off, which claimed the offsets. That one is informed that it may not start
    FencedError,
    # The worker stood still in the midst of a commit
    TransactionExpiredError,
)
_PYTHONS: Final = "org.apache.spark.sql.execution.python"
# A query that has run for so long begins with the first pause again
_WELL_S: Final = 60.0
_METRICS: Final = {
    "query-batch-id": "The number of the query's last batch.",
    "query-input-rows-per-second": "Records read, of the last batch.",
    "query-processed-rows-per-second": "Records written, of the last batch.",
    "query-batch-ms": "How long the last batch took in all.",
    "query-plan-ms": "Of this, finding new records and planning.",
    "query-write-ms": "Of this, reading, computing and writing.",
    "query-state-rows": "Rows in the state of aggregations.",
    "query-state-bytes": "Memory that this state takes.",
}


class Query(Protocol):
    """What one kind of query task does. Threads: the task's, except for what it says itself."""

    def begin(self) -> Any | None:
        """Start; gives the StreamingQuery, or None if the task is stopping. Errors: ConnectError, Spark's."""
        ...

    def failure(self) -> BaseException | None:
        """What ended the query in our own code, if it was that."""
        ...

    def end(self) -> None:
        """Finish the batch that is being written if there is time. After it the query is stopped."""
        ...

    def close(self) -> None:
        """Release all that `begin` opened. Called after each begin, and at the end. Idempotent."""
        ...


def query_loop(engine: QueryEngine) -> Callable[[TaskControl, TaskPorts], QueryLoop]:
    """Builds the data path of query tasks. Errors: ConfigError."""

    def build(control: TaskControl, ports: TaskPorts) -> QueryLoop:
        spec = control.spec
        discards = Discards(lambda: control.monitor.of_task)

        def count(counters: TaskCounters) -> None:
            engine.tallies.copy_to(spec.id, spec.run, counters)
            discards.reached(counters.records_discarded, counters.values_discarded)

        control.count_with(count)
        if control.spec.type is ConnectorType.SINK:
            from kconnect.spark.query.topic_sink import TopicSink

            return QueryLoop(control, TopicSink(control, ports, engine))
        from kconnect.spark.query.row_source import RowSource

        return QueryLoop(control, RowSource(control, ports, engine))

    return build


class QueryLoop:
    """Implements TaskLoop. Errors: what ends the query for good, with Spark's root cause first."""

    def __init__(self, control: TaskControl, query: Query) -> None:
        self._control = control
        self._query = query
        self._progress = Progress(control)
        self._pauses = Pauses(_PAUSES)

    def start(self) -> None:
        """Everything is opened in run(): Spark may still be starting."""

    def run(self) -> None:
        control = self._control
        while not control.is_stopping:
            if control.should_pause:
                control.report_paused()
                if not control.await_resume():
                    return
                control.report_running()
            began_s = time.monotonic()
            try:
                self._run_once()
            except RestartQueryError as again:
                log.info("%s", again)
            except Exception as error:  # Spark's, py4j's, ours: all end here
                if time.monotonic() - began_s > _WELL_S:
                    self._pauses.reset()
                self._wait_or_raise(error)

    def close(self) -> None:
        self._query.close()

    def _run_once(self) -> None:
        """Until a stop, a pause, or the query's end by an error."""
        query = self._query
        try:
            running = query.begin()
            if running is None:
                return
            log.info("Query %s runs", self._control.spec.id.connector)
            was_asked = False
            try:
                was_asked = self._watch(running)
            finally:
                query.end()
                _stop(running)
                self._progress.look(running)
            failure = query.failure() or _exception(running)
            if failure is not None and was_asked:  # it was cut off; what went wrong by itself will again
                log.info("The last batch of %s was left: %s", self._control.spec.id, root_cause(failure).message)
            elif failure is not None:
                raise failure
        finally:
            query.close()

    def _watch(self, running: Any) -> bool:  # a StreamingQuery
        """Until it ends, or is to end; says whether the latter."""
        while running.isActive:
            if self._control.wait(_LOOK_S) or self._control.should_pause:
                return True
            if self._progress.look(running):
                self._control.health.went_well(time.monotonic(), moved=True)
        return False

    def _wait_or_raise(self, error: Exception) -> None:
        """A pause before the next start if the error may pass. Errors: ConnectError for the status."""
        if self._control.is_stopping:
            log.info("Query %s was stopped while it failed: %s", self._control.spec.id.connector, error)
            return
        cause = root_cause(error)
        passes = isinstance(error, _PASSING) or cause.is_passing
        if not passes:
            if isinstance(error, ConnectError):
                raise error
            raise cause.error(f"Query {self._control.spec.id.connector} has ended") from None
        shown = one_line(cause.message)
        pause_s = self._pauses.next_s()
        log.warning("Query %s will start again in %.0f s: %s", self._control.spec.id.connector, pause_s, shown)
        self._control.health.failed(shown, time.monotonic())
        self._control.wait(pause_s)


def _stop(running: Any) -> None:
    """Stop Spark's query. Errors are logged: its tasks end with their job group, and the next start fences them off."""
    try:
        running.stop()
    except Exception as error:  # py4j's and Spark's errors share no root
        log.warning("Spark's query did not stop: %s", root_cause(error).message)


def _exception(running: Any) -> Exception | None:
    """What Spark says ended the query; None if it was stopped."""
    try:
        found: Exception | None = running.exception()
        if found is not None and (gone := _lost_python(running)) is not None:
            return RetriableError(f"The Python process that plans the query's batches has ended: {gone}")
    except Exception as error:  # Spark has gone
        return QueryError(f"Spark does not answer any more: {root_cause(error).message}")
    return found


def _lost_python(running: Any) -> str | None:
    """Java's error when a Python process beside the driver has ended in a call; None for any other end of a query.

    Spark reports it by the error's message alone, which is "null".
    """
    of_spark = getattr(running, "_jsq", None)
    if of_spark is None:  # a CursorQuery, which has no such process
        return None
    cause = of_spark.exception().get().getCause()
    kind = "" if cause is None else str(cause.getClass().getName())
    if kind not in ("java.io.EOFException", "java.net.SocketException"):
        return None
    is_pythons = any(_PYTHONS in str(element.getClassName()) for element in cause.getStackTrace())
    return kind if is_pythons else None


class Progress:
    """Threads: the task's; metrics are read by others."""

    def __init__(self, control: TaskControl) -> None:
        self._control = control
        self._counters = control.counters
        self._is_sink = control.spec.type is ConnectorType.SINK
        self._run = ""
        self._last = -1
        self._newest: tuple[int, str] | None = None
        self._values: dict[str, float] = dict.fromkeys(_METRICS, 0.0)
        own = control.monitor.of_task
        for name, text in _METRICS.items():
            own.add_metric(own.metric_name(name, text), partial(self._values.__getitem__, name))

    def look(self, running: Any) -> bool:
        """Take in what is new; whether there was any batch. `running` is a StreamingQuery.

        Only the newest is asked for each time: all that Spark keeps are up to a hundred texts, fetched one by one.
        """
        run = str(running.runId)
        if run != self._run:
            self._run, self._last, self._newest = run, -1, None
        newest = running.lastProgress
        if newest is None or (newest.batchId, newest.timestamp) == self._newest:
            return False
        self._newest = (newest.batchId, newest.timestamp)
        found = False
        for progress in [newest] if newest.batchId <= self._last + 1 else running.recentProgress:
            body = json.loads(progress.json)
            if body["batchId"] <= self._last or "addBatch" not in body["durationMs"]:
                continue  # reported before, or an idle trigger
            self._last, found = body["batchId"], True
            self._take(body)
        return found

    def _take(self, body: dict[str, Any]) -> None:
        rows, took = int(body["numInputRows"]), body["durationMs"]
        if self._is_sink:
            self._counters.records_read += rows
            self._counters.records_put += rows
            self._counters.put_ms.note(took["addBatch"])
        else:
            self._counters.records_polled += rows
            self._counters.records_written += rows
            self._counters.poll_ms.note(took["addBatch"])
        self._counters.batch_size.note(rows)
        state = body.get("stateOperators") or []
        self._values.update(
            {
                "query-batch-id": body["batchId"],
                "query-input-rows-per-second": _number(body.get("inputRowsPerSecond")),
                "query-processed-rows-per-second": _number(body.get("processedRowsPerSecond")),
                "query-batch-ms": took.get("triggerExecution", 0),
                "query-plan-ms": sum(took.get(part, 0) for part in ("latestOffset", "getBatch", "queryPlanning")),
                "query-write-ms": took["addBatch"],
                "query-state-rows": sum(operator.get("numRowsTotal", 0) for operator in state),
                "query-state-bytes": sum(operator.get("memoryUsedBytes", 0) for operator in state),
            }
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
