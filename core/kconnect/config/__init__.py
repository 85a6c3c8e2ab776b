"""Text to typed settings: files, worker and connector settings, Kafka client settings.

Imported by plugins, kafka, herder, pipeline, worker and the command; imports api, model and errors only. Every
setting stands once, in a ConfigDef table, from which parsing, defaults, validation and documentation are made.
"""

from kconnect.config.dropins import ConnectorFile, load_connector_file, load_folder
from kconnect.config.properties import read_properties, write_properties
from kconnect.config.worker_config import (
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
