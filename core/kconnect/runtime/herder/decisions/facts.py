"""State shared by all rules of a distributed herder: the worker's place in its group, what it read, what runs here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Assignment, Work
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.herder.decisions.mismatches import ConfigTopicEnds, ConfigTopicUnread
from kconnect.runtime.storage.snapshot import ClusterSnapshot

# A claim takes some hundred ms; one that fails while the leaders change is made again soon
_CLAIM_MS: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderTimes:
    """Settings of the rules, in milliseconds; `key_ttl_ms` 0: keys are not rotated."""

    sync_timeout_ms: int = 3_000
    """worker.sync.timeout.ms"""
    unsync_backoff_ms: int = 300_000
    """worker.unsync.backoff.ms"""
    max_delay_ms: int = 300_000
    """scheduled.rebalance.max.delay.ms"""
    key_ttl_ms: int = 3_600_000
    """inter.worker.key.ttl.ms"""
    session_timeout_ms: int = 10_000
    """session.timeout.ms"""
    # One create over REST takes about 15 ms: consecutive ones share one rebalance, and a single one is not delayed
    quiet_ms: int = 50
    """No further change may arrive for this long before a rebalance is requested."""
    # A rebalance of two workers takes some 20 ms; three or four a second leave the leader free for requests
    longest_quiet_ms: int = 300
    """After this long it is requested anyway."""
    claim_backoff_ms: int = 250
    """Equals Java's CONFIG_TOPIC_WRITE_PRIVILEGES_BACKOFF_MS."""
    first_retry_ms: int = 250
    """Equals Java's RECONFIGURE_CONNECTOR_TASKS_BACKOFF_INITIAL_MS."""
    longest_retry_ms: int = 60_000


class Phase(Enum):
    """Where a member is; `machine.py` has the drawing."""

    NEW = auto()
    UNREAD = auto()
    """Out of the group: the configs could not be read in time."""
    JOINING = auto()
    SETTLING = auto()
    """Has an assignment that it cannot start yet."""
    STABLE = auto()
    STOPPED = auto()


@dataclass(slots=True)
class HerderFacts:
    """Written by the rules of `HerderState.step` alone, on one thread. The properties may be read from any."""

    times: HerderTimes
    now_ms: int = 0
    phase: Phase = Phase.NEW
    snapshot: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    """The configs as read last."""
    placed: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    """The configs with which the present work was handed out."""
    assignment: Assignment | None = None
    """The latest one, where `work` and `revoked` are the changes; None outside the group."""
    generation: int = -1
    member_id: str = ""
    connectors: dict[str, None] = field(default_factory=dict)
    """Connectors assigned to this worker, in order."""
    tasks: dict[TaskId, None] = field(default_factory=dict)
    running_connectors: dict[str, int] = field(default_factory=dict)
    """Connectors started here and not stopped, each with the offset of the configs it was started with."""
    running_tasks: dict[TaskId, int] = field(default_factory=dict)
    """The same of tasks."""
    is_writing: bool = False
    """A write to the config topic is in progress: the next one is decided with its result."""
    needs_claim: bool = False
    """This worker leads, but may not write yet, or not any more."""
    unclaimed: str | None = None
    """Why the right to write was not given to it, in the words of the last try."""
    unclaimed_hint: str | None = None
    unclaimed_since_ms: int = 0
    away: ConfigTopicEnds | ConfigTopicUnread | None = None
    """Why it stays out of the group for a while."""
    away_since_ms: int = 0
    """When it left for that reason, or one before it: it has not been in the group since."""
    workers: Sequence[str] = ()
    """The ids of all workers of the group as of the last round that this one led; empty if it does not lead."""
    javas: Sequence[str] = ()
    """The ids of workers of the group that are not ours, as a leader of ours knows them, this one or another."""
    held: frozenset[str | TaskId] = frozenset()
    """Connectors and tasks of workers that left, which the group hands out only when it has waited for them."""
    held_until_ms: int = 0
    """When it does; in the past, or 0, when nothing is held back."""
    settled_rebalances: int = 0
    """After so many rebalances the work of this worker was started."""

    @property
    def is_leader(self) -> bool:
        assignment, member_id = self.assignment, self.member_id  # read once: another thread may take them away
        return assignment is not None and member_id != "" and assignment.leader == member_id

    @property
    def javas_place(self) -> NoHelp | None:
        """Whether Java's worker leads the group, or one is in it: then what is FAILED is not restarted as ever."""
        assignment = self.assignment
        if assignment is not None and assignment.javas is None and not self.is_leader:
            return NoHelp.JAVA_LEADS
        return NoHelp.JAVA_MEMBER if self.javas else None

    @property
    def may_write(self) -> bool:
        return self.is_leader and not self.needs_claim and not self.is_writing

    def is_unclaimed(self, now_ms: int) -> bool:
        """Whether this leader tries for longer than a change of leaders takes to be given the right to write."""
        return self.unclaimed is not None and now_ms - self.unclaimed_since_ms >= _CLAIM_MS

    @property
    def leader_url(self) -> str:
        """Empty while it is not known."""
        assignment = self.assignment
        return assignment.leader_url if assignment is not None else ""

    @property
    def is_eager(self) -> bool:
        assignment = self.assignment
        return assignment is not None and assignment.version == 0

    @property
    def signs_requests(self) -> bool | None:
        """Whether the group's sub-protocol has a session key (KIP-507); None outside a group."""
        assignment = self.assignment
        return None if assignment is None else assignment.version >= 2

    @property
    def owned(self) -> Work:
        return Work(tuple(self.connectors), tuple(self.tasks))

    def running(self, connectors: Iterable[str] = (), tasks: Iterable[TaskId] = ()) -> Work:
        """The part of these connectors and tasks that runs here."""
        return Work(
            tuple(name for name in connectors if name in self.running_connectors),
            tuple(task for task in tasks if task in self.running_tasks),
        )

    def running_of(self, connector: str) -> Work:
        """The parts of one connector that run here."""
        tasks = sorted(task for task in self.running_tasks if task.connector == connector)
        return self.running([connector], tasks)

    def runs_older(self, subject: str | TaskId, offset: int) -> bool:
        """Whether a connector or a task runs here with configs from before an offset."""
        since = self.running_tasks.get(subject) if isinstance(subject, TaskId) else self.running_connectors.get(subject)
        return since is not None and since < offset

    def all_running(self) -> Work:
        return Work(tuple(sorted(self.running_connectors)), tuple(sorted(self.running_tasks)))

    def stopped(self, work: Work) -> None:
        """Note that it is stopped, or about to be."""
        for name in work.connectors:
            self.running_connectors.pop(name, None)
        for task in work.tasks:
            self.running_tasks.pop(task, None)

    def started(self, work: Work, snapshot: ClusterSnapshot) -> None:
        """Note that it was started with the configs of this snapshot, or is about to be."""
        self.running_connectors.update(dict.fromkeys(work.connectors, snapshot.offset))
        self.running_tasks.update(dict.fromkeys(work.tasks, snapshot.offset))

    def task_configs(self, connector: str) -> list[Mapping[str, str]]:
        """The configs of a connector's tasks as they are in the topic; none while some are missing."""
        found = [self.snapshot.raw_task_config(task) for task in self.snapshot.tasks(connector)]
        return [config for config in found if config is not None]
