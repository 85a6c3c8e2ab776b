"""More replicas for the partitions of a topic: who gets them, and the request that has Kafka copy them.

librdkafka (2.16) has no request for it: it goes over the connection that workers have for their group.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kconnect.admin.direct.access import ClusterAccess
from kconnect.errors import ConflictError, ConnectError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.rights import Right, client_of_java
from kconnect.runtime.herder.group.admin_frames import PlaceReplicas
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.errors import Unanswered, error_name
from kconnect.runtime.herder.group.security import access as connection_access
from kconnect.runtime.kafka.admin import KafkaAdmin, ReplicaPlaces

_PAUSE_S: Final = 0.2
_NOT_ALLOWED: Final = 31
# Partitions named in an error
_NAMED: Final = 5


def more_replicas(
    now: Mapping[int, Sequence[int]], brokers: Collection[int], wanted: int
) -> dict[int, tuple[int, ...]]:
    """The brokers of each partition that has fewer than `wanted`, or than there are brokers. Pure.

    Those that have it stay, and in their order: the leader is among the first. Others are those that have the fewest
    replicas of the topic; racks are not looked at.
    """
    load = Counter(broker for replicas in now.values() for broker in replicas)
    found: dict[int, tuple[int, ...]] = {}
    for partition, replicas in sorted(now.items()):
        free = [broker for broker in sorted(brokers) if broker not in replicas]
        chosen: list[int] = []
        while free and len(replicas) + len(chosen) < wanted:
            # Of several that have as few, another one for each partition
            best = min(free, key=lambda each: (load[each], (each - partition) % len(brokers)))
            free.remove(best)
            chosen.append(best)
            load[best] += 1
        if chosen:
            found[partition] = (*replicas, *chosen)
    return found


def raise_for_lost(topic: str, places: ReplicaPlaces, partitions: Collection[int], brokers: Collection[int]) -> None:
    """Errors: ConflictError for partitions of which no replica is on a broker that is up: nobody could copy them."""
    lost = {number: places.replicas[number] for number in partitions if not {*places.replicas[number]} & {*brokers}}
    if not lost:
        return
    down = sorted({broker for replicas in lost.values() for broker in replicas})
    which = ", ".join(map(str, sorted(lost)[:_NAMED])) + (
        f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    )
    one = len(down) == 1
    raise ConflictError(
        f"Topic {topic} cannot get more replicas: {'broker' if one else 'brokers'} {', '.join(map(str, down))}, "
        f"which {'has' if one else 'have'} all replicas of {'partition' if len(lost) == 1 else 'partitions'} {which}, "
        f"{'is' if one else 'are'} down",
        hint=f"Start {'it' if one else 'them'}, then repair the topic.",
    )


def place_replicas(
    access: ClusterAccess, admin: KafkaAdmin, topic: str, assignment: Mapping[int, Sequence[int]]
) -> None:
    """Have Kafka copy partitions to these brokers, and wait until all are in sync; within the command's deadline.

    Errors: ConnectError of the controller, such as for a right that is lacking; TimedOutError while it still copies.
    """
    deadline = time.monotonic() + access.timeout_s
    _ask_controller(access, admin, topic, assignment)
    while behind := _behind(admin.replica_places(topic, access.timeout_s), assignment):
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"Kafka is still copying topic {topic}: {pluralize(behind, 'partition')} of {len(assignment)} "
                f"{'is' if behind == 1 else 'are'} not in sync on all brokers after {access.timeout_s:g} s (--timeout)",
                hint="Kafka goes on copying. `connect topics doctor` says when all replicas are in sync.",
            )
        time.sleep(_PAUSE_S)


def _behind(places: ReplicaPlaces, assignment: Mapping[int, Sequence[int]]) -> int:
    """How many partitions are not in sync on all brokers they were given."""
    return sum(not {*brokers} <= {*places.in_sync[number]} for number, brokers in assignment.items())


def _ask_controller(
    access: ClusterAccess, admin: KafkaAdmin, topic: str, assignment: Mapping[int, Sequence[int]]
) -> None:
    doing = f"Topic {topic} cannot get more replicas"
    login = connection_access(access.worker, access.worker.get("client.id") or "kconnect-admin")
    try:
        connection = BrokerConnection(admin.controller(access.timeout_s), login, access.timeout_s)
        try:
            request = PlaceReplicas(topic, assignment, int(access.timeout_s * 1000))
            answer = connection.ask(request, access.timeout_s)
        finally:
            connection.close()
    except Unanswered as err:
        raise UnreachableError(f"{doing}: {err}", hint="Is Kafka running? --timeout gives it more time.") from err
    for number, code, why in [(None, answer.error, answer.message), *answer.errors]:
        if code == _NOT_ALLOWED:
            needs, client = [Right("ALTER", "cluster")], client_of_java(access.worker)
            raise ConnectError(f"{doing}: {client.lacks(needs)}", hint=f"Grant it: {client.grant(needs)}")
        if code:
            place = "" if number is None else f" of partition {number}"
            raise ConnectError(f"{doing}: the broker says{place} {error_name(code)}{f', {why}' if why else ''}")
