"""Writes of statuses that do not succeed at once, and records that say nothing."""

from __future__ import annotations

import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.clock import ManualClock
from kconnect.errors import ConnectError, NotAllowedError, RetriableError, TimedOutError
from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    TopicUse,
    decode_record,
    encode_status,
    encode_topic_use,
    status_key,
)
from kit.pace import ample_s
from kit.record_logs import ScriptedLog
from kit.waiting import eventually

TASK = TaskId("conn", 0)
USE = TopicUse("foo", "conn", 0, 1)
AGAIN, NEVER = RetriableError("try again"), ConnectError("too large")


def status(state, worker="w1", generation=0):
    return StoredStatus(state, worker, generation)


RUNNING, UNASSIGNED, FAILED = status(RunState.RUNNING), status(RunState.UNASSIGNED), status(RunState.FAILED)


@pytest.fixture
def topic():
    return MemoryTopic("statuses")


@pytest.fixture
def make(topic):
    stores = []

    def start(problems=(), *, is_held=False, clock=None):
        log = ScriptedLog(topic, problems, is_held=is_held)
        store = TopicStatusStore(log, clock or ManualClock())
        stores.append(store)
        store.start()
        return log, store

    yield start
    for store in stores:
        store.stop()


def test_a_state_that_was_put_is_not_seen_before_it_is_read_back(make):
    log, store = make(is_held=True)
    store.put("conn", RUNNING)
    store.put(TASK, RUNNING)
    store.put_topic(USE)
    assert (store.status("conn"), store.status(TASK), store.topics("conn")) == (None, None, {})
    for _ in range(3):
        log.end_next()
    assert (store.status("conn"), store.status(TASK), store.topics("conn")) == (RUNNING, RUNNING, {"foo": USE})


@pytest.mark.parametrize("how", ["put", "put_safe"])
def test_a_state_whose_write_may_be_tried_again_is_written_again(make, how):
    log, store = make([AGAIN, AGAIN])
    getattr(store, how)("conn", RUNNING)
    store.flush(10)
    assert log.sent == [(status_key("conn"), encode_status(RUNNING))] * 3
    assert store.status("conn") == RUNNING


def test_attempts_come_with_back_off_up_to_its_cap(make):
    clock = ManualClock()
    _, store = make([AGAIN] * 8, clock=clock)
    store.put(TASK, RUNNING)
    store.flush(10)
    longest = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0]
    assert len(clock.waits) == len(longest)
    assert all(0.79 * most <= waited <= 1.21 * most for waited, most in zip(clock.waits, longest, strict=True))


def test_a_state_that_can_not_be_written_is_logged_and_left(make, caplog):
    log, store = make([NEVER])
    store.put("conn", RUNNING)
    store.flush(10)
    assert len(log.sent) == 1
    assert store.status("conn") is None
    assert "status-connector-conn" in caplog.text
    assert "too large" in caplog.text


def test_a_topic_whose_write_may_be_tried_again_is_written_again(make):
    log, store = make([AGAIN])
    store.put_topic(USE)
    store.flush(10)
    assert log.sent == [(b"status-topic-foo:connector-conn", encode_topic_use(USE))] * 2
    assert store.topics("conn") == {"foo": USE}


def test_a_topic_that_can_not_be_written_is_logged_and_left(make, caplog):
    log, store = make([NEVER])
    store.put_topic(USE)
    store.flush(10)
    assert len(log.sent) == 1
    assert store.topics("conn") == {}
    assert "too large" in caplog.text


def test_a_second_topic_stands_beside_the_first_and_a_newer_use_covers_the_older(make):
    _, store = make()
    newer, other = TopicUse("foo", "conn", 1, 9), TopicUse("bar", "conn", 0, 2)
    for use in (USE, other, newer):
        store.put_topic(use)
    assert store.topics("conn") == {"foo": newer, "bar": other}


def test_a_safe_put_of_a_stale_worker_writes_nothing(make, topic):
    log, store = make()
    newer = status(RunState.RUNNING, "w2", 1)
    topic.append(status_key("conn"), encode_status(newer))
    store.put_safe("conn", UNASSIGNED)
    assert log.sent == []
    assert store.status("conn") == newer


def test_a_safe_put_without_anything_before_is_written(make):
    log, store = make()
    store.put_safe("conn", FAILED)
    assert log.sent == [(status_key("conn"), encode_status(FAILED))]


