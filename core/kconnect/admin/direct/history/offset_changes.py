"""What changed offsets, for who works on the topics: read from the cluster's log of changes, and added to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.edit.change_notes import shared_log, whose
from kconnect.client.offset_history import OffsetEntries, OffsetHistory
from kconnect.client.shared_offsets import SharedOffsets


def topic_offsets(access: ClusterAccess, own: OffsetHistory) -> OffsetEntries:
    """`own`: what this machine knows, and what is kept where the cluster's settings name no log."""
    log = shared_log(access)
    if log is None:
        return own

    def read(name: str) -> list[dict[str, Any]]:
        with log:
            return log.entries(name)

    def write(name: str, entry: Mapping[str, Any]) -> None:
        with log:
            log.add(name, {**entry, **whose()})

    return SharedOffsets(read, own, write)
