"""What an error of a database is about: one table of SQLSTATEs and of the codes of MySQL and SQLite. Pure.

Only what describes a record may become a dead letter. All else is about the database or its user: another record would
be reported the same, and the same record is welcome later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from kconnect.api import DataError


class Cause(Enum):
    """Whom an error is about."""

    RECORD = "the values of the record"
    SHAPE = "the columns of the record, unless the table has changed"
    AWAY = "the database, for a while: it is away, busy, or undid the transaction"
    STATE = "the database, until somebody changes it: no right, no table, read-only"
    REFUSED = "the connector: its login or its statement is refused each time"

    @property
    def is_of_record(self) -> bool:
        """Whether the record alone may be to blame."""
        return self in (Cause.RECORD, Cause.SHAPE)


class RefusedRecordError(DataError):
    """What is refused of a record for itself, however many others have the same: its table has not changed."""


# By SQLSTATE, or by its class of two letters. All others are STATE.
POSTGRESQL: Final[Mapping[str, Cause]] = {
    "22": Cause.RECORD,  # values that a type cannot hold
    "23": Cause.RECORD,  # constraints
    "44": Cause.RECORD,  # the condition of a view
    "P0": Cause.RECORD,  # raised by a function or trigger
    "42602": Cause.RECORD,  # a name that cannot be one
    "42701": Cause.RECORD,  # two columns of one name
    "54000": Cause.RECORD,  # a row or an entry of an index that is too large
    "54011": Cause.RECORD,  # too many columns
    "428C9": Cause.SHAPE,  # a column that the database alone fills
    "42703": Cause.SHAPE,  # no such column
    "42804": Cause.SHAPE,  # a column of another type
    "42846": Cause.SHAPE,  # no conversion
    "42883": Cause.SHAPE,  # no comparison of a key with its column
    "08": Cause.AWAY,  # connection
    "26": Cause.AWAY,  # a prepared statement that a pooler gave to another
    "34": Cause.AWAY,  # the same of a cursor
    "40": Cause.AWAY,  # deadlock, serialization
    "42P05": Cause.AWAY,  # as 26: another's statement is in the way
    "53": Cause.AWAY,  # disk full, out of memory, too many connections
    "55": Cause.AWAY,  # lock not available, object in use
    "57": Cause.AWAY,  # cancelled, shut down, starting
    "58": Cause.AWAY,  # input or output of the server
    "25": Cause.STATE,  # 25006: read-only, as a standby is
    "3F": Cause.STATE,  # no such schema
    "42501": Cause.STATE,  # no right
    "42P01": Cause.STATE,  # no such table
    "XX": Cause.STATE,  # damaged
    "0A": Cause.REFUSED,  # not supported
    "28": Cause.REFUSED,  # login
    "3D": Cause.REFUSED,  # no such database
    "42601": Cause.REFUSED,  # syntax
    "42P10": Cause.REFUSED,  # upsert without a constraint on the key
}

# By the server's or the client's number, of MySQL and MariaDB. All others are STATE.
MYSQL: Final[Mapping[int, Cause]] = {
    **dict.fromkeys((1048, 1364), Cause.RECORD),  # no value
    **dict.fromkeys((1062, 1169, 1586), Cause.RECORD),  # duplicates
    **dict.fromkeys((1216, 1217, 1451, 1452), Cause.RECORD),  # foreign keys
    **dict.fromkeys((1264, 1265, 1292, 1300, 1366, 1367, 1406, 1411, 1416, 1441, 1690, 3140), Cause.RECORD),  # values
    **dict.fromkeys((3819, 4025, 1369, 1525, 1526, 1644), Cause.RECORD),  # CHECK, views, partitions, SIGNAL
    **dict.fromkeys((1059, 1060, 1071, 1117, 1118, 1166), Cause.RECORD),  # columns that no table can have
    1153: Cause.RECORD,  # larger than max_allowed_packet
    4078: Cause.RECORD,  # a value of another type than that of a UUID, an address, a geometry
    **dict.fromkeys((1054, 1136, 1267, 1348, 1906, 3105), Cause.SHAPE),  # no such column, or not to be written to
    **dict.fromkeys((2002, 2003, 2006, 2013, 2055, 1053, 1152, 1158, 1159, 1160, 1161, 1927, 4031), Cause.AWAY),
    **dict.fromkeys((1205, 1206, 1213, 1317, 1969, 3024, 1412), Cause.AWAY),  # locks, deadlocks, deadlines
    **dict.fromkeys((1021, 1037, 1038, 1040, 1041, 1114, 1129, 1203, 1226), Cause.AWAY),  # full, too many
    **dict.fromkeys((1290, 1792, 1836, 1036), Cause.STATE),  # read-only
    **dict.fromkeys((1142, 1143, 1227, 1370), Cause.STATE),  # no right
    **dict.fromkeys((1146, 1347, 1471), Cause.STATE),  # no such table, or none that can be written to
    **dict.fromkeys((1044, 1045, 1049, 1130, 1251, 1698, 2026, 2054, 2059, 2061), Cause.REFUSED),  # login
    1064: Cause.REFUSED,  # syntax
}

# By the primary code of SQLite. All others are STATE.
SQLITE: Final[Mapping[int, Cause]] = {
    18: Cause.RECORD,  # TOOBIG
    19: Cause.RECORD,  # CONSTRAINT
    20: Cause.RECORD,  # MISMATCH
    5: Cause.AWAY,  # BUSY
    6: Cause.AWAY,  # LOCKED
    9: Cause.AWAY,  # INTERRUPT
    10: Cause.AWAY,  # IOERR
    13: Cause.AWAY,  # FULL
    14: Cause.AWAY,  # CANTOPEN
    8: Cause.STATE,  # READONLY
    11: Cause.STATE,  # CORRUPT
    26: Cause.REFUSED,  # NOTADB
}
# SQLite has one code for all that a statement may have wrong: 1
SQLITE_MESSAGES: Final[tuple[tuple[str, Cause], ...]] = (
    (r"no such table", Cause.STATE),
    (r"has no column named|no such column|cannot (INSERT into|UPDATE) generated column", Cause.SHAPE),
    (r"duplicate column name|too many (columns|SQL variables)", Cause.RECORD),
    (r"ON CONFLICT clause does not match|syntax error|unknown database", Cause.REFUSED),
)

OF_POOLERS: Final = ("26000", "42P05", "08P01")
"""States of a session that somebody else has prepared statements in."""

# What servers say when they refuse to connect; PostgreSQL's driver gives no SQLSTATE for these
REFUSALS: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba.conf entry|"
    r"(role|database|user) \"[^\"]*\" (does not exist|is not permitted)|Access denied|Unknown database|"
    r"authentication method|permission denied|does not support SSL|certificate verify failed",
    re.IGNORECASE,
)
_SQLITE_ERROR: Final = 1
_OF_CONNECTION: Final = {"OperationalError", "InterfaceError"}
_OF_VALUE: Final = {"DataError", "ProgrammingError"}
OF_PYTHON: Final = (ValueError, TypeError, ArithmeticError)
"""What drivers raise of Python's own for a value that they cannot send."""


