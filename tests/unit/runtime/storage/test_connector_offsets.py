"""A connector's own offsets topic beside the worker's: who is read, who is written first, whose failure counts."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.runtime.storage.offset_store import ConnectorOffsetStore, MemoryOffsetStore
from kconnect.runtime.storage.offset_values import connector_partitions
from kconnect.runtime.storage.record_log import MemoryTopic
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.record_logs import ScriptedLog

A, B = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]'
LOST = ConnectError("lost")


class Pair:
    """A connector's store over two topics whose writes the test ends."""

    def __init__(self, *, has_own=True, has_worker=True):
        self.own = ScriptedLog(MemoryTopic("own"), is_held=True) if has_own else None
        self.worker = ScriptedLog(MemoryTopic("worker"), is_held=True) if has_worker else None
        own, worker = (
            None if log is None else TopicOffsetStore(log, write_timeout_s=0) for log in (self.own, self.worker)
        )
        if worker is not None:
            worker.start()
        self.store = ConnectorOffsetStore("c", own, worker)
        self.store.start()

    def values(self, *keys):
        return list(self.store.get(keys).values())


@pytest.fixture
def both():
    return Pair()


def test_there_has_to_be_a_store():
    with pytest.raises(ValueError, match="At least one"):
        ConnectorOffsetStore("c", None, None)


def test_a_failing_tombstone_of_the_workers_store_fails_the_flush(both):
    written = both.store.send({A: None, B: b"1"})
    assert not written.done()
    assert (both.worker.sent, both.own.sent) == ([(A, None)], [])
    both.worker.end_next(LOST)
    assert written.exception(0) is LOST
    assert both.own.sent == []


def test_a_flush_succeeds_with_writes_to_both_tombstones_at_the_worker_first(both):
    written = both.store.send({A: None, B: b"1"})
    both.worker.end_next()
    assert both.own.sent == [(A, None), (B, b"1")]
    both.own.end_next()
    assert not written.done()
    both.own.end_next()
    assert written.result(0) is None
    assert both.worker.sent == [(A, None), (B, b"1")]
    both.worker.end_next()
    assert both.values(A, B) == [None, b"1"]


@pytest.mark.parametrize("entries", [{A: b"1"}, {A: b"1", B: None}])
def test_a_flush_succeeds_when_the_copy_of_offsets_to_the_worker_fails(both, caplog, entries):
    written = both.store.send(entries)
    if None in entries.values():
        both.worker.end_next()
    for _ in entries:
        both.own.end_next()
    assert written.result(0) is None
    both.worker.end_next(LOST)
    assert "could not be copied to the worker's offsets: lost" in caplog.text
    assert both.values(A) == [b"1"]


def test_a_flush_fails_when_the_own_topic_fails_for_offsets_and_nothing_is_copied(both):
    written = both.store.send({A: b"1", B: b"2"})
    both.own.end_next(LOST)
    assert written.exception(0) is LOST
    both.own.end_next()
    assert both.worker.sent == []


def test_a_flush_fails_when_the_own_topic_fails_after_the_workers_tombstones(both):
    written = both.store.send({A: None, B: b"1"})
    both.worker.end_next()
    both.own.end_next(LOST)
    assert written.exception(0) is LOST
    assert both.worker.sent == [(A, None)]


def test_a_flush_succeeds_with_the_own_topic_only():
    alone = Pair(has_worker=False)
    written = alone.store.send({A: b"1", B: None})
    alone.own.end_next()
    alone.own.end_next()
    assert written.result(0) is None
    assert alone.values(A) == [b"1"]


def test_a_flush_fails_with_the_own_topic_only():
    alone = Pair(has_worker=False)
    written = alone.store.send({A: b"1"})
    alone.own.end_next(LOST)
    assert written.exception(0) is LOST


def test_a_flush_fails_when_the_own_topic_does_not_answer_after_the_workers_tombstones(both):
    both.worker.is_held = False
    with pytest.raises(TimedOutError, match=r"not written to topic own within 0 s \(offset.flush.timeout.ms\)"):
        both.store.set({A: None})
    assert both.worker.sent == [(A, None)]


def test_a_flush_fails_when_the_workers_store_does_not_answer_for_tombstones(both):
    with pytest.raises(TimedOutError):
        both.store.set({A: None})
    assert both.own.sent == []


def test_a_flush_succeeds_when_the_workers_store_does_not_answer_for_offsets(both):
    both.own.is_held = False
    both.store.set({A: b"1"})
    assert both.worker.open
    assert both.values(A) == [b"1"]


def test_reads_take_the_own_topic_before_the_workers_store():
    worker = MemoryOffsetStore()
    worker.set({A: b"worker", B: b"worker"})
    store = ConnectorOffsetStore("c", TopicOffsetStore(ScriptedLog(MemoryTopic("own"))), worker)
    store.start()
    assert store.get([A, B]) == {A: b"worker", B: b"worker"}
    store.set({A: b"own"})
    worker.set({A: b"worker"})
    assert store.get([A, B, b"x"]) == {A: b"own", B: b"worker", b"x": None}
    assert store.entries() == {A: b"own", B: b"worker"}
    store.stop()


def test_partitions_are_those_of_both_stores_each_once():
    worker = MemoryOffsetStore()
    worker.set({b'["c",{"a":1,"b":2}]': b"1", A: b"1"})
    store = ConnectorOffsetStore("c", TopicOffsetStore(ScriptedLog(MemoryTopic("own"))), worker)
    store.start()
    MemoryOffsetStore.set(worker, {b'["d",{}]': b"1"})
    store.set({B: b"1"})
    assert connector_partitions(store, "c") == [{"a": 1, "b": 2}, {"p": "a"}, {"p": "b"}]
    store.stop()


def test_the_workers_store_is_left_to_its_owner():
    class Reported(MemoryOffsetStore):
        calls: tuple[str, ...] = ()

        def start(self):
            self.calls += ("start",)

        def stop(self):
            self.calls += ("stop",)

    worker = Reported()
    for own in (None, TopicOffsetStore(ScriptedLog(MemoryTopic("own")))):
        store = ConnectorOffsetStore("c", own, worker)
        store.start()
        store.stop()
    assert worker.calls == ()
