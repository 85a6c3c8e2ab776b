"""LiveGroup: the workers that run now, as the broker knows them, and what each of them runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from kconnect.admin.direct.access import ClusterAccess
from kconnect.errors import ConflictError, DataError
from kconnect.runtime.herder.assignment.protocol import (
    MemberState,
    Work,
    decode_assignment,
    decode_metadata,
    owned_work,
)
from kconnect.runtime.herder.group.admin_frames import GroupDescription, MemberDescription
from kconnect.runtime.herder.group.description import describe_group, groups_of_type

log = logging.getLogger(__name__)

_PROTOCOL_TYPE = "connect"
# In these states the members' bytes are not the last ones, and work may be on its way to anyone.
UNSETTLED = frozenset({"PreparingRebalance", "CompletingRebalance"})


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """One member of the group: `url` of its REST server, how far it has read the configs, what it runs."""

    member_id: str
    client_id: str
    host: str
    url: str
    config_offset: int
    work: Work
    is_leader: bool
    placed_offset: int = -1
    """How far into the configs the leader had read when it handed out the work."""
    delay_ms: int = 0
    """For how long, from then on, it holds back work of workers that were lost."""
    held: Work = field(default_factory=Work)
    """That work, where a leader of ours says it."""


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """The workers of one cluster. A group that is not there has the state Dead and no workers."""

    name: str
    state: str
    protocol: str
    workers: tuple[LiveWorker, ...]

    @property
    def is_live(self) -> bool:
        """Whether any worker is in the group."""
        return bool(self.workers)

    @property
    def is_settled(self) -> bool:
        """Whether no rebalance runs, so that what each worker runs is known."""
        return self.state not in UNSETTLED

    @property
    def is_reported(self) -> bool:
        """Whether the broker tells where the workers are, which it may not while a rebalance runs."""
        return self.is_settled or all(worker.url for worker in self.workers)

    def owners(self, connector: str) -> list[LiveWorker]:
        """Workers that run the connector or a task of it; all of them while a rebalance runs."""
        if not self.is_settled:
            return list(self.workers)
        return [
            worker
            for worker in self.workers
            if connector in worker.work.connectors or any(task.connector == connector for task in worker.work.tasks)
        ]


def live_group(access: ClusterAccess) -> LiveGroup:
    """Ask the broker. Errors: ConflictError when the group is of another kind; ConnectError of the client."""
    access.raise_if_refused()
    return read_group(describe_group(access.admin_settings, access.group_id, access.timeout_s))


def other_groups(access: ClusterAccess) -> tuple[LiveGroup, ...]:
    """The other groups of Connect workers on the same brokers, as far as we may describe them.

    A group whose members do not speak Connect's protocol is left out. Errors: ConnectError of the client.
    """
    found = []
    for described in groups_of_type(access.admin_settings, _PROTOCOL_TYPE, access.timeout_s):
        if described.name == access.group_id:
            continue
        try:
            found.append(read_group(described))
        except DataError as error:
            log.info("Group %s is of type connect, but is not read: %s", described.name, error)
    return tuple(found)


def read_group(described: GroupDescription) -> LiveGroup:
    """What the description means. Errors: ConflictError, DataError when its bytes are not Connect's."""
    if described.members and described.protocol_type != _PROTOCOL_TYPE:
        raise ConflictError(
            f"The group {described.name!r} is of type {described.protocol_type!r}, not of Connect workers",
            hint="group.id names the workers' own group, not the consumer group of a connector.",
        )
    return LiveGroup(described.name, described.state, described.protocol, _workers(described.members))


def _workers(members: Sequence[MemberDescription]) -> tuple[LiveWorker, ...]:
    found = []
    for member in members:
        state = decode_metadata(member.metadata) if member.metadata else MemberState(0, "", -1)
        assignment = decode_assignment(member.assignment)
        found.append(
            LiveWorker(
                member_id=member.id,
                client_id=member.client_id,
                host=member.host,
                url=state.url,
                config_offset=state.offset,
                work=owned_work(state, assignment),
                is_leader=assignment is not None and assignment.leader == member.id,
                placed_offset=-1 if assignment is None else assignment.offset,
                delay_ms=0 if assignment is None else assignment.delay_ms,
                held=Work() if assignment is None else assignment.held,
            )
        )
    return tuple(sorted(found, key=lambda worker: worker.url))
