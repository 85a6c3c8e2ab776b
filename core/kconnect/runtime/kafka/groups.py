"""What the broker knows about a group of any type: its state and the raw bytes of its members.

`describe_consumer_groups` of the client refuses groups of type `connect`; the older request behind `list_groups` does
not. Source: DescribeGroups, ListGroups of the Kafka protocol.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from kconnect.errors import ConnectError, RetriableError, TimedOutError, UnreachableError
from kconnect.runtime.config.rights import Right, client_of
from kconnect.runtime.kafka.clients import ClientLog, admin_client, connect_error, kafka_errors
from kconnect.runtime.kafka.coordinator_retries import ask_coordinator

log = logging.getLogger(__name__)

_TIMEOUT_SETTING: Final = "--timeout"  # only commands use this
# Listing groups and describing one are two requests: a group may appear in between, hardly twice.
_LOOKS: Final = 3
# The client's error for an existing group of another type.
_NOT_OF_CONSUMERS: Final = KafkaError._INVALID_ARG
_DEAD: Final = "Dead"
_AWAY_HINT: Final = "Check bootstrap.servers and security.protocol, and that the broker runs."


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member: its join metadata and its assignment, as bytes of the group's protocol."""

    id: str
    client_id: str
    host: str
    metadata: bytes = field(repr=False)
    assignment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. `state` is Kafka's word: Stable, PreparingRebalance, CompletingRebalance, Empty, Dead."""

    name: str
    state: str
    protocol_type: str
    """`connect` for workers, `consumer` for consumers, empty for a group that does not exist."""
    protocol: str
    members: tuple[MemberDescription, ...] = ()


def describe_group(config: Mapping[str, Any], group: str, timeout_s: float) -> GroupDescription:
    """The group of this name; Dead and without members if it does not exist.

    Errors: ConnectError, UnreachableError, TimedOutError; what the broker refuses (missing rights), by its name.
    """
    doing = f"Consumer group {group!r} cannot be described"
    for _ in range(_LOOKS):
        for item in _listed(config, group, timeout_s, doing):
            if item.id != group:
                continue
            if item.error is not None:
                raise _error(doing, item.error, config, group)
            if item.state != _DEAD:  # which this request also says of a group of the newer protocol (KIP-848)
                return _described(item)
        found = _of_consumers(config, group, timeout_s, doing)
        if found is not None:
            return found
    raise RetriableError(f"{doing}: it was not there, then it was, {_LOOKS} times")


def describe_groups(config: Mapping[str, Any], timeout_s: float) -> list[GroupDescription]:
    """All groups of the cluster that may be described. Errors: as `describe_group`."""
    found = _listed(config, None, timeout_s, "Groups cannot be listed")
    return [_described(item) for item in found if item.error is None]


def _listed(config: Mapping[str, Any], group: str | None, timeout_s: float, doing: str) -> list[Any]:
    """The client's own descriptions, of one group or of all."""
    client_log = ClientLog(log, f"Admin client of {f'group {group}' if group else 'all groups'}")
    client = admin_client(config, client_log)
    try:
        with kafka_errors(doing), warnings.catch_warnings():
            # The client's newer requests only know consumer groups
            warnings.simplefilter("ignore", DeprecationWarning)
            if group is None:
                return list(client.list_groups(timeout=timeout_s))
            return list(client.list_groups(group, timeout=timeout_s))
    except ConnectError as error:
        client.poll(0)  # serves the client's own errors, which say more than a timeout
        client_log.raise_if_refused()
        if not isinstance(error, TimedOutError | UnreachableError):
            raise
        why = f" ({client_log.last_error})" if client_log.last_error else ""
        raise type(error)(
            f"{doing}: the brokers at {config.get('bootstrap.servers')} gave no answer within {timeout_s:g} s "
            f"({_TIMEOUT_SETTING}){why}",
            hint=_AWAY_HINT,
        ) from error


def _of_consumers(config: Mapping[str, Any], group: str, timeout_s: float, doing: str) -> GroupDescription | None:
    """The group as the client's newer request describes it, Dead if it does not exist; None for one of another type,
    which has come since it was listed. A group that we may not describe is not listed, and must not be taken for a
    missing one.

    Errors: ConnectError for missing rights, and for whatever else keeps the group from being described.
    """
    client = admin_client(config, ClientLog(log, f"Admin client of group {group}"))
    try:
        found = ask_coordinator(
            lambda turn_s: client.describe_consumer_groups([group], request_timeout=turn_s)[group], timeout_s
        )
    except KafkaException as error:
        code = error.args[0].code()
        if code == _NOT_OF_CONSUMERS:
            return None
        if code != KafkaError.GROUP_ID_NOT_FOUND:
            raise _error(doing, error.args[0], config, group) from error
        return GroupDescription(group, _DEAD, "", "")
    except FutureTimeoutError as error:
        raise TimedOutError(f"{doing}: no answer within {timeout_s:g} s ({_TIMEOUT_SETTING})") from error
    if found.state == ConsumerGroupState.DEAD:
        return GroupDescription(group, _DEAD, "", "")
    members = tuple(MemberDescription(each.member_id, each.client_id, each.host, b"", b"") for each in found.members)
    return GroupDescription(group, found.state.name.capitalize(), "consumer", found.partition_assignor, members)


def _error(doing: str, error: KafkaError, config: Mapping[str, Any], group: str) -> ConnectError:
    return connect_error(doing, error, (Right("DESCRIBE", "group", group),), client_of(config))


def _described(item: Any) -> GroupDescription:
    members = tuple(
        MemberDescription(
            member.id, member.client_id, member.client_host, member.metadata or b"", member.assignment or b""
        )
        for member in item.members
    )
    return GroupDescription(item.id, item.state, item.protocol_type, item.protocol, members)
