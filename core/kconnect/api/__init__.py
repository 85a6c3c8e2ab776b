"""The plugin API: connectors, tasks, records, schemas, transforms, converters, settings, errors.

`from kconnect.api import SourceTask, SourceRecord, Schema`. Java's connect-api in Python's spelling, plus the columnar
RecordBatch. Imports neither pyspark nor a Kafka client nor pyarrow; names from slow modules are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kconnect.api.batch import PresentTime, RecordBatch
from kconnect.api.connector import (
    Connector,
    ConnectorContext,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SinkConnector,
    SinkConnectorContext,
    SourceConnector,
    SourceConnectorContext,
)
from kconnect.api.headers import ConnectHeaders, Header, Headers
from kconnect.api.record import ConnectRecord, SinkRecord, SourceRecord, TimestampType
from kconnect.api.schema import Field, Schema, SchemaAndValue, Struct
from kconnect.api.schema_builder import SchemaBuilder
from kconnect.api.schema_types import Type
from kconnect.api.stages import Converter, HeaderConverter, Predicate, Transformation
from kconnect.api.task import (
    ErrantRecordReporter,
    ErrantRecordsError,
    OffsetStorageReader,
    RecordMetadata,
    SinkTask,
    SinkTaskContext,
    SourceTask,
    SourceTaskContext,
    Task,
    TransactionBoundary,
    TransactionContext,
)
from kconnect.clock import Backoff
from kconnect.errors import (
    ConfigError,
    ConnectError,
    DataError,
    NotFoundError,
    RetriableError,
    SchemaBuilderError,
    SchemaProjectorError,
)
from kconnect.model import ConnectorType, TopicPartition

if TYPE_CHECKING:
    from kconnect.api.abstract_config import AbstractConfig
    from kconnect.api.client_plugins import (
        ClientType,
        ConnectorClientConfigOverridePolicy,
        ConnectorClientConfigRequest,
        ConsumerInterceptor,
        ConsumerRecord,
        OffsetAndMetadata,
        ProducerInterceptor,
        ProducerRecord,
    )
    from kconnect.api.config_key import Config, ConfigKey, ConfigValue
    from kconnect.api.config_parse import Password
    from kconnect.api.config_provider import ConfigChangeCallback, ConfigData, ConfigProvider
    from kconnect.api.configdef import ConfigDef
    from kconnect.api.connector import ConnectorUtils
    from kconnect.api.logical import Date, Decimal, Time, Timestamp
    from kconnect.api.plugin_metrics import (
        ConnectPlugin,
        MetricName,
        Monitorable,
        PluginMetrics,
        Sensor,
        Stat,
    )
    from kconnect.api.projection import SchemaProjector
    from kconnect.api.rest_extension import (
        ConnectClusterState,
        ConnectorHealth,
        ConnectRestExtension,
        ConnectRestExtensionContext,
        HealthState,
        RestRequest,
        RestResponse,
    )

__all__ = [
    "AbstractConfig",
    "Backoff",
    "ClientType",
    "Config",
    "ConfigChangeCallback",
    "ConfigData",
    "ConfigDef",
    "ConfigError",
    "ConfigKey",
    "ConfigProvider",
    "ConfigValue",
    "ConnectClusterState",
    "ConnectError",
    "ConnectHeaders",
    "ConnectPlugin",
    "ConnectRecord",
    "ConnectRestExtension",
    "ConnectRestExtensionContext",
    "Connector",
    "ConnectorClientConfigOverridePolicy",
    "ConnectorClientConfigRequest",
    "ConnectorContext",
    "ConnectorHealth",
    "ConnectorTransactionBoundaries",
    "ConnectorType",
    "ConnectorUtils",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "Converter",
    "DataError",
    "Date",
    "Decimal",
    "ErrantRecordReporter",
    "ErrantRecordsError",
    "ExactlyOnceSupport",
    "Field",
    "Header",
    "HeaderConverter",
    "Headers",
    "HealthState",
    "MetricName",
    "Monitorable",
    "NotFoundError",
    "OffsetAndMetadata",
    "OffsetStorageReader",
    "Password",
    "PluginMetrics",
    "Predicate",
    "PresentTime",
    "ProducerInterceptor",
    "ProducerRecord",
    "RecordBatch",
    "RecordMetadata",
    "RestRequest",
    "RestResponse",
    "RetriableError",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SchemaBuilderError",
    "SchemaProjector",
    "SchemaProjectorError",
    "Sensor",
    "SinkConnector",
    "SinkConnectorContext",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceConnectorContext",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Stat",
    "Struct",
    "Task",
    "Time",
    "Timestamp",
    "TimestampType",
    "TopicPartition",
    "TransactionBoundary",
    "TransactionContext",
    "Transformation",
    "Type",
]

_LAZY = {
    "AbstractConfig": "abstract_config",
    "ClientType": "client_plugins",
    "Config": "config_key",
    "ConfigChangeCallback": "config_provider",
    "ConfigData": "config_provider",
    "ConfigDef": "configdef",
    "ConfigKey": "config_key",
    "ConfigProvider": "config_provider",
    "ConfigValue": "config_key",
    "ConnectClusterState": "rest_extension",
    "ConnectPlugin": "plugin_metrics",
    "ConnectRestExtension": "rest_extension",
    "ConnectRestExtensionContext": "rest_extension",
    "ConnectorClientConfigOverridePolicy": "client_plugins",
    "ConnectorClientConfigRequest": "client_plugins",
    "ConnectorHealth": "rest_extension",
    "ConnectorUtils": "connector",
    "ConsumerInterceptor": "client_plugins",
    "ConsumerRecord": "client_plugins",
    "Date": "logical",
    "Decimal": "logical",
    "HealthState": "rest_extension",
    "MetricName": "plugin_metrics",
    "Monitorable": "plugin_metrics",
    "OffsetAndMetadata": "client_plugins",
    "Password": "config_parse",
    "PluginMetrics": "plugin_metrics",
    "ProducerInterceptor": "client_plugins",
    "ProducerRecord": "client_plugins",
    "RestRequest": "rest_extension",
    "RestResponse": "rest_extension",
    "SchemaProjector": "projection",
    "Sensor": "plugin_metrics",
    "Stat": "plugin_metrics",
    "Time": "logical",
    "Timestamp": "logical",
}


def __getattr__(name: str) -> Any:  # the module's own attribute, of whatever kind
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
