"""QueryEngine: the sessions of this worker's Spark for queries; one for each query, so that their views do not meet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConfigError, ConnectError
from kconnect.spark.application import SparkApplication
from kconnect.spark.query.tallies import Tallies
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_spec import TallyAddress

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
# It listens a moment after Spark is up
_LISTEN_S: Final = 10.0
_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Spark 4.3 knows TIME and refuses every plan with it unless it is enabled
    "spark.sql.timeType.enabled": "true",
    # 200 tasks for each aggregation of a small batch would take seconds
    "spark.sql.shuffle.partitions": "4",
    # As many for the list of a table's files, which Delta Lake computes with each commit: its default is 50
    "spark.databricks.delta.snapshotPartitions": "4",
    # Stopping waits this long for a batch that does not react to its interruption
    "spark.sql.streaming.stopTimeout": "10s",
}
# As Spark's cleaner does by default: it deletes what jobs leave once the JVM has found that nobody refers to it
_COLLECT_EVERY_S: Final = 1800.0
# One under way may take a second
_COLLECTION_ENDS_S: Final = 5.0
QUERY_POOL: Final = "queries"


class QueryEngine:
    """Threads: any."""

    def __init__(
        self,
        settings: SparkSettings,
        app: SparkApplication,
        tallies: Tallies,
        tally_address: Callable[[float], TallyAddress | None],
    ) -> None:
        self._settings = settings
        self._app = app
        self.tallies = tallies
        self._tally_address = tally_address
        self._lock = threading.Lock()  # held while the first session is made: a second or two
        self._session: Any = None
        self._collections: JvmCollections | None = None  # from the first session on
        self._starting = threading.Lock()  # held while a query starts: seconds

    @property
    def settings(self) -> SparkSettings:
        return self._settings

    @property
    def app(self) -> SparkApplication:
        """The application, which may not have started."""
        return self._app

    @contextmanager
    def one_start(self, give_up: Callable[[], bool]) -> Iterator[bool]:
        """A block in which no other query starts; False if `give_up` ended the wait for it.

        A query that reads topics has Spark start Python processes, and gives each of them 10 s to come up: a worker
        that starts with ten such queries would have none of them come up in time.
        """
        while not (is_mine := self._starting.acquire(timeout=_LOOK_S)) and not give_up():
            pass
        try:
            yield is_mine
        finally:
            if is_mine:
                self._starting.release()

    def tally_address(self) -> TallyAddress | None:
        """Where processes of Spark say what failed in them; None, which is logged, if nothing listens in time."""
        found = self._tally_address(_LISTEN_S)
        if found is None:
            log.warning("The worker's control link does not listen: errors in records of queries are not counted")
        return found

    def jvm(self, timeout_s: float) -> Any:
        """Spark's JVM; None if Spark is not up within the time."""
        return self._app.context._jvm if self._app.started.wait(timeout_s) else None

    def session(self, give_up: Callable[[], bool]) -> Any:
        """A new session of its own views and settings. None if `give_up` ended the wait for Spark.

        Errors: ConnectError when Spark has ended; ConfigError when it has no core for queries.
        """
        while not self._app.started.wait(_LOOK_S):
            if give_up():
                return None
        if (problem := self.no_core()) is not None:
            raise ConfigError(problem)
        try:
            with self._lock:
                if self._session is None:
                    self._session = self._first_session()
            made = self._session.newSession()
        except Exception as error:  # py4j's and Spark's errors share no root
            raise ConnectError(f"Spark gives no session for a query: {error}") from error
        for key, value in _DEFAULTS.items():
            if key not in self._settings.spark:
                made.conf.set(key, value)
        self._app.context.setLocalProperty("spark.scheduler.pool", QUERY_POOL)
        return made

    def no_core(self) -> str | None:
        """Why no query can ever run here, as a sentence; None if one can."""
        if self._settings.query_room() > 0:
            return None
        master = self._settings.spark.get("spark.master", "")
        return (
            f"No core of spark.master={master} is free for queries: all are slots, which never end. "
            "Set kconnect.query.cores=1 in the worker's properties and start it again; it has one slot less then"
        )

    def stop_session(self) -> None:
        """Let go of the sessions; they end with the application."""
        with self._lock:
            self._session = None
            collections, self._collections = self._collections, None
        if collections is not None:
            collections.stop()

    def _first_session(self) -> Any:
        from pyspark.sql import SparkSession

        began_s = time.monotonic()
        session = SparkSession(self._app.context)
        log.info("Spark is ready for queries after %.1f s", time.monotonic() - began_s)
        self._collections = JvmCollections(self._app.collect_garbage)
        self._collections.start()
        return session


_current: QueryEngine | None = None


def current_engine() -> QueryEngine | None:
    """The engine of the worker in this process; None in a process without one, such as that of a command."""
    return _current


def set_current(engine: QueryEngine | None) -> None:
    """The worker's launcher has started, or ended."""
    global _current
    _current = engine


class JvmCollections:
    """Collects garbage in Spark's JVM, by `collect`, every half hour. Lifecycle: constructed -> start -> stop.

    In the time of queries alone: Spark's own timer runs without them too, and each collection widens the JVM's young
    generation, which a worker without queries fills and keeps: 16 MB.
    """

    def __init__(self, collect: Callable[[], object], clock: Clock | None = None) -> None:
        """`collect`: what it raises is logged for debugging alone, as others report a JVM that has ended."""
        self._collect = collect
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="query-collections", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(_COLLECTION_ENDS_S)

    def _run(self) -> None:
        while not self._clock.wait(self._stopping, _COLLECT_EVERY_S):
            try:
                self._collect()
            except Exception:  # py4j's, a socket's: whatever breaks with the JVM
                log.debug("Spark's JVM could not be asked to collect its garbage", exc_info=True)
