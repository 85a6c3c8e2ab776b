"""The settings of SqlSource: Confluent's JDBC source's names, types and defaults, and a few of our own."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kconnect.api import ConfigDef, ConfigError
from kconnect.builtin.connectors.sql.sql_url import DRIVER_PREFIX, with_driver_settings

_T, _I = ConfigDef.Type, ConfigDef.Importance

CHECK: Final = "connection.check.timeout.ms"
CHECK_MS: Final = 3000
CHECK_DOC: Final = (
    "Wait for the database when settings are validated: one that is away, or refuses the login, is an error then. "
    "0: do not ask it."
)
MODES = ("bulk", "timestamp", "incrementing", "timestamp+incrementing")
ISOLATION = {
    "DEFAULT": None,
    "READ_UNCOMMITTED": "READ UNCOMMITTED",
    "READ_COMMITTED": "READ COMMITTED",
    "REPEATABLE_READ": "REPEATABLE READ",
    "SERIALIZABLE": "SERIALIZABLE",
    "SQL_SERVER_SNAPSHOT": "SNAPSHOT",
}
GRANULARITIES = (
    "connect_logical",
    "micros_long",
    "micros_string",
    "micros_iso_datetime_string",
    "nanos_long",
    "nanos_string",
    "nanos_iso_datetime_string",
    "micros_debezium",
)
NUMERICS = ("none", "precision_only", "best_fit", "best_fit_eager_double")
TABLE_TYPES = ("TABLE", "VIEW", "MATERIALIZED VIEW", "PARTITIONED TABLE", "FOREIGN TABLE")


def _check_prefix(name: str, value: Any) -> None:
    text = (value or "").strip()
    if len(text) > 249 or re.search(r"[^a-zA-Z0-9._-]", text):
        raise ConfigError.invalid(name, value, "A topic has at most 249 letters, digits, '.', '_' and '-'")


def check_zone(name: str, value: Any) -> None:
    """Errors: ConfigError if it is not the name of a time zone."""
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError) as err:
        raise ConfigError.invalid(name, value, "It must be a time zone, such as Europe/Berlin or UTC") from err


def _check_patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            re.compile(pattern)
        except re.error as err:
            raise ConfigError.invalid(name, pattern, f"It must be a list of regular expressions: {err}") from err


def _check_mappings(name: str, value: Any) -> None:
    form = "regex:column" if name.startswith("incrementing") else "regex:[column|column]"
    for item in value or ():
        pattern, separator, column = item.partition(":")
        brackets = column.strip().startswith("[") and column.strip().endswith("]")
        if not separator or not column.strip(" []|") or brackets != ("[" in form):
            raise ConfigError.invalid(name, item, f"It must be a list of {form}")
        _check_patterns(name, [pattern.strip()])


class Enumerated:
    """A name, or a list of some, in small letters or in capitals; `settings_of` gives them in small ones.

    Source: EnumRecommender of Confluent's connectors.
    """

    def __init__(self, *names: str) -> None:
        self._names = tuple(name.lower() for name in names)
        self._allowed = {*self._names, *(name.upper() for name in names)}

    def ensure_valid(self, name: str, value: Any) -> None:
        for given in value if isinstance(value, list) else [value]:
            if given is not None and given not in self._allowed:
                raise ConfigError.invalid(
                    name, given, f"It must be {' or '.join(self._names)}, all in small letters or all in capitals"
                )

    def __str__(self) -> str:
        return f"[{', '.join(self._names)}]"


def settings_of(table: ConfigDef, props: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a connector, with those that it hands to the driver. Errors: ConfigError."""
    found = with_driver_settings(table, props)
    for name, key in table.config_keys.items():
        value = found[name]
        if isinstance(key.validator, Enumerated) and value is not None:
            found[name] = [one.lower() for one in value] if isinstance(value, list) else value.lower()
    return found


