"""The parts of a cluster's herder, in addition to those of every herder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kconnect.clock import Clock, SystemClock
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.assignment.eager import JoinedGroup
from kconnect.runtime.herder.assignment.protocol import MemberState
from kconnect.runtime.herder.cluster.offset_stores import OpenOwnOffsets
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.herder.decisions.request_signatures import KeyForm
from kconnect.runtime.herder.membership import Membership
from kconnect.runtime.storage import OffsetStore
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_store import StatusStore

StringMap = Mapping[str, str]


class RebalanceCallbacks(Protocol):
    """Callbacks of a membership during `poll`: when it joins, and when it leads a round. Must not block."""

    def metadata(self) -> MemberState: ...

    def assign(self, group: JoinedGroup) -> Mapping[str, bytes]: ...


MakeMembership = Callable[[RebalanceCallbacks], Membership]


class LeaderRequests(Protocol):
    """Requests of one worker to its leader, over REST. Threads: a pool's; may block until its own deadline."""

    def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[StringMap], key: SessionKey | None
    ) -> None:
        """Errors: ConnectError."""
        ...

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """Have earlier exactly-once tasks of a connector fenced off. Errors: ConnectError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """The stores that workers share, the group, and the timeouts."""

    group_id: str
    config_topic: str
    """config.storage.topic"""
    configs: ConfigStore
    statuses: StatusStore
    offsets: OffsetStore
    membership: MakeMembership
    leader: LeaderRequests
    own_offsets: OpenOwnOffsets | None = None
    """Opens connectors' own topics; None: all offsets are in `offsets`."""
    exactly_once: str = "disabled"
    """exactly.once.source.support"""
    protocol_version: int = 2
    """See `rebalance_rounds.VERSIONS`."""
    times: HerderTimes = field(default_factory=HerderTimes)
    key_form: KeyForm = field(default_factory=KeyForm)
    restarts: RestartSettings = field(default_factory=RestartSettings)
    """kconnect.errors.restart.*"""
    verification_algorithms: Sequence[str] = ("HmacSHA256",)
    """inter.worker.verification.algorithms"""
    request_timeout_s: float = 90.0
    """How long a request waits for its answer, a rebalance that it met included."""
    clock: Clock = field(default_factory=SystemClock)
