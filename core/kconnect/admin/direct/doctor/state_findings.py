"""Findings on statuses and offsets: orphans, dead workers, duplicate spellings, keys in two partitions, and statuses
written late: an older one hides the newer one of the worker that runs the task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.facts import (
    ClusterFacts,
    Evidence,
    Finding,
    LiveRecords,
    OffsetFacts,
    Severity,
    StatusFacts,
    delete_command,
    evidence_of,
    in_parts,
    key_text,
    unknown_keys,
)
from kconnect.admin.direct.group.live_group import LiveGroup
from kconnect.admin.direct.group.other_groups import id_of, owners_of
from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.logs.wording import length_text, pluralize
from kconnect.model import LogRecord, RunState, TaskId
from kconnect.runtime.storage.offset_topic import decode_key, decode_value
from kconnect.runtime.storage.status_topic import (
    Ignored,
    StatusRead,
    StoredStatus,
    Subject,
    TopicRead,
    TopicUse,
    decode_record,
    encode_status,
    status_key,
)

_SHARED = "Workers of two clusters write to this topic: nothing of it is repaired before that has an end."
_KINDS = (b"status-connector-", b"status-task-", b"status-topic-")
# The id that Java's worker gives itself when there is a _ in the name of its host: java.net.URI finds no host then
_NAMELESS = "null:-1"


def status_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with what the status topic holds; nothing when it was not read."""
    if facts.statuses is None:
        return
    yield from _unreadable_statuses(facts, facts.statuses)
    yield from _orphan_statuses(facts, facts.statuses)
    yield from _held_back(facts)
    shared = list(_of_other_groups(facts, facts.statuses))
    of_statuses = [*_of_gone_workers(facts, facts.statuses), *late_findings(facts, facts.statuses)]
    # A repair would take away what the other cluster's live workers wrote
    yield from (replace(finding, repair=(), hint=_SHARED) for finding in of_statuses) if shared else of_statuses
    yield from shared
    yield from _scattered(InternalTopic.STATUS, facts.statuses.live)


