"""The doctor on topics that real Java left, and on arbitrary records."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.diagnosis import diagnose, finding_to_json
from kconnect.admin.direct.doctor.facts import ClusterFacts, Severity, TopicFacts
from kconnect.model import LogRecord
from kit.doctor_facts import EXACTLY_ONCE, WORKER, config_facts, facts, group, offset_facts, status_facts
from kit.golden import load, recorded_topic


def java_facts(until_ms: int | None = None) -> ClusterFacts:
    """What real Java wrote, up to a time; its settings as Java created the topics, on one broker."""
    logs = {
        name: [r for r in recorded_topic(name) if until_ms is None or (r.timestamp_ms or 0) <= until_ms]
        for name in NAMES
    }
    described = load("topics/topic-configs-disabled.json")
    topics = {}
    for which, name in zip((InternalTopic.CONFIG, InternalTopic.STATUS, InternalTopic.OFFSET), NAMES, strict=True):
        topic = described[f"orc-{name}"]
        settings = {key: entry["value"] for key, entry in topic["all_configs"].items()}
        topics[which] = TopicFacts(f"orc-{name}", True, topic["partitions"], topic["replication_factor"], settings)
    last_ms = max(record.timestamp_ms or 0 for records in logs.values() for record in records)
    statuses = status_facts(logs["status"])
    urls = sorted({f"http://{status.worker_id}/" for status in statuses.statuses.statuses().values()})
    return ClusterFacts(
        now_ms=last_ms,
        worker=WORKER,
        brokers=1,
        topics=topics,
        configs=config_facts(logs["configs"]),
        statuses=statuses,
        offsets=offset_facts(logs["offsets"]),
        group=group(urls=urls),
    )


NAMES = ("configs", "status", "offsets")


def test_what_java_leaves_behind_is_no_fault():
    findings = diagnose(java_facts())
    assert {(finding.code, finding.severity) for finding in findings} == {
        ("orphan-tasks", Severity.INFO),
        ("orphan-offsets", Severity.INFO),
    }


def test_at_no_step_of_java_is_anything_an_error():
    steps = {record["step"]: record["timestamp"] for record in load("topics/dump-orc-configs.json")}
    errors = set()
    for until_ms in list(steps.values())[::4]:
        errors |= {finding.code for finding in diagnose(java_facts(until_ms)) if finding.severity is Severity.ERROR}
    assert errors == set()


CONFIG_KEYS = st.sampled_from(
    [b"connector-a", b"task-a-0", b"task-b-1", b"commit-a", b"commit-b", b"target-state-b", b"tasks-fencing-a",
     b"session-key", b"restart-connector-b", b"logger-cluster-x", b"status-connector-a", b"status-task-a-3",
     b"status-topic-t:connector-b", b'["a",{"x":1}]', b'["a",{"x":1.0}]', b'["b",{"y":2,"x":1}]',
     b'["b",{"x":1,"y":2}]', None]
)  # fmt: skip
ANY_VALUES = st.sampled_from(
    [b'{"properties":{"connector.class":"S"}}', b'{"tasks":1}', b'{"tasks":9}', b'{"state":"PAUSED"}',
     b'{"task-count":1}', b'{"state":"RUNNING","worker_id":"w:1","generation":1}',
     b'{"key":"aa==","algorithm":"x","creation-timestamp":-1}',
     b"null", b"[]", None]
)  # fmt: skip
ENTRIES = st.lists(
    st.tuples(
        st.one_of(CONFIG_KEYS, st.binary(max_size=20)),
        st.one_of(ANY_VALUES, st.binary(max_size=20)),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-1, 2**63 - 1)),
    ),
    max_size=20,
)


@given(ENTRIES, st.sampled_from([WORKER, EXACTLY_ONCE, {"inter.worker.key.ttl.ms": "soon"}]), st.booleans())
def test_arbitrary_records_are_diagnosed(entries, worker, is_live):
    records = [LogRecord("t", part, at, key, value, ms) for at, (key, value, part, ms) in enumerate(entries)]
    degraded = replace(
        facts(worker=worker),
        configs=config_facts(records, len(records)),
        statuses=status_facts(records),
        offsets=offset_facts(records),
        group=group(urls=["http://w:1/"] if is_live else []),
    )
    for finding in diagnose(degraded):
        assert json.dumps(finding_to_json(finding))
        assert finding.repair or finding.hint
