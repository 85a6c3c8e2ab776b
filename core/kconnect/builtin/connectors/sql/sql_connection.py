"""Connections of SqlSource: how they are opened, ended from outside, and which of their errors may pass."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kconnect.api import ConfigError
from kconnect.api.config_key import MayPass
from kconnect.builtin.connectors.sql.sql_dialect import kind_of
from kconnect.builtin.connectors.sql.sql_errors import OF_PYTHON, REFUSALS, Cause, blame, is_misuse
from kconnect.builtin.connectors.sql.sql_parameters import invalid
from kconnect.builtin.connectors.sql.sql_session import begin_session
from kconnect.builtin.connectors.sql.sql_source_config import CHECK, ISOLATION
from kconnect.builtin.connectors.sql.sql_url import Address, address_of, package_of

if TYPE_CHECKING:
    import sqlalchemy as sa

log = logging.getLogger(__name__)

CONNECT_S: Final = 10
# A server that does not acknowledge for so long is gone: what it was asked ends with an error
_SILENCE_MS: Final = 30_000
_CANCEL_S: Final = 2.0


def require_sqlalchemy() -> None:
    """Errors: ConfigError that says how to install it."""
    try:
        import sqlalchemy  # noqa: F401 - to see whether it is there
    except ImportError as err:
        raise ConfigError(
            "SQLAlchemy is not installed",
            hint="Install it, and the database's driver as docs/databases.md says: pip install sqlalchemy.",
        ) from err


def engine_of(config: Mapping[str, Any], connect_s: int = CONNECT_S, *, makes_file: bool = False) -> sa.Engine:
    """What opens connections; it holds none. Errors: ConfigError.

    `makes_file`: an SQLite file that does not exist is made; otherwise opening it fails.
    """
    return _opened(config, connect_s, makes_file)[0]


def _opened(config: Mapping[str, Any], connect_s: int, makes_file: bool) -> tuple[sa.Engine, Address]:
    require_sqlalchemy()
    import sqlalchemy as sa

    address = address_of(config)
    url = address.url
    if url.drivername.startswith("sqlite") and not makes_file and (url.database or ":memory:") != ":memory:":
        path = url.database if str(url.database).startswith("file:") else f"file:{quote(str(url.database))}"
        url = url.set(database=path, query={"mode": "rw", "uri": "true", **url.query})
    isolation = ISOLATION[str(config.get("transaction.isolation.mode", "DEFAULT")).upper()]
    options: dict[str, Any] = {} if isolation is None else {"isolation_level": isolation}
    deadlines = _deadlines(url, connect_s)
    arguments = {**deadlines, **address.arguments}
    try:
        engine = sa.create_engine(
            url, poolclass=sa.pool.NullPool, connect_args=arguments, hide_parameters=True, **options
        )
    except sa.exc.NoSuchModuleError as err:
        raise invalid(f"SQLAlchemy has no dialect for it: {err}") from err
    except sa.exc.ArgumentError as err:
        raise invalid(_not_taken(url, err)) from None  # its words have the URL, and parameters may be secret
    except ImportError as err:
        advice = f": pip install '{package}'" if (package := package_of(url.drivername)) else ""
        raise invalid(f"the driver cannot be imported: {err}{advice}") from err
    sa.event.listen(engine, "connect", partial(after_login, deadlines))
    if address.opening:
        sa.event.listen(engine, "connect", partial(_open, address.opening))
    if kind_of(engine.dialect) == "postgresql":
        sa.event.listen(engine, "connect", partial(_begin_session, address.session))
        sa.event.listen(engine, "begin", _begin_transaction)
    if url.drivername.endswith("psycopg"):
        from kconnect.builtin.connectors.sql.sql_psycopg import prepare

        sa.event.listen(engine, "connect", prepare)
    return engine, address


def _not_taken(url: sa.URL, error: Exception) -> str:
    if url.drivername.startswith("sqlite"):
        return (
            "an SQLite file has no host, port, user or password; "
            "write sqlite:///relative/file.db or sqlite:////absolute/file.db"
        )
    words = str(error).splitlines()[0].replace(url.render_as_string(hide_password=True), "..")
    return f"SQLAlchemy does not take it: {words}"


_BEGIN: Final = "kconnect-begin"


def _open(statements: Sequence[str], connection: Any, _record: object = None) -> Any:
    """A listener of SQLAlchemy's event `connect`; gives the connection."""
    for statement in statements:
        connection.cursor().execute(statement)
    if statements:
        connection.commit()
    return connection


