"""Fetches all committed offsets of a consumer group.

librdkafka (2.16) can ask for them, and ends the process with a segmentation fault when the coordinator answers that it
is not ready, as it does for a moment after each start of a broker: its admin client has no group of its own to look up
again. Source: OffsetFetch of the Kafka protocol (KIP-211).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.herder.group.frames import OffsetFetch
from kconnect.herder.offsets.group_requests import ask_coordinator, refused
from kconnect.model import TopicPartition

_NO_GROUP: Final = 69


def fetch_group_offsets(
    settings: Mapping[str, str], group: str, timeout_s: float, *, timeout_setting: str
) -> dict[TopicPartition, int]:
    """Empty for a group that does not exist. `settings` are Java's, of an admin client; `timeout_setting`: messages.

    Errors: ConnectError, UnreachableError.
    """
    doing = f"The offsets of consumer group {group!r} cannot be read"
    answer = ask_coordinator(
        settings,
        group,
        OffsetFetch(group),
        lambda answer: answer.error,
        timeout_s,
        doing=doing,
        timeout_setting=timeout_setting,
    )
    if answer.error and answer.error != _NO_GROUP:
        raise refused(doing, answer.error)
    for (topic, number), error in answer.errors.items():
        if error:
            raise refused(f"{doing}, for {topic}-{number}", error)
    return {TopicPartition(topic, number): offset for (topic, number), offset in answer.offsets.items() if offset >= 0}
