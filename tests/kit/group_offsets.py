"""Committed offsets of a consumer group, read as the worker itself reads them."""

from __future__ import annotations

from kconnect.herder.offsets.group_offset_fetch import fetch_group_offsets
from kconnect.model import TopicPartition

__all__ = ["group_offsets", "sink_offsets"]

_WITHIN_S = 30.0


def group_offsets(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """Empty for a group that does not exist."""
    return fetch_group_offsets({"bootstrap.servers": bootstrap}, group, _WITHIN_S, timeout_setting="tests")


def sink_offsets(bootstrap: str, connector: str) -> dict[TopicPartition, int]:
    """Those of a sink's own group."""
    return group_offsets(bootstrap, f"connect-{connector}")
