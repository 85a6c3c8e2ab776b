"""Each finding of the doctor, with its fault and without."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.diagnosis import command_text, diagnose, finding_to_json, is_degraded, severity_counts
from kconnect.admin.direct.doctor.facts import Severity
from kconnect.admin.direct.group.live_group import LiveGroup
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_session_key,
    encode_target_state,
    encode_task,
)
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_topic import encode_status, status_key
from kit.doctor_facts import (
    COMPACT,
    CONFIGS,
    EXACTLY_ONCE,
    KEY_0,
    NOW_MS,
    OFFSETS,
    RUNNING,
    SOURCE,
    TOPICS,
    WORKER,
    facts,
    found,
    group,
    log,
    offset_facts,
    status_facts,
)


def topics(which, **changed):
    return {**TOPICS, which: replace(TOPICS[which], **changed)}


def running(of: LiveGroup, connector: str) -> LiveGroup:
    """The group, whose first worker has the connector assigned."""
    first, *others = of.workers
    return replace(of, workers=(replace(first, work=Work((connector,), ())), *others))


def test_a_healthy_cluster_has_nothing():
    assert diagnose(facts()) == []


DEGRADED = {
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
    "replicas-not-in-sync": facts(topics=topics(InternalTopic.OFFSET, behind=4, least_in_sync=2)),
    "malformed-record": facts(configs=[(b"commit-src", b'{"tasks":"many"}')]),
    "unknown-key": facts(configs=[(b"what-is-this", b"{}")]),
    "tasks-not-committed": facts(configs=[encode_task(TaskId("src", 0), {**SOURCE, "file": "/new"})]),
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
    "topics-shared": facts(
        group=group(urls=["http://w2:8083/"]), others=(running(group("other", urls=["http://w1:8083/"]), "src"),)
    ),
    "duplicate-offset-key": facts(offsets=[(b'["src",{"b":2,"a":1}]', b'{"position":2}')]),
    "orphan-offsets": facts(offsets=[(b'["gone",{"a":1}]', b'{"position":2}')]),
    "key-in-several-partitions": replace(
        facts(), offsets=offset_facts([*log("c-offsets", OFFSETS), *log("c-offsets", OFFSETS, partition=3)])
    ),
    "no-leader-fencing": facts(worker=EXACTLY_ONCE, end=4, records=log("c-configs", CONFIGS[:4])),
    "tasks-not-fenced": facts(worker=EXACTLY_ONCE),
}


@pytest.mark.parametrize("code", DEGRADED)
def test_each_fault_is_found_with_evidence_and_a_way_out(code):
    first = found(code, DEGRADED[code])
    assert len(first) == 1
    finding = first[0]
    assert finding.evidence
    assert all(item.topic in ("c-configs", "c-status", "c-offsets") for item in finding.evidence)
    assert finding.repair or finding.hint
    assert found(code, facts()) == []
    document = finding_to_json(finding, ["--worker", "w.properties"])
    assert json.loads(json.dumps(document)) == document
    assert list(document) == ["code", "severity", "sentence", "connector", "evidence", "repair", "hint"]


@pytest.mark.parametrize("code", sorted(set(DEGRADED) - {"topic-missing", "stale-running", "topics-shared"}))
def test_a_fault_brings_no_other_error_along(code):
    others = {finding.code for finding in diagnose(DEGRADED[code]) if finding.code != code}
    expected = {"inconsistent-tasks": {"orphan-task-status"}, "no-leader-fencing": {"tasks-not-fenced"}}
    assert others <= expected.get(code, set())


@pytest.mark.parametrize(("in_sync", "severity"), [(2, Severity.WARNING), (1, Severity.ERROR)])
def test_replicas_that_are_not_in_sync_are_an_error_once_writes_are_refused(in_sync, severity):
    few = {**COMPACT, "min.insync.replicas": "2"}
    topic = topics(InternalTopic.OFFSET, behind=1, least_in_sync=in_sync, configs=few)
    (finding,) = found("replicas-not-in-sync", facts(topics=topic))
    assert finding.severity is severity
    assert "has 1 partition of 25 with replicas that are not in sync" in finding.sentence
    assert ("min.insync.replicas=2 writes to them are refused" in finding.sentence) is (severity is Severity.ERROR)


REPAIRS = {
    "topic-missing": "connect topics status repair --worker w",
    "cleanup-policy-deletes": "connect topics status repair --worker w",
    "min-insync-above-replicas": "connect topics config repair --worker w",
    "replication-low": "connect topics offsets repair --worker w",
    "unknown-key": "connect topics config delete --worker w --force what-is-this",
    "orphan-tasks": "connect topics config delete --worker w task-gone-0 commit-gone",
    "name-not-addressable": "connect connectors delete --worker w 'a/b c%' --direct",
    "tasks-not-committed": "connect connectors stop src",
    "inconsistent-tasks": "connect connectors restart src",
    "duplicate-offset-key": """connect topics offsets delete --worker w --force '["src",{"a":1,"b":2}]'""",
    "stale-running": "connect topics status delete --worker w --force status-connector-src status-task-src-0",
}


@pytest.mark.parametrize("code", REPAIRS)
def test_a_repair_can_be_pasted_into_a_shell(code):
    (finding,) = found(code, DEGRADED[code])
    assert command_text(finding.repair, ["--worker", "w"]) == REPAIRS[code]


def test_only_where_workers_live_is_force_needed_for_what_nobody_needs():
    (finding,) = found("unknown-key", replace(DEGRADED["unknown-key"], group=group(urls=[])))
    assert finding.repair == ("connect", "topics", "config", "delete", "what-is-this")


def test_without_workers_an_inconsistent_set_is_repaired_on_the_topic():
    degraded = replace(DEGRADED["inconsistent-tasks"], group=group(urls=[]))
    (finding,) = found("inconsistent-tasks", degraded)
    assert finding.repair == ("connect", "topics", "config", "put", "commit-src", '{"tasks":0}')
    healed = facts(configs=[encode_task(TaskId("src", 1), SOURCE), encode_commit("src", 2), encode_commit("src", 0)])
    assert found("inconsistent-tasks", healed) == []


def test_a_malformed_config_whose_earlier_one_still_counts_is_restored():
    (finding,) = found("malformed-record", facts(configs=[(b"connector-src", b"{")]))
    assert finding.repair == ("connect", "topics", "config", "restore", "src", "--at", str(len(CONFIGS)))
    assert "not JSON" in finding.sentence
    assert finding.evidence[0].offset == len(CONFIGS)


@pytest.mark.parametrize("key", ["task-src-7", "task-src-x"])
def test_a_malformed_config_of_a_task_that_the_connector_does_not_have_is_deleted(key):
    """Restoring the connector would not write that key, and so leave it as it is."""
    (finding,) = found("malformed-record", facts(configs=[(key.encode(), b"{")]))
    assert finding.repair == ("connect", "topics", "config", "delete", "--force", key)
    (finding,) = found("malformed-record", facts(configs=[(b"task-src-0", b"{")]))
    assert finding.repair[3] == "restore"


@pytest.mark.parametrize("name", ["a/b", "50%", "a\\b", ".", ".."])
def test_names_that_urls_can_not_carry_are_found(name):
    assert len(found("name-not-addressable", facts(configs=[encode_connector(name, SOURCE)]))) == 1


def test_names_that_are_only_unusual_are_fine():
    assert found("name-not-addressable", facts(configs=[encode_connector('a b→"x"?#&', SOURCE)])) == []


def test_malformed_statuses_and_offsets_are_found_by_their_reason():
    degraded = facts(
        statuses=[(status_key("src"), b"{}"), (b"status-task-src", b"{}"), (b"other", b"{}")],
        offsets=[(KEY_0, b"[1]"), (b"no key", b"{}"), (b"\xff", b"{}")],
    )
    assert [finding.evidence[0].key for finding in found("malformed-record", degraded)] == [
        '["src",{"a":1,"b":2}]',
        "status-connector-src",
        "status-task-src",
    ]
    unknown = found("unknown-key", degraded)
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


def test_without_a_group_nothing_is_said_of_workers():
    degraded = replace(DEGRADED["session-key-old"], group=None)
    assert {finding.code for finding in diagnose(degraded)} == set()


def test_with_no_worker_alive_whatever_says_running_is_stale_but_the_key_may_be_old():
    degraded = replace(DEGRADED["session-key-old"], group=group(urls=[]))
    assert [finding.code for finding in diagnose(degraded)] == ["stale-running"]
    assert "no worker is in the group c" in diagnose(degraded)[0].sentence


def test_a_group_that_signs_nothing_needs_no_session_key():
    degraded = replace(DEGRADED["session-key-missing"], group=group(protocol="compatible"))
    assert found("session-key-missing", degraded) == []


def test_the_session_key_is_measured_by_the_workers_own_setting():
    worker = {**WORKER, "inter.worker.key.ttl.ms": "20000"}
    (finding,) = found("session-key-old", facts(worker=worker))
    assert "(20000)" in finding.sentence
    assert found("session-key-old", facts(worker={**WORKER, "inter.worker.key.ttl.ms": "40000"})) == []


def test_one_broker_needs_no_three_replicas():
    single = {which: replace(topic, replicas=1) for which, topic in TOPICS.items()}
    assert diagnose(facts(topics=single, brokers=1)) == []
    assert len(found("replication-low", facts(topics=single, brokers=2))) == 3
    assert found("replication-low", facts(topics=single, brokers=None)) == []


def test_settings_that_may_not_be_read_are_not_judged():
    unread = {which: replace(topic, configs=None) for which, topic in TOPICS.items()}
    assert diagnose(facts(topics=unread)) == []


def test_a_deleting_topic_says_when_it_deletes():
    (finding,) = found("cleanup-policy-deletes", DEGRADED["cleanup-policy-deletes"])
    assert "after 7 days (retention.ms=604800000)" in finding.sentence
    topics = DEGRADED["cleanup-policy-deletes"].topics
    soon = {
        which: replace(topic, configs={**topic.configs, "retention.ms": "90000"}) for which, topic in topics.items()
    }
    (finding,) = found("cleanup-policy-deletes", facts(topics=soon))
    assert "after 90 s (retention.ms=90000)" in finding.sentence


@pytest.mark.parametrize("which", list(InternalTopic))
def test_of_a_topic_in_which_nothing_belongs_no_record_is_offered_for_deletion(which):
    strangers = [(b"orders-1", b"{}"), (b"orders-2", b"{}")]
    degraded = {
        InternalTopic.CONFIG: lambda: facts(records=log("c-configs", strangers), statuses=[]),
        InternalTopic.STATUS: lambda: replace(facts(), statuses=status_facts(log("c-status", strangers))),
        InternalTopic.OFFSET: lambda: replace(facts(), offsets=offset_facts(log("c-offsets", strangers))),
    }
    (finding,) = found("unknown-key", degraded[which]())
    assert finding.repair == ()
    assert "has 2 records, none of them with a key that Connect writes there" in finding.sentence
    assert [item.key for item in finding.evidence] == ["orders-1", "orders-2"]
    assert which.setting in (finding.hint or "")


def test_tasks_whose_commit_compaction_has_overtaken_may_well_run():
    overtaken = [
        encode_session_key(SessionKey(b"k" * 32, "HmacSHA256", NOW_MS - 60_000)),
        encode_task(TaskId("src", 0), SOURCE),
        encode_commit("src", 1),
        encode_connector("src", SOURCE),
    ]
    assert [finding.code for finding in diagnose(facts(records=log("c-configs", overtaken)))] == [
        "tasks-lost-to-compaction"
    ]


def test_what_is_too_much_for_one_command_line_is_repaired_by_several():
    offsets = [(f'["gone",{{"file":"{number:0100}"}}]'.encode(), b'{"position":2}') for number in range(9_000)]
    many = found("orphan-offsets", facts(offsets=offsets))
    assert sum(len(finding.evidence) for finding in many) == 9_000
    deleted = [word for finding in many for word in finding.repair if word.startswith("[")]
    assert sorted(deleted) == sorted(key.decode() for key, _ in offsets)
    assert max(len(command_text(finding.repair) or "") for finding in many) < 131_072  # as much as `sh -c` takes


def test_a_connector_whose_class_is_null_is_diagnosed():
    degraded = facts(worker=EXACTLY_ONCE, configs=[encode_connector("src", {"connector.class": None})])
    assert "tasks-not-fenced" not in {finding.code for finding in diagnose(degraded)}


def test_with_some_topics_only_the_rest_is_left_out():
    only_status = facts(topics={InternalTopic.STATUS: TOPICS[InternalTopic.STATUS]})
    only_status = replace(only_status, configs=None, offsets=None, group=group(urls=[]))
    assert [finding.code for finding in diagnose(only_status)] == ["stale-running"]


def test_information_alone_is_no_fault_and_the_worst_comes_first():
    assert not is_degraded(diagnose(DEGRADED["orphan-offsets"]))
    assert is_degraded(diagnose(DEGRADED["orphan-status"]))
    mixed = facts(
        configs=[(b"what", b"{}"), (b"connector-src", b"{")], offsets=[(b'["gone",{"a":1}]', b'{"position":2}')]
    )
    assert [finding.severity for finding in diagnose(mixed)] == [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert severity_counts(diagnose(mixed)) == {"error": 1, "warning": 1, "info": 1}
