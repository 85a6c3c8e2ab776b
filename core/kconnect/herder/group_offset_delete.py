"""Single committed offsets of a consumer group are forgotten, and the others stay as they are all the time.

librdkafka has no such request (2.16): it can only delete a group with all its offsets. So this one goes over a
connection of our own, with the security settings of every other client.
Source: OffsetDelete of the Kafka protocol (KIP-496).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Final

from kconnect.errors import ConflictError, ConnectError, UnreachableError
from kconnect.herder.membership.coordinator import Coordinator
from kconnect.herder.membership.errors import COORDINATOR_ELSEWHERE, GroupRefusal, Unanswered, error_name
from kconnect.herder.membership.frames import OffsetDelete, OffsetsDeleted
from kconnect.herder.membership.security import access
from kconnect.model import TopicPartition

__all__ = ["delete_group_offsets"]

_LEAST_S: Final = 0.1
_PAUSE_S: Final = 0.1
# The group moves to another broker (and COORDINATOR_LOAD_IN_PROGRESS).
_PASSING: Final = COORDINATOR_ELSEWHERE | {14}
_UNKNOWN_TOPIC: Final = 3
_NOT_ALLOWED: Final = {29: "topic", 30: "consumer group"}
_NO_GROUP: Final = 69
# NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC
_HAS_MEMBERS: Final = frozenset({68, 86})


def delete_group_offsets(
    settings: Mapping[str, str],
    group: str,
    partitions: Collection[TopicPartition],
    timeout_s: float,
    *,
    timeout_setting: str,
) -> None:
    """Forget these partitions' offsets. `settings` are Java's, of an admin client; `timeout_setting` is for messages.

    A group, a topic or an offset that is not there is fine.
    Errors: ConflictError when members read the topics; ConnectError, TimedOutError, UnreachableError.
    """
    if not partitions:
        return
    by_topic: dict[str, list[int]] = {}
    for at in partitions:
        by_topic.setdefault(at.topic, []).append(at.partition)
    doing = f"The offsets of consumer group {group!r} cannot be deleted"
    coordinator = Coordinator(access(settings, settings.get("client.id", "kconnect-admin")), group, timeout_s)
    try:
        answer = _asked(coordinator, OffsetDelete(group, by_topic), timeout_s, doing)
    except (Unanswered, GroupRefusal) as err:
        raise UnreachableError(
            f"{doing} within {timeout_s:g} s ({timeout_setting}): {err}",
            hint="Check bootstrap.servers and security.protocol, and that the broker runs.",
        ) from err
    if answer.error and answer.error != _NO_GROUP:
        raise _error(doing, answer.error)
    for (topic, number), error in answer.errors.items():
        if error and error != _UNKNOWN_TOPIC:
            raise _error(f"{doing}, for {topic}-{number}", error)


def _asked(coordinator: Coordinator, request: OffsetDelete, timeout_s: float, doing: str) -> OffsetsDeleted:
    """Asks again while the group moves to another broker, or its coordinator is loading. Doing it twice is fine."""
    deadline = time.monotonic() + timeout_s
    while True:
        problem: Exception
        try:
            connection = coordinator.connect(max(deadline - time.monotonic(), _LEAST_S))
            try:
                answer = connection.ask(request, max(deadline - time.monotonic(), _LEAST_S))
            finally:
                connection.close()
            if answer.error not in _PASSING:
                return answer
            coordinator.forget(connection.address)
            problem = GroupRefusal(answer.error, doing)
        except (Unanswered, GroupRefusal) as err:
            if isinstance(err, GroupRefusal) and err.code not in _PASSING:
                raise _error(doing, err.code) from err
            problem = err
        if time.monotonic() + _PAUSE_S > deadline:
            raise problem
        time.sleep(_PAUSE_S)


def _error(doing: str, code: int) -> ConnectError:
    if code in _HAS_MEMBERS:
        return ConflictError(f"{doing}: the group still has members", hint="Stop the connector and try again.")
    if code in _NOT_ALLOWED:
        return ConnectError(
            f"{doing}: the broker does not allow it ({error_name(code)})",
            hint=f"Grant the client's principal the rights on this {_NOT_ALLOWED[code]}.",
        )
    return ConnectError(f"{doing}: the broker says {error_name(code)}")
