"""What is wrong with a config of SqlSource: by itself, and in the eyes of its database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kconnect.api import ConfigError, ConnectError
from kconnect.api.topic_names import topic_name_problem, topic_renaming
from kconnect.builtin.connectors.checked_settings import said
from kconnect.builtin.connectors.sql.sql_connection import (
    OF_LOGINS,
    cause_of,
    check_s,
    engine_of,
    error_text,
    may_pass,
    no_connection,
)
from kconnect.builtin.connectors.sql.sql_dialect import kind_of
from kconnect.builtin.connectors.sql.sql_source_config import TABLE_TYPES, credential_problems, query_of
from kconnect.builtin.connectors.sql.sql_tables import TableId, chosen, names_of, tables_of, tells_case
from kconnect.builtin.connectors.sql.sql_url import URL

log = logging.getLogger(__name__)

_LISTS: Final = ("table.whitelist", "table.blacklist")


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
    yield from credential_problems(props)
    try:
        engine_of(config)
    except ConfigError as err:
        yield URL, said(err)


def database_problems(config: Mapping[str, Any], is_renamed: bool = False) -> list[tuple[str, str]]:
    """What the database refuses, or that it is away; nothing if nobody shall ask it."""
    import sqlalchemy as sa

    if not check_s(config):
        return []
    engine = engine_of(config, check_s(config))
    query = query_of(config)
    setting = "query.masked" if config["query.masked"] is not None and config["query.masked"].value else "query"
    try:
        opened = engine.connect()
    except (sa.exc.SQLAlchemyError, *OF_LOGINS) as error:
        return [(URL, no_connection(error, engine))]
    try:
        with opened as connection:
            if query:
                _try_query(connection, query)
            else:
                setting = "table.whitelist"
                return _table_problems(connection, config, is_renamed)
    except (sa.exc.SQLAlchemyError, ConnectError) as error:
        if isinstance(error, sa.exc.SQLAlchemyError) and may_pass(error, kind_of(engine.dialect)):
            return [(URL, no_connection(error, engine))]
        if setting == "query.masked":
            return [(setting, f"The database refuses the query: {type(cause_of(error)).__name__}")]
        if setting == "query":
            return [(setting, f"The database refuses the query: {error_text(error)}{_position(error, query)}")]
        return [(setting, str(error))]
    return []


def _try_query(connection: Any, query: str) -> None:  # SQLAlchemy's
    """Have the database plan it, which reads nothing."""
    explain = {"oracle": "EXPLAIN PLAN FOR ", "mssql": ""}.get(connection.dialect.name, "EXPLAIN ")
    if explain:
        connection.execution_options(no_parameters=True).exec_driver_sql(explain + query).close()


def _table_problems(  # Any: SQLAlchemy's
    connection: Any, config: Mapping[str, Any], is_renamed: bool
) -> list[tuple[str, str]]:
    """A table whose topic no topic can be; tells names in lists that fit no table.

    `is_renamed`: transformations may give topics other names. Errors: ConnectError for two of one name.
    """
    prefix = config["topic.prefix"].strip()
    setting = "table.whitelist" if config["table.whitelist"] else "table.include.list"
    every, has_case = tables_of(connection, config), tells_case(connection)
    found = chosen(every, config, tells_case=has_case)
    for topic in () if is_renamed else (prefix + table.name for table in found):
        if problem := topic_name_problem(topic):
            return [(setting, f"{setting}: {problem}. To rename it: {topic_renaming(topic)}")]
    for listing in _LISTS:
        missing = _warn_of_missing(listing, every, config, has_case=has_case)
        if listing == "table.whitelist":
            _warn_of_others(connection, missing, config)
    return []


def _warn_of_missing(setting: str, every: Iterable[TableId], config: Mapping[str, Any], *, has_case: bool) -> list[str]:
    """Say which names fit no table, and which tables differ from them in case alone; gives these names."""
    known = {name for table in every for name in names_of(table)}
    by_case: dict[str, list[str]] = {}
    for name in sorted(known):
        by_case.setdefault(name.lower(), []).append(name)
    missing = [name for name in config[setting] if name not in known and (has_case or name.lower() not in by_case)]
    if not missing:
        return []
    near = sorted({other for name in missing for other in by_case.get(name.lower(), ())})
    there = f". The database tells upper from lower case, and has {', '.join(near)}" if near else ""
    types, names = ", ".join(config["table.types"]), ", ".join(missing)
    log.warning("%s names what does not exist (yet) as a %s (table.types): %s%s", setting, types, names, there)
    return missing


def _warn_of_others(connection: Any, missing: Sequence[str], config: Mapping[str, Any]) -> None:
    """Say which of the names are there as another type than those of table.types. Errors: the database's."""
    wanted = [kind.upper() for kind in config["table.types"]]
    for kind in [kind for kind in TABLE_TYPES if kind not in wanted] if missing else ():
        found = {name for table in tables_of(connection, {**config, "table.types": [kind]}) for name in names_of(table)}
        if there := ", ".join(name for name in missing if name in found):
            types = ",".join([*wanted, kind])
            log.warning("table.whitelist: %s is there as %s, which table.types=%s reads", there, kind, types)


def _position(error: BaseException, query: str) -> str:
    """Where in the query, if the database tells: line and column, from 1."""
    place = getattr(getattr(cause_of(error), "diag", None), "statement_position", None)
    if place is None:
        return ""
    index = max(0, int(place) - 1 - len("EXPLAIN "))
    before = query[:index]
    line = before.count("\n")
    return f" (line {line + 1}, column {index - (before.rfind(chr(10)) + 1) + 1} of the query)"