def offset_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with what the offsets topic holds; nothing when it was not read."""
    if facts.offsets is None:
        return
    yield from _unreadable_offsets(facts, facts.offsets)
    yield from _spelled_twice(facts, facts.offsets)
    yield from _orphan_offsets(facts, facts.offsets)
    yield from _scattered(InternalTopic.OFFSET, facts.offsets.live)


def _unreadable_statuses(facts: ClusterFacts, statuses: StatusFacts) -> Iterator[Finding]:
    unknown = []
    for record in statuses.live:
        event = decode_record(record.key, record.value)
        if not isinstance(event, Ignored):
            continue
        is_known = (record.key or b"").startswith(_KINDS)
        found = Finding(
            code="malformed-record" if is_known else "unknown-key",
            severity=Severity.WARNING,
            sentence=f"The record {key_text(record.key)!r} of the status topic cannot be understood: {event.reason}",
            evidence=(evidence_of(record),),
            repair=_replacement(facts, record) or delete_command(InternalTopic.STATUS, [record], in_spite_of=facts),
            hint="Workers skip it.",
        )
        if is_known:
            yield found
        else:
            unknown.append(found)
    yield from unknown_keys(facts, InternalTopic.STATUS, unknown, statuses.live)


def _replacement(facts: ClusterFacts, record: LogRecord) -> tuple[str, ...]:
    """The restart that writes a good status over a malformed one. A tombstone would have live workers forget the
    status that counts, and with a connector's also those of its tasks.
    """
    match decode_record(record.key, None):
        case StatusRead(subject, None) if facts.is_live:
            name = subject.connector if isinstance(subject, TaskId) else subject
            if facts.configs is None or name in facts.configs.snapshot.configs:
                return restart_command(subject)
    return ()


def _statuses_of(records: Sequence[LogRecord]) -> str:
    return pluralize(len(records), "status", "statuses")


def _statuses(statuses: StatusFacts) -> Iterator[tuple[LogRecord, str | TaskId, StoredStatus]]:
    """The statuses in force, with their records."""
    for record in statuses.live:
        match decode_record(record.key, record.value):
            case StatusRead(subject, StoredStatus() as status):
                yield record, subject, status


def _orphan_statuses(facts: ClusterFacts, statuses: StatusFacts) -> Iterator[Finding]:
    if facts.configs is None:
        return
    snapshot = facts.configs.snapshot
    ownerless: dict[str, list[LogRecord]] = defaultdict(list)
    surplus: dict[str, list[LogRecord]] = defaultdict(list)
    for record in statuses.live:
        if not facts.is_settled(record):
            continue
        match decode_record(record.key, record.value):
            case StatusRead(TaskId(name, _), _) | StatusRead(str() as name, _) if name not in snapshot.configs:
                ownerless[name].append(record)
            case TopicRead(name, _, TopicUse()) if name not in snapshot.configs:
                ownerless[name].append(record)
            case StatusRead(TaskId(name, number), _) if number >= snapshot.task_count(name):
                if name not in snapshot.overtaken:  # live workers may have read, and run, what compaction has taken
                    surplus[name].append(record)
    for name, records in in_parts(ownerless):
        yield Finding(
            code="orphan-status",
            severity=Severity.WARNING,
            sentence=f"{_statuses_of(records)} of a connector {name!r} that does not exist",
            evidence=tuple(evidence_of(record) for record in records),
            connector=name,
            repair=delete_command(InternalTopic.STATUS, records),
        )
    for name, records in in_parts(surplus):
        yield Finding(
            code="orphan-task-status",
            severity=Severity.WARNING,
            sentence=f"{_statuses_of(records)} of tasks that connector {name} does not have: it has "
            f"{snapshot.task_count(name)}",
            evidence=tuple(evidence_of(record) for record in records),
            connector=name,
            repair=delete_command(InternalTopic.STATUS, records, in_spite_of=facts),
        )


def _held_back(facts: ClusterFacts) -> Iterator[Finding]:
    """What nobody runs while the group waits for workers that left."""
    workers = facts.group.workers if facts.group is not None else ()
    reported = next((worker for worker in workers if worker.delay_ms and worker.held), None)
    if facts.group is None or reported is None:
        return
    parts = ((len(reported.held.connectors), "connector"), (len(reported.held.tasks), "task"))
    what = " and ".join(pluralize(count, word) for count, word in parts if count)
    yield Finding(
        code="work-held-back",
        severity=Severity.WARNING,
        sentence=f"{what} of workers that left group {facts.group.name}: not run for up to "
        f"{length_text(reported.delay_ms / 1000)}, as the group waits for them (scheduled.rebalance.max.delay.ms)",
        hint="A worker that comes back at its address gets its work at once. GET /health of any worker says how long "
        "the others have to wait.",
    )


def _of_gone_workers(facts: ClusterFacts, statuses: StatusFacts) -> Iterator[Finding]:
    if facts.group is None or not facts.group.is_settled:  # meanwhile the broker does not tell who the members are
        return
    living = worker_ids(facts.group)
    gone: dict[str, list[LogRecord]] = defaultdict(list)
    needed: set[bytes] = set()  # a connector's tombstone has workers forget the statuses of its tasks, too
    for record, subject, status in _statuses(statuses):
        if status.worker_id in living:
            if isinstance(subject, TaskId):
                needed.add(status_key(subject.connector))
        elif status.state is RunState.RUNNING and facts.is_settled(record):
            gone[status.worker_id].append(record)
    why = "which is not in the group" if living else "but no worker is in the group"
    for worker_id, records in in_parts(gone):
        spare = [record for record in records if record.key not in needed]
        elsewhere = _may_live_elsewhere(facts, worker_id)
        yield Finding(
            code="stale-running",
            severity=Severity.WARNING,
            sentence=f"{_statuses_of(records)} RUNNING on worker {worker_id}, {why} {facts.group.name}",
            evidence=tuple(evidence_of(record) for record in records),
            repair=delete_command(InternalTopic.STATUS, spare, in_spite_of=facts) if spare and not elsewhere else (),
            hint=elsewhere or "The worker died without notice. Workers that take over its work write new statuses.",
        )


def _may_live_elsewhere(facts: ClusterFacts, worker_id: str) -> str | None:
    """Why a worker that is not in the group may be alive, in a group that shares the topic; None where it is gone."""
    for other in facts.others:
        if worker_id in worker_ids(other):
            return f"The worker is alive, in group {other.name}: do two clusters share this topic?"
        if not other.is_reported:
            return f"Group {other.name} is rebalancing, and may have it: look again."
    if not facts.knows_others:
        return "It may be alive in another group, which this user may not look for: is it?"
    return None


def _of_other_groups(facts: ClusterFacts, statuses: StatusFacts) -> Iterator[Finding]:
    """A status of what a live worker of another group has assigned proves that two clusters write to this topic, also
    one that a worker of this group took back.

    Of anything else a worker may have left it there before it came to that group.
    """
    if facts.group is None:
        return
    own = worker_ids(facts.group)
    written = list(_statuses(statuses)) if facts.others else []
    for other in facts.others:
        owners = owners_of(other)
        records = [
            record
            for record, subject, status in written
            if (owner := owners.get(subject)) is not None
            and owner not in own
            and (owner == status.worker_id or owner in statuses.contradictions.taken_back(subject))
        ]
        if records:
            yield Finding(
                code="topics-shared",
                severity=Severity.ERROR,
                sentence=f"Live workers of another group, {other.name}, write statuses to the topic of "
                f"{facts.group.name}: two clusters cannot share their topics",
                evidence=tuple(evidence_of(record) for record in records),
                hint="Give each cluster three topics of its own; or the same group.id, if it should be one cluster.",
            )


def worker_ids(group: LiveGroup) -> frozenset[str]:
    """The workers of a group as their statuses name them: host and port of their REST URL."""
    ids = frozenset(map(id_of, group.workers))
    return ids | {_NAMELESS} if any("_" in worker_id for worker_id in ids) else ids


def _unreadable_offsets(facts: ClusterFacts, offsets: OffsetFacts) -> Iterator[Finding]:
    unknown = []
    for record in offsets.live:
        if decode_key(record.key or b"") is None:
            found = Finding(
                code="unknown-key",
                severity=Severity.WARNING,
                sentence=f"The offsets topic has a record whose key {key_text(record.key)!r} is not "
                '["connector",{partition}]',
                evidence=(evidence_of(record),),
                repair=delete_command(InternalTopic.OFFSET, [record], in_spite_of=facts),
                hint="It belongs to no connector and serves no purpose.",
            )
            unknown.append(found)
            continue
        try:
            decode_value(record.value)
        except DataError as error:
            yield Finding(
                code="malformed-record",
                severity=Severity.ERROR,
                sentence=f"The offset of {key_text(record.key)!r} cannot be read, so data may be read again: {error}",
                evidence=(evidence_of(record),),
                connector=_connector_of(record),
                repair=delete_command(InternalTopic.OFFSET, [record], in_spite_of=facts),
            )
    yield from unknown_keys(facts, InternalTopic.OFFSET, unknown, offsets.live)


def _spelled_twice(facts: ClusterFacts, offsets: OffsetFacts) -> Iterator[Finding]:
    """Java looks up the bytes it writes itself: of several spellings the newest one of Java's own is kept."""
    for newest, others in offsets.offsets.duplicates().items():
        records = [found for key in (newest, *others) if (found := offsets.live.get(key)) is not None]
        javas = [record for record in records if _is_javas(record.key or b"")]
        kept = max(javas or records[:1], key=lambda record: (record.timestamp_ms or 0, record.offset), default=None)
        stale = [record for record in records if record is not kept]
        if kept is None or not stale:
            continue
        hint = None
        if kept.key != newest:
            hint = (
                f"The newest offset, under {key_text(newest)!r}, is not where Java reads; move it there if it counts."
            )
        yield Finding(
            code="duplicate-offset-key",
            severity=Severity.WARNING,
            sentence=f"One partition has {pluralize(len(records), 'offset')}, under keys that differ only in spelling; "
            "Java looks up one exact spelling, and so may continue from an older one",
            evidence=tuple(evidence_of(record) for record in records),
            connector=_connector_of(records[0]),
            repair=delete_command(InternalTopic.OFFSET, stale, in_spite_of=facts),
            hint=hint,
        )