def _begin_session(settings: Mapping[str, str], connection: Any, record: Any) -> None:
    """A listener of SQLAlchemy's event `connect`."""
    record.info[_BEGIN] = begin_session(connection, settings)


def _begin_transaction(connection: sa.Connection) -> None:
    """A listener of SQLAlchemy's event `begin`."""
    text = connection.info[_BEGIN]
    if text:
        driver_connection(connection).cursor().execute(text)


def _deadlines(url: sa.URL, connect_s: int) -> dict[str, Any]:
    """Arguments of the driver by which no call waits endlessly for a server that is gone; the URL's own count more."""
    driver = "sqlite3" if url.drivername.startswith("sqlite") else url.drivername.rpartition("+")[2]
    wanted = dict.fromkeys(LOGIN_DEADLINES.get(driver, ()), connect_s)
    if driver in ("psycopg", "psycopg2"):
        wanted |= {
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": _SILENCE_MS,
        }
    return {name: value for name, value in wanted.items() if name not in url.query}


LOGIN_DEADLINES: Final[Mapping[str, Sequence[str]]] = {
    "psycopg": ("connect_timeout",),
    "psycopg2": ("connect_timeout",),
    "pymysql": ("connect_timeout", "read_timeout"),  # the first is of TCP alone
    "pg8000": ("timeout",),
    "sqlite3": ("timeout",),
}
"""Arguments of a driver's connect(), in seconds, by which a login ends in time."""


def after_login(deadlines: Container[str], connection: Any, _record: object = None) -> Any:
    """Lifts deadlines that would hold for each answer, where they were ours; gives the connection.

    Drivers have no public name for it: what they are given for a login holds for statements that run for hours.
    """
    if "read_timeout" in deadlines and hasattr(connection, "_read_timeout"):  # PyMySQL
        connection._read_timeout = None
    if "timeout" in deadlines and hasattr(connection, "_usock"):  # pg8000
        connection._usock.settimeout(None)
    return connection


@dataclass(frozen=True, slots=True)
class Driver:
    """How connections of a DB-API driver are opened, without SQLAlchemy."""

    module: Any
    kind: str
    """The database's."""
    connect: Callable[[], Any]
    session: Mapping[str, str]
    """Settings of PostgreSQL that each transaction needs."""
    ignored: Sequence[str]
    """Parameters without effect."""


def driver_of(config: Mapping[str, Any]) -> Driver:
    """Errors: ConfigError."""
    engine, address = _opened(config, CONNECT_S, makes_file=True)
    positional, named = engine.dialect.create_connect_args(engine.url)
    deadlines = _deadlines(engine.url, CONNECT_S)
    named = {**deadlines, **named, **address.arguments}
    module: Any = engine.dialect.loaded_dbapi

    def connect() -> Any:
        return _open(address.opening, after_login(deadlines, module.connect(*positional, **named)))

    return Driver(module, kind_of(engine.dialect), connect, address.session, address.ignored)


def driver_connection(connection: sa.Connection) -> Any:
    """The driver's own connection."""
    return connection.connection.driver_connection


def cancel(connection: Any, engine: sa.Engine) -> None:
    """End what runs on the driver's connection. From any thread; errors are of no interest: it is given up."""
    by_driver: dict[str, Callable[[], object]] = {}
    if hasattr(connection, "cancel_safe"):
        by_driver["postgresql"] = lambda: connection.cancel_safe(timeout=_CANCEL_S)
    elif hasattr(connection, "cancel"):
        by_driver["postgresql"] = connection.cancel
    if hasattr(connection, "interrupt"):
        by_driver["sqlite"] = connection.interrupt
    if hasattr(connection, "thread_id"):
        by_driver["mysql"] = lambda: _kill_query(connection.thread_id(), engine)
    end = by_driver.get(kind_of(engine.dialect))
    if end is not None:
        with contextlib.suppress(Exception):  # the connection may be closed already
            end()


