"""The history of a connector, from what Java recorded and from records of our own codecs."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.history.connector_history import (
    ChangeKind,
    Earlier,
    config_history,
    history_to_json,
    offset_history,
    status_history,
    step_to_json,
)
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.logs.redaction import HIDDEN
from kconnect.model import LogRecord, RunState, TargetState, TaskId
from kconnect.runtime.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_target_state,
    encode_task,
    encode_task_count,
    tombstone_of_connector,
)
from kconnect.runtime.storage.status_topic import StoredStatus, encode_status, status_key
from kit.golden import recorded_topic


def versions_of(records, connector):
    return list(config_history(records, connector).versions)


def records(*entries: tuple[bytes, bytes | None], first: int = 0) -> list[LogRecord]:
    return [LogRecord("configs", 0, first + at, key, value, 1000 * at) for at, (key, value) in enumerate(entries)]


def kinds(versions) -> list[str]:
    return [str(version.kind) for version in versions]


def test_what_java_recorded_of_a_source_is_reported_step_by_step():
    reported = {version.offset: version for version in versions_of(recorded_topic("configs"), "src")}
    by_offset = {offset: str(version.kind) for offset, version in reported.items()}
    assert by_offset[1] == "created"
    assert by_offset[8] == "reconfigured"
    assert by_offset[11] == "rewritten"
    assert by_offset[18] == "paused"
    assert by_offset[20] == "resumed"
    assert by_offset[23] == "stopped"
    assert by_offset[30] == "restart-requested"
    assert by_offset[90] == "deleted"
    assert by_offset[94] == "created"
    assert reported[3].sentence == "tasks 0 -> 1"
    assert reported[10].sentence == "1 task rewritten"
    assert reported[22].sentence == "tasks 1 -> 0"
    assert "only" not in reported[30].sentence
    assert "as far as FAILED" in reported[31].sentence
    assert 9 not in reported, "a task's config alone is no version: it counts with its commit"


def test_the_number_of_tasks_is_followed_up_and_down():
    reported = [
        version.sentence
        for version in versions_of(recorded_topic("configs"), "snk")
        if version.kind is ChangeKind.TASKS
    ]
    assert reported == ["tasks 0 -> 2", "tasks 2 -> 3", "tasks 3 -> 1", "tasks 1 -> 0", "tasks 0 -> 1"]


def test_other_connectors_are_no_part_of_it():
    assert versions_of(recorded_topic("configs"), "no-such") == []
    assert {version.offset for version in versions_of(recorded_topic("configs"), "sep")} == {73, 75, 76, 77, 78, 79}


def test_a_name_that_begins_like_another_one_is_distinguished():
    log = records(encode_connector("a", {"x": "1"}), encode_connector("a-0", {"x": "2"}), encode_commit("a-0", 0))
    assert [version.offset for version in versions_of(log, "a")] == [0]


def test_a_change_has_each_setting_before_and_after_with_secrets_masked():
    log = records(
        encode_connector("db", {"user": "a", "db.password": "old-secret", "gone": "x"}),
        encode_connector("db", {"user": "b", "db.password": "new-secret"}),
    )
    document = history_to_json(config_history(log, "db"))
    assert document["versions"][1]["settings"] == [
        {"key": "db.password", "old": HIDDEN, "new": HIDDEN},
        {"key": "gone", "old": "x", "new": None},
        {"key": "user", "old": "a", "new": "b"},
    ]
    assert "secret" not in json.dumps(document)
    revealed = history_to_json(config_history(log, "db"), SecretMasks(reveal=True))
    assert revealed["versions"][1]["settings"][0] == {"key": "db.password", "old": "old-secret", "new": "new-secret"}


def test_nobody_is_named_for_a_change_of_configs():
    document = history_to_json(config_history(recorded_topic("configs"), "src"))
    assert {version["who"] for version in document["versions"]} == {None}


def test_configs_of_tasks_are_compared_from_set_to_set():
    log = records(
        encode_connector("x", {}),
        encode_task(TaskId("x", 0), {"a": "1", "token": "t1"}),
        encode_commit("x", 1),
        encode_task(TaskId("x", 0), {"a": "2", "token": "t2"}),
        encode_task(TaskId("x", 1), {"a": "1"}),
        encode_commit("x", 2),
    )
    tasks = history_to_json(config_history(log, "x"))["versions"][-1]["tasks"]
    assert tasks["0"] == [{"key": "a", "old": "1", "new": "2"}, {"key": "token", "old": HIDDEN, "new": HIDDEN}]
    assert tasks["1"] == [{"key": "a", "old": None, "new": "1"}]


def test_a_set_with_a_task_missing_is_called_inconsistent():
    log = records(encode_connector("x", {}), encode_task(TaskId("x", 1), {}), encode_commit("x", 2))
    assert "inconsistent" in versions_of(log, "x")[-1].sentence


def test_of_the_records_that_cannot_be_understood_only_its_own_are_reported():
    log = records(
        encode_connector("orders", {}),
        (b"commit-orders-eu", b"{"),
        (b"target-state-orders-eu", b"{"),
        (b"task-orders-eu-0", b"{"),
        (b"task-orders-1", b"{"),
        (b"commit-orders", b"{"),
    )
    assert [version.offset for version in versions_of(log, "orders")] == [0, 4, 5]
    of_another = records(encode_connector("orders-1", {}), (b"task-orders-1", b"{"))
    assert [version.offset for version in versions_of(of_another, "orders-1")] == [0]


def test_fences_and_records_that_can_not_be_understood_are_versions():
    log = records(encode_connector("x", {}), encode_task_count("x", 2), (b"connector-x", b"{"), (b"task-x-0", b"[]"))
    assert kinds(versions_of(log, "x")) == ["created", "fenced", "malformed", "malformed"]


def test_a_removed_target_state_is_reported():
    log = records(encode_connector("x", {}), encode_target_state("x", TargetState.PAUSED), (b"target-state-x", None))
    assert kinds(versions_of(log, "x")) == ["created", "paused", "state-removed"]


def test_a_history_from_the_first_offset_on_is_complete():
    assert config_history(records(encode_connector("x", {})), "x").earlier is Earlier.NONE


def test_offsets_without_a_record_before_the_first_version_may_have_been_earlier_ones():
    found = config_history(records(encode_connector("x", {}), first=7), "x")
    assert found.earlier is Earlier.MAYBE
    assert "compaction" in found.versions[0].sentence


def test_tasks_older_than_the_first_config_prove_that_earlier_versions_are_gone():
    log = records(encode_task(TaskId("x", 0), {}), encode_commit("x", 1), encode_connector("x", {}), first=3)
    assert config_history(log, "x").earlier is Earlier.LOST


def test_a_connector_made_anew_begins_without_the_tasks_it_had():
    log = records(
        encode_connector("x", {}),
        encode_task(TaskId("x", 0), {"a": "1"}),
        encode_commit("x", 1),
        tombstone_of_connector("x"),
        encode_connector("x", {}),
        encode_task(TaskId("x", 0), {"a": "1"}),
        encode_commit("x", 1),
    )
    reported = versions_of(log, "x")
    assert kinds(reported) == ["created", "tasks", "deleted", "created", "tasks"]
    assert reported[-1].sentence == "tasks 0 -> 1"


def test_how_many_tasks_there_were_before_is_not_known_where_earlier_commits_may_be_gone():
    config, task, commit = encode_connector("x", {}), encode_task(TaskId("x", 0), {}), encode_commit("x", 1)
    assert versions_of(records(config, task, commit), "x")[-1].sentence == "tasks 0 -> 1"
    assert versions_of(records(config, task, commit, first=9), "x")[-1].sentence == "tasks ? -> 1"
    behind_a_gap = [*records(config), *records(task, commit, first=9)]
    assert versions_of(behind_a_gap, "x")[-1].sentence == "tasks ? -> 1"


def test_the_mark_of_a_transaction_takes_no_commit_away():
    written = [encode_connector("x", {}), encode_task(TaskId("x", 0), {}), encode_commit("x", 1)]
    marked = [replace(record, offset=offset) for record, offset in zip(records(*written), (1, 3, 4), strict=True)]
    assert versions_of(marked, "x")[-1].sentence == "tasks 0 -> 1"
    of_a_larger_set = [*records(written[0], first=1), *records(encode_task(TaskId("x", 1), {}), first=3)]
    larger_before = [*of_a_larger_set, *records(*written[1:], first=5)]
    assert versions_of(larger_before, "x")[-1].sentence == "tasks ? -> 1"


def test_where_compaction_may_have_taken_configs_of_tasks_their_set_is_not_surely_inconsistent():
    log = records(encode_connector("x", {}), encode_task(TaskId("x", 1), {}), encode_commit("x", 2), first=9)
    assert versions_of(log, "x")[-1].sentence.endswith("inconsistent, or compaction has removed them")


def test_a_commit_of_a_deleted_connector_counts_no_tasks():
    task, commit = encode_task(TaskId("x", 0), {"a": "1"}), encode_commit("x", 1)
    created = encode_connector("x", {})
    reported = versions_of(records(created, tombstone_of_connector("x"), task, commit, created, task, commit), "x")
    assert [version.offset for version in reported] == [0, 1, 4, 6]
    assert reported[-1].sentence == "tasks 0 -> 1"


KEYS = st.sampled_from(
    [
        b"connector-x",
        b"task-x-0",
        b"task-x-1",
        b"commit-x",
        b"target-state-x",
        b"restart-connector-x",
        b"tasks-fencing-x",
    ]
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.sampled_from(
        [b'{"properties":{"a":"1"}}', b'{"tasks":1}', b'{"tasks":2}', b'{"state":"PAUSED"}', b'{"task-count":1}']
    ),
)


@given(st.lists(st.tuples(st.one_of(KEYS, st.binary(max_size=12)), VALUES), max_size=25))
def test_any_records_have_a_history(entries):
    log = records(*entries)
    found = config_history(log, "x")
    offsets = [version.offset for version in found.versions]
    assert offsets == sorted(set(offsets))
    assert json.loads(json.dumps(history_to_json(found)))["connector"] == "x"
    assert status_history(log, "x") == []
    assert offset_history(log, "x") == []


def test_statuses_that_java_recorded_name_worker_and_generation():
    steps = [step_to_json(step) for step in status_history(recorded_topic("status"), "src")]
    assert [step["timestamp"] for step in steps] == sorted(step["timestamp"] for step in steps)
    first = next(step for step in steps if step["subject"] == "connector")
    assert (first["before"], first["state"]) == (None, "RUNNING")
    assert first["who"]["worker_id"].count(":") == 1
    assert isinstance(first["who"]["generation"], int)
    gone = [step for step in steps if step["state"] is None]
    assert gone
    assert {step["who"] for step in gone} == {None}, "a tombstone tells nothing of who wrote it"
    assert any(step["subject"].startswith("topic ") for step in steps)


def test_within_a_partition_the_order_of_the_records_counts_whatever_the_clocks_of_the_workers_say():
    running, failed = (encode_status(StoredStatus(state, "w:1", 3)) for state in (RunState.RUNNING, RunState.FAILED))
    log = [
        LogRecord("status", 0, 0, status_key("x"), running, 5000),
        LogRecord("status", 0, 1, status_key("x"), failed, 3000),
        LogRecord("status", 1, 0, status_key(TaskId("x", 0)), running, 4000),
    ]
    assert [(step.subject, step.before, step.state) for step in status_history(log, "x")] == [
        ("task 0", None, "RUNNING"),
        ("connector", None, "RUNNING"),
        ("connector", "RUNNING", "FAILED"),
    ]
    key = b'["x",{"a":1}]'
    offsets = [LogRecord("offsets", 0, 0, key, b'{"p":1}', 9), LogRecord("offsets", 0, 1, key, b'{"p":2}', 5)]
    assert [step.value for step in offset_history(offsets, "x")] == [{"p": 1}, {"p": 2}]


def test_offsets_that_java_recorded_follow_each_other():
    steps = offset_history(recorded_topic("offsets"), "src")
    steps = [step for step in steps if step.source_partition == steps[0].source_partition]
    assert len(steps) > 3
    assert steps[0].before is None
    assert [step.before for step in steps[1:]] == [step.value for step in steps[:-1]]
    assert any(step.value is None for step in steps), "a reset is a step"
    assert set(steps[0].source_partition) == {"filename"}


def test_offsets_under_two_spellings_of_a_partition_are_one_history():
    log = records(
        (b'["x",{"a":1,"b":2}]', b'{"p":1}'), (b'["x",{"b":2,"a":1}]', b'{"p":2}'), (b'["x",{"a":1,"b":2}]', b"no")
    )
    assert [(step.before, step.value) for step in offset_history(log, "x")] == [
        (None, {"p": 1}),
        ({"p": 1}, {"p": 2}),
        ({"p": 2}, "no"),
    ]