def _is_javas(key: bytes) -> bool:
    """Whether Java could have spelled it this way, in any order of the fields."""
    decoded = decode_key(key)
    try:
        return decoded is not None and jackson_text(list(decoded)).encode(errors="replace") == key
    except RecursionError:
        return False


def _orphan_offsets(facts: ClusterFacts, offsets: OffsetFacts) -> Iterator[Finding]:
    if facts.configs is None:
        return
    left: dict[str, list[LogRecord]] = defaultdict(list)
    for record in offsets.live:
        name = _connector_of(record)
        if name is not None and name not in facts.configs.snapshot.configs and facts.is_settled(record):
            left[name].append(record)
    for name, records in in_parts(left):
        users = [group.name for group in facts.others if group.owners(name)]
        yield Finding(
            code="orphan-offsets",
            severity=Severity.INFO,
            sentence=f"{pluralize(len(records), 'offset')} of a connector {name!r} that does not exist: a new "
            "connector of this name would continue from them",
            evidence=tuple(evidence_of(record) for record in records),
            connector=name,
            repair=delete_command(InternalTopic.OFFSET, records) if not users else (),
            hint=f"Group {users[0]} may run a connector of this name: are they its offsets?" if users else None,
        )


def _connector_of(record: LogRecord) -> str | None:
    decoded = decode_key(record.key or b"")
    return None if decoded is None else decoded[0]


def _scattered(which: InternalTopic, live: LiveRecords) -> Iterator[Finding]:
    for records in live.scattered():
        yield Finding(
            code="key-in-several-partitions",
            severity=Severity.WARNING,
            sentence=f"The key {key_text(records[0].key)!r} is in {pluralize(len(records), 'partition')}: compaction "
            "keeps all of them, and which one a worker reads last is not defined",
            evidence=tuple(evidence_of(record) for record in records),
            hint=f"Were partitions added to topic {records[0].topic}? Write a tombstone to partition "
            f"{', '.join(str(record.partition) for record in records[:-1])}, for example with `kcat -P -Z -p`.",
        )


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
        connector=_connector_named_by(subject),
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
        connector=_connector_named_by(subject),
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


def _connector_named_by(subject: Subject) -> str:
    return subject.connector if isinstance(subject, TaskId) else subject
