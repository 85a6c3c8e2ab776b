"""The doctor: what is wrong with a cluster's topics, each with its evidence and the command that repairs it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.config_findings import config_findings
from kconnect.admin.direct.doctor.facts import ClusterFacts, Evidence, Finding, Severity, TopicFacts, topic_word
from kconnect.admin.direct.doctor.state_findings import offset_findings, status_findings
from kconnect.logs.wording import length_text, pluralize
from kconnect.model import Condition, TaskId
from kconnect.runtime.storage.status_topic import Subject

_ORDER = list(Severity)
_SEVERITY: Final = {Condition.LAGGING: Severity.INFO}
_HINT: Final = {
    Condition.STUCK: "connect tasks show has the stack. A restart abandons the call and starts over.",
    Condition.KEEPS_FAILING: "Restarts do not help it: remove the cause, which its log has in full.",
    Condition.NO_TASK_CONFIGS: "It is asked again by itself; the log of its worker has the error in full.",
    Condition.RETRYING: "It continues by itself once the cause is gone.",
    Condition.NOT_COMMITTING: "Until this is fixed, its records will be re-sent after a restart.",
    Condition.LAGGING: "More tasks (tasks.max), or more partitions, may help.",
}


def diagnose(facts: ClusterFacts) -> list[Finding]:
    """All findings, the worst first. Never raises, whatever the records hold."""
    found = [*topic_findings(facts), *config_findings(facts), *status_findings(facts), *offset_findings(facts)]
    found += _condition_findings(facts)
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def is_degraded(findings: Iterable[Finding]) -> bool:
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


def diagnosis_to_json(
    findings: Sequence[Finding], not_checked: Iterable[tuple[str, str]], cluster: Sequence[str] = ()
) -> dict[str, Any]:
    """What `connect topics doctor -o json` prints. Shape: ok, counts, findings, not_checked: [{what, why}]."""
    return {
        "ok": not is_degraded(findings),
        "counts": severity_counts(findings),
        "findings": [finding_to_json(finding, cluster) for finding in findings],
        "not_checked": [{"what": what, "why": why} for what, why in not_checked],
    }


def _condition_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """One for each RUNNING connector or task that is not healthy, as the worker that runs it says."""
    for subject, (worker, found) in sorted(facts.conditions.items(), key=_place):
        if found.condition is Condition.HEALTHY:
            continue
        word, connector = ("task", subject.connector) if isinstance(subject, TaskId) else ("connector", subject)
        lasted_s = max((facts.now_ms - found.since_ms) // 1000, 0)
        said = f"has given {found.condition}" if subject == connector else f"has been {found.condition}"
        yield Finding(
            code=f"{word}-{str(found.condition).replace(' ', '-')}",
            severity=_SEVERITY.get(found.condition, Severity.WARNING),
            sentence=f"{word.capitalize()} {subject} on {worker} {said} for {lasted_s:,} s: {found.cause or ''}",
            connector=connector,
            repair=_repair(found.condition, subject),
            hint=_HINT[found.condition],
        )


def _place(item: tuple[Subject, object]) -> tuple[str, int]:
    """A connector goes before its tasks."""
    subject = item[0]
    return (subject.connector, subject.task) if isinstance(subject, TaskId) else (subject, -1)


def _repair(condition: Condition, subject: Subject) -> tuple[str, ...]:
    if condition is not Condition.STUCK or not isinstance(subject, TaskId):
        return ()
    return ("connect", "tasks", "restart", subject.connector, str(subject.task))


# What Java's workers ask for
_REPLICAS = 3
_KEEPS = {
    InternalTopic.CONFIG: "configs of connectors",
    InternalTopic.OFFSET: "source offsets",
    InternalTopic.STATUS: "statuses",
}
_DAY_MS = 86_400_000


def topic_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with the topics. Source: TopicAdmin, KafkaConfigBackingStore: what workers refuse (Kafka 4.3)."""
    for which, topic in facts.topics.items():
        if not topic.is_there:
            yield _missing(which, topic)
            continue
        if which is InternalTopic.CONFIG and topic.partitions > 1:
            yield _too_many_partitions(topic)
        yield from _replication(which, facts, topic)
        yield from _out_of_sync(topic)
        if topic.configs is not None:
            yield from _policy(which, topic, topic.configs)
            yield from _in_sync(which, topic, topic.configs)


def _missing(which: InternalTopic, topic: TopicFacts) -> Finding:
    return Finding(
        code="topic-missing",
        severity=Severity.ERROR,
        sentence=f"Topic {topic.name} ({which.setting}) does not exist: nothing is known of {_KEEPS[which]}",
        evidence=(Evidence(topic.name),),
        repair=_repaired(which),
        hint="Is the name right? The first worker to start also creates the topic.",
    )


