"""Cluster memory: offsets, and later configs and statuses; each a Protocol with versions in memory, file and Kafka."""

from kconnect.storage.offset_store import FileOffsetStore, MemoryOffsetStore, OffsetStore
from kconnect.storage.source_offsets import commit_source_offsets, list_source_offsets, read_source_offsets

__all__ = [
    "FileOffsetStore",
    "MemoryOffsetStore",
    "OffsetStore",
    "commit_source_offsets",
    "list_source_offsets",
    "read_source_offsets",
]
