"""What a coordinator's error codes mean to a group member. Pure."""

from __future__ import annotations

from typing import Final

from kconnect.errors import ConnectError
from kconnect.runtime.config.rights import Client, Right

NONE: Final = 0
ILLEGAL_GENERATION: Final = 22
REBALANCE_IN_PROGRESS: Final = 27
MEMBER_ID_REQUIRED: Final = 79
COORDINATOR_ELSEWHERE: Final = frozenset({15, 16})
"""Look up the group's coordinator again: it moved, or the new one is not known yet."""
NO_LONGER_A_MEMBER: Final = frozenset({25, 82})
"""The group went on without this member, and its id is worth nothing any more."""

_UNSUPPORTED_VERSION: Final = 35
_NAMES: Final = {
    -1: "UNKNOWN_SERVER_ERROR",
    14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE",
    16: "NOT_COORDINATOR",
    22: "ILLEGAL_GENERATION",
    23: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT",
    27: "REBALANCE_IN_PROGRESS",
    29: "TOPIC_AUTHORIZATION_FAILED",
    30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    33: "UNSUPPORTED_SASL_MECHANISM",
    35: "UNSUPPORTED_VERSION",
    39: "INVALID_REPLICA_ASSIGNMENT",
    41: "NOT_CONTROLLER",
    58: "SASL_AUTHENTICATION_FAILED",
    68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND",
    79: "MEMBER_ID_REQUIRED",
    81: "GROUP_MAX_SIZE_REACHED",
    82: "FENCED_INSTANCE_ID",
    86: "GROUP_SUBSCRIBED_TO_TOPIC",
}
# Errors that end a herder: the same request will not succeed later without a change.
_FINAL: Final = {
    23: (
        "group.id={group} is in use by a group of another kind, such as a consumer group, or whose "
        "workers share no protocol with this one.",
        "Choose another group.id for this Connect cluster, or give all its workers one connect.protocol.",
    ),
    24: ("The broker rejects group.id={group}.", "Set group.id to a non-empty name."),
    26: (
        "The broker rejects session.timeout.ms={session_ms}.",
        "Set it between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms.",
    ),
    30: (
        "This worker may not join the group of group.id={group}: {lacks}.",
        "Grant it: {grant}",
    ),
    35: ("The broker is too old for this request.", "Use a broker of version 2.4 or newer."),
    81: (
        "The group of group.id={group} is full: the broker allows group.max.size members.",
        "Stop another worker, or raise group.max.size of the broker.",
    ),
}


class Unanswered(Exception):
    """No answer, or the connection broke: a retry may help."""


class UnsupportedError(ConnectError):
    """The broker does not have the request in any version that we speak."""


class GroupRefusal(Exception):
    """The coordinator answered with an error code."""

    def __init__(self, code: int, doing: str) -> None:
        super().__init__(f"{doing}: {error_name(code)}")
        self.code = code


def error_name(code: int) -> str:
    return _NAMES.get(code, f"error {code}")


def final_error(code: int, group_id: str, session_timeout_ms: int, who: Client | None = None) -> ConnectError | None:
    """The message of an error that ends the membership for good; None for one that may pass."""
    if code not in _FINAL:
        return None
    needs, client = [Right("READ", "group", group_id)], who or Client()
    more = {"session_ms": session_timeout_ms, "lacks": client.lacks(needs), "grant": client.grant(needs)}
    text, hint = (part.format(group=group_id, **more) for part in _FINAL[code])
    kind = UnsupportedError if code == _UNSUPPORTED_VERSION else ConnectError
    return kind(f"{text.rstrip('.')} (the broker says {error_name(code)})", hint=hint)