def blame(kind: str, error: BaseException) -> Cause:
    """Whom an error of a database of that kind is about: of any driver, of Python for a value, or of ours."""
    if isinstance(error, DataError):
        return Cause.RECORD if isinstance(error, RefusedRecordError) else Cause.SHAPE
    code = code_of(kind, error)
    if kind == "postgresql" and code:
        found = POSTGRESQL.get(str(code)) or POSTGRESQL.get(str(code)[:2], Cause.STATE)
        is_of_value = found in (Cause.STATE, Cause.REFUSED) and _PARAMETER.search(_context(error))
        return Cause.RECORD if is_of_value else found  # tsvector has a syntax, regclass names a table
    if kind == "mysql" and code:
        return MYSQL.get(int(code), Cause.STATE)
    if kind == "sqlite" and code:
        return _of_sqlite(int(code), str(error))
    if isinstance(error, OSError):
        return Cause.AWAY
    names = {one.__name__ for one in type(error).__mro__}  # of DB-API's exceptions, which each driver has its own
    if kind == "sqlite" and "Could not decode to UTF-8" in str(error):  # Python's, which has no code and is for good
        return Cause.RECORD
    if names & _OF_CONNECTION:
        return Cause.REFUSED if REFUSALS.search(str(error)) else Cause.AWAY
    return Cause.RECORD if isinstance(error, OF_PYTHON) or names & _OF_VALUE else Cause.STATE


def is_misuse(error: BaseException) -> bool:
    """Whether a driver refused how it was called, and asked no server: DB-API's ProgrammingError without a code."""
    has_code = any(code_of(kind, error) for kind in ("postgresql", "mysql"))
    return not has_code and "ProgrammingError" in {one.__name__ for one in type(error).__mro__}


def code_of(kind: str, error: BaseException) -> str | int | None:
    """SQLSTATE of PostgreSQL, number of MySQL, code of SQLite; None where the driver gives none."""
    first: Any = error.args[0] if error.args else None
    if kind == "postgresql":
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        return state or (first.get("C") if isinstance(first, dict) else None)  # pg8000
    if kind == "mysql":
        number = getattr(error, "errno", first)
        return number if isinstance(number, int) else None
    return getattr(error, "sqlite_errorcode", None)


