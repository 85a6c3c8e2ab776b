"""What the broker knows of a cluster as a whole: its group, its leader, how far workers have read the configs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.group.live_group import UNSETTLED, LiveGroup, LiveWorker, live_group
from kconnect.errors import ConflictError, NotFoundError
from kconnect.model import TopicPartition

if TYPE_CHECKING:
    from kconnect.clock import Clock

T = TypeVar("T")

# The group protocol's own names of Connect's sub-protocols, as connect.protocol spells them
_PROTOCOLS = {"default": "eager"}
# A rebalance takes some hundred milliseconds to some seconds; a look at the group takes a few milliseconds
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A snapshot of a cluster; nothing in it comes from a worker's REST server."""

    group: LiveGroup
    config_end: int | None = None
    """The offset that the config topic's next record will have; None when the topic is not named, or not there."""

    @property
    def protocol(self) -> str:
        """Gives the protocol as connect.protocol spells it; empty while there is none."""
        return _PROTOCOLS.get(self.group.protocol, self.group.protocol)

    @property
    def leader(self) -> LiveWorker | None:
        """Returns None without workers, and during a rebalance, which decides who leads."""
        if not self.group.is_settled:
            return None
        return next((worker for worker in self.group.workers if worker.is_leader), None)

    def to_json(self) -> dict[str, Any]:
        leader, workers = self.leader, self.group.workers
        return {
            "group": self.group.name,
            "state": self.group.state,
            "protocol": self.protocol,
            "leader": None if leader is None else shown_url(leader),
            "config_offset": None if leader is None else leader.placed_offset,
            "config_end": self.config_end,
            "delay_ms": max((worker.delay_ms for worker in workers), default=0),
            "connectors": sum(len(worker.work.connectors) for worker in workers),
            "tasks": sum(len(worker.work.tasks) for worker in workers),
            "members": [member_json(worker) for worker in workers],
        }


def leader_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The leader among the members. Errors: NotFoundError without workers, ConflictError while a rebalance runs."""
    group, state = document["group"], document["state"]
    if not document["members"]:
        raise NotFoundError(
            f"No worker of group {group} is running (the broker says {state})",
            hint="--group-id, or group.id of --worker, must be that of the workers.",
        )
    found = next((member for member in document["members"] if member["leader"]), None)
    if state in UNSETTLED:
        raise ConflictError(f"Group {group} is rebalancing: who leads it is not decided yet")
    if found is None:
        raise ConflictError(f"Group {group} has workers, and none of them was informed that it leads")
    return dict(found)


def await_leader(look: Callable[[], T], patience_s: float, clock: Clock) -> T:
    """The leader, also once a rebalance has ended: while it is not known who leads, look again for `patience_s`.

    Errors: NotFoundError without workers, at once; ConflictError that says how long it waited; those of `look`.
    """
    deadline = clock.monotonic() + patience_s
    while True:
        try:
            return look()
        except ConflictError as err:
            if clock.monotonic() + _LOOK_EVERY_S > deadline:
                waited = f"; waited {patience_s:g} s" if patience_s else ""
                raise ConflictError(f"{err}{waited}", hint="--retry TIME waits longer.") from err
        clock.wait(threading.Event(), _LOOK_EVERY_S)


def member_json(worker: LiveWorker) -> dict[str, Any]:
    """One member, with all that it runs."""
    return {
        "url": shown_url(worker),
        "host": worker.host.removeprefix("/"),
        "client_id": worker.client_id,
        "member_id": worker.member_id,
        "leader": worker.is_leader,
        "config_offset": worker.config_offset,
        "connectors": sorted(worker.work.connectors),
        "tasks": [str(task) for task in sorted(worker.work.tasks)],
    }


def shown_url(worker: LiveWorker) -> str:
    """Its URL as people write it: workers announce it with a trailing slash."""
    return worker.url.rstrip("/")


def cluster_state(access: ClusterAccess) -> ClusterState:
    """Ask the broker. Errors: as `live_group`."""
    group = live_group(access)
    if not access.worker.get(InternalTopic.CONFIG.setting):
        return ClusterState(group)
    from kconnect.admin.direct.read.reader import ClusterReader

    with ClusterReader(access) as reader:
        topic = access.topic(InternalTopic.CONFIG)
        if topic not in reader.admin.describe_topics([topic], access.timeout_s):
            return ClusterState(group)
        only = TopicPartition(topic, 0)
        return ClusterState(group, reader.admin.end_offsets([only], access.timeout_s)[only])
