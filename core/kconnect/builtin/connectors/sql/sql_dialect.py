"""SQL of three databases: quoting, placeholders, statements, column types."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigError, ConnectError, Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.api.columns import is_fine
from kconnect.builtin.connectors.sql.sql_errors import RefusedRecordError
from kconnect.builtin.types.column_type import JSON_NAME, UUID_NAME

if TYPE_CHECKING:
    import sqlalchemy as sa


_POSTGRES_BYTES = 63
_DOUBLE, _BACK = (rf"({mark}(?:[^{mark}]|{mark}{mark})*{mark})(\.|$)" for mark in ('"', "`"))
# A quoted part of a name, by database, with the dot behind it
_QUOTED = {"postgresql": (_DOUBLE,), "mysql": (_BACK,), "sqlite": (_DOUBLE, _BACK)}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database's SQL dialect."""

    name: str
    quote: str
    types: dict[str, str]
    keyed_text: str
    """Type of a text column in a primary key."""
    commits_at_ddl: bool = False
    """CREATE and ALTER end the transaction, with its savepoints: they have to come before all rows of it."""
    tells_case: bool = False
    """Whether names of columns that differ in upper and lower case alone are two."""

    def name_of(self, dotted: str) -> str:
        """A quoted name; dots part schema and table, but where a part is in the database's quotes.

        Errors: ConnectError if the database would take another name for it.
        """
        if not self.quote:
            return dotted
        parts = self._split(dotted)
        for part in parts:
            if size := self._size_if_cut(part):
                raise ConnectError(
                    f"Table {part} has a name of {size} bytes: PostgreSQL cuts it after {_POSTGRES_BYTES}, and tables "
                    "that begin alike would be one",
                    hint="Set table.name.format, or give the topic a shorter name with RegexRouter.",
                )
        return ".".join(self.column(part) for part in parts)

    def parts(self, dotted: str) -> tuple[str, str]:
        """Schema, or nothing, and table."""
        *schema, table = self._split(dotted)
        return ".".join(schema), table

    def _split(self, dotted: str) -> list[str]:
        parts, rest = [], dotted
        while True:
            quoted = next(filter(None, (re.match(mark, rest) for mark in _QUOTED[self.name])), None)
            if quoted is None:
                part, dot, rest = rest.partition(".")
            else:
                quote = quoted[1][0]
                part, dot, rest = quoted[1][1:-1].replace(quote * 2, quote), quoted[2], rest[quoted.end() :]
            parts.append(part)
            if not dot:
                return parts

    def _size_if_cut(self, name: str) -> int:
        """Its bytes where the database would cut it; else 0."""
        size = len(name.encode(errors="surrogatepass"))
        return size if self.name == "postgresql" and size > _POSTGRES_BYTES else 0

    def column(self, name: str) -> str:
        """A quoted name. Errors: DataError if the database would take another name for it, or none."""
        if "\0" in name:
            raise RefusedRecordError(f"{name!r} cannot be the name of a table or column")
        if size := self._size_if_cut(name):
            raise RefusedRecordError(
                f"Column {name} has a name of {size} bytes: PostgreSQL cuts it after {_POSTGRES_BYTES}, and columns "
                "that begin alike would be one",
                hint="Give the field a shorter name with ReplaceField, or leave it out.",
            )
        if not self.quote:
            return name
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def insert(self, table: str, columns: Sequence[str], source: str) -> str:
        """`source`: VALUES or a SELECT."""
        names = ", ".join(self.column(name) for name in columns)
        return f"INSERT INTO {self.name_of(table)} ({names}) {source}"

    def insert_nothing(self, table: str, columns: Sequence[str]) -> str:
        """An insert of no row, which fails where a row of these columns would have no place."""
        source = " FROM DUAL" if self.name == "mysql" else ""
        return self.insert(table, columns, f"SELECT {', '.join(['NULL'] * len(columns))}{source} WHERE 1=0")

    def upsert(self, table: str, columns: Sequence[str], keys: Sequence[str], source: str) -> str:
        insert = self.insert(table, columns, source)
        others = [name for name in columns if name not in keys]
        if self.name == "mysql":
            changed = others or keys[:1]  # MySQL has no DO NOTHING: a key set to itself is one
            sets = ", ".join(f"{self.column(name)} = VALUES({self.column(name)})" for name in changed)
            return f"{insert} ON DUPLICATE KEY UPDATE {sets}"
        target = f"{insert} ON CONFLICT ({', '.join(self.column(name) for name in keys)})"
        if not others:
            return f"{target} DO NOTHING"
        sets = ", ".join(f"{self.column(name)} = excluded.{self.column(name)}" for name in others)
        return f"{target} DO UPDATE SET {sets}"

    def update(self, table: str, columns: Sequence[str], keys: Sequence[str], marks: Sequence[str]) -> str:
        """Values of columns that are no keys come first, then those of the keys."""
        others = [name for name in columns if name not in keys]
        pairs = [f"{self.column(name)} = {mark}" for name, mark in zip([*others, *keys], marks, strict=True)]
        wanted = " AND ".join(pairs[len(others) :])
        return f"UPDATE {self.name_of(table)} SET {', '.join(pairs[: len(others)])} WHERE {wanted}"

    def add_column(self, table: str, name: str, kind: str) -> str:
        """Tasks may do so at once: where the database can, a column that is there already is fine."""
        guard = "IF NOT EXISTS " if self.name == "postgresql" else ""
        return f"ALTER TABLE {self.name_of(table)} ADD COLUMN {guard}{self.column(name)} {self.type_of(kind)}"

    def delete(self, table: str, keys: Sequence[str], marks: Sequence[str]) -> str:
        wanted = " AND ".join(f"{self.column(name)} = {mark}" for name, mark in zip(keys, marks, strict=True))
        return f"DELETE FROM {self.name_of(table)} WHERE {wanted}"

    def is_text(self, kind: str) -> bool:
        return self.types.get(kind) == self.types["text"]

    def create(self, table: str, columns: dict[str, str], keys: Sequence[str], collation: str = "") -> str:
        """CREATE TABLE IF NOT EXISTS; `columns` are names with kinds of `kind_of_schema`.

        `collation`: of texts in the key, empty for the database's own.
        """
        keyed_text = f"{self.keyed_text} COLLATE {collation}" if collation else self.keyed_text
        lines = []
        for name, kind in columns.items():
            type_name = keyed_text if name in keys and self.is_text(kind) else self.type_of(kind)
            lines.append(f"{self.column(name)} {type_name}" + (" NOT NULL" if name in keys else ""))
        if keys:
            lines.append(f"PRIMARY KEY ({', '.join(self.column(name) for name in keys)})")
        return f"CREATE TABLE IF NOT EXISTS {self.name_of(table)} ({', '.join(lines)})"

    def type_of(self, kind: str) -> str:
        """The type of a column: a kind of `types`, or decimal(12,2), which has the database's word for it."""
        name, bracket, digits = kind.partition("(")
        return (
            f"{self.types[name].partition('(')[0]}({digits}" if bracket and self.name != "sqlite" else self.types[name]
        )

    def adapt(self, value: Any, zone: datetime.tzinfo = datetime.UTC) -> Any:
        """A value as the driver accepts it: sqlite3 supports neither dates nor decimals, MySQL no zones."""
        if self.name == "mysql" and isinstance(value, datetime.datetime) and value.tzinfo is not None:
            return value.astimezone(zone).replace(tzinfo=None)
        if self.name != "sqlite":
            return value
        if isinstance(value, datetime.datetime):
            return value.isoformat(" ", "microseconds" if value.microsecond % 1000 else "milliseconds")
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        return str(value) if isinstance(value, decimal.Decimal) else value


