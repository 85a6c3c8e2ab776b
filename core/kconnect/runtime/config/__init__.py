"""Parses text into typed settings: config files, worker and connector settings, Kafka client settings.

Imported by plugins, kafka, herder, pipeline, worker and the command; imports api, model and errors only. Each
setting is defined once, in a ConfigDef table that drives parsing, defaults, validation and documentation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kconnect.java.compat.properties import read_properties, write_properties
    from kconnect.runtime.config.dropins import ConnectorFile, load_connector_file, load_folder
    from kconnect.runtime.config.worker_config import (
        DistributedConfig,
        StandaloneConfig,
        WorkerConfig,
        default_standalone_properties,
    )

__all__ = [
    "ConnectorFile",
    "DistributedConfig",
    "StandaloneConfig",
    "WorkerConfig",
    "default_standalone_properties",
    "load_connector_file",
    "load_folder",
    "read_properties",
    "write_properties",
]

# The tables of workers' settings cost 70 ms; commands that only read a file of theirs do not need them
_MODULES = {
    "ConnectorFile": "kconnect.runtime.config.dropins",
    "DistributedConfig": "kconnect.runtime.config.worker_config",
    "StandaloneConfig": "kconnect.runtime.config.worker_config",
    "WorkerConfig": "kconnect.runtime.config.worker_config",
    "default_standalone_properties": "kconnect.runtime.config.worker_config",
    "load_connector_file": "kconnect.runtime.config.dropins",
    "load_folder": "kconnect.runtime.config.dropins",
    "read_properties": "kconnect.java.compat.properties",
    "write_properties": "kconnect.java.compat.properties",
}


def __getattr__(name: str) -> Any:  # the module's own attribute, of whatever kind
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
