"""What is wrong with the settings of SqlSource: combinations, and what the database says to login and query."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kconnect.api import ConfigError, ConnectError
from kconnect.builtin.connectors.sql_connection import cause_of, engine_of, may_pass, told
from kconnect.builtin.connectors.sql_dialect import kind_of
from kconnect.builtin.connectors.sql_tables import chosen, tables_of
from kconnect.builtin.connectors.sql_url import URL

log = logging.getLogger(__name__)

# A request to validate waits no longer for a database that does not answer
_CONNECT_S: Final = 3
_LISTS: Final = ("table.whitelist", "table.blacklist")
_CREDENTIALS: Final = "jdbc.credentials.provider."


def query_of(config: Mapping[str, Any]) -> str:
    """The query without a semicolon at its end; empty if tables are read."""
    masked = config["query.masked"]
    text: str = (masked.value if masked is not None else "") or config["query"] or ""
    return text.strip().rstrip(";").rstrip()


def problems(config: Mapping[str, Any], props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Pairs of setting and message."""
    mode = config["mode"]
    if "timestamp" in mode and not (config["timestamp.column.name"] or config["timestamp.columns.mapping"]):
        yield "timestamp.column.name", f"mode={mode} needs timestamp.column.name"
    has_query = bool(query_of(config))
    if has_query and mode.endswith("incrementing") and not config["incrementing.column.name"]:
        yield "incrementing.column.name", f"A query with mode={mode} needs incrementing.column.name"
    if has_query and not config["topic.prefix"].strip():
        yield "topic.prefix", "With a query topic.prefix is the topic's whole name: set it"
    named = [name for name in (*_LISTS, "table.include.list", "table.exclude.list") if config[name]]
    if has_query and named:
        yield "query", f"A query is read instead of tables: leave out {', '.join(named)}"
    if config["table.whitelist"] and config["table.blacklist"]:
        yield "table.blacklist", "Set table.whitelist or table.blacklist, not both"
    if len(named) > 1 and {*named} & {*_LISTS} and {*named} - {*_LISTS}:
        yield "table.include.list", f"Set table.include.list or {' and '.join(_LISTS)}, not both"
    if config["table.exclude.list"] and not config["table.include.list"]:
        yield "table.exclude.list", "table.exclude.list leaves tables out of table.include.list: set that too"
    for name in props:
        if name.startswith(_CREDENTIALS):
            yield (
                "connection.password",
                f"{name} names a class of Java, which cannot be used: give a reference such as ${{env:DB_PASSWORD}}",
            )
            break
    try:
        engine_of(config)
    except ConfigError as err:
        yield URL, str(err) + (f" {err.hint}" if err.hint else "")


def database_problems(config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the database refuses; nothing if it is away, as it may be there when the tasks start."""
    import sqlalchemy as sa

    engine = engine_of(config, _CONNECT_S)
    query = query_of(config)
    setting = URL
    try:
        with engine.connect() as connection:
            setting = "query.masked" if config["query.masked"] is not None and config["query.masked"].value else "query"
            if query:
                _try_query(connection, query)
            else:
                setting = "table.whitelist"
                return _missing_tables(connection, config)
    except (sa.exc.SQLAlchemyError, ConnectError) as error:
        if isinstance(error, sa.exc.SQLAlchemyError) and may_pass(error, kind_of(engine.dialect)):
            log.info("The database does not answer, so login and query are not checked: %s", told(error))
            return []
        if setting == "query.masked":
            return [(setting, f"The database refuses the query: {type(cause_of(error)).__name__}")]
        if setting == "query":
            return [(setting, f"The database refuses the query: {told(error)}{_position(error, query)}")]
        return [(setting, f"The database refuses the connection: {told(error)}" if setting == URL else str(error))]
    return []


def _try_query(connection: Any, query: str) -> None:  # SQLAlchemy's
    """Have the database plan it, which reads nothing."""
    explain = {"oracle": "EXPLAIN PLAN FOR ", "mssql": ""}.get(connection.dialect.name, "EXPLAIN ")
    if explain:
        connection.execution_options(no_parameters=True).exec_driver_sql(explain + query).close()


def _missing_tables(connection: Any, config: Mapping[str, Any]) -> list[tuple[str, str]]:  # SQLAlchemy's
    """Names in table.whitelist that fit no table. Errors: ConnectError for two of one name."""
    found = chosen(tables_of(connection, config), config)
    known = {name for table in found for name in (table.name, *table.known_names)}
    missing = [name for name in config["table.whitelist"] if name.replace('"', "") not in known]
    if missing:
        log.warning("table.whitelist names what does not exist (yet): %s", ", ".join(missing))
    return []


def _position(error: BaseException, query: str) -> str:
    """Where in the query, if the database tells: line and column, from 1."""
    place = getattr(getattr(cause_of(error), "diag", None), "statement_position", None)
    if place is None:
        return ""
    index = max(0, int(place) - 1 - len("EXPLAIN "))
    before = query[:index]
    line = before.count("\n")
    return f" (line {line + 1}, column {index - (before.rfind(chr(10)) + 1) + 1} of the query)"