def _too_many_partitions(topic: TopicFacts) -> Finding:
    return Finding(
        code="config-topic-partitions",
        severity=Severity.ERROR,
        sentence=f"The config topic {topic.name} has {pluralize(topic.partitions, 'partition')}; it must have one: the "
        "order of changes is lost, and no worker starts on it",
        evidence=(Evidence(topic.name),),
        hint="Partitions cannot be removed: create a compacted topic of one partition, copy what counts with "
        "`connect topics export` and `connect topics import`, and name the new topic in config.storage.topic.",
    )


def _replication(which: InternalTopic, facts: ClusterFacts, topic: TopicFacts) -> Iterator[Finding]:
    possible = possible_replicas(facts.brokers or 0)
    if 0 < topic.replicas < possible:
        yield Finding(
            code="replication-low",
            severity=Severity.WARNING,
            sentence=f"Topic {topic.name} has {pluralize(topic.replicas, 'replica')}, though there are "
            f"{pluralize(facts.brokers or 0, 'broker')}: {possible} would outlive the loss of one",
            evidence=(Evidence(topic.name),),
            repair=_repaired(which),
        )


def possible_replicas(brokers: int) -> int:
    """How many replicas an internal topic should have on so many brokers that are up."""
    return min(_REPLICAS, brokers)


def _policy(which: InternalTopic, topic: TopicFacts, configs: Mapping[str, str]) -> Iterator[Finding]:
    found = {part.strip().lower() for part in configs.get("cleanup.policy", "").split(",") if part.strip()}
    if "cleanup.policy" not in better_settings(topic):
        return
    shown = ",".join(sorted(found))
    if "compact" not in found:
        yield Finding(
            code="cleanup-policy-not-compact",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} has cleanup.policy={shown}, not compact: {_KEEPS[which]}{_lost(configs)}, "
            "and no worker starts on it",
            evidence=(Evidence(topic.name),),
            repair=_repaired(which),
        )
    else:
        yield Finding(
            code="cleanup-policy-deletes",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} has cleanup.policy={shown}: {_KEEPS[which]}{_lost(configs)} though nothing "
            "newer stands in their place, and no worker starts on it",
            evidence=(Evidence(topic.name),),
            repair=_repaired(which),
        )


def better_settings(topic: TopicFacts) -> dict[str, str]:
    """The settings with which workers start on a topic and its writes are taken, where it has others."""
    configs, better = topic.configs or {}, {}
    policy = {part.strip().lower() for part in configs.get("cleanup.policy", "").split(",") if part.strip()}
    if policy and policy != {"compact"}:
        better["cleanup.policy"] = "compact"
    wanted = _number(configs.get("min.insync.replicas"))
    if wanted is not None and 0 < topic.replicas < wanted:
        better["min.insync.replicas"] = str(max(1, topic.replicas - 1))
    return better


def _lost(configs: Mapping[str, str]) -> str:
    """When records are deleted, as far as the settings say."""
    parts = []
    age_ms, size = _number(configs.get("retention.ms")), _number(configs.get("retention.bytes"))
    if age_ms is not None and age_ms >= 0:
        age = f"{age_ms / _DAY_MS:.4g} days" if age_ms > _DAY_MS else length_text(age_ms / 1000)
        parts.append(f"after {age} (retention.ms={age_ms})")
    if size is not None and size >= 0:
        parts.append(f"beyond {size} bytes (retention.bytes)")
    return f" are deleted {' and '.join(parts)}" if parts else " may be deleted"


def _in_sync(which: InternalTopic, topic: TopicFacts, configs: Mapping[str, str]) -> Iterator[Finding]:
    if "min.insync.replicas" in better_settings(topic):
        wanted = configs["min.insync.replicas"]
        yield Finding(
            code="min-insync-above-replicas",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} requires {wanted} in-sync replicas (min.insync.replicas) and has "
            f"{topic.replicas}: every write with acks=all is refused",
            evidence=(Evidence(topic.name),),
            repair=_repaired(which),
        )


def _out_of_sync(topic: TopicFacts) -> Iterator[Finding]:
    """Replicas that a broker which is down has, or to which Kafka still copies."""
    if not topic.behind:
        return
    wanted = _number((topic.configs or {}).get("min.insync.replicas"))
    is_refused = wanted is not None and topic.least_in_sync is not None and topic.least_in_sync < wanted
    follows = f"; with min.insync.replicas={wanted} writes to them are refused" if is_refused else ""
    yield Finding(
        code="replicas-not-in-sync",
        severity=Severity.ERROR if is_refused else Severity.WARNING,
        sentence=f"Topic {topic.name} has {pluralize(topic.behind, 'partition')} of {topic.partitions} with replicas "
        f"that are not in sync{follows}",
        evidence=(Evidence(topic.name),),
        hint="A broker is down, or Kafka is still copying: start the broker, or wait.",
    )


def _number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.lstrip("-").isdecimal() and digits.count("-") <= 1 else None


def _repaired(which: InternalTopic) -> tuple[str, ...]:
    return ("connect", "topics", topic_word(which), "repair")
