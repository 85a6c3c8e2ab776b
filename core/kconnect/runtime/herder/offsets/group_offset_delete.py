"""Deletes single committed offsets of a consumer group, without touching the others.

librdkafka has no such request (2.16): it can only delete a group with all its offsets.
Source: OffsetDelete of the Kafka protocol (KIP-496).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kconnect.model import TopicPartition
from kconnect.runtime.herder.group.frames import OffsetDelete
from kconnect.runtime.herder.offsets.group_requests import ask_coordinator, refused

_UNKNOWN_TOPIC: Final = 3
_NO_GROUP: Final = 69


def delete_group_offsets(
    settings: Mapping[str, str],
    group: str,
    partitions: Collection[TopicPartition],
    timeout_s: float,
    *,
    timeout_setting: str,
) -> None:
    """Forget these partitions' offsets. `settings` are Java's, of an admin client; `timeout_setting` is for messages.

    A group, a topic or an offset that does not exist is fine.
    Errors: ConflictError when members read the topics; ConnectError, UnreachableError.
    """
    if not partitions:
        return
    by_topic: dict[str, list[int]] = {}
    for at in partitions:
        by_topic.setdefault(at.topic, []).append(at.partition)
    doing = f"The offsets of consumer group {group!r} cannot be deleted"
    answer = ask_coordinator(
        settings,
        group,
        OffsetDelete(group, by_topic),
        lambda answer: answer.error,
        timeout_s,
        doing=doing,
        timeout_setting=timeout_setting,
    )
    if answer.error and answer.error != _NO_GROUP:
        raise refused(doing, answer.error)
    for (topic, number), error in answer.errors.items():
        if error and error != _UNKNOWN_TOPIC:
            raise refused(f"{doing}, for {topic}-{number}", error)
