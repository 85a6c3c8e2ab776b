"""The database that SqlSink writes to, by its settings: driver, dialect, and how a connection is opened and begun."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kconnect.builtin.connectors.sql.sql_config import ARGUMENT_PREFIX, EXACTLY_ONCE
from kconnect.builtin.connectors.sql.sql_connection import (
    CONNECT_S,
    LOGIN_DEADLINES,
    after_login,
    check_s,
    driver_of,
    reported_of_connection,
)
from kconnect.builtin.connectors.sql.sql_dialect import Dialect, dialect_of, dialect_of_kind, placeholders
from kconnect.builtin.connectors.sql.sql_errors import Cause, blame
from kconnect.builtin.connectors.sql.sql_parameters import parameters_of
from kconnect.builtin.connectors.sql.sql_session import MYSQL_UTC, begin_session
from kconnect.builtin.connectors.sql.sql_url import driver_settings

# Else MySQL makes 127 of 1000, "abcde" of "abcdef", and 0000-00-00 of what is no day, without a word
_STRICT: Final = "SET SESSION sql_mode = CONCAT_WS(',', NULLIF(@@sql_mode, ''), 'STRICT_ALL_TABLES')"
_ZONE: Final = "TimeZone"
# Of MySQL's max_allowed_packet, what a statement may not have: its command and the limit itself
_OF_PACKET: Final = 2
# A writer that hangs in mid transaction holds the rows of its offsets. PostgreSQL ends its transaction after a minute;
# until then the next owner's wait ends soon, and is tried again.
_OF_EXACTLY_ONCE: Final = {"lock_timeout": "15s", "idle_in_transaction_session_timeout": "60s"}


@dataclass(frozen=True, slots=True)
class SinkDatabase:
    """A database to write to. `connect` opens one connection of the driver's."""

    driver: Any
    """The DB-API module."""
    connect: Callable[..., Any]
    dialect: Dialect
    session: Mapping[str, str]
    """Settings of PostgreSQL's server. Of these MySQL takes the time zone."""
    ignored: Sequence[str]
    """Parameters of the driver without effect."""

    def begin(self, connection: Any, *, prepares: bool = True) -> str:
        """Make a new connection ready; the statement that begins each of its transactions. Errors: the driver's."""
        if self.dialect.name == "sqlite":
            # Python's sqlite3 does not begin a transaction for SAVEPOINT and CREATE by itself
            connection.isolation_level = None
            return "BEGIN IMMEDIATE"
        if self.dialect.name == "mysql":
            connection.cursor().execute(_STRICT)
            _begin_zone(connection, self.session[_ZONE])
        if self.dialect.name != "postgresql":
            return ""
        return begin_session(connection, self.session, prepares=prepares)

    def longest_statement(self, connection: Any) -> int | None:
        """The bytes that a statement may have, or None for any number of them.

        MySQL reads no more of a longer one: it ends the connection as if it were away. Errors: the driver's.
        """
        if self.dialect.name != "mysql":
            return None
        cursor = connection.cursor()
        cursor.execute("SELECT @@max_allowed_packet")
        return int(cursor.fetchone()[0]) - _OF_PACKET

    def marks(self, count: int) -> list[str]:
        """The driver's marks for values."""
        return placeholders(self.driver.paramstyle, count)

    def may_pass(self, error: Exception) -> bool:
        """Whether the same call may succeed later by itself."""
        return blame(self.dialect.name, error) is Cause.AWAY


def _begin_zone(connection: Any, zone: str) -> None:
    """Have MySQL take what goes into a TIMESTAMP for times of `zone`, and not of its server's. Errors: the driver's."""
    if zone == "UTC":
        connection.cursor().execute(MYSQL_UTC)
        return
    with contextlib.suppress(Exception):  # it knows zones by name only where somebody has loaded them
        connection.cursor().execute(f"SET time_zone = '{zone}'")


def sink_database(config: Mapping[str, Any], props: Mapping[str, str]) -> SinkDatabase:
    """Makes the database of the settings. Errors: ConfigError, ImportError."""
    session = {_ZONE: config["db.timezone"]}  # by it times become those of columns without a zone
    if config["delivery.guarantee"] == EXACTLY_ONCE:
        session.update(_OF_EXACTLY_ONCE)
    driver: Any
    connect: Callable[..., Any]
    if config["connection.driver"]:
        driver = importlib.import_module(config["connection.driver"])
        dialect = dialect_of(config["connection.driver"], config["dialect"])
        positional = [config["connection.url"]] if config["connection.url"] else []
        given = parameters_of(dialect.name, config["connection.driver"], driver_settings(config))
        session.update(given.session)
        ignored: Sequence[str] = given.ignored
        arguments = {**given.query, **given.arguments} if driver_settings(config) else {}
        named = {**arguments, **_arguments(config, props)}
        deadlines = login_deadlines(config, named, CONNECT_S)

        def connect(**more: Any) -> Any:
            return after_login(deadlines, driver.connect(*positional, **{**deadlines, **named, **more}))

    else:
        found = driver_of(config)
        driver, connect, ignored = found.module, found.connect, found.ignored
        session.update(found.session)
        dialect = dialect_of_kind(found.kind)
    if config["quote.sql.identifiers"].lower() == "never":
        dialect = replace(dialect, quote="", tells_case=False)
    placeholders(driver.paramstyle, 1)
    return SinkDatabase(driver, connect, dialect, session, ignored)


def refused_by_driver(config: Mapping[str, Any], props: Mapping[str, str]) -> str:
    """Works as `refused_login`, for a driver whose connect() is known to take a deadline. Errors: ConfigError."""
    seconds, database = check_s(config), sink_database(config, props)
    if not seconds or config["connection.driver"] not in _ASKED:
        return ""
    try:
        database.connect(**login_deadlines(config, _arguments(config, props), seconds)).close()
    except Exception as error:  # a driver's: any class of its own
        is_named = config["connection.url"] or f"{ARGUMENT_PREFIX}dsn" in props
        elsewhere = "the host of connection.url" if is_named else "the driver's own host"
        place = props.get(f"{ARGUMENT_PREFIX}host") or elsewhere
        port = props.get(f"{ARGUMENT_PREFIX}port")
        return reported_of_connection(error, database.may_pass(error), f"{place}:{port}" if port else place)
    return ""


_ASKED: Final = ("psycopg", "psycopg2", "pymysql")


def login_deadlines(config: Mapping[str, Any], named: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """Arguments of connection.driver by which its login ends in time, but for those that the settings have."""
    names = LOGIN_DEADLINES.get(config["connection.driver"], ())
    text = config["connection.url"] or ""
    return {name: seconds for name in names if name not in named and name not in text}


def _arguments(config: Mapping[str, Any], props: Mapping[str, str]) -> dict[str, Any]:
    """Named arguments of connect(): numbers and true/false are converted, other values stay text."""
    found: dict[str, Any] = {
        key[len(ARGUMENT_PREFIX) :]: _typed(value) for key, value in props.items() if key.startswith(ARGUMENT_PREFIX)
    }
    if config["connection.user"]:
        found["user"] = config["connection.user"]
    if config["connection.password"] is not None:
        found["password"] = config["connection.password"].value
    return found


def _typed(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.isdecimal() else text
