"""Consumer groups: their committed offsets, read as the worker itself reads them, and members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer

from kconnect.model import TopicPartition
from kconnect.runtime.herder.offsets.group_offset_fetch import fetch_group_offsets
from kit.waiting import eventually

__all__ = ["group_offsets", "member_of", "sink_offsets"]

_WITHIN_S = 30.0


def group_offsets(bootstrap: str, group: str) -> dict[TopicPartition, int]:
    """Empty for a group that does not exist."""
    return fetch_group_offsets({"bootstrap.servers": bootstrap}, group, _WITHIN_S, timeout_setting="tests")


def sink_offsets(bootstrap: str, connector: str) -> dict[TopicPartition, int]:
    """Those of a sink's own group."""
    return group_offsets(bootstrap, f"connect-{connector}")


@contextmanager
def member_of(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> Iterator[None]:
    """Inside, the group has a member that is nobody's task and has the topic's partitions.

    `protocol` is its group.protocol.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    if protocol == "classic":  # with the other one the broker decides
        settings["session.timeout.ms"] = "6000"
    member = Consumer(settings)

    def is_assigned() -> bool:
        member.poll(0.1)  # may bring that a broker does not know the topic yet
        return bool(member.assignment())

    try:
        member.subscribe([topic])
        eventually(is_assigned, _WITHIN_S, "the member is in the group")
        yield
    finally:
        member.close()
