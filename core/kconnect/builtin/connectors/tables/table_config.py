"""The settings of TableSink, and what is wrong with them."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kconnect.api import ConfigDef, ConfigError, DataError
from kconnect.builtin.connectors.tables.partition_columns import PartitionColumn, partition_columns
from kconnect.builtin.stores.flush_plan import FlushLimits
from kconnect.builtin.types.contracts import INFER, Contracts, contract_problems, with_contract
from kconnect.builtin.types.declarations import (
    CATALOG_PREFIX,
    CATALOG_TIMEOUT,
    CATALOG_TIMEOUT_MS,
    catalog_settings,
    declarations,
    with_value_schema,
)
from kconnect.builtin.types.evolution import Evolution

_T, _I = ConfigDef.Type, ConfigDef.Importance

TOPIC = "${topic}"
STORAGE_PREFIX = "table.storage."
PROPERTY_PREFIX = "table.properties."
# Format: the package it needs, and the extra that has it
_PACKAGES = {"delta": ("deltalake", "delta"), "iceberg": ("pyiceberg", "iceberg")}
# Likewise, where plain files are in a store of fsspec
_STORES = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}
# Options of deltalake under which S3 takes a commit although there is one already
_UNSAFE = {
    (f"{prefix}{name}", value)
    for prefix in ("", "AWS_")
    for name, value in (("S3_ALLOW_UNSAFE_RENAME", "true"), ("CONDITIONAL_PUT", "disabled"))
}

CONFIG = (
    with_contract(with_value_schema(ConfigDef()))
    .define_prefix(CATALOG_PREFIX)
    .define_prefix(STORAGE_PREFIX)
    .define_prefix(PROPERTY_PREFIX)
    .define(
        "table.format",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.ValidString.in_("parquet", "delta", "iceberg"),
        _I.HIGH,
        "What the table is: plain Parquet files, Delta Lake (kconnect[delta]) or Iceberg (kconnect[iceberg]).",
    )
    .define("table.schema", _T.STRING, "", None, _I.LOW, "The same as value.schema.")
    .define(
        "table.path",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "Folder of the table, here or in a store (s3://bucket/folder); ${topic} is the record's topic, as "
        "transformations leave it, so that several topics become several tables. For parquet and delta.",
    )
    .define(
        "table.name",
        _T.STRING,
        "default.${topic}",
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Namespace and name of an Iceberg table; characters of ${topic} that a name cannot have become _. Its catalog: "
        "table.catalog.type, table.catalog.uri, table.catalog.warehouse and what else PyIceberg knows.",
    )
    .define(
        "table.catalog.name",
        _T.STRING,
        "default",
        ConfigDef.NonEmptyString(),
        _I.LOW,
        "Name of the Iceberg catalog. A catalog of type sql keeps it beside its tables, so readers name it too: "
        "load_catalog('default', ..), or spark.sql.catalog.default.",
    )
    .define(
        "table.catalog.folder",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Local folder in which a catalog on another machine, such as one of type rest, may place tables, besides a "
        "table.catalog.warehouse that is one. Its answers that name other local paths are refused.",
    )
    .define(
        CATALOG_TIMEOUT,
        _T.LONG,
        CATALOG_TIMEOUT_MS,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Deadline of each request to a REST catalog of Iceberg.",
    )
    .define(
        "partition.by",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Columns that divide a new table, and dates: day(created) of a column, day() of the record's time; also "
        "year, month, hour. Dates become columns such as created_day, record_day.",
    )
    .define(
        "flush.rows",
        _T.INT,
        500_000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "A task writes to a table when so many rows wait.",
    )
    .define(
        "flush.bytes",
        _T.LONG,
        134_217_728,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "Or when the rows that wait, of all its tables, take so much memory. Files are compressed, and so smaller.",
    )
    .define(
        "flush.ms",
        _T.LONG,
        10_000,
        ConfigDef.Range.at_least(0),
        _I.HIGH,
        "Or when the first of them has waited so long: the most that a reader of the table is behind.",
    )
    .define(
        "schema.evolution",
        _T.STRING,
        "widen",
        ConfigDef.ValidString.in_(*Evolution),
        _I.MEDIUM,
        "What records may change in a table: none; add columns; or also widen them (int to long) where the format can. "
        "For values without schema, widen also gives those of another kind a second column (price__v_text). A record "
        "that does not fit then fails the task, or goes to the dead letter queue. schema.contract says more.",
    )
    .define(
        "write.mode",
        _T.STRING,
        "append",
        ConfigDef.ValidString.in_("append", "upsert"),
        _I.HIGH,
        "append: a row for each record. upsert: a record replaces the row with its key, and a record without value "
        "removes it. Not for parquet.",
    )
    .define(
        "merge.keys",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Columns that identify a row for upsert; empty: the fields of the record's key.",
    )
    .define(
        "table.compression",
        _T.STRING,
        "snappy",
        ConfigDef.ValidString.in_("snappy", "zstd", "gzip", "lz4", "none"),
        _I.LOW,
        "Compression of the Parquet files.",
    )
    .define(
        "table.cluster",
        _T.STRING,
        "",
        None,
        _I.LOW,
        "Added to the connector's name, under which the table keeps its offsets: for connectors of one name in two "
        "clusters that write to one table.",
    )
    .define(
        "compact.interval.ms",
        _T.LONG,
        0,
        ConfigDef.Range.at_least(0),
        _I.LOW,
        "How often small files of the table are joined into larger ones; 0: never. Not for parquet. An Iceberg table "
        "with the property history.expire.max-snapshot-age-ms also forgets older snapshots then.",
    )
    .define(
        "compact.file.bytes",
        _T.LONG,
        134_217_728,
        ConfigDef.Range.at_least(1_048_576),
        _I.LOW,
        "The size of files that joining aims at.",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """What a task needs of its settings."""

    format: str
    path: str
    name: str
    partition_by: tuple[PartitionColumn, ...]
    limits: FlushLimits
    evolution: Evolution
    infers: bool
    is_declared: bool
    contracts: Contracts
    is_upsert: bool
    merge_keys: tuple[str, ...]
    compression: str
    writer: str
    compact_every_s: float
    compact_bytes: int
    catalog_timeout_s: float
    catalog: Mapping[str, str] = field(repr=False)
    storage: Mapping[str, str] = field(repr=False)
    properties: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> TableConfig:
        """Errors: ConfigError for the first problem there is."""
        found = CONFIG.parse(props)
        for _, message in problems(found, props):
            raise ConfigError(message)
        return cls(
            format=found["table.format"],
            path=found["table.path"].rstrip("/") or "/",
            name=found["table.name"],
            partition_by=partition_columns(found["partition.by"]),
            limits=FlushLimits(found["flush.rows"], found["flush.bytes"], found["flush.ms"] / 1000),
            evolution=Evolution(found["schema.evolution"]),
            infers=found[INFER],
            is_declared=bool(declarations(props, is_sink=True)),
            contracts=Contracts.parse(props),
            is_upsert=found["write.mode"] == "upsert",
            merge_keys=tuple(found["merge.keys"]),
            compression=found["table.compression"],
            writer="@".join(filter(None, (props.get("name") or "table-sink", found["table.cluster"]))),
            compact_every_s=found["compact.interval.ms"] / 1000,
            compact_bytes=found["compact.file.bytes"],
            catalog_timeout_s=found[CATALOG_TIMEOUT] / 1000,
            catalog=catalog_settings(props),
            storage=_below(STORAGE_PREFIX, props),
            properties=_below(PROPERTY_PREFIX, props),
        )

    @property
    def has_table_for_each_topic(self) -> bool:
        return TOPIC in (self.name if self.format == "iceberg" else self.path)

    def table_of(self, topic: str) -> str:
        """Path or name of the table that the topic's records go to."""
        if self.format == "iceberg":
            return _iceberg_name(self.name, topic)
        return self.path.replace(TOPIC, topic)


