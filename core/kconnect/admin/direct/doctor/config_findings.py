"""Findings on the config topic: unreadable records, incomplete task sets, orphans, session keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.facts import (
    ClusterFacts,
    ConfigFacts,
    Evidence,
    Finding,
    Severity,
    delete_command,
    evidence_of,
    in_parts,
    unknown_keys,
)
from kconnect.admin.direct.read.connector_types import connector_type
from kconnect.admin.direct.read.record_json import connector_of
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorType, LogRecord, RunState, TargetState
from kconnect.runtime.storage.config_topic import (
    COMMIT,
    CONNECTOR,
    SESSION_KEY,
    TASK,
    TASK_COUNT,
    Malformed,
    RestartRequested,
    TargetStateSet,
    TaskConfigured,
    TasksCommitted,
    Unknown,
    decode,
    encode_task,
)
from kconnect.runtime.storage.status_topic import status_key

# Records that a restored connector is made of
_RESTORED = (b"connector-", b"task-", b"commit-", b"target-state-")
_NO_TASKS = '{"tasks":0}'
# inter.worker.key.ttl.ms: 1 h
_KEY_TTL_MS = 3_600_000


def config_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with what the config topic holds; nothing when it was not read."""
    configs = facts.configs
    if configs is None:
        return
    yield from _unreadable(facts, configs)
    yield from _inconsistent(facts, configs)
    yield from _overtaken(configs)
    yield from _not_committed(facts, configs)
    yield from _ownerless(facts, configs)
    yield from _not_addressable(configs)
    yield from _session_key(facts, configs)
    if facts.worker.get("exactly.once.source.support", "").strip().lower() in ("preparing", "enabled"):
        yield from _not_fenced(facts, configs)


