"""Consumer group offsets of sinks in the Kafka cluster: `GroupOffsets` on an admin client.

Single offsets are deleted by a request of our own: librdkafka (2.16) can only delete a group with all its offsets.
Source: OffsetDelete of the Kafka protocol (KIP-496).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from kconnect.model import TopicPartition
from kconnect.runtime.config.client_config import admin_config, admin_settings
from kconnect.runtime.config.rights import Right
from kconnect.runtime.herder.group.frames import OffsetDelete
from kconnect.runtime.herder.offsets.group_requests import ask_coordinator, refused
from kconnect.runtime.herder.offsets.log_ranges import LogRanges

if TYPE_CHECKING:
    from kconnect.runtime.kafka.admin import KafkaAdmin

log = logging.getLogger(__name__)


class KafkaGroups:
    """Implements `GroupOffsets`; each call may take `timeout_s`."""

    def __init__(self, admin: KafkaAdmin, settings: Mapping[str, str], timeout_s: float, timeout_setting: str) -> None:
        """`settings`: those of the admin client, in Java's names."""
        self._admin = admin
        self._settings = settings
        self._timeout_s = timeout_s
        self._timeout_setting = timeout_setting

    def list_offsets(self, group: str) -> dict[TopicPartition, int]:
        from kconnect.runtime.herder.offsets.group_offset_fetch import fetch_group_offsets

        return fetch_group_offsets(self._settings, group, self._timeout_s, timeout_setting=self._timeout_setting)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._admin.alter_group_offsets(group, offsets, self._timeout_s)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> None:
        delete_group_offsets(self._settings, group, partitions, self._timeout_s, timeout_setting=self._timeout_setting)

    def delete_group(self, group: str) -> None:
        self._admin.delete_group(group, self._timeout_s)

    def log_ranges(self, partitions: Collection[TopicPartition]) -> LogRanges:
        found = self._admin.describe_topics({at.topic for at in partitions}, self._timeout_s)
        counts = {name: topic.partitions for name, topic in found.items()}
        there = [at for at in partitions if 0 <= at.partition < counts.get(at.topic, 0)]
        begin = self._admin.log_offsets(there, "begin", self._timeout_s)
        end = self._admin.log_offsets(there, "end", self._timeout_s)
        return LogRanges(counts, {at: (begin[at], end[at]) for at in there})

    def topics(self) -> dict[str, int]:
        """All topics of the cluster, each with its number of partitions."""
        return self._admin.topic_names(self._timeout_s)

    def offsets_at_time(self, partitions: Collection[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The first record at or after a time, -1 where there is none."""
        return self._admin.log_offsets(partitions, time_ms, self._timeout_s)


def kafka_group_offsets(
    worker_props: Mapping[str, str], timeout_s: float, *, timeout_setting: str
) -> Callable[[Mapping[str, str]], AbstractContextManager[KafkaGroups]]:
    """Opens a client for each command, with the connector's `admin.override.` settings.

    Each of its calls may take `timeout_s`; error messages name its setting, `timeout_setting`.
    """

    def opened(connector_config: Mapping[str, str]) -> AbstractContextManager[KafkaGroups]:
        return _open(worker_props, connector_config, timeout_s, timeout_setting)

    return opened


@contextmanager
def _open(
    worker_props: Mapping[str, str], connector_config: Mapping[str, str], timeout_s: float, timeout_setting: str
) -> Iterator[KafkaGroups]:
    from kconnect.runtime.kafka.admin import KafkaAdmin  # here: it loads when a sink's offsets are first requested

    name = f"connector-worker-adminclient-{connector_config.get('name', '')}"
    settings, warnings = admin_config(worker_props, connector_config, client_id=name)
    for warning in warnings:
        log.warning("%s", warning)
    javas = admin_settings(worker_props, connector_config, client_id=name)
    with KafkaAdmin(settings, name, timeout_setting=timeout_setting) as admin:
        yield KafkaGroups(admin, javas, timeout_s, timeout_setting)


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
    doing, need = f"The offsets of consumer group {group!r} cannot be deleted", Right("DELETE", "group", group)
    answer = ask_coordinator(
        settings,
        group,
        OffsetDelete(group, by_topic),
        lambda answer: answer.error,
        timeout_s,
        doing=doing,
        need=need,
        timeout_setting=timeout_setting,
    )
    if answer.error and answer.error != _NO_GROUP:
        raise refused(doing, answer.error, settings, need)
    for (topic, number), error in answer.errors.items():
        if error and error != _UNKNOWN_TOPIC:
            raise refused(f"{doing}, for {topic}-{number}", error, settings, need, Right("READ", "topic", topic))