def _kill_query(number: int, engine: sa.Engine) -> None:
    """MySQL gets it on another connection: its drivers wait for an answer, and so does the statement for its end."""
    positional, named = engine.dialect.create_connect_args(engine.url)
    driver: Any = engine.dialect.loaded_dbapi
    with contextlib.closing(driver.connect(*positional, **named, **_deadlines(engine.url, int(_CANCEL_S)))) as other:
        other.cursor().execute(f"KILL QUERY {number}")


def give_up_rows(connection: sa.Connection, cursor: Any) -> None:
    """Leave a result before its last row. The connection is of no use afterwards where MySQL's driver is it.

    PyMySQL reads all that is left when a cursor is closed or forgotten, even from a connection that is lost.
    """
    result = getattr(cursor, "_result", None)
    if getattr(result, "unbuffered_active", False):
        result.unbuffered_active = False  # type: ignore[union-attr]  # it has one
        connection.invalidate()


def cause_of(error: BaseException) -> BaseException:
    """The driver's error inside one of SQLAlchemy's."""
    return getattr(error, "orig", None) or error


def may_pass(error: BaseException, kind: str) -> bool:
    """Whether the same call may succeed later by itself: the database is away, busy or ended the transaction."""
    import sqlalchemy as sa

    if not isinstance(error, sa.exc.DBAPIError):
        return isinstance(error, (sa.exc.TimeoutError, OSError))
    if REFUSALS.search(str(error.orig)) or "unable to open database file" in str(error.orig):
        return False
    return error.connection_invalidated or blame(kind, cause_of(error)) is Cause.AWAY


def check_s(config: Mapping[str, Any]) -> int:
    """How long a validation waits for the database; 0 if it does not ask it. Units: whole seconds, as drivers have."""
    return -(-int(config[CHECK]) // 1000)


def refused_login(config: Mapping[str, Any]) -> str:
    """Why there is no connection, MayPass if the server is away; empty if there is one, or nobody shall look.

    A file is looked at by nobody: the first task makes it. Errors: ConfigError.
    """
    import sqlalchemy as sa

    engine = engine_of(config, check_s(config))
    if kind_of(engine.dialect) == "sqlite" or not check_s(config):
        return ""
    try:
        engine.connect().close()
    except (sa.exc.SQLAlchemyError, *OF_LOGINS) as error:
        return no_connection(error, engine)
    return ""


OF_LOGINS: Final = (OSError, *OF_PYTHON)
"""What drivers raise at a login besides errors of their own: of the network, or for arguments they do not have."""


def no_connection(error: BaseException, engine: sa.Engine) -> str:
    """The message about a connection that failed, MayPass if the server is away."""
    url, kind = engine.url, kind_of(engine.dialect)
    host = url.host or url.query.get("host") or "localhost"
    place = f"{host}:{url.port or _PORTS.get(kind)}" if isinstance(host, str) else ",".join(host)
    server = f"{place}, " if kind in _PORTS else ""
    return reported_of_connection(error, may_pass(error, kind), f"{server}database {url.database}")


def reported_of_connection(error: BaseException, is_away: bool, where: str) -> str:
    """The same, of any driver's error. `where`: what was asked."""
    if not is_away:
        cause = cause_of(error)
        is_driver = isinstance(cause, OF_PYTHON) or is_misuse(cause)
        who = "The driver does not take these parameters" if is_driver else "The database refuses the connection"
        return f"{who}: {error_text(error)} ({where})"
    return MayPass(
        f"The database cannot be reached: {error_text(error)} ({where}). "
        f"Start it, correct the setting, or set {CHECK}=0"
    )


_PORTS: Final = {"postgresql": 5432, "mysql": 3306}


def error_text(error: BaseException) -> str:
    """An error in one line: what the database says, without the statement."""
    cause = cause_of(error)
    text = getattr(getattr(cause, "diag", None), "message_primary", None) or str(cause)
    return f"{type(cause).__name__}: {' '.join(text.split())}"
