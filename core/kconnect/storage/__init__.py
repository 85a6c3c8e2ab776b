"""Cluster memory: configs, statuses and source offsets, each over a log in memory or Kafka; offsets in a file too."""

from kconnect.storage.offset_store import FileOffsetStore, MemoryOffsetStore, OffsetStore
from kconnect.storage.offset_values import (
    commit_source_offsets,
    connector_partitions,
    list_source_offsets,
    read_source_offsets,
)

__all__ = [
    "FileOffsetStore",
    "MemoryOffsetStore",
    "OffsetStore",
    "commit_source_offsets",
    "connector_partitions",
    "list_source_offsets",
    "read_source_offsets",
]
