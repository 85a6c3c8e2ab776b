"""The settings of SqlSink."""

from __future__ import annotations

from kconnect.api import ConfigDef
from kconnect.builtin.connectors.sql.sql_dialect import DIALECTS
from kconnect.builtin.connectors.sql.sql_source_config import (
    CHECK,
    CHECK_DOC,
    CHECK_MS,
    TABLE_TYPES,
    Enumerated,
    check_zone,
)
from kconnect.builtin.connectors.sql.sql_url import DRIVER_PREFIX
from kconnect.builtin.types.contracts import with_contract
from kconnect.builtin.types.declarations import with_value_schema

ARGUMENT_PREFIX = "connection.arg."
EXACTLY_ONCE = "exactly_once"
_T, _I = ConfigDef.Type, ConfigDef.Importance

CONFIG = (
    with_contract(with_value_schema(ConfigDef()))
    .define_prefix(DRIVER_PREFIX)
    .define(
        "connection.driver",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "Module of a DB-API driver (sqlite3, psycopg, pymysql), to connect without SQLAlchemy; empty: connection.url "
        "is a URL.",
    )
    .define(
        "connection.url",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "A JDBC URL (jdbc:postgresql://host/db ..) or one of SQLAlchemy (postgresql://host/db ..). With "
        "connection.driver the first argument of its connect(): a file, a connection string. More: "
        "connection.arg.NAME=VALUE.",
    )
    .define(
        "connection.user",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "User of the database.",
    )
    .define(
        "connection.password",
        _T.PASSWORD,
        None,
        None,
        _I.MEDIUM,
        "Their password.",
    )
    .define(
        "dialect",
        _T.STRING,
        "auto",
        ConfigDef.ValidString.in_("auto", *DIALECTS),
        _I.LOW,
        "The database's SQL; auto: by the driver.",
    )
    .define(
        "table.name.format",
        _T.STRING,
        "${topic}",
        ConfigDef.NonEmptyString(),
        _I.MEDIUM,
        "Name of the table; ${topic} is the record's topic. A dot parts schema and table, unless it is in the quotes "
        'of the database: "${topic}", for MySQL `${topic}`.',
    )
    .define(
        "insert.mode",
        _T.STRING,
        "insert",
        Enumerated("insert", "upsert", "update"),
        _I.HIGH,
        "insert: a row for each record; upsert: a row that is there is changed, so that records which "
        "come twice count once; update: rows that are there are changed, and none is added.",
    )
    .define(
        "delivery.guarantee",
        _T.STRING,
        "at_least_once",
        ConfigDef.ValidString.in_("at_least_once", EXACTLY_ONCE),
        _I.MEDIUM,
        "at_least_once: records may be written again after a crash; exactly_once: each record once, as offsets are "
        "kept in a table of the same database, written in the transaction of the rows.",
    )
    .define(
        "offsets.table",
        _T.STRING,
        "kconnect_offsets",
        ConfigDef.NonEmptyString(),
        _I.LOW,
        "With exactly_once: the table of the offsets, a row for each connector and partition; a dot parts schema and "
        "table. It is made if it is missing. Clusters whose connectors have the same names need one each.",
    )
    .define(
        "pk.mode",
        _T.STRING,
        "none",
        Enumerated("none", "kafka", "record_key", "record_value"),
        _I.HIGH,
        "Where the primary key comes from; kafka: topic, partition, offset.",
    )
    .define(
        "pk.fields",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Columns of the primary key: fields of the key or value (empty: all), or the one name for a plain key.",
    )
    .define(
        "fields.whitelist",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Fields of the value that become columns; empty: all.",
    )
    .define(
        "auto.create",
        _T.BOOLEAN,
        False,
        None,
        _I.MEDIUM,
        "Create tables that are missing.",
    )
    .define(
        "auto.evolve",
        _T.BOOLEAN,
        False,
        None,
        _I.MEDIUM,
        "Add columns that are missing, if their field is optional or has a default.",
    )
    .define(
        "replace.null.with.default",
        _T.BOOLEAN,
        True,
        None,
        _I.LOW,
        "Write a field's default where it is null.",
    )
    .define(
        "quote.sql.identifiers",
        _T.STRING,
        "always",
        Enumerated("always", "never"),
        _I.LOW,
        "Whether names of tables and columns are quoted.",
    )
    .define(
        "db.timezone",
        _T.STRING,
        "UTC",
        ConfigDef.LambdaValidator.with_(check_zone, "a time zone"),
        _I.MEDIUM,
        "Time zone of times in columns that have none.",
    )
    .define(
        "table.types",
        _T.LIST,
        "TABLE",
        Enumerated(*TABLE_TYPES),
        _I.LOW,
        "Accepted for Confluent's sake: the database decides what can be written to.",
    )
    .define(
        "delete.enabled",
        _T.BOOLEAN,
        False,
        None,
        _I.MEDIUM,
        "Delete the row of a tombstone's key; needs pk.mode=record_key.",
    )
    .define(
        "batch.size",
        _T.INT,
        3000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "Most rows handed to the driver in one call; a put is one transaction.",
    )
    .define(
        "max.retries",
        _T.INT,
        10,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "How often a put is tried again when the database is away or busy.",
    )
    .define(
        "retry.backoff.ms",
        _T.INT,
        3000,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "Wait before each of these.",
    )
    .define(CHECK, _T.INT, CHECK_MS, ConfigDef.Range.at_least(0), _I.LOW, CHECK_DOC)
    .define(
        "connection.attempts",
        _T.INT,
        3,
        None,
        _I.LOW,
        "Accepted for Confluent's sake: max.retries counts connections that fail, too.",
    )
    .define(
        "connection.backoff.ms",
        _T.LONG,
        10000,
        None,
        _I.LOW,
        "Accepted for Confluent's sake, as connection.attempts is.",
    )
    .define(
        "trim.sensitive.log",
        _T.BOOLEAN,
        False,
        None,
        _I.LOW,
        "Accepted for Confluent's sake: values of rows are never in the log.",
    )
    .define(
        "date.timezone",
        _T.STRING,
        "UTC",
        Enumerated("UTC", "DB_TIMEZONE"),
        _I.LOW,
        "In either way a date is written as it is. DB_TIMEZONE needs db.timezone=UTC, as days would change.",
    )
    .define(
        "mssql.use.merge.holdlock",
        _T.BOOLEAN,
        True,
        None,
        _I.LOW,
        "Accepted for Confluent's sake: SQL Server is not written to.",
    )
    .define(
        "dialect.name",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Accepted for Confluent's sake: the dialect is that of the URL.",
    )
)
