"""The settings of SparkSource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kconnect.api import ConfigDef
from kconnect.spark.query.sink_settings import AT_LEAST_ONCE, EXACTLY_ONCE, OPTIONS, options_of

_T, _I = ConfigDef.Type, ConfigDef.Importance

SOURCE_QUERY_CONFIG = (
    ConfigDef()
    .define_prefix(OPTIONS)
    .define(
        "spark.format",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Spark's name of the format to read: parquet, jdbc, delta, .. Its options: spark.options.NAME=VALUE.",
    )
    .define("topic", _T.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), _I.HIGH, "Topic to write to.")
    .define(
        "spark.table",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "Table to read, by its name in a catalog of Spark; empty: spark.options.path or what else the format needs.",
    )
    .define(
        "cursor.column",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "For what Spark cannot stream, such as jdbc: a column that only grows. Rows with a higher value are new.",
    )
    .define(
        "spark.schema",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Columns with Spark's types, such as `id bigint, at timestamp`; empty: as the format says or the files show.",
    )
    .define(
        "spark.query",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "SQL of Spark over the view `records`, which has the rows that are new.",
    )
    .define(
        "key.columns",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Columns that become the record's key: one as it is, more as a struct. Empty: no key.",
    )
    .define(
        "value.column",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "The one column that becomes the record's value; empty: all columns, as a struct.",
    )
    .define(
        "spark.trigger.ms",
        _T.LONG,
        1000,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "How often to look for new rows, and send them as one batch.",
    )
    .define(
        "spark.max.records",
        _T.INT,
        500_000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "With cursor.column: the most rows in one batch, more only where many have one value. What Spark streams has "
        "options of its own, such as spark.options.maxFilesPerTrigger.",
    )
    .define(
        "delivery.guarantee",
        _T.STRING,
        "any",
        ConfigDef.ValidString.in_("any", AT_LEAST_ONCE, EXACTLY_ONCE),
        _I.MEDIUM,
        "exactly_once: each batch in one transaction, with a mark that it is written. any: the same where the worker's "
        "exactly.once.source.support is enabled, else at least once.",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuerySettings:
    """The same, typed."""

    format: str
    topic: str
    table: str
    cursor_column: str
    schema: str
    query: str
    key_columns: tuple[str, ...]
    value_column: str
    trigger_ms: int
    max_records: int
    guarantee: str
    options: Mapping[str, str] = field(repr=False)  # may hold passwords

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> SourceQuerySettings:
        """Errors: ConfigError."""
        values = SOURCE_QUERY_CONFIG.parse(props)
        return cls(
            format=values["spark.format"].strip(),
            topic=values["topic"].strip(),
            table=values["spark.table"].strip(),
            cursor_column=values["cursor.column"].strip(),
            schema=values["spark.schema"].strip(),
            query=values["spark.query"].strip(),
            key_columns=tuple(values["key.columns"]),
            value_column=values["value.column"].strip(),
            trigger_ms=values["spark.trigger.ms"],
            max_records=values["spark.max.records"],
            guarantee=values["delivery.guarantee"],
            options=options_of(props),
        )
