"""What a connection may keep: to PostgreSQL little, as a pooler hands a server's session from one client to the next.

PgBouncer and its like give each transaction whatever session is free. A statement that was prepared there by name is
then found by another client under the same name: its rows land in a table of ours, or ours in one of its own. So
statements are prepared only in a session that is known to be the connection's alone, and settings are made for that
session there, else for each transaction. Measured with rows of four columns into PostgreSQL: 19 us a row prepared, 45
not, so that it is worth asking.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

READ_ONLY: Final = "default_transaction_read_only"
MYSQL_UTC: Final = "SET time_zone = '+00:00'"
"""What MySQL needs to give a TIMESTAMP as the moment that it is: by the clock of a zone an hour of autumn comes twice.

Not for queries of users: their NOW() and DATE(..) are of the session's zone.
"""
# Settings whose name for a transaction is another than for a session
_LOCAL: Final = {READ_ONLY: "transaction_read_only"}


def begin_session(connection: Any, settings: Mapping[str, str], *, prepares: bool = True) -> str:
    """Make a driver's new connection ready; gives the statement that has to begin each transaction, empty if none has.

    `settings`: of the server, such as search_path. `prepares`: whether statements may be prepared if the session is
    ours. Errors: the driver's.
    """
    is_own = _is_own(connection)
    if hasattr(connection, "prepare_threshold") and not (is_own and prepares):
        connection.prepare_threshold = None  # psycopg; other drivers do not prepare by name
    if not settings:
        return ""
    if not is_own:
        return _set({_LOCAL.get(name, name): value for name, value in settings.items()}, "true")
    connection.cursor().execute(_set(settings, "false"))
    connection.commit()
    return ""


def _is_own(connection: Any) -> bool:
    """Whether the process that answers is the one that the server named at login: a pooler names one of its own."""
    reported = getattr(getattr(connection, "info", None), "backend_pid", None)
    if not reported:
        return False
    cursor = connection.cursor()
    cursor.execute("SELECT pg_backend_pid()")
    row = cursor.fetchone()
    connection.rollback()
    return bool(row[0] == reported)


def _set(settings: Mapping[str, str], is_local: str) -> str:
    calls = (f"set_config({_text(name)}, {_text(value)}, {is_local})" for name, value in settings.items())
    return f"SELECT {', '.join(calls)}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
