"""Names of tables, which of them a source reads, and the list of those that a database has.

TableMonitor looks at intervals which tables a database has, on a thread of its own, and tells Connect of changes.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigError, ConnectError, ConnectorContext, RetriableError
from kconnect.builtin.connectors.sql.sql_connection import error_text, may_pass
from kconnect.builtin.connectors.sql.sql_dialect import kind_of

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger(__name__)


TABLES = "tables"
"""Setting of a task with its tables, in the form that Confluent's connector gives it."""


@dataclass(frozen=True, slots=True, order=True)
class TableId:
    """A table; catalog and schema are empty where the database has none, or JDBC names none."""

    catalog: str
    schema: str
    name: str

    @property
    def full_name(self) -> str:
        """Gives the name as offsets have it."""
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part)

    @property
    def known_names(self) -> tuple[str, ...]:
        """Full names in offsets, the newest form first: PostgreSQL's driver for Java long gave no catalog."""
        short = ".".join(part for part in (self.schema, self.name) if part)
        return tuple(dict.fromkeys((self.full_name, short)))

    def partitions(self) -> list[dict[str, str]]:
        """Source partitions that may have this table's offset, the one to write first.

        Source: o.c.connect.jdbc.source.OffsetProtocols; the last is its protocol 0.
        """
        return [*({"protocol": "1", "table": name} for name in self.known_names), {"table": self.name}]

    def sql(self, quote: Callable[[str], str], kind: str) -> str:
        """The table in a statement; the catalog is left out where the connection has just one."""
        parts = (self.schema or (self.catalog if kind == "mysql" else ""), self.name)
        return ".".join(quote(part) for part in parts if part)


def joined(tables: Iterable[TableId]) -> str:
    """The value of `tables`: quoted names, separated by commas."""
    return ",".join(
        ".".join('"' + part.replace('"', '""') + '"' for part in (t.catalog, t.schema, t.name) if part) for t in tables
    )


def parted(text: str, kind: str) -> list[TableId]:
    """The reverse. Two parts are schema and table, for MySQL catalog and table."""
    found = []
    for match in re.finditer(r'(?:"(?:[^"]|"")*"\.?)+', text):
        parts = [part[1:-1].replace('""', '"') for part in re.findall(r'"(?:[^"]|"")*"', match.group())]
        if kind == "mysql" and len(parts) == 2:
            found.append(TableId(parts[0], "", parts[1]))
        else:
            found.append(TableId(*["", "", *parts][-3:]))
    return found


def chosen(tables: Iterable[TableId], config: Mapping[str, Any], *, tells_case: bool = True) -> list[TableId]:
    """The tables that the settings name, in order. Errors: ConnectError for two of one name: they share a topic.

    Differs: names are found in upper or lower case where the database does not tell them apart.
    """
    form: Callable[[str], str] = str if tells_case else str.lower
    white, black = ({form(name) for name in config[setting]} for setting in ("table.whitelist", "table.blacklist"))
    flags = 0 if tells_case else re.IGNORECASE
    include = [re.compile(pattern.strip(), flags) for pattern in config["table.include.list"]]
    exclude = [re.compile(pattern.strip(), flags) for pattern in config["table.exclude.list"]]

    def is_wanted(table: TableId) -> bool:
        names = set(map(form, names_of(table)))
        if include:
            return _any(include, table) and not _any(exclude, table)
        return bool(names & white) if white else not names & black

    found = sorted(filter(is_wanted, tables))
    _require_unique(found)
    return found


def names_of(table: TableId) -> set[str]:
    """What lists may call a table."""
    return {table.name, *table.known_names, joined([table])}


def tells_case(connection: sa.Connection) -> bool:
    """Whether names of tables that differ in case alone are two tables. Errors: the database's."""
    kind = kind_of(connection.dialect)
    if kind == "mysql":
        return bool(connection.exec_driver_sql("SELECT @@lower_case_table_names").scalar() == 0)
    return kind != "sqlite"


def mapped(mappings: Sequence[str], table: TableId) -> str:
    """What a list of regex:value says of a table. Errors: ConfigError unless just one entry is of this table."""
    fitting = [value.strip() for pattern, _, value in (m.partition(":") for m in mappings) if _any([pattern], table)]
    if len(fitting) != 1:
        raise ConfigError(
            f"The table {table.full_name} matches {len(fitting)} entries of the mapping, and must match 1"
        )
    return fitting[0]


def _any(patterns: Iterable[Any], table: TableId) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns for name in table.known_names)


def _require_unique(tables: Sequence[TableId]) -> None:
    names: dict[str, list[str]] = {}
    for table in tables:
        names.setdefault(table.name, []).append(table.full_name)
    double = [", ".join(full) for full in names.values() if len(full) > 1]
    if double:
        raise ConnectError(
            f"Tables of one name would share a topic: {'; '.join(double)}",
            hint="Name one of each in table.whitelist, or set schema.pattern.",
        )


def tables_of(connection: sa.Connection, config: Mapping[str, Any]) -> list[TableId]:
    """All tables of the wanted types, schemas and catalogs. Errors: the database's."""
    types = {kind.upper() for kind in config["table.types"]}
    kind = kind_of(connection.dialect)
    listing = _of_postgres if kind == "postgresql" else _of_any
    found = listing(connection, types)
    for setting, part in (("schema.pattern", "schema"), ("catalog.pattern", "catalog")):
        pattern = config[setting]
        if pattern is not None:
            like = re.compile(_like(pattern))
            found = [table for table in found if like.fullmatch(getattr(table, part))]
    return found


_RELKINDS = {"TABLE": "r", "VIEW": "v", "MATERIALIZED VIEW": "m", "PARTITIONED TABLE": "p", "FOREIGN TABLE": "f"}


def _of_postgres(connection: sa.Connection, types: set[str]) -> list[TableId]:
    kinds = ", ".join(f"'{_RELKINDS[kind]}'" for kind in sorted(types))
    rows = connection.exec_driver_sql(
        "SELECT current_database(), n.nspname, c.relname FROM pg_catalog.pg_class c "
        f"JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ({kinds}) "
        "AND n.nspname <> 'information_schema' AND left(n.nspname, 3) <> 'pg_'",
    )
    return [TableId(*row) for row in rows]


def _of_any(connection: sa.Connection, types: set[str]) -> list[TableId]:
    from sqlalchemy import inspect

    inspector = inspect(connection)
    kind = kind_of(connection.dialect)
    schemas: list[str | None] = [None]
    if kind not in ("sqlite", "mysql"):
        system = re.compile(r"(?i)sys|information_schema|db_.*|guest")
        schemas = [schema for schema in inspector.get_schema_names() if not system.fullmatch(schema)]
    catalog = (connection.engine.url.database or "") if kind not in ("sqlite", "oracle") else ""
    listings = {
        "TABLE": inspector.get_table_names,
        "VIEW": inspector.get_view_names,
        "MATERIALIZED VIEW": inspector.get_materialized_view_names,
    }
    return [
        TableId(catalog, schema or "", name)
        for wanted, listing in listings.items()
        if wanted in types
        for schema in schemas
        for name in listing(schema=schema)
    ]


def _like(pattern: str) -> str:
    """A pattern of LIKE as a regular expression."""
    signs = {"%": ".*", "_": "."}
    return "".join(signs.get(sign) or re.escape(sign) for sign in pattern)


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
                every = tables_of(connection, self._config)
                found = chosen(every, self._config, tells_case=tells_case(connection))
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
