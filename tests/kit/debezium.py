"""Debezium's PostgreSQL connector for tests, by its lock; its jars are fetched once a machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from kconnect.folders import cache_folder
from kconnect.java_plugins.install import LOCK, install

__all__ = ["debezium_plugin_path"]

_PLUGIN = "io.debezium:debezium-connector-postgres:3.6.1.Final"


def debezium_plugin_path() -> Path:
    """A plugin.path that has it, in the cache."""
    path = cache_folder() / "test-plugins"
    target = path / _PLUGIN.split(":")[1]
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("debezium-postgres.lock"), target / LOCK)
    install(_PLUGIN, path)
    return path
