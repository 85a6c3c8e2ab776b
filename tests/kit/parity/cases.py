"""The cases of `make java-parity` by name: each starts the two workers with its plugins and gives rows of the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from kconnect.files.folders import cache_folder
from kconnect.java.plugins.install import install
from kit.brokers import PatientRegistry
from kit.parity.databases import compare_mariadb, compare_postgres
from kit.parity.others import (
    compare_apicurio,
    compare_camel_sinks,
    compare_camel_sources,
    compare_config_providers,
    compare_iceberg,
    compare_mirror,
    compare_validated,
)
from kit.parity.sides import pair, plugin_folder
from kit.parity.table import Row
from kit.parity.transforms import CAMEL, COMMON, compare_transforms
from kit.ports import free_port

__all__ = ["CASES", "Case", "installed"]

Case: TypeAlias = Callable[[Path, str], list[Row]]
"""Takes a folder of its own and the broker."""

_COMMON: Final = "com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:0.1.0.14"
_POSTGRES: Final = "io.debezium:debezium-connector-postgres:3.6.1.Final"
_MARIADB: Final = "io.debezium:debezium-connector-mariadb:3.5.0.Final"
_ICEBERG: Final = "org.apache.iceberg:iceberg-kafka-connect:1.12.0"
_MIRROR: Final = "org.apache.kafka:connect-mirror:4.3.0"
_FILE: Final = "org.apache.kafka:connect-file:4.3.0"
_APICURIO: Final = "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final"
_ENV: Final = "io.strimzi:kafka-env-var-config-provider:1.1.0"
_KUBERNETES: Final = "io.strimzi:kafka-kubernetes-config-provider:1.2.2"
_CAMEL: Final = "org.apache.camel.kafkaconnector:camel-kafka-connector:0.11.0"


def installed(*coordinates: str) -> Path:
    """A plugin.path in the cache with the first of these as a plugin, and the others in it."""
    first, *more = coordinates
    name = "+".join(coordinate.split(":")[1] + "-" + coordinate.split(":")[2] for coordinate in coordinates)
    path = cache_folder() / "parity-plugins" / name
    folder = install(first, path).folder
    for coordinate in more:
        if not any(folder.glob("-".join(coordinate.split(":")[1:3]) + "*.jar")):
            install(coordinate, path, into=folder.name)
    return path


def transforms(folder: Path, bootstrap: str) -> list[Row]:
    """Transformations that need no server."""
    rows = [
        Row(
            "jcustenborder's transformations",
            f"`{_COMMON}`",
            f"{len(COMMON)} chains on records with and without schema",
        ),
        Row("Camel's transformations", f"`{_CAMEL}`", f"{len(CAMEL)} chains, one for a class that does not exist"),
    ]
    plugins = [plugin_folder(folder / "plugins"), installed(_COMMON), installed(_CAMEL)]
    with pair(folder, bootstrap, plugins) as both:
        compare_transforms(both, rows[0], "common", COMMON)
        compare_transforms(both, rows[1], "camel", CAMEL)
    return rows


def debezium(folder: Path, bootstrap: str) -> list[Row]:
    """Debezium's PostgreSQL and MariaDB connectors."""
    run = "snapshot, changes, incremental snapshot by a signal, outbox, ByLogicalTableRouter, heartbeats, server away"
    rows = [Row("Debezium PostgreSQL", f"`{_POSTGRES}`", run), Row("Debezium MariaDB", f"`{_MARIADB}`", f"{run}, DDL")]
    plugins = [installed(_POSTGRES), installed(_MARIADB)]
    with pair(folder, bootstrap, plugins) as both:
        compare_postgres(both, rows[0])
        compare_mariadb(both, rows[1], folder / "mariadb")
    return rows


def camel(folder: Path, bootstrap: str) -> list[Row]:
    """Camel's generic connectors."""
    parts = [f"org.apache.camel:camel-{part}:3.11.1" for part in ("timer", "file", "http", "log")]
    rows = [
        Row(
            "Camel source",
            f"`{_CAMEL}` with `camel-file`, `-timer`",
            "a file, ten ticks, a component that is not there",
        ),
        Row("Camel sink", f"`{_CAMEL}` with `camel-file`, `-http`, `-log`", "three records into each"),
    ]
    with pair(folder, bootstrap, [installed(_CAMEL, *parts)]) as both:
        compare_camel_sources(both, rows[0])
        compare_camel_sinks(both, rows[1])
    return rows