def test_a_safe_put_covers_what_the_same_worker_has_put(make, topic):
    _, store = make()
    topic.append(status_key("conn"), encode_status(status(RunState.RUNNING, "w1", 1)))
    store.put_safe("conn", status(RunState.UNASSIGNED, "w1", 1))
    assert store.status("conn") == status(RunState.UNASSIGNED, "w1", 1)


def test_a_plain_put_of_who_is_in_no_group_is_written_whatever_stands_there(make, topic):
    log, store = make()
    topic.append(status_key("conn"), encode_status(status(RunState.RUNNING, "w2", 1)))
    store.put("conn", UNASSIGNED)
    assert log.sent == [(status_key("conn"), encode_status(UNASSIGNED))]
    assert store.last("conn") == UNASSIGNED


def test_what_is_put_on_two_threads_gets_into_the_topic_in_the_order_in_which_it_was_decided(topic):
    """A thread may stand still between its decision and the handover: nothing of another overtakes it there."""
    log = PausingLog(topic)
    store = TopicStatusStore(log, ManualClock())
    store.start()
    first = threading.Thread(target=store.put, args=("conn", UNASSIGNED))
    first.start()
    assert log.is_paused.wait(5)
    second = threading.Thread(target=store.put, args=("conn", RUNNING))
    second.start()
    second.join(0.1)
    log.may_go_on.set()
    for thread in (first, second):
        thread.join(5)
    assert [record.value for record in topic.records] == [encode_status(UNASSIGNED), encode_status(RUNNING)]
    store.stop()


def test_a_write_that_is_made_again_does_not_overtake_what_is_put_meanwhile(topic):
    log, clock = PausingLog(topic, [AGAIN], pauses_at=2), ManualClock()
    store = TopicStatusStore(log, clock, retries_alone=False)
    store.start()
    store.put("conn", UNASSIGNED)
    clock.advance(10)
    retrying = threading.Thread(target=store.retry_due)
    retrying.start()
    assert log.is_paused.wait(5)
    putting = threading.Thread(target=store.put, args=("conn", RUNNING))
    putting.start()
    putting.join(0.1)
    log.may_go_on.set()
    for thread in (retrying, putting):
        thread.join(5)
    assert topic.records[-1].value == encode_status(RUNNING)
    store.stop()


class PausingLog(ScriptedLog):
    """Its n-th write stands still before it is handed over, as a thread may that the machine takes away."""

    def __init__(self, topic, problems=(), *, pauses_at=1):
        super().__init__(topic, problems)
        self.is_paused, self.may_go_on = threading.Event(), threading.Event()
        self._pauses_at = pauses_at

    def send(self, key, value):
        if len(self.sent) + 1 == self._pauses_at and not self.is_paused.is_set():
            self.is_paused.set()
            self.may_go_on.wait(5)
        return super().send(key, value)


def test_a_connector_counts_from_its_put_and_until_its_tombstone_is_read(make, topic):
    _, store = make(is_held=True)
    store.put("conn", RUNNING)
    topic.append(status_key(TASK), encode_status(RUNNING))
    assert store.connectors() == {"conn"}
    assert store.tasks("conn") == {TASK: RUNNING}
    topic.append(status_key("conn"), None)
    assert (store.connectors(), store.tasks("conn")) == (set(), {})


def test_a_write_that_fails_after_a_newer_one_of_its_key_is_not_made_again(make):
    log, store = make(is_held=True)
    store.put("conn", RUNNING)
    store.put("conn", FAILED)
    log.end_next(index=1)
    log.is_held = False
    log.end_next(AGAIN)
    store.flush(10)
    assert [value for _, value in log.sent] == [encode_status(RUNNING), encode_status(FAILED)]
    assert store.status("conn") == FAILED


def test_a_topic_that_was_forgotten_meanwhile_is_not_written_again(make):
    log, store = make(is_held=True)
    store.put_topic(USE)
    store.delete_topic("conn", "foo")
    log.end_next(index=1)
    log.is_held = False
    log.end_next(AGAIN)
    store.flush(10)
    assert store.topics("conn") == {}
    assert len(log.sent) == 2


def test_a_write_of_a_connector_deleted_meanwhile_is_not_made_again(make, topic):
    log, store = make(is_held=True)
    store.put(TASK, RUNNING)
    topic.append(status_key("conn"), encode_status(RUNNING))
    topic.append(status_key("conn"), None)
    log.is_held = False
    log.end_next(AGAIN)
    store.flush(10)
    assert store.tasks("conn") == {}
    assert len(log.sent) == 1


