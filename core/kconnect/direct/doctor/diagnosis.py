"""The doctor: what is wrong with a cluster's topics, each with its evidence and the command that repairs it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from kconnect.direct.doctor.config_findings import config_findings
from kconnect.direct.doctor.facts import Facts, Finding, Severity
from kconnect.direct.doctor.state_findings import offset_findings, status_findings
from kconnect.direct.doctor.task_findings import task_findings
from kconnect.direct.doctor.topic_findings import topic_findings

__all__ = ["command_text", "diagnose", "finding_to_json", "is_sick", "severity_counts"]

_ORDER = list(Severity)
_CLIENT = "--command-config"  # as Kafka's own tools call it, too


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, the worst first. Never raises, whatever the records hold."""
    found = [*topic_findings(facts), *config_findings(facts), *status_findings(facts), *offset_findings(facts)]
    found += task_findings(facts)
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def is_sick(findings: Iterable[Finding]) -> bool:
    """Whether any finding is more than information."""
    return any(finding.severity is not Severity.INFO for finding in findings)


def severity_counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many of each severity, those with none as well."""
    counts = {str(severity): 0 for severity in Severity}
    for finding in findings:
        counts[finding.severity] += 1
    return counts


def command_text(repair: Sequence[str], cluster: Sequence[str] = ()) -> str | None:
    """A repair as it can be pasted into a shell; `cluster` are the options that say which cluster is meant."""
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
