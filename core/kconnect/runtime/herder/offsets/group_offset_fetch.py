"""Fetches all committed offsets of a consumer group.

librdkafka (2.16) can ask for them, and ends the process with a segmentation fault when the coordinator answers that it
is not ready, as it does for a moment after each start of a broker: its admin client has no group of its own to look up
again. Source: OffsetFetch of the Kafka protocol (KIP-211).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.model import TopicPartition
from kconnect.runtime.config.addresses import Address
from kconnect.runtime.config.rights import Right
from kconnect.runtime.herder.group.admin_frames import OffsetFetch, OffsetsFetched
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import GroupRefusal, Unanswered
from kconnect.runtime.herder.group.group_requests import ask_coordinator, refused
from kconnect.runtime.herder.group.security import access

_NO_GROUP: Final = 69


def fetch_group_offsets(
    settings: Mapping[str, str], group: str, timeout_s: float, *, timeout_setting: str
) -> dict[TopicPartition, int]:
    """Empty for a group that does not exist. `settings` are Java's, of an admin client; `timeout_setting`: messages.

    Errors: ConnectError, UnreachableError.
    """
    answer = ask_coordinator(
        settings,
        group,
        OffsetFetch(group),
        lambda answer: answer.error,
        timeout_s,
        doing=_doing(group),
        need=Right("DESCRIBE", "group", group),
        timeout_setting=timeout_setting,
    )
    return _offsets_in(answer, group, settings)


class GroupOffsetReader:
    """The offsets of many groups, time and again, on connections that are kept. Threads: one at a time.

    A group whose coordinator is not the one that is remembered, or does not answer, goes by `fetch_group_offsets`.
    """

    def __init__(self, settings: Mapping[str, str], timeout_s: float, *, timeout_setting: str) -> None:
        """Takes what `fetch_group_offsets` takes."""
        self._settings = settings
        self._timeout_s = timeout_s
        self._timeout_setting = timeout_setting
        self._access = access(settings, settings.get("client.id", "kconnect-admin"))
        self._coordinators: dict[str, Coordinator] = {}
        self._connections: dict[Address, BrokerConnection] = {}

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        """Empty for a group that does not exist. Errors: as `fetch_group_offsets`."""
        coordinator = self._coordinators.setdefault(group, Coordinator(self._access, group, self._timeout_s))
        try:
            connection = self._connection(coordinator)
            answer = connection.ask(OffsetFetch(group), self._timeout_s)
        except (Unanswered, GroupRefusal):
            answer = None
        if answer is not None and answer.error in (0, _NO_GROUP):
            return _offsets_in(answer, group, self._settings)
        self.close()
        return fetch_group_offsets(self._settings, group, self._timeout_s, timeout_setting=self._timeout_setting)

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._coordinators.clear()

    def _connection(self, coordinator: Coordinator) -> BrokerConnection:
        address = coordinator.find(self._timeout_s)
        kept = self._connections.get(address)
        if kept is not None and not kept.is_worn:
            return kept
        if kept is not None:
            kept.close()
        made = self._connections[address] = coordinator.connect(self._timeout_s)
        return made


def _doing(group: str) -> str:
    return f"The offsets of consumer group {group!r} cannot be read"


def _offsets_in(answer: OffsetsFetched, group: str, settings: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Errors: ConnectError for what the broker refuses."""
    doing, need = _doing(group), Right("DESCRIBE", "group", group)
    if answer.error and answer.error != _NO_GROUP:
        raise refused(doing, answer.error, settings, need)
    for at, error in answer.errors.items():
        if error:
            raise refused(f"{doing}, for {at}", error, settings, need, Right("DESCRIBE", "topic", at.topic))
    return {at: offset for at, offset in answer.offsets.items() if offset >= 0}