def _unreadable(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    unknown = []
    for record in configs.live:
        event = decode(record)
        if isinstance(event, Malformed):
            yield _malformed(facts, configs, record, event)
        elif isinstance(event, Unknown):
            found = Finding(
                code="unknown-key",
                severity=Severity.WARNING,
                sentence=f"The config topic has a record with the key {event.key!r}, which Connect does not know",
                evidence=(evidence_of(record),),
                repair=delete_command(InternalTopic.CONFIG, [record], in_spite_of=facts),
                hint="It is skipped. Does anything but workers write to this topic?",
            )
            unknown.append(found)
    yield from unknown_keys(facts, InternalTopic.CONFIG, unknown, configs.live)


def _malformed(facts: ClusterFacts, configs: ConfigFacts, record: LogRecord, event: Malformed) -> Finding:
    name = connector_of(InternalTopic.CONFIG, record.key)
    repair = delete_command(InternalTopic.CONFIG, [record])
    hint = "Workers ignore it."
    if name is not None and name in configs.snapshot.configs and (record.key or b"").startswith(_RESTORED):
        if event.key.startswith(TASK) and record.key not in _task_keys(configs, name):  # which no restore writes
            repair = delete_command(InternalTopic.CONFIG, [record], in_spite_of=facts)
        else:
            as_it_is = max(configs.snapshot.offset - 1, record.offset)
            repair = ("connect", "topics", "config", "restore", name, "--at", str(as_it_is))
            hint = "The record it replaced counts until the topic is compacted; the command writes that one again."
    return Finding(
        code="malformed-record",
        severity=Severity.ERROR,
        sentence=f"The record {event.key!r} of the config topic cannot be understood: {event.why}",
        evidence=(evidence_of(record),),
        connector=name,
        repair=repair,
        hint=hint,
    )


def _task_keys(configs: ConfigFacts, connector: str) -> set[bytes]:
    return {encode_task(task, {})[0] for task in configs.snapshot.tasks(connector)}


def _inconsistent(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    for name in sorted(configs.snapshot.inconsistent & configs.snapshot.configs.keys()):
        commit = _live(configs, COMMIT + name)
        count = configs.snapshot.task_count(name)
        yield Finding(
            code="inconsistent-tasks",
            severity=Severity.ERROR,
            sentence=f"Connector {name} has committed {pluralize(count, 'task')}, but some of their "
            "configs are missing: none of its tasks can run until it writes them again",
            evidence=_evidence(commit),
            connector=name,
            repair=("connect", "connectors", "restart", name)
            if facts.is_live
            else ("connect", "topics", "config", "put", COMMIT + name, _NO_TASKS),
            hint="Without tasks the connector is consistent again; the worker that starts it next writes them.",
        )


def _overtaken(configs: ConfigFacts) -> Iterator[Finding]:
    for name in sorted(configs.snapshot.overtaken):
        yield Finding(
            code="tasks-lost-to-compaction",
            severity=Severity.INFO,
            sentence=f"Connector {name} has no tasks: their commit is older than what compaction has left of its "
            "config, and so does not count (KAFKA-17719), or belongs to a deleted connector of that name",
            evidence=_evidence(_live(configs, COMMIT + name), _live(configs, CONNECTOR + name)),
            connector=name,
            repair=("connect", "connectors", "restart", name),
            hint="The worker that starts the connector writes its tasks again.",
        )


def _not_committed(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    """Task configs of a leader that died before it committed them: they do not count, but compaction lets them stand
    in the place of those that do.
    """
    written: dict[str, list[LogRecord]] = defaultdict(list)
    for record in configs.live:
        match decode(record):
            case TaskConfigured(task, _) if task.connector in configs.snapshot.configs:
                written[task.connector].append(record)
    for name in sorted(written.keys() - configs.snapshot.inconsistent - configs.snapshot.overtaken):
        commit = _live(configs, COMMIT + name)
        newer = [record for record in written[name] if commit is not None and record.offset > commit.offset]
        if not newer or not all(map(facts.is_settled, newer)):
            continue
        yield Finding(
            code="tasks-not-committed",
            severity=Severity.WARNING,
            sentence=f"{pluralize(len(newer), 'task config')} of connector {name} without a commit after them: its "
            "tasks run with the configs before, and not at all once compaction has removed those",
            evidence=_evidence(*newer, commit),
            connector=name,
            repair=("connect", "connectors", "stop", name)
            if facts.is_live
            else ("connect", "topics", "config", "put", COMMIT + name, _NO_TASKS),
            hint="A worker ended while it wrote them. "
            + (
                f"Then connect connectors resume {name}: the tasks are written again."
                if facts.is_live
                else "The worker that starts the connector next writes them again."
            ),
        )


def _ownerless(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    """A deletion leaves task records behind, as in Java; fencing records stay on purpose, for tasks still running."""
    left: dict[str, list[LogRecord]] = defaultdict(list)
    for record in configs.live:
        match decode(record):
            case TargetStateSet(name, TargetState() as state) if name not in configs.snapshot.configs:
                if facts.is_settled(record):
                    yield Finding(
                        code="orphan-target-state",
                        severity=Severity.WARNING,
                        sentence=f"The target state {state} is set for a connector {name!r} that does not exist: a "
                        "new connector of this name would start in it",
                        evidence=(evidence_of(record),),
                        connector=name,
                        repair=delete_command(InternalTopic.CONFIG, [record]),
                    )
            case TaskConfigured(task, _) if task.connector not in configs.snapshot.configs:
                left[task.connector].append(record)
            case TasksCommitted(name, _) | RestartRequested(name, _, _) if name not in configs.snapshot.configs:
                left[name].append(record)
    settled = {name: records for name, records in left.items() if all(map(facts.is_settled, records))}
    for name, records in in_parts(settled):
        yield Finding(
            code="orphan-tasks",
            severity=Severity.INFO,
            sentence=f"{pluralize(len(records), 'record')} of tasks left of a connector {name!r} that does not exist",
            evidence=tuple(evidence_of(record) for record in records),
            connector=name,
            repair=delete_command(InternalTopic.CONFIG, records),
            hint="Every deletion leaves them behind; they only take up space.",
        )


def _not_addressable(configs: ConfigFacts) -> Iterator[Finding]:
    for name in configs.snapshot.connectors:
        if name not in (".", "..") and not any(sign in name for sign in "/%\\"):
            continue
        yield Finding(
            code="name-not-addressable",
            severity=Severity.WARNING,
            sentence=f"Connector {name!r} cannot be addressed over REST: Java's workers refuse its name in a URL, and "
            "so can neither change nor delete it",
            evidence=_evidence(_live(configs, CONNECTOR + name)),
            connector=name,
            repair=("connect", "connectors", "delete", name, "--direct"),
            hint="Create it again under another name; its offsets stay with the old one.",
        )


def _session_key(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    """Only a live leader rotates the key; without workers an old key does no harm. Source: KIP-507."""
    if facts.group is None or not facts.group.is_live or facts.group.protocol != "sessioned":
        return
    leader = next((worker.url for worker in facts.group.workers if worker.is_leader), "the leader")
    hint = f"The leader writes it: restart the worker {leader}."
    key = configs.snapshot.session_key
    if key is None:
        yield Finding(
            code="session-key-missing",
            severity=Severity.ERROR,
            sentence="There is no session key, but the workers sign their requests to each other: these fail",
            evidence=(Evidence(facts.topic_name(InternalTopic.CONFIG), key=SESSION_KEY),),
            hint=hint,
        )
        return
    ttl_ms = _ms(facts.worker.get("inter.worker.key.ttl.ms"), _KEY_TTL_MS)
    age_ms = facts.now_ms - key.created_ms
    if age_ms > 2 * ttl_ms:
        yield Finding(
            code="session-key-old",
            severity=Severity.WARNING,
            sentence=f"The session key is {age_ms // 1000} s old, more than twice inter.worker.key.ttl.ms ({ttl_ms}): "
            "nobody rotates it",
            evidence=_evidence(_live(configs, SESSION_KEY)),
            hint=hint,
        )


def _not_fenced(facts: ClusterFacts, configs: ConfigFacts) -> Iterator[Finding]:
    setting = "exactly.once.source.support"
    if configs.bare_write is not None:
        yield Finding(
            code="no-leader-fencing",
            severity=Severity.WARNING,
            sentence=f"{setting} is on, but the newest change of a leader was not written in a transaction: a leader "
            "that was replaced could still write",
            evidence=(evidence_of(configs.bare_write),),
            hint=f"Does every worker have {setting}? After it was switched on, the next change to a connector is "
            "written in a transaction.",
        )
    if facts.worker.get(setting, "").strip().lower() != "enabled" or facts.statuses is None:
        return
    snapshot = configs.snapshot
    for name in sorted(snapshot.pending_fencing & snapshot.configs.keys()):
        config = snapshot.configs[name]
        if connector_type(config) is not ConnectorType.SOURCE:
            continue  # of a sink the consumer group fences
        commit = _live(configs, COMMIT + name)
        running = [
            task
            for task, status in facts.statuses.statuses.tasks(name).items()
            if status.state is RunState.RUNNING
            and task in snapshot.tasks(name)
            and _is_since(commit, facts.statuses.live.get(status_key(task)))
        ]
        if not running or not facts.is_settled(commit):
            continue
        yield Finding(
            code="tasks-not-fenced",
            severity=Severity.WARNING,
            sentence=f"{pluralize(len(running), 'running task')} of connector {name}, but no {TASK_COUNT}{name} was "
            "written after their commit: their predecessors were not fenced off, and may still produce",
            evidence=_evidence(commit, _live(configs, TASK_COUNT + name)),
            connector=name,
            repair=("connect", "connectors", "restart", name, "--tasks"),
        )


def _is_since(commit: LogRecord | None, status: LogRecord | None) -> bool:
    """Whether a status may be of a task of this commit: an older one is of a task before it, which need not run now."""
    if commit is None or status is None or commit.timestamp_ms is None or status.timestamp_ms is None:
        return True
    return status.timestamp_ms >= commit.timestamp_ms


def _live(configs: ConfigFacts, key: str) -> LogRecord | None:
    return configs.live.get(key.encode(errors="replace"))


def _evidence(*records: LogRecord | None) -> tuple[Evidence, ...]:
    return tuple(evidence_of(record) for record in records if record is not None)


def _ms(text: str | None, default: int) -> int:
    return int(text) if text and text.strip().isdecimal() else default
