"""Looks at intervals which tables a database has, on a thread of its own, and tells Connect when they change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConnectError, ConnectorContext, RetriableError
from kconnect.builtin.connectors.sql.sql_connection import error_text, may_pass
from kconnect.builtin.connectors.sql.sql_dialect import kind_of
from kconnect.builtin.connectors.sql.sql_tables import TableId, chosen, tables_of

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger(__name__)

# How long task_configs waits for the first list. Source: table.monitoring.startup.polling.limit.ms
_FIRST_S: Final = 10.0
_RETRY_S: Final = 1.0
_STOP_S: Final = 5.0


class TableMonitor:
    """Source: TableMonitorThread. Differs: a database that is away at first is waited for.

    Threads: `tables` and `stop` are the connector's; `_lock` guards what was found.
    """

    def __init__(self, name: str, engine: sa.Engine, config: Mapping[str, Any], context: ConnectorContext) -> None:
        self._engine = engine
        self._config = config
        self._context = context
        self._interval_s = config["table.poll.interval.ms"] / 1000
        self._stopping = threading.Event()
        self._lock = threading.Condition()
        self._found: list[TableId] | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"sql-tables-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            self._lock.notify_all()
        self._thread.join(_STOP_S)

    def tables(self) -> list[TableId]:
        """The last list. Errors: RetriableError if there is none yet; ConnectError if the database refuses to tell."""
        with self._lock:
            self._lock.wait_for(
                lambda: self._found is not None or self._error is not None or self._stopping.is_set(), _FIRST_S
            )
            if self._found is not None:
                return self._found
            error = self._error
        if error is None:
            raise RetriableError("The database has not reported its tables yet")
        if isinstance(error, ConnectError):
            raise error
        if may_pass(error, kind_of(self._engine.dialect)):
            raise RetriableError(f"The database's tables cannot be listed: {error_text(error)}") from error
        raise ConnectError(f"The database's tables cannot be listed: {error_text(error)}") from error

    def _run(self) -> None:
        while not self._stopping.is_set():
            has_changed = self._look()
            if has_changed:
                self._context.request_task_reconfiguration()
            with self._lock:
                pause_s = self._interval_s if self._found is not None else min(_RETRY_S, self._interval_s)
            self._stopping.wait(pause_s)

    def _look(self) -> bool:
        """List the tables; True if they differ from those that tasks have."""
        try:
            with self._engine.connect() as connection:
                found = chosen(tables_of(connection, self._config), self._config)
        except Exception as error:  # the driver's: the next look may do better
            with self._lock:
                is_new = str(error) != str(self._error)
                self._error = error
                self._lock.notify_all()
            if is_new:
                log.warning(
                    "The database's tables cannot be listed, and will be asked for again: %s", error_text(error)
                )
            return False
        with self._lock:
            before, self._found, self._error = self._found, found, None
            self._lock.notify_all()
        return before is not None and before != found
