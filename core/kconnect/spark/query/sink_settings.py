"""The settings of SparkSink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kconnect.api import ConfigDef
from kconnect.builtin.types.contracts import with_contract
from kconnect.builtin.types.declarations import VALUE_SCHEMA, with_value_schema
from kconnect.spark.query.formats import known

_T, _I = ConfigDef.Type, ConfigDef.Importance
OPTIONS: Final = "spark.options."
EXACTLY_ONCE: Final = "exactly_once"
AT_LEAST_ONCE: Final = "at_least_once"
MERGE: Final = "merge"
# A batch of this size takes a second or two, and holds 100 MB in each reading process
_MAX_RECORDS: Final = 500_000

SINK_QUERY_CONFIG = (
    with_contract(with_value_schema(ConfigDef()))
    .define_prefix(OPTIONS)
    .define(
        "spark.format",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Spark's name of the format to write: parquet, jdbc, delta, .. Its options: spark.options.NAME=VALUE.",
    )
    .define(
        "spark.table",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "Table to write, by its name in a catalog of Spark; empty: spark.options.path or what else the format needs.",
    )
    .define(
        "spark.mode",
        _T.STRING,
        "append",
        ConfigDef.ValidString.in_("append", MERGE),
        _I.HIGH,
        "append: a row for each record; merge: the last record of each key replaces its row, a tombstone deletes it.",
    )
    .define("merge.keys", _T.LIST, [], None, _I.MEDIUM, "Columns that name a row, for spark.mode=merge; _key: the key.")
    .define(
        "spark.schema",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "The same as value.schema.",
    )
    .define(
        "spark.query",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "SQL of Spark over the view `records`; beside the fields it has _key, _topic, _partition, _offset, _timestamp.",
    )
    .define(
        "spark.watermark",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "For windows: a column of times and how late records may be, such as `at 10 minutes`.",
    )
    .define(
        "spark.output.mode",
        _T.STRING,
        "append",
        ConfigDef.ValidString.in_("append", "update", "complete"),
        _I.LOW,
        "What a query with aggregations gives: finished rows, changed rows, or all rows each time.",
    )
    .define(
        "spark.checkpoint",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Folder for the state of a query with aggregations, which cannot be kept in topics. Each query has its own.",
    )
    .define(
        "spark.trigger.ms",
        _T.LONG,
        1000,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "How often to look for new records, and write them as one batch.",
    )
    .define(
        "spark.max.records",
        _T.INT,
        _MAX_RECORDS,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "The most records in one batch.",
    )
    .define(
        "delivery.guarantee",
        _T.STRING,
        "any",
        ConfigDef.ValidString.in_("any", AT_LEAST_ONCE, EXACTLY_ONCE),
        _I.MEDIUM,
        "exactly_once: refuse a format that cannot do it. What the format gives is what validate recommends.",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkQuerySettings:
    """The same, typed."""

    format: str
    table: str
    mode: str
    merge_keys: tuple[str, ...]
    schema: str
    query: str
    watermark: str
    output_mode: str
    checkpoint: str
    trigger_ms: int
    max_records: int
    options: Mapping[str, str] = field(repr=False)  # may hold passwords

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> SinkQuerySettings:
        """Errors: ConfigError."""
        values = SINK_QUERY_CONFIG.parse(props)
        return cls(
            format=values["spark.format"].strip(),
            table=values["spark.table"].strip(),
            mode=values["spark.mode"],
            merge_keys=tuple(values["merge.keys"]),
            schema=(values[VALUE_SCHEMA] or values["spark.schema"]).strip(),
            query=values["spark.query"].strip(),
            watermark=values["spark.watermark"].strip(),
            output_mode=values["spark.output.mode"],
            checkpoint=values["spark.checkpoint"].strip(),
            trigger_ms=values["spark.trigger.ms"],
            max_records=values["spark.max.records"],
            options=options_of(props),
        )

    @property
    def where(self) -> str:
        """What the table is called in sentences."""
        return self.table or self.options.get("path", self.format)

    @property
    def widens(self) -> bool:
        """Whether later rows may have wider columns: a catalog's table and a query's state keep those they have."""
        return known(self.format).widens and not (self.table or self.checkpoint)


def options_of(props: Mapping[str, str]) -> dict[str, str]:
    """The format's own options."""
    return {key.removeprefix(OPTIONS): value for key, value in props.items() if key.startswith(OPTIONS)}
