"""What `import kconnect` and `import kconnect.api` offer, what they cost, and what they must not pull in."""

from __future__ import annotations

import inspect
import subprocess
import sys

import kconnect
from kconnect import api
from kit.pace import ample_s

# The pin of the public names, written out on purpose: who takes one away has to do it here as well.
PUBLIC = [
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

# Prints what the import pulls in from outside the standard library, and what of that is slow to load.
PROBE = """
import sys
before = set(sys.modules)
import kconnect.api
for name in kconnect.api.__all__:
    getattr(kconnect.api, name)
loaded = set(sys.modules) - before
print(*sorted({name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)))
slow = {"asyncio", "ssl", "socket", "http", "urllib", "email", "xml", "json", "subprocess", "multiprocessing"}
print(*sorted({name.partition(".")[0] for name in loaded} & slow))
"""


def test_the_public_names_are_pinned_and_sorted() -> None:
    assert sorted(api.__all__) == sorted(PUBLIC)
    assert api.__all__ == sorted(api.__all__)
    assert kconnect.__all__ == sorted(kconnect.__all__)


def test_every_public_name_is_there_and_documented() -> None:
    undocumented = [name for name in api.__all__ if not (getattr(api, name).__doc__ or "").strip()]
    assert undocumented == []


def test_every_public_method_of_a_class_to_extend_is_documented() -> None:
    bases = (api.SourceConnector, api.SinkConnector, api.SourceTask, api.SinkTask, api.Transformation, api.Predicate)
    silent = [
        f"{base.__name__}.{name}"
        for base in (*bases, api.Converter, api.HeaderConverter)
        for name, method in inspect.getmembers(base, inspect.isfunction)
        if not name.startswith("_") and not method.__doc__
    ]
    assert silent == []


def test_names_of_the_package_are_those_of_the_api() -> None:
    for name in kconnect.__all__:
        if name != "__version__":
            assert getattr(kconnect, name) is getattr(api, name)


def test_importing_the_api_pulls_in_nothing_but_the_api() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=ample_s(60), check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["kconnect", ""]
