"""What the brokers know about groups of any type: their state and the raw bytes of their members.

Source: DescribeGroups, ConsumerGroupDescribe (KIP-848), ListGroups of the Kafka protocol.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from kconnect.errors import ConnectError, UnreachableError
from kconnect.runtime.config.addresses import Address
from kconnect.runtime.config.rights import Right
from kconnect.runtime.herder.group.admin_frames import (
    DescribeConsumerGroup,
    DescribeGroup,
    GroupAnswer,
    GroupDescription,
    ListedGroups,
    ListGroups,
)
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.errors import Unanswered, UnsupportedError, error_name
from kconnect.runtime.herder.group.frames import KafkaRequest, KnownBrokers
from kconnect.runtime.herder.group.group_requests import AWAY_HINT, PASSING, PAUSE_S, ask_any, ask_coordinator, refused
from kconnect.runtime.herder.group.security import Access, access

B = TypeVar("B", GroupAnswer, ListedGroups)
_DEAD: Final = "Dead"
_NO_GROUP: Final = 69
_LEAST_S: Final = 0.1


def describe_group(
    settings: Mapping[str, str], group: str, timeout_s: float, *, timeout_setting: str = "--timeout"
) -> GroupDescription:
    """The group of this name; Dead and without members if it does not exist.

    `settings` are Java's, of an admin client; `timeout_setting` is for messages.
    Errors: ConnectError, UnreachableError; what the broker refuses (missing rights), by its name.
    """
    deadline = time.monotonic() + timeout_s
    doing, need = f"Consumer group {group!r} cannot be described", Right("DESCRIBE", "group", group)

    def asked(request: KafkaRequest[GroupAnswer]) -> GroupDescription | None:
        answer = ask_coordinator(
            settings,
            group,
            request,
            lambda answer: answer.error,
            max(deadline - time.monotonic(), _LEAST_S),
            doing=doing,
            need=need,
            timeout_setting=timeout_setting,
        )
        if answer.error not in (0, _NO_GROUP):
            raise refused(doing, answer.error, settings, need)
        return None if answer.error or answer.group.state == _DEAD else answer.group

    found = asked(DescribeGroup(group))
    if found is None:
        try:
            found = asked(DescribeConsumerGroup(group))
        except UnsupportedError:  # a broker without groups of the newer protocol
            found = None
    return found or GroupDescription(group, _DEAD, "", "")


def groups_of_type(
    settings: Mapping[str, str], protocol_type: str, timeout_s: float, *, timeout_setting: str = "--timeout"
) -> list[GroupDescription]:
    """The groups of a type, such as `connect`, on all brokers, as far as we may describe them.

    `settings`, `timeout_setting`: as of `describe_group`.
    Errors: UnreachableError if no broker answers; ConnectError if a broker refuses us, or one of several does not
    answer: its groups are not known.
    """
    way, deadline = access(settings, settings.get("client.id", "kconnect-admin")), time.monotonic() + timeout_s
    doing = f"Groups cannot be listed within {timeout_s:g} s ({timeout_setting})"
    try:
        brokers = ask_any(way, KnownBrokers(), timeout_s)
    except ConnectError as err:
        raise type(err)(f"{doing}: {err}", hint=err.hint) from err
    try:
        return [group for broker in brokers for group in _on_broker(broker, way, protocol_type, deadline)]
    except Unanswered as err:
        kind = ConnectError if len(brokers) > 1 else UnreachableError
        raise kind(f"{doing}: {err}", hint=AWAY_HINT) from err


def _on_broker(broker: Address, way: Access, protocol_type: str, deadline: float) -> Iterator[GroupDescription]:
    """Asks again while the broker loads its groups: a group that is not shown might be taken for none."""

    def left_s() -> float:
        return max(deadline - time.monotonic(), _LEAST_S)

    def asked(request: KafkaRequest[B]) -> B:
        while (answer := connection.ask(request, left_s())).error in PASSING and left_s() > PAUSE_S:
            time.sleep(PAUSE_S)
        return answer

    connection = BrokerConnection(broker, way, left_s())
    try:
        listed = asked(ListGroups())
        if listed.error:
            raise Unanswered(f"the broker at {broker[0]}:{broker[1]} says {error_name(listed.error)}")
        for name, kind in listed.types.items():
            if kind == protocol_type and (answer := asked(DescribeGroup(name))).error == 0:
                yield answer.group
    finally:
        connection.close()
