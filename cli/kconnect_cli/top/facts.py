"""What is known of a cluster, from whom and since when; and how each look at it changes that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from kconnect.admin.cluster.activity import Activity, together, with_lags
from kconnect.client.outage import Outage
from kconnect.client.workers import worker_ids
from kconnect.model import ConnectorStatus, TargetState

# A worker that no status names stays on the screen for as long as somebody may wonder where it went, where nobody
# tells who is in the group
_REMEMBERED_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """One worker, as its last answer has it."""

    id: str
    """Is the name that statuses use: host and port, as it advertises them."""
    url: str
    """Where it is asked."""
    kind: str = ""
    """`kconnect` or `Java`; empty until it has answered."""
    version: str = ""
    answered_s: float | None = None
    """When its last answer came, by this machine's monotonic clock; None: never."""
    asked_s: float = 0.0
    problem: str = ""
    """Why it did not answer when it was asked last; empty while it answers."""
    unwell: str = ""
    """What is wrong with it by its own word, or that it does not say so in time, while it answers all else."""
    notices: tuple[str, ...] = ()
    """What it has to say though it is healthy, each without a full stop."""
    moves: Mapping[str, Activity] = field(default_factory=dict)
    """What its tasks do, by connector."""
    slots: tuple[Mapping[str, Any], ...] | None = None
    """It is None where it has none, as Java's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusLook:
    """All connectors as a worker, or the topics, have them; or why there is no answer."""

    at_s: float
    statuses: Mapping[str, ConnectorStatus] | None = None
    problem: str = ""
    hint: str = ""
    asked: str = ""
    """URL of the worker that answered."""
    cluster_id: str = ""
    outage: Outage | None = None
    note: str = ""
    """What a starting worker waits for, or how current the topics' states are."""
    to_come: Mapping[str, TargetState] = field(default_factory=dict)
    """On the topics: the states that the next worker brings connectors to."""
    lags: Mapping[str, Activity] = field(default_factory=dict)
    """How far sinks are behind of which no worker tells it, as the brokers do, if they are known."""
    members: frozenset[str] | None = None
    """Ids of the group's workers, and of those that statuses name, as one of ours knows them; None: nobody tells."""


@dataclass(frozen=True, slots=True)
class WorkerLook:
    """One worker's answer, or why there is none (`facts.problem`)."""

    at_s: float
    facts: WorkerFacts


Look: TypeAlias = StatusLook | WorkerLook


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """All that the screen shows of the cluster."""

    place: str
    is_direct: bool = False
    cluster_id: str = ""
    statuses: Mapping[str, ConnectorStatus] = field(default_factory=dict)
    answered_s: float | None = None
    """When the statuses came; None: never yet."""
    problem: str = ""
    """Why the last question for statuses was not answered."""
    hint: str = ""
    outage: Outage | None = None
    outage_s: float = 0.0
    """When the outage was reported."""
    note: str = ""
    to_come: Mapping[str, TargetState] = field(default_factory=dict)
    lags: Mapping[str, Activity] = field(default_factory=dict)
    workers: Mapping[str, WorkerFacts] = field(default_factory=dict)
    """By id."""

    @property
    def moves(self) -> dict[str, Activity]:
        """By connector; the tasks of a worker that does not answer are left out."""
        reported = together([worker.moves for worker in self.workers.values() if not worker.problem])
        return with_lags(reported, self.lags)

    @property
    def has_metrics(self) -> bool:
        """Whether any worker tells rates: Java's do not, over REST."""
        return any(worker.kind == "kconnect" for worker in self.workers.values())


def with_look(facts: ClusterFacts, look: Look) -> ClusterFacts:
    """What is known after a look. A look without an answer takes nothing away: what was known gets older."""
    if isinstance(look, WorkerLook):
        return _with_worker(facts, look)
    if look.statuses is None:
        return replace(facts, problem=look.problem or "no answer", hint=look.hint)
    workers = {id_: worker for id_, worker in facts.workers.items() if _stays(worker, look, look.statuses)}
    return replace(
        facts,
        place=look.asked or facts.place,
        cluster_id=look.cluster_id or facts.cluster_id,
        statuses=look.statuses,
        answered_s=look.at_s,
        problem="",
        hint="",
        outage=look.outage,
        outage_s=look.at_s,
        note=look.note,
        to_come=look.to_come,
        lags=look.lags,
        workers=workers,
    )


def _stays(worker: WorkerFacts, look: StatusLook, statuses: Mapping[str, ConnectorStatus]) -> bool:
    """Whether a worker is shown on: one that does not answer goes once the group has dropped it."""
    if not worker.problem or worker.id in worker_ids(statuses.values()):
        return True
    if look.members is not None:
        return worker.id in look.members
    return look.at_s - (worker.answered_s or worker.asked_s) < _REMEMBERED_S


def _with_worker(facts: ClusterFacts, look: WorkerLook) -> ClusterFacts:
    found, before = look.facts, facts.workers.get(look.facts.id)
    if found.problem and before is not None:
        found = replace(before, problem=found.problem, asked_s=look.at_s)
    elif found.problem:
        found = replace(found, asked_s=look.at_s)
    else:
        found = replace(found, answered_s=look.at_s, asked_s=look.at_s)
    others = {id_: worker for id_, worker in facts.workers.items() if worker.url != found.url}
    return replace(facts, workers={**others, found.id: found})


def worker_urls(statuses: Mapping[str, ConnectorStatus], asked: str, members: Mapping[str, str]) -> dict[str, str]:
    """URLs by id of the workers that statuses name, and of `members`, which are known by id and URL.

    A worker's id is host and port of its REST server. Where the only worker has another name than we asked it by, as
    behind a forwarded port, it is that one.
    """
    parts = urlsplit(asked)
    ids = worker_ids(statuses.values()) | members.keys()
    if len(ids) <= 1:
        return {next(iter(ids), parts.netloc): asked}
    return {id_: members.get(id_, f"{parts.scheme or 'http'}://{id_}") for id_ in sorted(ids)}
