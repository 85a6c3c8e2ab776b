"""The flushes of a source task's offsets, in every order they can come."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConnectError, DataError, TimedOutError
from kconnect.storage.offset_store import MemoryOffsetStore
from kconnect.storage.offset_writer import OffsetWriter
from kconnect.storage.record_log import MemoryTopic
from kconnect.storage.topic_offsets import TopicOffsetStore
from kit.record_logs import ScriptedLog

PARTITION, OFFSET = {"key": "key"}, {"key": 12}
KEY, VALUE = b'["ns",{"key":"key"}]', b'{"key":12}'
LOST = ConnectError("lost")


@pytest.fixture
def log():
    return ScriptedLog(MemoryTopic("offsets"))


@pytest.fixture
def writer(log):
    store = TopicOffsetStore(log)
    store.start()
    yield OffsetWriter(store, "ns")
    store.stop()


@pytest.fixture
def ends():
    return []


def flush(writer, ends):
    assert writer.begin_flush(1)
    return writer.do_flush(ends.append)


def test_a_flush_writes_what_was_offered(writer, log, ends):
    writer.offset(PARTITION, OFFSET)
    assert flush(writer, ends).result(0) is None
    assert ends == [None]
    assert log.sent == [(KEY, VALUE)]


def test_an_offset_null_is_written_as_a_tombstone(writer, log, ends):
    writer.offset(PARTITION, None)
    flush(writer, ends)
    assert ends == [None]
    assert log.sent == [(KEY, None)]


def test_a_partition_null_still_stands_under_its_connector(writer, log, ends):
    writer.offset(None, OFFSET)
    flush(writer, ends)
    assert ends == [None]
    assert log.sent == [(b'["ns",null]', VALUE)]


def test_without_offsets_there_is_nothing_to_flush(writer, log):
    assert not writer.begin_flush(1)
    assert not writer.begin_flush()
    assert log.sent == []


def test_offsets_of_a_failed_flush_are_flushed_by_the_next(writer, log, ends):
    log.problems = [LOST]
    writer.offset(PARTITION, OFFSET)
    flush(writer, ends)
    assert ends == [LOST]
    flush(writer, ends)
    assert ends == [LOST, None]
    assert log.sent == [(KEY, VALUE)] * 2
    assert not writer.begin_flush(1)


def test_newer_offsets_win_over_those_of_a_failed_flush(writer, log, ends):
    log.is_held = True
    writer.offset(PARTITION, OFFSET)
    writer.offset({"key": "other"}, OFFSET)
    flush(writer, ends)
    writer.offset({"key": "key"}, {"key": 13})
    log.end_next(LOST)
    log.end_next()
    log.is_held = False
    flush(writer, ends)
    assert log.sent[2:] == [(KEY, b'{"key":13}'), (b'["ns",{"key":"other"}]', VALUE)]


def test_while_a_flush_is_under_way_no_other_begins(writer, log, ends):
    log.is_held = True
    writer.offset(PARTITION, OFFSET)
    assert writer.begin_flush()
    for _ in range(2):
        with pytest.raises(TimedOutError, match="flush before of connector ns"):
            writer.begin_flush(0)
        with pytest.raises(ConnectError, match="being flushed already"):
            writer.begin_flush()
        if not log.sent:
            writer.do_flush(ends.append)
    log.end_next()
    assert not writer.begin_flush(1)


def test_a_begin_waits_for_the_flush_before(writer, log, ends):
    log.is_held = True
    writer.offset(PARTITION, OFFSET)
    flush(writer, ends)
    begun = []
    waiting = threading.Thread(target=lambda: begun.append(writer.begin_flush(10)))
    waiting.start()
    log.end_next()
    waiting.join(10)
    assert begun == [False]


def test_a_flush_cancelled_before_it_is_done_puts_its_offsets_back(writer, log, ends):
    writer.offset(PARTITION, OFFSET)
    assert writer.begin_flush(1)
    writer.cancel_flush()
    writer.cancel_flush()
    assert log.sent == []
    flush(writer, ends)
    assert log.sent == [(KEY, VALUE)]


@pytest.mark.parametrize("problem", [None, LOST])
def test_a_flush_cancelled_while_it_is_written_tells_nothing_of_its_end(writer, log, ends, problem):
    log.is_held = True
    writer.offset(PARTITION, OFFSET)
    flush(writer, ends)
    writer.cancel_flush()
    assert writer.begin_flush(0), "its offsets are back"
    log.end_next(problem)
    assert ends == []
    with pytest.raises(ConnectError, match="flushed already"):  # the late end has not ended the new flush
        writer.begin_flush()


def test_an_offset_that_can_be_no_record_fails_the_flush_until_it_is_replaced(writer, log, ends, caplog):
    writer.offset(PARTITION, {"a": [1]})
    writer.offset({"key": "fine"}, OFFSET)
    assert flush(writer, ends) is None
    assert isinstance(ends[0], DataError)
    assert "The offsets of connector ns cannot be written" in caplog.text
    assert log.sent == []
    writer.offset(PARTITION, OFFSET)
    writer.cancel_flush()
    flush(writer, ends)
    assert dict(log.sent) == {KEY: VALUE, b'["ns",{"key":"fine"}]': VALUE}


def test_a_flush_that_has_not_begun_can_not_be_done(writer):
    with pytest.raises(ConnectError, match="No flush of connector ns's offsets has begun"):
        writer.do_flush()


def test_partitions_equal_in_value_are_one(writer, log, ends):
    writer.offset({"a": 1, "b": 2}, {"at": 1})
    writer.offset({"b": 2, "a": 1}, {"at": 2})
    flush(writer, ends)
    assert log.sent == [(b'["ns",{"b":2,"a":1}]', b'{"at":2}')]


ACTIONS = st.lists(
    st.tuples(st.just("offset"), st.sampled_from("ab"), st.integers(0, 9))
    | st.tuples(st.sampled_from(["begin", "do", "cancel", "succeed", "fail"])),
    max_size=25,
)


@given(ACTIONS)
def test_no_order_of_calls_loses_an_offset(actions):
    """What a last flush leaves in the store is the last offset offered for each partition."""
    log = ScriptedLog(MemoryTopic("offsets"), is_held=True)
    store = TopicOffsetStore(log)
    store.start()
    writer, wanted, state = OffsetWriter(store, "ns"), {}, "idle"
    for action in actions:
        match action:
            case ("offset", name, number):
                writer.offset({"p": name}, {"at": number})
                wanted[f'["ns",{{"p":"{name}"}}]'.encode()] = f'{{"at":{number}}}'.encode()
            case ("begin",) if state == "idle":
                state = "begun" if writer.begin_flush() else "idle"
            case ("do",) if state == "begun":
                assert writer.do_flush() is not None
                state = "written"
            case ("cancel",):
                writer.cancel_flush()
                while log.open:  # what was on its way still arrives, before anything newer
                    log.end_next()
                state = "idle"
            case ("succeed" | "fail" as how,) if state == "written":
                while log.open:
                    log.end_next(None if how == "succeed" else LOST)
                state = "idle"
    writer.cancel_flush()
    log.is_held = False
    while log.open:
        log.end_next()
    if writer.begin_flush():
        assert writer.do_flush() is not None
    assert store.entries() == wanted
    store.stop()


def test_a_store_that_waits_is_as_good():
    store = MemoryOffsetStore()
    writer = OffsetWriter(store, "ns")
    writer.offset(PARTITION, OFFSET)
    assert writer.begin_flush()
    assert writer.do_flush() is not None
    assert store.entries() == {KEY: VALUE}