def credential_problems(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs of setting and message."""
    name = next((name for name in props if name.startswith("jdbc.credentials.provider.")), None)
    if name is not None:
        reference = "${env:DB_PASSWORD}"
        yield (
            "connection.password",
            f"{name} names a class of Java, which cannot be used: give a reference such as {reference}",
        )


_V = ConfigDef.LambdaValidator.with_

CONFIG = (
    ConfigDef()
    .define_prefix(DRIVER_PREFIX)
    .define(
        "connection.url",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "The database: a JDBC URL (jdbc:postgresql://host/db, jdbc:mysql://host/db, jdbc:sqlite:/path ..) or one of "
        "SQLAlchemy (postgresql://host/db, sqlite:////path ..).",
        group="Database",
    )
    .define("connection.user", _T.STRING, None, None, _I.HIGH, "User of the database.", group="Database")
    .define("connection.password", _T.PASSWORD, None, None, _I.HIGH, "Their password.", group="Database")
    .define(CHECK, _T.INT, CHECK_MS, ConfigDef.Range.at_least(0), _I.LOW, CHECK_DOC, group="Database")
    .define(
        "connection.attempts",
        _T.INT,
        None,
        None,
        _I.LOW,
        "Failures in a row before the task fails, if retry.timeout.ms does not end it before; not set: any number. "
        "Confluent's default is 3.",
        group="Database",
    )
    .define(
        "connection.backoff.ms",
        _T.LONG,
        10000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Longest wait between two attempts; the first is a tenth of a second, each next is twice as long.",
        group="Database",
    )
    .define(
        "retry.timeout.ms",
        _T.LONG,
        300000,
        ConfigDef.Range.at_least(-1),
        _I.MEDIUM,
        "How long the database may be away before the task fails; -1: without end.",
        group="Database",
    )
    .define(
        "table.whitelist",
        _T.LIST,
        "",
        None,
        _I.MEDIUM,
        "Tables to copy: table or schema.table. Empty: all that are not left out.",
        group="Database",
    )
    .define("table.blacklist", _T.LIST, "", None, _I.MEDIUM, "Tables to leave out.", group="Database")
    .define(
        "table.include.list",
        _T.LIST,
        [],
        _V(_check_patterns, "a list of regular expressions"),
        _I.MEDIUM,
        "Regular expressions of full names (schema.table) of tables to copy; not beside the two before.",
        group="Database",
    )
    .define(
        "table.exclude.list",
        _T.LIST,
        [],
        _V(_check_patterns, "a list of regular expressions"),
        _I.MEDIUM,
        "Regular expressions of full names of tables to leave out of these.",
        group="Database",
    )
    .define(
        "catalog.pattern",
        _T.STRING,
        None,
        None,
        _I.MEDIUM,
        "Database whose tables count, a pattern of SQL's LIKE; not set: any. Only the connection's can be read.",
        group="Database",
    )
    .define(
        "schema.pattern",
        _T.STRING,
        None,
        None,
        _I.HIGH,
        "Schemas whose tables count, a pattern of SQL's LIKE; not set: all but the system's.",
        group="Database",
    )
    .define(
        "numeric.precision.mapping",
        _T.BOOLEAN,
        False,
        None,
        _I.LOW,
        "The same as numeric.mapping=precision_only.",
        group="Database",
    )
    .define(
        "numeric.mapping",
        _T.STRING,
        None,
        Enumerated(*NUMERICS),
        _I.LOW,
        "What NUMERIC becomes. none: Decimal; precision_only: an integer where the scale is 0 and it fits; best_fit: "
        "an integer or FLOAT64 up to 18 digits; best_fit_eager_double: FLOAT64 for any with a scale. One without "
        "precision is text with the first three, as no Decimal holds all of its values.",
        group="Database",
    )
    .define(
        "bigint.unsigned.handling.mode",
        _T.STRING,
        "long",
        ConfigDef.ValidString.in_("long", "precise"),
        _I.LOW,
        "What BIGINT UNSIGNED of MySQL becomes. long: INT64, and a value that is too large for it is an error; "
        "precise: Decimal of 20 digits.",
        group="Database",
    )
    .define(
        "dialect.name",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Accepted for Confluent's sake: the dialect is that of the URL.",
        group="Database",
    )
    .define(
        "date.calendar.system",
        _T.STRING,
        "LEGACY",
        Enumerated("LEGACY", "PROLEPTIC_GREGORIAN"),
        _I.LOW,
        "Accepted for Confluent's sake: dates before 1582 are always those of the proleptic Gregorian calendar.",
        group="Database",
    )
    .define(
        "mode",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.ValidString.in_(*MODES),
        _I.HIGH,
        "bulk: everything at each round; incrementing: rows whose id is greater than the last; timestamp: rows whose "
        "time is later than the last; timestamp+incrementing: both, so that each row has an offset of its own.",
        group="Mode",
    )
    .define(
        "incrementing.column.name",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Column that only grows; empty: the table's autoincrement column.",
        group="Mode",
    )
    .define(
        "timestamp.column.name",
        _T.LIST,
        "",
        None,
        _I.MEDIUM,
        "Columns with the time of the last change; of several the first that is not null counts.",
        group="Mode",
    )
    .define(
        "timestamp.columns.mapping",
        _T.LIST,
        [],
        _V(_check_mappings, "a list of regex:[column|column]"),
        _I.MEDIUM,
        "The same for each table: regex:[column|column]; for table.include.list.",
        group="Mode",
    )
    .define(
        "incrementing.column.mapping",
        _T.LIST,
        [],
        _V(_check_mappings, "a list of regex:column"),
        _I.MEDIUM,
        "incrementing.column.name for each table: regex:column; for table.include.list.",
        group="Mode",
    )
    .define(
        "timestamp.initial",
        _T.LONG,
        None,
        None,
        _I.LOW,
        "Where to begin without an offset: ms since 1970, -1 for the present; not set: at the beginning.",
        group="Mode",
    )
    .define(
        "validate.non.null",
        _T.BOOLEAN,
        True,
        None,
        _I.LOW,
        "Refuse tables whose columns for the mode may be null: rows without a value are never found.",
        group="Mode",
    )
    .define(
        "query",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "A query instead of tables; a mode reads what is new of its rows.",
        group="Mode",
    )
    .define("query.masked", _T.PASSWORD, None, None, _I.MEDIUM, "The same, never shown.", group="Mode")
    .define(
        "quote.sql.identifiers",
        _T.STRING,
        "always",
        Enumerated("always", "never"),
        _I.MEDIUM,
        "Whether names of tables and columns are quoted.",
        group="Mode",
    )
    .define("query.suffix", _T.STRING, "", None, _I.LOW, "Text at the end of each statement.", group="Mode")
    .define(
        "transaction.isolation.mode",
        _T.STRING,
        "DEFAULT",
        Enumerated(*ISOLATION),
        _I.LOW,
        "Isolation level of the transactions that read.",
        group="Mode",
    )
    .define(
        "query.retry.attempts",
        _T.INT,
        -1,
        None,
        _I.LOW,
        "The same as connection.attempts if it is above 0; the smaller counts.",
        group="Mode",
    )
    .define(
        "table.types",
        _T.LIST,
        "TABLE",
        Enumerated(*TABLE_TYPES),
        _I.LOW,
        "Types of tables that count.",
        group="Connector",
    )
    .define(
        "poll.interval.ms",
        _T.INT,
        5000,
        ConfigDef.Range.at_least(1),
        _I.HIGH,
        "Time between the end of a table's round and its next.",
        group="Connector",
    )
    .define(
        "batch.max.rows",
        _T.INT,
        1000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Most rows of a batch; at most four batches are in memory.",
        group="Connector",
    )
    .define(
        "table.monitoring.startup.polling.limit.ms",
        _T.LONG,
        10000,
        None,
        _I.LOW,
        "Accepted for Confluent's sake: tasks start when the tables are known.",
        group="Connector",
    )
    .define("max.buffer.size", _T.INT, 0, None, _I.LOW, "Accepted for Confluent's sake.", group="Connector")
    .define("poll.linger.ms", _T.LONG, 5000, None, _I.LOW, "Accepted for Confluent's sake.", group="Connector")
    .define(
        "table.poll.interval.ms",
        _T.LONG,
        60000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "How often to look for tables that are new or gone.",
        group="Connector",
    )
    .define(
        "topic.prefix",
        _T.STRING,
        "",
        _V(_check_prefix, "letters, digits, '.', '_' and '-'"),
        _I.HIGH,
        "The topic is this with the table's name, or this alone for a query.",
        group="Connector",
    )
    .define(
        "timestamp.delay.interval.ms",
        _T.LONG,
        0,
        ConfigDef.Range.at_least(0),
        _I.HIGH,
        "Rows younger than this wait for the next round, so that transactions with earlier times can end.",
        group="Connector",
    )
    .define(
        "db.timezone",
        _T.STRING,
        "UTC",
        _V(check_zone, "a time zone"),
        _I.MEDIUM,
        "Time zone of times that have none in the database.",
        group="Connector",
    )
    .define(
        "timestamp.granularity",
        _T.STRING,
        "connect_logical",
        Enumerated(*GRANULARITIES),
        _I.LOW,
        "What a timestamp becomes: Connect's Timestamp (milliseconds), or micro- or nanoseconds as number or text. "
        "micros_debezium: Debezium's MicroTimestamp and ZonedTimestamp, and of a time MicroTime, which our sinks and "
        "Debezium's take for times.",
        group="Connector",
    )
)


def query_of(config: Mapping[str, Any]) -> str:
    """The query without a semicolon at its end; empty if tables are read."""
    masked = config["query.masked"]
    text: str = (masked.value if masked is not None else "") or config["query"] or ""
    return text.strip().rstrip(";").rstrip()