def _types(text: str) -> dict[str, str]:
    """One type for each kind; kinds and types are in the order of `_KINDS`."""
    return dict(zip(_KINDS, (name.strip() for name in text.split(";")), strict=True))


# Those behind timestamp are of schemas that say more than Connect's own types do
_KINDS = (
    *("int16", "int32", "int64", "float32", "float64", "bool", "text", "bytes", "decimal", "date", "time", "timestamp"),
    *("time_us", "timestamp_us", "timestamp_ntz", "uuid", "json"),
)

DIALECTS: dict[str, Dialect] = {
    "sqlite": Dialect(
        "sqlite",
        '"',
        _types(
            "INTEGER; INTEGER; INTEGER; REAL; REAL; BOOLEAN; TEXT; BLOB; TEXT; TEXT; TEXT; TEXT; "
            "TEXT; TEXT; TEXT; TEXT; TEXT"
        ),
        "TEXT",
    ),
    "postgresql": Dialect(
        "postgresql",
        '"',
        _types(
            "SMALLINT; INTEGER; BIGINT; REAL; DOUBLE PRECISION; BOOLEAN; TEXT; BYTEA; NUMERIC; DATE; TIME; "
            "TIMESTAMPTZ; TIME; TIMESTAMPTZ; TIMESTAMP; UUID; JSONB"
        ),
        "TEXT",
        tells_case=True,
    ),
    "mysql": Dialect(
        "mysql",
        "`",
        _types(
            "SMALLINT; INT; BIGINT; FLOAT; DOUBLE; BOOLEAN; LONGTEXT; LONGBLOB; DECIMAL(65,30); DATE; TIME(3); "
            "DATETIME(3); TIME(6); DATETIME(6); DATETIME(6); CHAR(36); JSON"
        ),
        "VARCHAR(255)",
        commits_at_ddl=True,
    ),
}

