"""Each finding of the doctor, with its sickness and without; Java's own topics; arbitrary records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.direct.access import InternalTopic
from kconnect.direct.doctor.diagnosis import command_text, diagnose, finding_to_json, is_sick, severity_counts
from kconnect.direct.doctor.facts import (
    ClusterFacts,
    ConfigFacts,
    LeaderWrites,
    LiveRecords,
    OffsetFacts,
    Severity,
    StatusFacts,
    TopicFacts,
)
from kconnect.direct.group.live_group import LiveGroup, LiveWorker
from kconnect.herder.assignment.protocol import Work
from kconnect.model import Condition, LogRecord, RunState, TargetState, TaskCondition, TaskId
from kconnect.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_session_key,
    encode_target_state,
    encode_task,
    encode_task_count,
)
from kconnect.storage.session_key import SessionKey
from kconnect.storage.snapshot import ConfigFold
from kconnect.storage.status_cache import StatusCache
from kconnect.storage.status_topic import (
    StoredStatus,
    TopicUse,
    decode_record,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)
from kconnect.storage.topic_offsets import OffsetCache
from kit.golden import load, recorded_topic

NOW_MS = 1_800_000_000_000
SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "file": "/f"}
SINK = {"connector.class": "FileStreamSink", "topics": "t", "file": "/f"}
KEY_0, OFFSET_0 = b'["src",{"a":1,"b":2}]', b'{"position":1}'

CONFIGS = [
    encode_session_key(SessionKey(b"k" * 32, "HmacSHA256", NOW_MS - 60_000)),
    encode_connector("src", SOURCE),
    encode_task(TaskId("src", 0), SOURCE),
    encode_commit("src", 1),
    encode_target_state("src", TargetState.STARTED),
]
RUNNING = StoredStatus(RunState.RUNNING, "w1:8083", 3, None, "4.3.0")
STATUSES = [
    (status_key("src"), encode_status(RUNNING)),
    (status_key(TaskId("src", 0)), encode_status(RUNNING)),
    (topic_key("src", "t"), encode_topic_use(TopicUse("t", "src", 0, NOW_MS))),
]
OFFSETS = [(KEY_0, OFFSET_0)]
COMPACT = {"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "604800000"}
TOPICS = {
    InternalTopic.CONFIG: TopicFacts("c-configs", True, 1, 3, COMPACT),
    InternalTopic.STATUS: TopicFacts("c-status", True, 5, 3, COMPACT),
    InternalTopic.OFFSET: TopicFacts("c-offsets", True, 25, 3, COMPACT),
}
EXACTLY_ONCE = {"bootstrap.servers": "b:9092", "group.id": "c", "exactly.once.source.support": "enabled"}
WORKER = {"bootstrap.servers": "b:9092", "group.id": "c"}


def group(name="c", urls=("http://w1:8083/", "http://w2:8083/"), protocol="sessioned") -> LiveGroup:
    workers = tuple(LiveWorker(url, url, "h", url, 5, Work((), ()), at == 0) for at, url in enumerate(urls))
    return LiveGroup(name, "Stable" if urls else "Empty", protocol, workers)


def log(topic, entries, *, partition=0, step_ms=1000):
    start_ms = NOW_MS - 10_000_000
    return [
        LogRecord(topic, partition, at, key, value, start_ms + at * step_ms) for at, (key, value) in enumerate(entries)
    ]


def config_facts(records, end=None) -> ConfigFacts:
    fold, writes = ConfigFold(), LeaderWrites()
    for record in records:
        fold.apply(record)
        writes.apply(record)
    return ConfigFacts(fold.snapshot(), LiveRecords(records), writes.bare(end))


def status_facts(records) -> StatusFacts:
    cache = StatusCache()
    for record in records:
        cache.apply(decode_record(record.key, record.value))
    return StatusFacts(cache, LiveRecords(records))


def offset_facts(records) -> OffsetFacts:
    cache = OffsetCache()
    for record in records:
        cache.apply(record.key or b"", record.value, record.timestamp_ms)
    return OffsetFacts(cache, LiveRecords(records))


def facts(*, configs=(), statuses=(), offsets=(), end=None, step_ms=1000, records=None, **changed) -> ClusterFacts:
    """A healthy cluster, and what is written behind it; `records` are another config topic altogether."""
    known = {
        "now_ms": NOW_MS,
        "worker": WORKER,
        "brokers": 3,
        "topics": TOPICS,
        "configs": config_facts(records or log("c-configs", [*CONFIGS, *configs], step_ms=step_ms), end),
        "statuses": status_facts(log("c-status", [*STATUSES, *statuses])),
        "offsets": offset_facts(log("c-offsets", [*OFFSETS, *offsets])),
        "group": group(),
    }
    return ClusterFacts(**{**known, **changed})


def found(code, sick: ClusterFacts):
    """The findings of one code; whatever else the sickness brings along is left out."""
    return [finding for finding in diagnose(sick) if finding.code == code]


LATE = StoredStatus(RunState.UNASSIGNED, "w2:8083", 2)


def owning(*work, state="Stable"):
    """The group of which worker w1 has this work."""
    first, second = group().workers
    connectors = tuple(part for part in work if isinstance(part, str))
    tasks = tuple(part for part in work if not isinstance(part, str))
    return LiveGroup("c", state, "sessioned", (replace(first, work=Work(connectors, tasks)), second))


@pytest.mark.parametrize(
    ("subject", "named"), [("src", "connector src"), (TaskId("src", 0), "task src-0")], ids=["connector", "task"]
)
def test_a_late_status_that_covers_a_newer_one_is_found_with_the_command_that_writes_the_newer_one_again(
    subject, named
):
    sick = facts(statuses=[(status_key(subject), encode_status(LATE))], group=owning("src", TaskId("src", 0)))
    [finding] = found("status-covered", sick)
    assert finding.sentence.startswith(
        f"The last status of {named} is UNASSIGNED of worker w2:8083 in generation 2, written late: it hides "
        "RUNNING of worker w1:8083 in generation 3"
    )
    put = (
        "connect",
        "topics",
        "status",
        "put",
        "--force",
        status_key(subject).decode(),
        encode_status(RUNNING).decode(),
    )
    assert (finding.repair, finding.connector) == (put, "src")
    assert [evidence.offset for evidence in finding.evidence] == [3]


@pytest.mark.parametrize(
    ("subject", "repair"),
    [
        ("src", ("connect", "connectors", "restart", "src")),
        (TaskId("src", 0), ("connect", "tasks", "restart", "src", "0")),
    ],
    ids=["connector", "task"],
)
def test_what_is_unassigned_although_a_live_worker_has_it_is_found_with_the_command_that_restarts_it(subject, repair):
    late = StoredStatus(RunState.UNASSIGNED, "w2:8083", 4)
    sick = facts(statuses=[(status_key(subject), encode_status(late))], group=owning(subject))
    [finding] = found("unassigned-but-owned", sick)
    assert "is UNASSIGNED, says worker w2:8083 in generation 4, but the group has assigned it to worker w1:8083" in (
        finding.sentence
    )
    assert finding.repair == repair
    assert not found("unassigned-but-owned", replace(sick, group=owning(subject, state="PreparingRebalance")))
    assert not found("unassigned-but-owned", replace(sick, group=group()))


def test_after_a_group_began_to_count_anew_the_worker_that_has_it_is_believed():
    anew = StoredStatus(RunState.RUNNING, "w2:8083", 1)
    records = [(status_key("src"), encode_status(anew))]
    first, second = group().workers
    of_second = LiveGroup("c", "Stable", "sessioned", (first, replace(second, work=Work(("src",), ()))))
    assert not found("status-covered", facts(statuses=records, group=of_second))


def topics(which, **changed):
    return {**TOPICS, which: replace(TOPICS[which], **changed)}


def test_a_healthy_cluster_has_nothing():
    assert diagnose(facts()) == []


SICK = {
    "topic-missing": facts(topics=topics(InternalTopic.STATUS, is_there=False)),
    "config-topic-partitions": facts(topics=topics(InternalTopic.CONFIG, partitions=3)),
    "replication-low": facts(topics=topics(InternalTopic.OFFSET, replicas=1)),
    "cleanup-policy-not-compact": facts(
        topics=topics(InternalTopic.OFFSET, configs={**COMPACT, "cleanup.policy": "delete"})
    ),
    "cleanup-policy-deletes": facts(
        topics=topics(InternalTopic.STATUS, configs={**COMPACT, "cleanup.policy": "compact, delete"})
    ),
    "min-insync-above-replicas": facts(
        topics=topics(InternalTopic.CONFIG, configs={**COMPACT, "min.insync.replicas": "4"})
    ),
    "malformed-record": facts(configs=[(b"commit-src", b'{"tasks":"many"}')]),
    "unknown-key": facts(configs=[(b"what-is-this", b"{}")]),
    "inconsistent-tasks": facts(configs=[encode_task(TaskId("src", 1), SOURCE), encode_commit("src", 2)]),
    "tasks-lost-to-compaction": facts(configs=[encode_commit("late", 1), encode_connector("late", SOURCE)]),
    "orphan-tasks": facts(configs=[encode_task(TaskId("gone", 0), SOURCE), encode_commit("gone", 1)]),
    "orphan-target-state": facts(configs=[encode_target_state("gone", TargetState.PAUSED)]),
    "name-not-addressable": facts(configs=[encode_connector("a/b c%", SOURCE)]),
    "session-key-missing": facts(records=log("c-configs", CONFIGS[1:])),
    "session-key-old": facts(now_ms=NOW_MS + 2 * 3_600_000),
    "orphan-status": facts(statuses=[(status_key("gone"), encode_status(RUNNING))]),
    "orphan-task-status": facts(statuses=[(status_key(TaskId("src", 1)), encode_status(RUNNING))]),
    "stale-running": facts(group=group(urls=["http://w2:8083/"])),
    "topics-shared": facts(group=group(urls=["http://w2:8083/"]), others=(group("other", urls=["http://w1:8083/"]),)),
    "duplicate-offset-key": facts(offsets=[(b'["src",{"b":2,"a":1}]', b'{"position":2}')]),
    "orphan-offsets": facts(offsets=[(b'["gone",{"a":1}]', b'{"position":2}')]),
    "key-in-several-partitions": replace(
        facts(), offsets=offset_facts([*log("c-offsets", OFFSETS), *log("c-offsets", OFFSETS, partition=3)])
    ),
    "no-leader-fencing": facts(worker=EXACTLY_ONCE, end=4, records=log("c-configs", CONFIGS[:4])),
    "tasks-not-fenced": facts(worker=EXACTLY_ONCE),
}


@pytest.mark.parametrize("code", SICK)
def test_each_sickness_is_found_with_evidence_and_a_way_out(code):
    first = found(code, SICK[code])
    assert len(first) == 1
    finding = first[0]
    assert finding.evidence
    assert all(item.topic in ("c-configs", "c-status", "c-offsets") for item in finding.evidence)
    assert finding.repair or finding.hint
    assert found(code, facts()) == []
    document = finding_to_json(finding, ["--worker", "w.properties"])
    assert json.loads(json.dumps(document)) == document
    assert list(document) == ["code", "severity", "sentence", "connector", "evidence", "repair", "hint"]


@pytest.mark.parametrize("code", sorted(set(SICK) - {"topic-missing", "stale-running", "topics-shared"}))
def test_a_sickness_brings_no_other_error_along(code):
    others = {finding.code for finding in diagnose(SICK[code]) if finding.code != code}
    expected = {"inconsistent-tasks": {"orphan-task-status"}, "no-leader-fencing": {"tasks-not-fenced"}}
    assert others <= expected.get(code, set())


REPAIRS = {
    "cleanup-policy-deletes": "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics "
    "--entity-name c-status --add-config cleanup.policy=compact",
    "min-insync-above-replicas": "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics "
    "--entity-name c-configs --add-config min.insync.replicas=2",
    "unknown-key": "connect topics config delete --worker w --force what-is-this",
    "orphan-tasks": "connect topics config delete --worker w task-gone-0 commit-gone",
    "name-not-addressable": "connect connectors delete --worker w 'a/b c%' --direct",
    "inconsistent-tasks": "connect connectors restart src",
    "duplicate-offset-key": """connect topics offsets delete --worker w --force '["src",{"a":1,"b":2}]'""",
    "stale-running": "connect topics status delete --worker w --force status-connector-src status-task-src-0",
}


@pytest.mark.parametrize("code", REPAIRS)
def test_a_repair_can_be_pasted_into_a_shell(code):
    (finding,) = found(code, SICK[code])
    assert command_text(finding.repair, ["--worker", "w"]) == REPAIRS[code]


def test_only_where_workers_live_is_force_needed_for_what_nobody_needs():
    (finding,) = found("unknown-key", replace(SICK["unknown-key"], group=group(urls=[])))
    assert finding.repair == ("connect", "topics", "config", "delete", "what-is-this")


def test_without_workers_an_inconsistent_set_is_repaired_on_the_topic():
    sick = replace(SICK["inconsistent-tasks"], group=group(urls=[]))
    (finding,) = found("inconsistent-tasks", sick)
    assert finding.repair == ("connect", "topics", "config", "put", "commit-src", '{"tasks":0}')
    healed = facts(configs=[encode_task(TaskId("src", 1), SOURCE), encode_commit("src", 2), encode_commit("src", 0)])
    assert found("inconsistent-tasks", healed) == []


def test_a_malformed_config_whose_earlier_one_still_counts_is_restored():
    (finding,) = found("malformed-record", facts(configs=[(b"connector-src", b"{")]))
    assert finding.repair == ("connect", "topics", "config", "restore", "src", "--at", str(len(CONFIGS)))
    assert "not JSON" in finding.sentence
    assert finding.evidence[0].offset == len(CONFIGS)


@pytest.mark.parametrize("name", ["a/b", "50%", "a\\b", ".", ".."])
def test_names_that_urls_can_not_carry_are_found(name):
    assert len(found("name-not-addressable", facts(configs=[encode_connector(name, SOURCE)]))) == 1


def test_names_that_are_only_unusual_are_fine():
    assert found("name-not-addressable", facts(configs=[encode_connector('a b→"x"?#&', SOURCE)])) == []


def test_malformed_statuses_and_offsets_are_found_by_their_reason():
    sick = facts(
        statuses=[(status_key("src"), b"{}"), (b"status-task-src", b"{}"), (b"other", b"{}")],
        offsets=[(KEY_0, b"[1]"), (b"no key", b"{}"), (b"\xff", b"{}")],
    )
    assert [finding.evidence[0].key for finding in found("malformed-record", sick)] == [
        '["src",{"a":1,"b":2}]',
        "status-connector-src",
        "status-task-src",
    ]
    unknown = found("unknown-key", sick)
    assert [finding.evidence[0].key for finding in unknown] == ["other", "no key", "base64:/w=="]
    assert unknown[-1].repair[-1] == "base64:/w=="


def test_of_two_spellings_the_one_that_java_reads_stays():
    spaced = b'["src", {"a": 1, "b": 2}]'
    (finding,) = found("duplicate-offset-key", facts(offsets=[(spaced, b'{"position":9}')]))
    assert finding.repair[-1] == spaced.decode()
    assert finding.hint is not None
    assert spaced.decode() in finding.hint


def test_a_record_that_was_repaired_or_deleted_is_no_finding():
    assert found("malformed-record", facts(configs=[(b"commit-src", b"?"), encode_commit("src", 0)])) == []
    assert found("unknown-key", facts(configs=[(b"what", b"?"), (b"what", None)])) == []


def test_statuses_younger_than_what_was_read_belong_to_connectors_that_are_not_known_yet():
    young = [LogRecord("c-status", 0, 9, status_key("new"), encode_status(RUNNING), NOW_MS + 5)]
    sick = facts(statuses=[])
    sick = replace(sick, statuses=status_facts([*log("c-status", STATUSES), *young]))
    assert found("orphan-status", sick) == []


def test_without_a_group_nothing_is_said_of_workers():
    sick = replace(SICK["session-key-old"], group=None)
    assert {finding.code for finding in diagnose(sick)} == set()


def test_with_no_worker_alive_whatever_says_running_is_stale_but_the_key_may_be_old():
    sick = replace(SICK["session-key-old"], group=group(urls=[]))
    assert [finding.code for finding in diagnose(sick)] == ["stale-running"]
    assert "no worker is in the group c" in diagnose(sick)[0].sentence


def test_a_group_that_signs_nothing_needs_no_session_key():
    sick = replace(SICK["session-key-missing"], group=group(protocol="compatible"))
    assert found("session-key-missing", sick) == []


def test_the_session_key_is_measured_by_the_workers_own_setting():
    worker = {**WORKER, "inter.worker.key.ttl.ms": "20000"}
    (finding,) = found("session-key-old", facts(worker=worker))
    assert "(20000)" in finding.sentence
    assert found("session-key-old", facts(worker={**WORKER, "inter.worker.key.ttl.ms": "40000"})) == []


def test_statuses_of_paused_tasks_of_gone_workers_are_left_alone():
    paused = encode_status(replace(RUNNING, state=RunState.PAUSED, worker_id="gone:8083"))
    assert diagnose(facts(statuses=[(status_key("src"), paused)])) == []


def test_one_broker_needs_no_three_replicas():
    single = {which: replace(topic, replicas=1) for which, topic in TOPICS.items()}
    assert diagnose(facts(topics=single, brokers=1)) == []
    assert len(found("replication-low", facts(topics=single, brokers=2))) == 3
    assert found("replication-low", facts(topics=single, brokers=None)) == []


def test_settings_that_may_not_be_read_are_not_judged():
    unread = {which: replace(topic, configs=None) for which, topic in TOPICS.items()}
    assert diagnose(facts(topics=unread)) == []


def test_a_deleting_topic_says_when_it_deletes():
    (finding,) = found("cleanup-policy-deletes", SICK["cleanup-policy-deletes"])
    assert "after 7 days (retention.ms=604800000)" in finding.sentence


def test_with_some_topics_only_the_rest_is_left_out():
    only_status = facts(topics={InternalTopic.STATUS: TOPICS[InternalTopic.STATUS]})
    only_status = replace(only_status, configs=None, offsets=None, group=group(urls=[]))
    assert [finding.code for finding in diagnose(only_status)] == ["stale-running"]


class TestLeaderWrites:
    def test_a_write_followed_at_once_by_one_of_much_later_was_in_no_transaction(self):
        sick = facts(worker=EXACTLY_ONCE, step_ms=120_000)
        (finding,) = found("no-leader-fencing", sick)
        assert finding.evidence[0].key == "commit-src"

    def test_an_offset_between_them_may_be_the_mark_of_a_transaction(self):
        marked = [replace(record, offset=2 * record.offset) for record in log("c-configs", CONFIGS, step_ms=120_000)]
        assert found("no-leader-fencing", facts(worker=EXACTLY_ONCE, records=marked, end=9)) == []

    def test_records_of_one_time_may_be_of_one_transaction(self):
        assert found("no-leader-fencing", facts(worker=EXACTLY_ONCE)) == []

    def test_at_the_end_of_the_topic_a_mark_is_missing_or_there(self):
        records = log("c-configs", CONFIGS[:4])
        assert len(found("no-leader-fencing", facts(worker=EXACTLY_ONCE, records=records, end=4))) == 1
        assert found("no-leader-fencing", facts(worker=EXACTLY_ONCE, records=records, end=5)) == []

    def test_without_exactly_once_there_is_nothing_to_guard(self):
        assert found("no-leader-fencing", facts(step_ms=120_000)) == []


def test_a_task_count_behind_the_commit_fences():
    assert found("tasks-not-fenced", facts(worker=EXACTLY_ONCE, configs=[encode_task_count("src", 1)])) == []


def test_sinks_and_sources_that_do_not_run_need_no_fence():
    sink = [encode_connector("src", SINK), encode_task(TaskId("src", 0), SINK), encode_commit("src", 1)]
    assert found("tasks-not-fenced", facts(worker=EXACTLY_ONCE, configs=sink)) == []
    failed = (status_key(TaskId("src", 0)), encode_status(replace(RUNNING, state=RunState.FAILED)))
    assert found("tasks-not-fenced", facts(worker=EXACTLY_ONCE, statuses=[failed])) == []


def test_information_alone_is_no_sickness_and_the_worst_comes_first():
    assert not is_sick(diagnose(SICK["orphan-offsets"]))
    assert is_sick(diagnose(SICK["orphan-status"]))
    mixed = facts(
        configs=[(b"what", b"{}"), (b"connector-src", b"{")], offsets=[(b'["gone",{"a":1}]', b'{"position":2}')]
    )
    assert [finding.severity for finding in diagnose(mixed)] == [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert severity_counts(diagnose(mixed)) == {"error": 1, "warning": 1, "info": 1}


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


def test_what_java_leaves_behind_is_no_sickness():
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
    sick = replace(
        facts(worker=worker),
        configs=config_facts(records, len(records)),
        statuses=status_facts(records),
        offsets=offset_facts(records),
        group=group(urls=["http://w:1/"] if is_live else []),
    )
    for finding in diagnose(sick):
        assert json.dumps(finding_to_json(finding))
        assert finding.repair or finding.hint


def test_tasks_that_do_not_get_on_are_found_as_their_workers_say():
    def of(condition):
        return TaskCondition(condition, NOW_MS - 90_000, 12, "the cause")

    told = {
        TaskId("src", 0): ("http://w1:8083/", of(Condition.RETRYING)),
        TaskId("src", 1): ("http://w2:8083/", of(Condition.STUCK)),
        TaskId("src", 2): ("http://w2:8083/", of(Condition.NOT_COMMITTING)),
        TaskId("src", 3): ("http://w2:8083/", of(Condition.LAGGING)),
        TaskId("src", 4): ("http://w2:8083/", of(Condition.HEALTHY)),
    }
    seen = {finding.code: finding for finding in diagnose(facts(conditions=told))}
    assert {code: str(finding.severity) for code, finding in seen.items()} == {
        "task-retrying": "warning",
        "task-stuck": "warning",
        "task-not-committing": "warning",
        "task-lagging": "info",
    }
    stuck = seen["task-stuck"]
    assert stuck.sentence == "Task src-1 on http://w2:8083/ has been stuck for 90 s: the cause"
    assert command_text(stuck.repair, ["--worker", "w.properties"]) == "connect tasks restart src 1"
