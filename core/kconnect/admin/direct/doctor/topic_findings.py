"""Findings on the topics themselves: whether they are there, and whether their settings keep what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.facts import ClusterFacts, Evidence, Finding, Severity, TopicFacts
from kconnect.logs.wording import counted

# What Java's workers ask for: three replicas; partitions 1, 25 and 5.
_REPLICAS = 3
_PARTITIONS = {InternalTopic.CONFIG: 1, InternalTopic.OFFSET: 25, InternalTopic.STATUS: 5}
_KEEPS = {
    InternalTopic.CONFIG: "configs of connectors",
    InternalTopic.OFFSET: "source offsets",
    InternalTopic.STATUS: "statuses",
}
# As workers spell it; kafka-topics.sh refuses it
_BROKERS_DEFAULT = "-1"
_DAY_MS = 86_400_000


def topic_findings(facts: ClusterFacts) -> Iterator[Finding]:
    """What is wrong with the topics. Source: TopicAdmin, KafkaConfigBackingStore: what workers refuse (Kafka 4.3)."""
    for which, topic in facts.topics.items():
        if not topic.is_there:
            yield _missing(facts, which, topic)
            continue
        if which is InternalTopic.CONFIG and topic.partitions > 1:
            yield _too_many_partitions(topic)
        yield from _replication(facts, topic)
        if topic.configs is not None:
            yield from _policy(facts, which, topic, topic.configs)
            yield from _in_sync(facts, topic, topic.configs)


def _missing(facts: ClusterFacts, which: InternalTopic, topic: TopicFacts) -> Finding:
    partitions = facts.worker.get(f"{which}.storage.partitions", "").strip() or str(_PARTITIONS[which])
    shape = () if partitions == _BROKERS_DEFAULT else ("--partitions", partitions)
    if which is InternalTopic.CONFIG:
        shape = ("--partitions", "1")
    return Finding(
        code="topic-missing",
        severity=Severity.ERROR,
        sentence=f"Topic {topic.name} ({which.setting}) does not exist: nothing is known of {_KEEPS[which]}",
        evidence=(Evidence(topic.name),),
        repair=_tool(facts, "topics", "--create", "--topic", topic.name, *shape, "--config", "cleanup.policy=compact"),
        hint="Is the name right? The first worker to start also creates the topic.",
    )


def _too_many_partitions(topic: TopicFacts) -> Finding:
    return Finding(
        code="config-topic-partitions",
        severity=Severity.ERROR,
        sentence=f"The config topic {topic.name} has {counted(topic.partitions, 'partition')}; it must have one: the "
        "order of changes is lost, and no worker starts on it",
        evidence=(Evidence(topic.name),),
        hint="Partitions cannot be removed: create a compacted topic of one partition, copy what counts with "
        "`connect topics export` and `connect topics import`, and name the new topic in config.storage.topic.",
    )


def _replication(facts: ClusterFacts, topic: TopicFacts) -> Iterator[Finding]:
    possible = min(_REPLICAS, facts.brokers or 0)
    if 0 < topic.replicas < possible:
        yield Finding(
            code="replication-low",
            severity=Severity.WARNING,
            sentence=f"Topic {topic.name} has {counted(topic.replicas, 'replica')}, though there are "
            f"{counted(facts.brokers or 0, 'broker')}: {possible} would outlive the loss of one",
            evidence=(Evidence(topic.name),),
            hint="kafka-reassign-partitions.sh adds replicas to a topic.",
        )


def _policy(
    facts: ClusterFacts, which: InternalTopic, topic: TopicFacts, configs: Mapping[str, str]
) -> Iterator[Finding]:
    found = {part.strip().lower() for part in configs.get("cleanup.policy", "").split(",") if part.strip()}
    if not found or found == {"compact"}:
        return
    repair = _alter(facts, topic, "cleanup.policy=compact")
    shown = ",".join(sorted(found))
    if "compact" not in found:
        yield Finding(
            code="cleanup-policy-not-compact",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} has cleanup.policy={shown}, not compact: {_KEEPS[which]}{_lost(configs)}, "
            "and no worker starts on it",
            evidence=(Evidence(topic.name),),
            repair=repair,
        )
    else:
        yield Finding(
            code="cleanup-policy-deletes",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} has cleanup.policy={shown}: {_KEEPS[which]}{_lost(configs)} though nothing "
            "newer stands in their place, and no worker starts on it",
            evidence=(Evidence(topic.name),),
            repair=repair,
        )


def _lost(configs: Mapping[str, str]) -> str:
    """When records are deleted, as far as the settings say."""
    parts = []
    age_ms, size = _number(configs.get("retention.ms")), _number(configs.get("retention.bytes"))
    if age_ms is not None and age_ms >= 0:
        parts.append(f"after {age_ms / _DAY_MS:g} days (retention.ms={age_ms})")
    if size is not None and size >= 0:
        parts.append(f"beyond {size} bytes (retention.bytes)")
    return f" are deleted {' and '.join(parts)}" if parts else " may be deleted"


def _in_sync(facts: ClusterFacts, topic: TopicFacts, configs: Mapping[str, str]) -> Iterator[Finding]:
    wanted = _number(configs.get("min.insync.replicas"))
    if wanted is not None and 0 < topic.replicas < wanted:
        yield Finding(
            code="min-insync-above-replicas",
            severity=Severity.ERROR,
            sentence=f"Topic {topic.name} requires {wanted} in-sync replicas (min.insync.replicas) and has "
            f"{topic.replicas}: every write with acks=all is refused",
            evidence=(Evidence(topic.name),),
            repair=_alter(facts, topic, f"min.insync.replicas={max(1, topic.replicas - 1)}"),
        )


def _number(text: str | None) -> int | None:
    digits = (text or "").strip()
    return int(digits) if digits.lstrip("-").isdecimal() and digits.count("-") <= 1 else None


def _alter(facts: ClusterFacts, topic: TopicFacts, setting: str) -> tuple[str, ...]:
    more = ("--alter", "--entity-type", "topics", "--entity-name", topic.name, "--add-config", setting)
    return _tool(facts, "configs", *more)


def _tool(facts: ClusterFacts, tool: str, *words: str) -> tuple[str, ...]:
    """A call of one of Kafka's own tools: settings of topics are not ours to change."""
    servers = facts.worker.get("bootstrap.servers", "")
    return (f"kafka-{tool}.sh", "--bootstrap-server", servers, *words)