EXACT_COLLATIONS = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb4_bin")
"""A MySQL or MariaDB has one of these, and the first that it has is the best: the last ignores blanks at the end.

By its own a and A, ä and a, and all emojis are one key, so that an upsert would replace the row of another record.
"""

_DRIVERS = {
    "sqlite": ("sqlite3", "pysqlite3", "apsw"),
    "postgresql": ("psycopg", "psycopg2", "pg8000", "pg8000.dbapi"),
    "mysql": ("pymysql", "MySQLdb", "mysql.connector", "mariadb"),
}


def dialect_of(driver: str, named: str) -> Dialect:
    """The dialect a setting names, or that of a known driver for `auto`. Errors: ConfigError."""
    if named != "auto":
        return DIALECTS[named]
    for name, drivers in _DRIVERS.items():
        if driver in drivers:
            return DIALECTS[name]
    raise ConfigError(
        f"The dialect of connection.driver={driver} is not known", hint=f"Set dialect to one of {', '.join(DIALECTS)}."
    )


def dialect_of_kind(kind: str) -> Dialect:
    """The dialect of a database by SQLAlchemy's name. Errors: ConfigError."""
    found = DIALECTS.get({"mariadb": "mysql"}.get(kind, kind))
    if found is None:
        raise ConfigError(f"SqlSink writes to {', '.join(DIALECTS)}, not to {kind}")
    return found


def values_of_marks(marks: Sequence[str]) -> str:
    """The source of an insert of one row."""
    return f"VALUES ({', '.join(marks)})"


def placeholders(paramstyle: str, count: int) -> list[str]:
    """The driver's marks for values. Errors: ConfigError for a style that is not supported."""
    if paramstyle in ("qmark",):
        return ["?"] * count
    if paramstyle in ("format", "pyformat"):
        return ["%s"] * count
    if paramstyle in ("numeric", "numeric_dollar"):
        return [f":{number}" for number in range(1, count + 1)]
    raise ConfigError(f"Drivers with paramstyle {paramstyle!r} are not supported")


_PRIMITIVE = {
    Type.INT8: "int16",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float32",
    Type.FLOAT64: "float64",
    Type.BOOLEAN: "bool",
    Type.STRING: "text",
    Type.BYTES: "bytes",
}
_LOGICAL = {
    Decimal.LOGICAL_NAME: "decimal",
    Date.LOGICAL_NAME: "date",
    Time.LOGICAL_NAME: "time",
    Timestamp.LOGICAL_NAME: "timestamp",
    UUID_NAME: "uuid",
    JSON_NAME: "json",
}


def kind_of_schema(schema: Schema) -> str:
    """The kind of column for a schema; nested data is text (JSON)."""
    kind = _LOGICAL.get(schema.name or "")
    if kind is None:
        return _PRIMITIVE.get(schema.type, "text")
    if kind == "decimal":
        digits, scale = Decimal.precision(schema), Decimal.scale(schema)
        return f"decimal({digits},{scale})" if digits is not None and 0 <= scale <= digits <= _MOST_DIGITS else kind
    if kind == "timestamp" and has_no_zone(schema):
        return "timestamp_ntz"
    return f"{kind}_us" if kind in ("time", "timestamp") and is_fine(schema) else kind


def has_no_zone(schema: Schema) -> bool:
    """Whether its times are those of a clock on the wall, written as if they were of UTC."""
    return schema.parameters is not None and schema.parameters.get(Timestamp.ZONE_FIELD) == Timestamp.NO_ZONE


_MOST_DIGITS = 38


def kind_of(dialect: sa.Dialect) -> str:
    """The database's kind: MariaDB, which SQLAlchemy knows by two names, is a MySQL."""
    return {"mariadb": "mysql"}.get(dialect.name, dialect.name)
