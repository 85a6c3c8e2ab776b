"""Stores of a cluster's configs, statuses and source offsets: in Kafka topics or memory, offsets in a file too."""

from kconnect.runtime.storage.offset_store import FileOffsetStore, MemoryOffsetStore, OffsetStore
from kconnect.runtime.storage.offset_values import (
    CommittedOffsets,
    commit_source_offsets,
    connector_partitions,
    list_source_offsets,
    read_source_offsets,
)

__all__ = [
    "CommittedOffsets",
    "FileOffsetStore",
    "MemoryOffsetStore",
    "OffsetStore",
    "commit_source_offsets",
    "connector_partitions",
    "list_source_offsets",
    "read_source_offsets",
]
