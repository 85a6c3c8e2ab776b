"""Debezium's PostgreSQL source and JDBC sink for tests, by their locks; their jars are fetched once a machine."""

from __future__ import annotations

from pathlib import Path

from kconnect.files.folders import cache_folder
from kconnect.java.plugins.install import LOCK, install
from kit.third_party import give_lock

__all__ = ["debezium_plugin_path", "jdbc_plugin_path", "postgres_source"]

_POSTGRES = "io.debezium:debezium-connector-postgres:3.6.1.Final"
_JDBC = "io.debezium:debezium-connector-jdbc:3.2.0.Final"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def debezium_plugin_path() -> Path:
    """A plugin.path that has the PostgreSQL source, in the cache."""
    return _installed(_POSTGRES, "debezium-postgres.lock", cache_folder() / "test-plugins")


def jdbc_plugin_path() -> Path:
    """A plugin.path that has the JDBC sink, in the cache."""
    return _installed(_JDBC, "debezium-jdbc.lock", cache_folder() / "test-plugins-jdbc")


def _installed(plugin: str, lock: str, path: Path) -> Path:
    target = path / plugin.split(":")[1]
    target.mkdir(parents=True, exist_ok=True)
    give_lock(Path(__file__).with_name(lock), target / LOCK)
    installed = install(plugin, path)
    for jar in target.glob("*.jar"):
        if jar.name not in installed.jars:  # of an older lock
            jar.unlink()
    return path


def postgres_source(port: int, prefix: str, table: str, **more: str) -> dict[str, str]:
    """Settings of a source of one table, as JSON; what comes first in it is a snapshot."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "topic.prefix": prefix,
        "table.include.list": table,
        "poll.interval.ms": "50",
        **{f"{kind}.converter": _JSON for kind in ("key", "value")},
        **more,
    }