def _iceberg_name(name: str, topic: str) -> str:
    return name.replace(TOPIC, re.sub(r"[^A-Za-z0-9_]", "_", topic))


def declared_problems(kind: str, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What the format has no place for in a declared schema."""
    if declarations(props, is_sink=True):
        from kconnect.builtin.types.table import refusals  # here: few declare any

        yield from refusals(kind, props)


def problems(config: Mapping[str, Any], props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What is wrong across settings: pairs of setting and message."""
    kind = config["table.format"]
    package, extra = _PACKAGES.get(kind, ("", ""))
    if package and importlib.util.find_spec(package) is None:
        yield "table.format", f"table.format={kind} needs the package {package}: pip install 'kconnect[{extra}]'"
    scheme = config["table.path"].partition("://")[0] if "://" in config["table.path"] else ""
    package, extra = _STORES.get(scheme, ("fsspec", "objects"))
    if kind == "parquet" and scheme not in ("", "file") and importlib.util.find_spec(package) is None:
        yield "table.path", f"A table in {scheme}:// needs the package {package}: pip install 'kconnect[{extra}]'"
    try:
        partition_columns(config["partition.by"])
    except DataError as error:
        yield "partition.by", str(error)
    yield from contract_problems(props)
    yield from _place_problems(kind, config, props)
    yield from declared_problems(kind, props)
    if config["write.mode"] == "upsert" and kind == "parquet":
        yield "write.mode", "write.mode=upsert needs table.format=delta or iceberg: plain files cannot be changed"
    if config["merge.keys"] and config["write.mode"] != "upsert":
        yield "merge.keys", "merge.keys is for write.mode=upsert, and write.mode is append"
    if len(set(config["merge.keys"])) < len(config["merge.keys"]):
        yield "merge.keys", f"merge.keys names a column twice: {','.join(config['merge.keys'])}"
    if config["compact.interval.ms"] and kind == "parquet":
        yield (
            "compact.interval.ms",
            "compact.interval.ms needs table.format=delta or iceberg: readers would see plain files exchanged",
        )


def _place_problems(kind: str, config: Mapping[str, Any], props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What is wrong with where the table is."""
    path = config["table.path"]
    if kind == "iceberg":
        if path:
            yield "table.path", "table.path is for parquet and delta; an Iceberg table has a catalog: table.catalog.uri"
        if not catalog_settings(props):
            yield (
                "table.name",
                "table.format=iceberg needs a catalog, such as table.catalog.type=sql, "
                "table.catalog.uri=sqlite:////data/catalog.db and table.catalog.warehouse=/data",
            )
        if "." not in config["table.name"]:
            yield "table.name", f"table.name={config['table.name']} needs a namespace: default.{config['table.name']}"
        if TOPIC in config["table.name"] and not props.get("transforms", "").strip():
            yield from _shared_names(config["table.name"], props.get("topics", ""))
        return
    unsafe = [key for key, value in _below(STORAGE_PREFIX, props).items() if (key.upper(), value.lower()) in _UNSAFE]
    if unsafe:
        yield "table.path", f"{STORAGE_PREFIX}{unsafe[0]} would let two writers commit at once: records could be lost"
    if not path:
        yield "table.path", f"table.format={kind} needs table.path, the folder of the table"
    elif "://" not in path or path.startswith("file://"):
        problem = _not_writable(path.removeprefix("file://").split(TOPIC, 1)[0])
        if problem:
            yield "table.path", f"Cannot write to table.path={path}: {problem}"


def _shared_names(name: str, topics: str) -> Iterable[tuple[str, str]]:
    """Topics that would mix their rows in one table, as names lack characters that topics have."""
    found: dict[str, list[str]] = {}
    for topic in dict.fromkeys(filter(None, map(str.strip, topics.split(",")))):
        found.setdefault(_iceberg_name(name, topic), []).append(topic)
    for table, own in found.items():
        if len(own) > 1:
            yield "table.name", shared_table(own[0], own[1], table)


def shared_table(topic: str, other: str, table: str) -> str:
    """What to say of two topics of one table, where each should have its own."""
    return (
        f"Topics {topic} and {other} would share table {table}: rename one with RegexRouter, or write {table} into "
        "table.name if they should"
    )


def _not_writable(folder: str) -> str | None:
    """Why nothing can be written into a folder that exists or can be made; None when it can."""
    at = os.path.abspath(folder or ".")
    while not os.path.lexists(at):
        at = os.path.dirname(at)
    if not os.path.isdir(at):
        return f"{at} is not a folder"
    return None if os.access(at, os.W_OK | os.X_OK) else f"no permission to write in {at}"


def _below(prefix: str, props: Mapping[str, str]) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix)}
