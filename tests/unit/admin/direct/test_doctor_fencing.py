"""What the doctor finds of exactly-once: a leader that fences nobody, tasks that were not fenced."""

from __future__ import annotations

from dataclasses import replace

from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.config_topic import encode_commit, encode_connector, encode_task, encode_task_count
from kconnect.runtime.storage.status_topic import encode_status, status_key
from kit.doctor_facts import CONFIGS, EXACTLY_ONCE, NOW_MS, RUNNING, SINK, facts, found, group, log


class TestLeaderWrites:
    def test_a_write_followed_at_once_by_one_of_much_later_was_in_no_transaction(self):
        degraded = facts(worker=EXACTLY_ONCE, step_ms=120_000)
        (finding,) = found("no-leader-fencing", degraded)
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


def test_statuses_older_than_the_commit_are_of_the_tasks_before_it():
    again = [
        replace(record, offset=record.offset + 9, timestamp_ms=NOW_MS) for record in log("c-configs", CONFIGS[2:4])
    ]
    killed = facts(worker=EXACTLY_ONCE, records=[*log("c-configs", CONFIGS), *again], group=group(urls=[]))
    assert found("tasks-not-fenced", killed) == []


def test_sinks_and_sources_that_do_not_run_need_no_fence():
    sink = [encode_connector("src", SINK), encode_task(TaskId("src", 0), SINK), encode_commit("src", 1)]
    assert found("tasks-not-fenced", facts(worker=EXACTLY_ONCE, configs=sink)) == []
    failed = (status_key(TaskId("src", 0)), encode_status(replace(RUNNING, state=RunState.FAILED)))
    assert found("tasks-not-fenced", facts(worker=EXACTLY_ONCE, statuses=[failed])) == []
