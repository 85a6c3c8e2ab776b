"""Kafka Connect for Python teams, with Spark beneath.

The names a plugin author needs most stand here too: `from kconnect import SourceTask, SourceRecord, Schema`. All of
them, and the rest, are in `kconnect.api`. Importing this package alone loads nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kconnect.api import (
        ConfigDef,
        ConnectError,
        Converter,
        DataError,
        HeaderConverter,
        Predicate,
        RecordBatch,
        RetriableError,
        Schema,
        SchemaBuilder,
        SinkConnector,
        SinkRecord,
        SinkTask,
        SourceConnector,
        SourceRecord,
        SourceTask,
        Struct,
        Transformation,
    )

__all__ = [
    "ConfigDef",
    "ConnectError",
    "Converter",
    "DataError",
    "HeaderConverter",
    "Predicate",
    "RecordBatch",
    "RetriableError",
    "Schema",
    "SchemaBuilder",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "Struct",
    "Transformation",
    "__version__",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # a name of kconnect.api, of whatever kind
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kconnect import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
