"""QueryEngine: the sessions of this worker's Spark for queries; one for each query, so that their views do not meet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from kconnect.errors import ConfigError, ConnectError
from kconnect.spark.application import SparkApplication
from kconnect.spark.settings import SparkSettings

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.2
_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # 200 tasks for each aggregation of a small batch would take seconds
    "spark.sql.shuffle.partitions": "4",
    # Stopping waits this long for a batch that does not react to its interruption
    "spark.sql.streaming.stopTimeout": "10s",
}
QUERY_POOL: Final = "queries"


class QueryEngine:
    """Threads: any."""

    def __init__(self, settings: SparkSettings, app: SparkApplication) -> None:
        self._settings = settings
        self._app = app
        self._lock = threading.Lock()  # held while the first session is made: a second or two
        self._session: Any = None

    @property
    def settings(self) -> SparkSettings:
        return self._settings

    @property
    def app(self) -> SparkApplication:
        """The application, which may not have started."""
        return self._app

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

    def _first_session(self) -> Any:
        from pyspark.sql import SparkSession

        began_s = time.monotonic()
        session = SparkSession(self._app.context)
        log.info("Spark is ready for queries after %.1f s", time.monotonic() - began_s)
        return session


_current: QueryEngine | None = None


def current_engine() -> QueryEngine | None:
    """The engine of the worker in this process; None in a process without one, such as that of a command."""
    return _current


def set_current(engine: QueryEngine | None) -> None:
    """The worker's launcher has started, or ended."""
    global _current
    _current = engine
