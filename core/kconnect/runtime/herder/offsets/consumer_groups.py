"""Consumer group offsets of sinks in the Kafka cluster: `GroupOffsets`, by requests of our own.

Source: OffsetCommit, OffsetDelete (KIP-496), DeleteGroups of the Kafka protocol.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from kconnect.model import TopicPartition
from kconnect.runtime.config.client_config import admin_config, admin_settings
from kconnect.runtime.config.rights import Right
from kconnect.runtime.herder.group.admin_frames import DeleteGroup, OffsetCommit, OffsetDelete
from kconnect.runtime.herder.group.frames import KafkaRequest
from kconnect.runtime.herder.group.group_requests import ask_coordinator, refused
from kconnect.runtime.herder.offsets.log_ranges import LogRanges

if TYPE_CHECKING:
    from kconnect.runtime.kafka.admin import KafkaAdmin

log = logging.getLogger(__name__)
A = TypeVar("A")
_UNKNOWN_TOPIC: Final = 3
_NO_GROUP: Final = 69


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

    def member_count(self, group: str) -> int:
        from kconnect.runtime.herder.group.description import describe_group

        found = describe_group(self._settings, group, self._timeout_s, timeout_setting=self._timeout_setting)
        return len(found.members)

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets offsets of a group without members. Errors: ConflictError if it has some; ConnectError that names the
        refused partition.
        """
        if not offsets:
            return
        doing, need = f"The offsets of consumer group {group!r} cannot be altered", Right("READ", "group", group)
        errors = self._asked(OffsetCommit(group, offsets), _first_error, group, doing, need)
        self._raise_for(errors, doing, need)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Forgets these offsets. A group, a topic or an offset that does not exist is fine.

        Errors: ConflictError if members read the topics; ConnectError, UnreachableError.
        """
        if not partitions:
            return
        doing, need = f"The offsets of consumer group {group!r} cannot be deleted", Right("DELETE", "group", group)
        answer = self._asked(OffsetDelete(group, partitions), lambda answer: answer.error, group, doing, need)
        if answer.error not in (0, _NO_GROUP):
            raise refused(doing, answer.error, self._settings, need)
        self._raise_for({at: error for at, error in answer.errors.items() if error != _UNKNOWN_TOPIC}, doing, need)

    def delete_group(self, group: str) -> None:
        """Deletes a group with all its offsets; none is fine. Errors: ConflictError if it has members."""
        doing, need = f"Consumer group {group!r} cannot be deleted", Right("DELETE", "group", group)
        error = self._asked(DeleteGroup(group), lambda error: error, group, doing, need)
        if error not in (0, _NO_GROUP):
            raise refused(doing, error, self._settings, need)

    def _asked(self, request: KafkaRequest[A], error_of: Callable[[A], int], group: str, doing: str, need: Right) -> A:
        return ask_coordinator(
            self._settings,
            group,
            request,
            error_of,
            self._timeout_s,
            doing=doing,
            need=need,
            timeout_setting=self._timeout_setting,
        )

    def _raise_for(self, errors: Mapping[TopicPartition, int], doing: str, need: Right) -> None:
        for at, error in errors.items():
            if error:
                raise refused(f"{doing}, for {at}", error, self._settings, need, Right("READ", "topic", at.topic))

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


def _first_error(errors: Mapping[TopicPartition, int]) -> int:
    """Returns 0 for none. A coordinator that is not ready refuses all partitions alike."""
    return next((error for error in errors.values() if error), 0)


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