def hint_of(kind: str, error: BaseException) -> str | None:
    """What to do about an error of the database."""
    code = code_of(kind, error)
    if kind == "sqlite" and code:
        code = int(code) & 0xFF
    for codes, words, hint in _HINTS:
        if code in codes or (words and re.search(words, str(error))):
            return hint.format("`" if kind == "mysql" else '"')
    return None


def reported_of_row(error: BaseException, columns: Sequence[str], values: Sequence[Any]) -> str:
    """An error of a row in one line, with the column where PostgreSQL tells which: as the values of its statement."""
    diag = getattr(error, "diag", None)
    primary = getattr(diag, "message_primary", None)
    if not primary:
        column = _unsendable(error, columns, values)
        return f"{type(error).__name__}: {f'column {column}: ' if column else ''}{' '.join(str(error).split())}"
    detail = f" {diag.message_detail}" if diag is not None and diag.message_detail else ""
    column = _column(primary, _context(error), columns, values)
    return f"{type(error).__name__}: {f'column {column}: ' if column else ''}{primary}{detail}"


def _column(primary: str, context: str, columns: Sequence[str], values: Sequence[Any]) -> str | None:
    number = _PARAMETER.search(context)
    if number is not None and int(number[1]) <= len(columns):
        return columns[int(number[1]) - 1]
    limit = re.search(r"too long for type character(?: varying)?\((\d+)\)", primary)
    if limit is None:
        return None
    longer = [
        name
        for name, value in zip(columns, values, strict=True)
        if isinstance(value, str) and len(value) > int(limit[1])
    ]
    return longer[0] if len(longer) == 1 else None


def _context(error: BaseException) -> str:
    """Where PostgreSQL was: in a parameter, say; empty of others."""
    first: Any = error.args[0] if error.args else None
    found = getattr(getattr(error, "diag", None), "context", None)
    return found or (str(first.get("W") or "") if isinstance(first, dict) else "")  # pg8000


def _unsendable(error: BaseException, columns: Sequence[str], values: Sequence[Any]) -> str | None:
    """The column whose value a driver has not sent: half a character, NUL, infinity."""
    if isinstance(error, UnicodeEncodeError):
        words = r"[\ud800-\udfff]"
    elif "NUL (0x00)" in str(error):
        words = r"\x00"
    elif "be used with MySQL" in str(error):
        words = r"^(inf|-inf|nan)$"
    else:
        return None
    cells = zip(columns, values, strict=True)
    return next((name for name, value in cells if re.search(words, str(value))), None)


_PARAMETER: Final = re.compile(r"portal parameter \$(\d+)")
_DOTS: Final = (
    "Dots part schema and table. A name that has some is quoted, as in table.name.format={0}${{topic}}{0}; or give the "
    "topic another name with RegexRouter."
)
_HINTS: Final[tuple[tuple[tuple[str | int, ...], str, str], ...]] = (
    (
        ("25006", 1290, 1792, 1836, 8),
        "",
        "Connect to the server that can be written to: with several hosts in a PostgreSQL URL, "
        "targetServerType=primary finds it.",
    ),
    (
        ("42501", 1142, 1143),
        "",
        "Grant the connection's user INSERT on the table, for upserts and updates SELECT and UPDATE too.",
    ),
    (
        ("428C9", 1906, 3105),
        "cannot (INSERT into|UPDATE) generated column",
        "Leave the field out, by fields.whitelist or ReplaceField: the database fills its column.",
    ),
    (("42P01", 1146), "no such table", "Make the table, or set auto.create=true."),
    (
        ("42703",),
        "",
        "Add the column, or set auto.evolve=true. Names are quoted, so that their case counts: "
        "quote.sql.identifiers=never writes userId as userid.",
    ),
    ((1054,), "has no column named|no such column", "Add the column, or set auto.evolve=true."),
    (("3F000", 1049), r"cross-database references|unknown database|near \"\.\"|near '\.", _DOTS),
    (
        ("42P10",),
        "ON CONFLICT clause does not match",
        "Give the table a primary key or a unique constraint on just the columns of pk.fields.",
    ),
)


def _of_sqlite(code: int, text: str) -> Cause:
    if code == _SQLITE_ERROR:
        found = (cause for words, cause in SQLITE_MESSAGES if re.search(words, text))
        return next(found, Cause.STATE)
    return SQLITE.get(code & 0xFF, Cause.STATE)
