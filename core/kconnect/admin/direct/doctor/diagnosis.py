"""The doctor: what is wrong with a cluster's topics, each with its evidence and the command that repairs it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kconnect.admin.direct.doctor.config_findings import config_findings
from kconnect.admin.direct.doctor.facts import ClusterFacts, Finding, Severity
from kconnect.admin.direct.doctor.state_findings import offset_findings, status_findings
from kconnect.admin.direct.doctor.topic_findings import topic_findings
from kconnect.model import Condition

_ORDER = list(Severity)
_CLIENT = "--command-config"  # as Kafka's own tools call it, too
_SEVERITY: Final = {Condition.LAGGING: Severity.INFO}
_HINT: Final = {
    Condition.STUCK: "connect tasks show has the stack. A restart abandons the call and starts over.",
    Condition.RETRYING: "It continues by itself once the cause is gone.",
    Condition.NOT_COMMITTING: "Until this is fixed, its records will be re-sent after a restart.",
    Condition.LAGGING: "More tasks (tasks.max), or more partitions, may help.",
}


def diagnose(facts: ClusterFacts) -> list[Finding]:
    """All findings, the worst first. Never raises, whatever the records hold."""
    found = [*topic_findings(facts), *config_findings(facts), *status_findings(facts), *offset_findings(facts)]
    found += _task_findings(facts)
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def is_sick(findings: Iterable[Finding]) -> bool:
    """Whether any finding is more than information."""
    return any(finding.severity is not Severity.INFO for finding in findings)


def severity_counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings of each severity, zeros included."""
    counts = {str(severity): 0 for severity in Severity}
    for finding in findings:
        counts[finding.severity] += 1
    return counts


def command_text(repair: Sequence[str], cluster: Sequence[str] = ()) -> str | None:
    """A repair to paste into a shell; `cluster` are the options that say which cluster is meant."""
    if not repair:
        return None
    if repair[0].startswith("kafka-"):
        at = cluster.index(_CLIENT) if _CLIENT in cluster else len(cluster)
        return shlex.join([*repair, *cluster[at : at + 2]])
    is_of_topics = repair[:2] == ("connect", "topics")
    if not is_of_topics and "--direct" not in repair:
        return shlex.join(repair)
    verb = 4 if is_of_topics else 3
    return shlex.join([*repair[:verb], *cluster, *repair[verb:]])


def finding_to_json(finding: Finding, cluster: Sequence[str] = ()) -> dict[str, Any]:
    """Shape: code, severity, sentence, connector, evidence: [{topic, partition, offset, key}], repair, hint."""
    evidence = [
        {"topic": item.topic, "partition": item.partition, "offset": item.offset, "key": item.key}
        for item in finding.evidence
    ]
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "sentence": finding.sentence,
        "connector": finding.connector,
        "evidence": evidence,
        "repair": command_text(finding.repair, cluster),
        "hint": finding.hint,
    }


def _task_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """One for each RUNNING task that is not healthy, as the worker that runs it says."""
    for task_id, (worker, found) in sorted(facts.conditions.items()):
        if found.condition is Condition.HEALTHY:
            continue
        lasted_s = max((facts.now_ms - found.since_ms) // 1000, 0)
        yield Finding(
            code=f"task-{str(found.condition).replace(' ', '-')}",
            severity=_SEVERITY.get(found.condition, Severity.WARNING),
            sentence=f"Task {task_id} on {worker} has been {found.condition} for {lasted_s:,} s: {found.cause or ''}",
            connector=task_id.connector,
            repair=_repair(found.condition, task_id.connector, task_id.task),
            hint=_HINT[found.condition],
        )


def _repair(condition: Condition, connector: str, task: int) -> tuple[str, ...]:
    return ("connect", "tasks", "restart", connector, str(task)) if condition is Condition.STUCK else ()
