"""Reads of source offsets: values, and their end when the task is closed."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConnectError, TimedOutError
from kconnect.storage.offset_reader import OffsetReader
from kconnect.storage.offset_store import MemoryOffsetStore
from kit.waiting import eventually

A = b'["c",{"p":"a"}]'


class SlowStore(MemoryOffsetStore):
    """Answers when the test lets it."""

    def __init__(self):
        super().__init__()
        self.asked, self.may_answer, self.problem = threading.Event(), threading.Event(), None

    def get(self, keys):
        self.asked.set()
        assert self.may_answer.wait(10)
        if self.problem is not None:
            raise self.problem
        return super().get(keys)


@pytest.fixture
def store():
    found = SlowStore()
    found.set(
        {A: b'{"at":1}', b'["c",null]': b'{"at":2}', b'["c",{"p":"bad"}]': b"[", b'["c",{"p":"n"}]': b'{"a":[1]}'}
    )
    yield found
    found.may_answer.set()
    eventually(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("offset-reader")],
        why="the reader's threads end",
    )


def test_offsets_are_given_in_the_order_asked_for(store):
    store.may_answer.set()
    reader = OffsetReader(store, "c")
    assert reader.offsets([{"p": "?"}, {"p": "a"}, None]) == [None, {"at": 1}, {"at": 2}]
    assert reader.offset({"p": "a"}) == {"at": 1}
    assert OffsetReader(store, "d").offset({"p": "a"}) is None


def test_what_can_not_be_read_or_asked_for_is_logged_and_left_out(store, caplog):
    store.may_answer.set()
    reader = OffsetReader(store, "c")
    assert reader.offsets([{"p": "bad"}, {"p": "n"}, {"p": {}}, {"p": "a"}]) == [None, None, None, {"at": 1}]
    assert caplog.text.count("of connector c cannot be read") == 2
    assert "can be no key of an offset" in caplog.text


def test_a_read_that_waits_ends_when_the_reader_is_closed(store):
    reader, problems = OffsetReader(store, "c"), []

    def read():
        with pytest.raises(ConnectError, match="reader was closed while it read offsets of connector c") as problem:
            reader.offset({"p": "a"})
        problems.append(problem.value)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: sum(thread.name == "offset-reader-c" for thread in threading.enumerate()) == 3)
    reader.close()
    for thread in threads:
        thread.join(10)
    assert [problem.hint for problem in problems] == [problems[0].hint] * 3
    assert "task.shutdown.graceful.timeout.ms" in problems[0].hint


def test_a_closed_reader_asks_nothing(store):
    reader = OffsetReader(store, "c")
    reader.close()
    reader.close()
    with pytest.raises(ConnectError, match="their reader is closed"):
        reader.offset({"p": "a"})
    assert not store.asked.is_set()


@pytest.mark.parametrize("problem", [TimedOutError("too long"), ConnectError("broken")])
def test_a_store_that_fails_is_told(store, problem):
    store.problem = problem
    store.may_answer.set()
    with pytest.raises(ConnectError, match=f"The offsets of connector c cannot be read: {problem}"):
        OffsetReader(store, "c").offset({"p": "a"})


def test_another_reader_goes_on_when_one_is_closed(store):
    other, found = OffsetReader(store, "c"), []
    waiting = threading.Thread(target=lambda: found.append(other.offset({"p": "a"})))
    waiting.start()
    OffsetReader(store, "c").close()
    store.may_answer.set()
    waiting.join(10)
    assert found == [{"at": 1}]