def iceberg(folder: Path, bootstrap: str) -> list[Row]:
    """Apache Iceberg's sink."""
    more = [f"org.apache.iceberg:iceberg-{part}:1.12.0" for part in ("parquet",)]
    more += [f"org.apache.hadoop:hadoop-client-{part}:3.4.1" for part in ("api", "runtime")]
    row = Row(
        "Iceberg sink", f"`{_ICEBERG}` with `iceberg-parquet`, `hadoop-client-runtime`", "20 rows into a new table"
    )
    with pair(folder, bootstrap, [installed(_ICEBERG, *more)]) as both:
        compare_iceberg(both, row)
    return [row]


def kafka(folder: Path, bootstrap: str) -> list[Row]:
    """MirrorMaker 2, Apicurio's converter, Strimzi's config providers."""
    rows = [
        Row("MirrorMaker 2", f"`{_MIRROR}`", "MirrorSource, 100 records of two partitions"),
        Row("Apicurio's Avro converter", f"`{_APICURIO}`", "40 lines of Kafka's file source, hoisted, with a registry"),
        Row("Strimzi's config providers", f"`{_ENV}`, `{_KUBERNETES}`", "a variable, one that is not set, no cluster"),
    ]
    providers = {
        "config.providers": "strimzienv,strimzisecret",
        "config.providers.strimzienv.class": "io.strimzi.kafka.EnvVarConfigProvider",
        "config.providers.strimzisecret.class": "io.strimzi.kafka.KubernetesSecretConfigProvider",
    }
    plugins = [plugin_folder(folder / "plugins")]
    plugins += [installed(one) for one in (_MIRROR, _APICURIO, _FILE, _ENV, _KUBERNETES)]
    os.environ["PARITY"] = "from-the-environment"  # of both workers
    with (
        PatientRegistry(free_port(), folder / "registry") as registry,
        pair(folder, bootstrap, plugins, providers) as both,
    ):
        compare_mirror(both, rows[0])
        compare_apicurio(both, rows[1], f"{registry.url.partition('/apis/')[0]}/apis/registry/v2")
        compare_config_providers(both, rows[2])
    return rows


_VALIDATED: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "MongoDB source": (
        "org.mongodb.kafka:mongo-kafka-connect:2.0.1",
        "com.mongodb.kafka.connect.MongoSourceConnector",
        {"connection.uri": "no uri", "poll.max.batch.size": "many"},
    ),
    "MongoDB sink": (
        "org.mongodb.kafka:mongo-kafka-connect:2.0.1",
        "com.mongodb.kafka.connect.MongoSinkConnector",
        {"topics": "a", "connection.uri": "no uri"},
    ),
    "Debezium MySQL": (
        "io.debezium:debezium-connector-mysql:3.6.1.Final",
        "io.debezium.connector.mysql.MySqlConnector",
        {"topic.prefix": "a b", "snapshot.mode": "sometimes"},
    ),
    "Google Pub/Sub": (
        "com.google.cloud:pubsub-group-kafka-connector:1.3.3",
        "com.google.pubsub.kafka.source.CloudPubSubSourceConnector",
        {"cps.maxBatchSize": "-1"},
    ),
    "Debezium SQL Server": (
        "io.debezium:debezium-connector-sqlserver:3.6.1.Final",
        "io.debezium.connector.sqlserver.SqlServerConnector",
        {"database.port": "none"},
    ),
    "Debezium MongoDB": (
        "io.debezium:debezium-connector-mongodb:3.6.1.Final",
        "io.debezium.connector.mongodb.MongoDbConnector",
        {"topic.prefix": "a b"},
    ),
    "Debezium JDBC sink": (
        "io.debezium:debezium-connector-jdbc:3.2.0.Final",
        "io.debezium.connector.jdbc.JdbcSinkConnector",
        {"topics": "a", "insert.mode": "sideways"},
    ),
    "Simulator of jcustenborder": (
        "com.github.jcustenborder.kafka.connect:kafka-connect-simulator:0.1.118",
        "com.github.jcustenborder.kafka.connect.simulator.SimulatorSourceConnector",
        {"key.schema.fields": "", "value.schema.fields": "a"},
    ),
}


def validated(folder: Path, bootstrap: str) -> list[Row]:
    """Connectors whose servers no test has."""
    rows = {name: Row(name, f"`{coordinate}`", "validated only") for name, (coordinate, _, _) in _VALIDATED.items()}
    plugins = list(dict.fromkeys(installed(coordinate) for coordinate, _, _ in _VALIDATED.values()))
    with pair(folder, bootstrap, plugins) as both:
        for name, (_, cls, config) in _VALIDATED.items():
            compare_validated(both, rows[name], cls, config)
    return list(rows.values())


CASES: Final[Mapping[str, Case]] = {
    "transforms": transforms,
    "debezium": debezium,
    "camel": camel,
    "iceberg": iceberg,
    "kafka": kafka,
    "validated": validated,
}
