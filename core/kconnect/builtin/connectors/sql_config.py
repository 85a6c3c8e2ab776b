"""The settings of SqlSink."""

from __future__ import annotations

from kconnect.api import ConfigDef
from kconnect.builtin.connectors.sql_dialect import DIALECTS

_T, _I = ConfigDef.Type, ConfigDef.Importance

CONFIG = (
    ConfigDef()
    .define(
        "connection.driver",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Module of the DB-API driver: sqlite3, psycopg, pymysql.",
    )
    .define(
        "connection.url",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "First argument of the driver's connect(): a file, a connection string. More: connection.arg.NAME=VALUE.",
    )
    .define(
        "connection.user",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "The argument `user` of connect().",
    )
    .define(
        "connection.password",
        _T.PASSWORD,
        None,
        None,
        _I.MEDIUM,
        "The argument `password` of connect().",
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
        "Name of the table; ${topic} is the record's topic, a dot parts schema and table.",
    )
    .define(
        "insert.mode",
        _T.STRING,
        "insert",
        ConfigDef.ValidString.in_("insert", "upsert"),
        _I.HIGH,
        "insert: a row for each record; upsert: a row that is there is changed, so that records which "
        "come twice count once.",
    )
    .define(
        "pk.mode",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_("none", "kafka", "record_key", "record_value"),
        _I.HIGH,
        "Where the primary key comes from; kafka: topic, partition, offset.",
    )
    .define(
        "pk.fields",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Columns of the primary key: fields of the key or value, or the one name for a plain key.",
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
)