def test_flush_names_what_it_waited_for(make):
    _, store = make(is_held=True)
    store.put("conn", RUNNING)
    with pytest.raises(TimedOutError, match="1 status not written to topic statuses within 0"):
        store.flush(0)


def test_stop_ends_the_attempts_and_tells_what_is_lost(make, caplog):
    class Still(ManualClock):
        def wait(self, event, timeout_s):
            return event.wait()  # until the store stops

    log, store = make([AGAIN], clock=Still())
    store.put("conn", RUNNING)
    store.stop()
    assert "1 status not written to topic statuses" in caplog.text
    assert len(log.sent) == 1
    store.flush(0)


def test_a_stop_that_comes_before_the_retrying_thread_has_begun_to_wait_ends_it(topic, monkeypatch):
    is_clearing, is_set = threading.Event(), threading.Event()

    class Held(threading.Event):
        def clear(self):
            is_clearing.set()
            is_set.wait()
            super().clear()

        def set(self):
            super().set()
            is_set.set()

    log = ScriptedLog(topic, ())
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Event", Held)
        store = TopicStatusStore(log, ManualClock())
    store.start()
    assert is_clearing.wait(ample_s(10))
    store.stop()
    assert "status-store-retry-statuses" not in {thread.name for thread in threading.enumerate()}


def test_records_that_say_nothing_are_logged_with_their_place_and_skipped(make, topic, caplog):
    caplog.set_level(logging.WARNING)
    _, store = make()
    topic.append(b"status-connector-conn", b"invalid")
    topic.append(None, b"x")
    topic.append(b"status-unknown", b"x")
    assert store.connectors() == set()
    assert "statuses-0@0 (key b'status-connector-conn')" in caplog.text
    assert "statuses-0@2 (key b'status-unknown')" in caplog.text


SUBJECTS = ["conn", TASK, TaskId("conn", 1)]
PUTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["put", "put_safe"]),
        st.sampled_from(SUBJECTS),
        st.sampled_from([RunState.RUNNING, RunState.UNASSIGNED, RunState.DESTROYED]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=20,
)


@given(PUTS)
def test_two_workers_that_read_late_agree_in_the_end_and_a_late_one_too(puts):
    """Each decides on what it has read; what is in the topic decides what all see."""
    topic = MemoryTopic("statuses")
    logs = [ScriptedLog(topic), ScriptedLog(topic)]
    stores = [TopicStatusStore(log, ManualClock()) for log in logs]
    for store in stores:
        store.start()
    with topic.held_back():
        for number, how, subject, state, generation, reads in puts:
            log, store, new = logs[number], stores[number], StoredStatus(state, f"w{number}", generation)
            before, seen = len(topic.records), store.status(subject)
            getattr(store, how)(subject, new)
            wrote = len(topic.records) - before
            assert wrote == 1 or (how == "put_safe" and seen is not None and seen.generation > generation)
            if how == "put_safe" and seen is not None and seen.worker_id != new.worker_id:
                assert wrote == (seen.generation <= generation)
            if reads:
                log.read_to_end(0)
    late = TopicStatusStore(MemoryRecordLog(topic), ManualClock())
    late.start()
    folded = StatusCache()
    for record in topic.records:
        folded.apply(decode_record(record.key, record.value))
    for store in (*stores, late):
        assert [store.status(subject) for subject in SUBJECTS] == [folded.status(subject) for subject in SUBJECTS]
        assert store.tasks("conn") == folded.tasks("conn")
        store.stop()


def test_states_that_may_not_be_written_are_said_once_hold_nobody_up_and_are_written_once_they_may(make, caplog):
    denied = NotAllowedError("User:w lacks WRITE on topic statuses.", hint="Grant it: kafka-acls ..")
    gate = threading.Event()

    class Gated(ManualClock):
        def wait(self, event, timeout_s):
            gate.wait(ample_s(10))
            return super().wait(event, timeout_s)

    _, store = make([denied, denied], clock=Gated())
    store.put("conn", RUNNING)
    store.put(TASK, RUNNING)
    store.flush(0.001)
    assert store.troubles() == [
        "Other workers are not informed of its states: User:w lacks WRITE on topic statuses. Grant it: kafka-acls"
    ]
    assert caplog.text.count("Statuses are not written to topic statuses: User:w lacks WRITE") == 1
    gate.set()
    eventually(lambda: store.status("conn") == store.status(TASK) == RUNNING, ample_s(10), "both are written")
    assert store.troubles() == []
