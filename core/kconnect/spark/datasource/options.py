"""Options of `format("kconnect")`: those of the format itself, and the connector's settings. Pure.

Spark gives option names in lower case; names that have capitals get them back from the tables that know them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from kconnect.api import ConfigDef
from kconnect.java.plugins import JavaSettings

_INT, _LONG, _STRING = ConfigDef.Type.INT, ConfigDef.Type.LONG, ConfigDef.Type.STRING
_LOW, _MEDIUM = ConfigDef.Importance.LOW, ConfigDef.Importance.MEDIUM
_AT_LEAST_0, _AT_LEAST_1 = ConfigDef.Range.at_least(0), ConfigDef.Range.at_least(1)

OPTIONS: Final = (
    ConfigDef()
    .define(
        "kconnect.columns",
        _STRING,
        "auto",
        ConfigDef.ValidString.in_("auto", "record", "value"),
        _MEDIUM,
        "record: columns key, value, topic, partition, timestamp and headers; value: a column for each field of the "
        "value; auto: record, unless a schema is given that has other columns.",
    )
    .define(
        "kconnect.spool.path",
        _STRING,
        None,
        None,
        _MEDIUM,
        "Folder or URI (file:, s3:, gs:, hdfs:) for what a stream has polled and not yet processed. On a cluster one "
        "that driver and executors share; by default in the user's state folder.",
    )
    .define(
        "kconnect.max.rows",
        _INT,
        500_000,
        _AT_LEAST_1,
        _MEDIUM,
        "Rows after which a micro-batch ends; the poll that reaches it is taken whole.",
    )
    .define(
        "kconnect.linger.ms",
        _LONG,
        100,
        _AT_LEAST_0,
        _LOW,
        "How long a micro-batch waits for more rows of a source that is still giving some.",
    )
    .define(
        "kconnect.idle.ms",
        _LONG,
        1000,
        _AT_LEAST_1,
        _MEDIUM,
        "How long a task must give nothing to count as read to its end, by spark.read and by trigger(availableNow). "
        "Before its first record a poll that is slow may take 30 times as long.",
    )
    .define(
        "kconnect.schema.timeout.ms",
        _LONG,
        10_000,
        _AT_LEAST_1,
        _LOW,
        "How long load() waits for a first record to see its columns, if no schema is given.",
    )
    .define(
        "kconnect.retry.timeout.ms",
        _LONG,
        300_000,
        _AT_LEAST_0,
        _LOW,
        "How long a poll or put that fails with a RetriableError is repeated before the query fails.",
    )
    .define(
        "kconnect.flush.timeout.ms",
        _LONG,
        60_000,
        _AT_LEAST_1,
        _LOW,
        "How long a sink may take to make durable what a Spark task gave it.",
    )
    .define(
        "kconnect.topic",
        _STRING,
        None,
        ConfigDef.NonEmptyString(),
        _MEDIUM,
        "Topic of rows that have no topic column, for a sink. By default the connector's topics, if that is one.",
    )
    .define(
        "plugin.path",
        _STRING,
        None,
        None,
        _MEDIUM,
        "Folders with connectors, comma-separated, as a worker's; on a cluster they must exist on each executor.",
    )
    .define(
        "config.providers",
        _STRING,
        None,
        None,
        _MEDIUM,
        "Names of config providers for ${name:path:key} in the connector's settings, each with "
        "config.providers.NAME.class, as a worker's. They read where Spark plans: beside the driver.",
    )
    .define(
        "kconnect.java.home",
        _STRING,
        None,
        None,
        _LOW,
        "Java for plugins written in it; by default that of JAVA_HOME or the PATH.",
    )
    .define("kconnect.java.opts", _STRING, None, None, _LOW, "Options of the JVM for plugins written in Java.")
    .define(
        "kconnect.java.heap",
        _STRING,
        "512m",
        None,
        _LOW,
        "Largest heap of the JVM for plugins written in Java: one beside the driver, one in each Python process of "
        "Spark that reads or writes with such a plugin.",
    )
    .define(
        "bootstrap.servers",
        _STRING,
        None,
        None,
        _LOW,
        "Kafka brokers, for a connector's or transformation's own use and for dead letters.",
    )
)
"""Options of the format itself. All others are the connector's."""

_PROVIDERS: Final = "config.providers"

# Spark adds them to the options of a reader or writer
_OF_SPARK: Final = frozenset({"path", "paths", "checkpointlocation", "queryname", "mergeschema"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """The options of the format itself, typed; times in seconds."""

    columns: str
    spool_path: str | None
    max_rows: int
    linger_s: float
    idle_s: float
    schema_timeout_s: float
    retry_timeout_s: float
    flush_timeout_s: float
    topic: str | None
    plugin_path: str | None
    bootstrap_servers: str | None
    java: JavaSettings

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> FormatOptions:
        """Errors: ConfigError in ConfigDef's words."""
        values = OPTIONS.parse({key: value for key, value in given.items() if key in OPTIONS.config_keys})
        return cls(
            columns=values["kconnect.columns"],
            spool_path=values["kconnect.spool.path"],
            max_rows=values["kconnect.max.rows"],
            linger_s=values["kconnect.linger.ms"] / 1000,
            idle_s=values["kconnect.idle.ms"] / 1000,
            schema_timeout_s=values["kconnect.schema.timeout.ms"] / 1000,
            retry_timeout_s=values["kconnect.retry.timeout.ms"] / 1000,
            flush_timeout_s=values["kconnect.flush.timeout.ms"] / 1000,
            topic=values["kconnect.topic"],
            plugin_path=values["plugin.path"],
            bootstrap_servers=values["bootstrap.servers"],
            java=JavaSettings.of({key: text for key, text in values.items() if isinstance(text, str)}),
        )


def provider_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are of config providers."""
    return {key: value for key, value in options.items() if key == _PROVIDERS or key.startswith(f"{_PROVIDERS}.")}


def with_aliases(options: Mapping[str, str]) -> dict[str, str]:
    """Options with the names of transformations, predicates and config providers spelt as their lists spell them."""
    found = dict(options)
    for kind in ("transforms", "predicates", _PROVIDERS):
        for alias in (part.strip() for part in options.get(kind, "").split(",")):
            lower, spelt = f"{kind}.{alias.lower()}.", f"{kind}.{alias}."
            if alias and lower != spelt:
                for key in [key for key in found if key.startswith(lower)]:
                    found[spelt + key[len(lower) :]] = found.pop(key)
    return found


def connector_settings(options: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """The options that are the connector's, with the names that `known` spells with capitals spelt so."""
    spelt = {name.lower(): name for name in known}
    own = {}
    for key, value in options.items():
        name = key if key in known else spelt.get(key.lower(), key)
        if name not in known and (key in OPTIONS.config_keys or key in _OF_SPARK or key.startswith(f"{_PROVIDERS}.")):
            continue
        own[name] = value
    return own
