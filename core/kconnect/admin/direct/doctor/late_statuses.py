"""Findings on statuses written late: an older one hides the newer one of the worker that runs the task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kconnect.admin.direct.doctor.facts import ClusterFacts, Evidence, Finding, Severity, StatusFacts, evidence_of
from kconnect.admin.direct.group.other_groups import owners_of
from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.status_topic import StoredStatus, Subject, encode_status, status_key


def late_findings(facts: ClusterFacts, statuses: StatusFacts) -> Iterator[Finding]:
    """At most one per connector and task: a newer status that is hidden, else an owner that never wrote RUNNING."""
    owners = owners_of(facts.group)
    statuses.statuses.set_owners(owners)
    for subject, in_force in statuses.statuses.statuses().items():
        record, last = statuses.live.get(status_key(subject)), statuses.statuses.last(subject)
        if record is None or last is None or not facts.is_settled(record):
            continue
        evidence = evidence_of(record)
        # Of another worker it may be from a former life of the group, which counts from 1 again
        if last.generation < in_force.generation and in_force.worker_id == owners.get(subject):
            yield _covered(subject, in_force, last, evidence)
        elif in_force.state is RunState.UNASSIGNED and subject in owners:
            yield _unassigned(subject, in_force, owners, evidence)


def _covered(subject: Subject, newer: StoredStatus, last: StoredStatus, evidence: Evidence) -> Finding:
    key, value = status_key(subject).decode(errors="replace"), encode_status(newer)
    repair: tuple[str, ...] = restart_command(subject)
    if value is not None and newer.trace is None:  # a trace is no word for a command line
        repair = ("connect", "topics", "status", "put", "--force", key, value.decode())
    return Finding(
        code="status-covered",
        severity=Severity.WARNING,
        sentence=f"The last status of {_named(subject)} is {last.state} of worker {last.worker_id} in generation "
        f"{last.generation}, written late: it hides {newer.state} of worker {newer.worker_id} in generation "
        f"{newer.generation}, and Java workers show the last one",
        evidence=(evidence,),
        connector=_connector_of(subject),
        repair=repair,
        hint="If a kconnect worker runs it, it rewrites its status within seconds.",
    )


def _unassigned(subject: Subject, status: StoredStatus, owners: Mapping[Subject, str], evidence: Evidence) -> Finding:
    owner = owners[subject]
    if status.worker_id == owner:
        hint = f"Worker {owner} may still be starting it: see GET /health there."
    else:
        hint = f"Worker {owner} has it but has written no status, or worker {status.worker_id} wrote a later one."
    return Finding(
        code="unassigned-but-owned",
        severity=Severity.WARNING,
        sentence=f"{_named(subject, capital=True)} is UNASSIGNED, says worker {status.worker_id} in generation "
        f"{status.generation}, but the group has assigned it to worker {owner}, which is alive",
        evidence=(evidence,),
        connector=_connector_of(subject),
        repair=restart_command(subject),
        hint=hint,
    )


def restart_command(subject: Subject) -> tuple[str, ...]:
    """The command that has a worker write a new status of it."""
    if isinstance(subject, TaskId):
        return ("connect", "tasks", "restart", subject.connector, str(subject.task))
    return ("connect", "connectors", "restart", subject)


def _named(subject: Subject, *, capital: bool = False) -> str:
    what = f"task {subject}" if isinstance(subject, TaskId) else f"connector {subject}"
    return what[0].upper() + what[1:] if capital else what


def _connector_of(subject: Subject) -> str:
    return subject.connector if isinstance(subject, TaskId) else subject
