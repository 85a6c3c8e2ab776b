"""Sends requests to a group's coordinator over our own connection, until it is ready to answer.

With the security settings of every other client. `admin_frames` says why librdkafka is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kconnect.errors import ConflictError, ConnectError, NotFoundError, UnreachableError
from kconnect.runtime.config.rights import Right, client_of_java
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import COORDINATOR_ELSEWHERE, GroupRefusal, Unanswered, error_name
from kconnect.runtime.herder.group.frames import KafkaRequest
from kconnect.runtime.herder.group.security import Access, access

A = TypeVar("A")

AWAY_HINT: Final = "Check bootstrap.servers and security.protocol, and that the broker runs."
_LEAST_S: Final = 0.1
PAUSE_S: Final = 0.1
# The group moves to another broker (and COORDINATOR_LOAD_IN_PROGRESS)
PASSING: Final = COORDINATOR_ELSEWHERE | {14}
_NO_TOPIC: Final = 3
_NOT_ALLOWED: Final = {29: "topic", 30: "group"}
# NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC; and what who is no member hears when it commits to a group that has some
_HAS_MEMBERS: Final = frozenset({68, 86, 22, 25, 27})


def ask_coordinator(
    settings: Mapping[str, str],
    group: str,
    request: KafkaRequest[A],
    error_of: Callable[[A], int],
    timeout_s: float,
    *,
    doing: str,
    need: Right,
    timeout_setting: str,
) -> A:
    """Returns the answer; retries while the group moves to another broker, or its coordinator is loading.

    `settings` are those of a Java admin client; `error_of` returns the error code of an answer; the request must be
    idempotent. `doing`, `need`, the right without which it is refused, and
    `timeout_setting` are for messages. Errors: ConnectError, UnreachableError.
    """
    coordinator = Coordinator(access(settings, settings.get("client.id", "kconnect-admin")), group, timeout_s)
    deadline = time.monotonic() + timeout_s
    while True:
        problem: Exception
        try:
            connection = coordinator.connect(max(deadline - time.monotonic(), _LEAST_S))
            try:
                answer = connection.ask(request, max(deadline - time.monotonic(), _LEAST_S))
            finally:
                connection.close()
            if error_of(answer) not in PASSING:
                return answer
            coordinator.forget(connection.address)
            problem = GroupRefusal(error_of(answer), doing)
        except (Unanswered, GroupRefusal) as err:
            if isinstance(err, GroupRefusal) and err.code not in PASSING:
                raise refused(doing, err.code, settings, need) from err
            problem = err
        if time.monotonic() + PAUSE_S > deadline:
            raise UnreachableError(
                f"{doing} within {timeout_s:.3g} s ({timeout_setting}): {problem}",
                hint=AWAY_HINT,
            ) from problem
        time.sleep(PAUSE_S)


def ask_any(way: Access, request: KafkaRequest[A], within_s: float) -> A:
    """The answer of the first broker of `bootstrap.servers` that gives one.

    Errors: UnreachableError with why none does; ConnectError where one of them refuses us, as the login.
    """
    problems = []
    refusal: ConnectError | None = None
    for address in way.bootstrap:
        try:
            connection = BrokerConnection(address, way, within_s / len(way.bootstrap) * 0.6)
        except (Unanswered, ConnectError) as err:
            problems.append(str(err).rstrip("."))
            if refusal is None and isinstance(err, ConnectError):
                refusal = err
            continue
        try:
            return connection.ask(request, within_s / len(way.bootstrap) * 0.3)
        except Unanswered as err:
            problems.append(str(err))
        finally:
            connection.close()
    if refusal is None:
        raise UnreachableError("; ".join(problems), hint=AWAY_HINT)
    raise ConnectError("; ".join(problems), hint=refusal.hint) from refusal


def refused(doing: str, code: int, settings: Mapping[str, str], *needs: Right) -> ConnectError:
    """The error for a broker's final refusal. `needs`: the rights without which it refuses.

    NotFoundError for a topic or partition; ConflictError for a group with members.
    """
    if code == _NO_TOPIC:
        return NotFoundError(f"{doing}: Unknown topic or partition")
    if code in _HAS_MEMBERS:
        return ConflictError(f"{doing}: the group still has members", hint="Stop the connector and try again.")
    if code in _NOT_ALLOWED:
        lacking, client = [right for right in needs if right.kind == _NOT_ALLOWED[code]], client_of_java(settings)
        return ConnectError(
            f"{doing}: {client.lacks(lacking)} ({error_name(code)})", hint=f"Grant it: {client.grant(lacking)}"
        )
    return ConnectError(f"{doing}: the broker says {error_name(code)}")
