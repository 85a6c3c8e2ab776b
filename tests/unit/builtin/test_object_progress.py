"""Which objects are read, in which order, by which task, and when they are done: pure decisions."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConnectError
from kconnect.builtin.connectors.objects.object_progress import Place, Progress, partition_of
from kconnect.builtin.stores.file_store import Found


def found(path: str, etag: str = "1", size: int = 10, time_s: float = 0.0) -> Found:
    return Found(path, etag, size, time_s)


def progress(**more: Any) -> Progress:
    return Progress(**{"number": 0, "tasks": 1, "order": "name", "changed": "ignore", "min_age_s": 0.0, **more})


def taken(one: Progress) -> list[str]:
    places = []
    while (place := one.next()) is not None:
        places.append(place.path)
    return places


def test_each_object_falls_to_one_task_whoever_lists() -> None:
    objects = [found(f"b/{number}") for number in range(100)]
    shares = [[one.path for one in progress(number=number, tasks=3).mine(objects)] for number in range(3)]
    assert sorted(path for share in shares for path in share) == sorted(one.path for one in objects)
    assert all(20 < len(share) < 50 for share in shares)


@pytest.mark.parametrize(("order", "wanted"), [("name", ["a", "b", "c"]), ("time", ["c", "a", "b"])])
def test_new_objects_come_by_name_or_the_oldest_first(order: str, wanted: list[str]) -> None:
    one = progress(order=order)
    one.plan([found("b", time_s=3), found("a", time_s=2), found("c", time_s=1)], 10)
    assert taken(one) == wanted
    one.plan([found("b", time_s=3), found("a", time_s=2), found("c", time_s=1)], 10)
    assert taken(one) == []


def test_what_is_written_just_now_waits() -> None:
    one = progress(min_age_s=5.0)
    one.plan([found("a", time_s=6), found("b", time_s=4)], 10)
    assert taken(one) == ["b"]
    one.plan([found("a", time_s=6)], 11)
    assert taken(one) == ["a"]


def test_a_committed_offset_says_where_to_go_on_and_what_is_done() -> None:
    one = progress()
    one.learn({"a": Place("a", "1", 10, 4, 40).offset(), "b": Place("b", "1", 10, 9, done=True).offset(), "c": None})
    one.plan([found("a"), found("b"), found("c")], 0)
    assert one.next() == Place("a", "1", 10, 4, 40)
    assert one.next() == Place("c", "1", 10)
    assert one.next() is None
    assert [place.path for place in one.finished] == ["b"]


def test_an_object_is_finished_when_its_offset_is_committed_and_not_before() -> None:
    one = progress()
    one.plan([found("a")], 0)
    place = one.next()
    assert place is not None
    one.reached(Place("a", "1", 10, 9, done=True))
    one.plan([found("a")], 0)
    assert not one.finished
    one.committing([(partition_of("a"), Place("a", "1", 10, 9, done=True).offset())])
    assert not one.finished
    one.committed()
    assert [place.path for place in one.finished] == ["a"]
    one.finished.clear()
    one.gone("a")
    assert one.take_gone() == ["a"]
    assert one.take_gone() == []
    one.plan([found("a", "2")], 0)
    assert taken(one) == ["a"], "one of the same name is new"
    assert one.take_gone() == []


def _read_before(changed: str, *, done: bool = True, position: int = -1) -> Progress:
    one = progress(changed=changed)
    one.learn({"a": Place("a", "1", 10, 3, position, done).offset()})
    return one


def test_another_content_is_reported_once_and_not_read() -> None:
    one = _read_before("ignore")
    assert "a has changed since it was read up to row 3: 10 bytes, now 12" in one.plan([found("a", "2", 12)], 0)[0]
    assert one.plan([found("a", "2", 12)], 0) == []
    assert len(one.plan([found("a", "3", 12)], 0)) == 1
    assert taken(one) == []


def test_another_content_is_read_again_or_where_lines_were_appended_the_rest() -> None:
    one = _read_before("read")
    one.plan([found("a", "2", 12)], 0)
    assert one.next() == Place("a", "2", 12)
    one = _read_before("read", position=10)
    one.plan([found("a", "2", 12)], 0)
    assert one.next() == Place("a", "2", 12, 3, 10)


def test_another_content_fails_the_task_if_it_should_and_one_read_in_part_begins_again() -> None:
    with pytest.raises(ConnectError, match="a has changed"):
        _read_before("fail").plan([found("a", "2")], 0)
    one = _read_before("ignore", done=False)
    assert "It is read again from its first row" in one.plan([found("a", "2")], 0)[0]
    assert one.next() == Place("a", "2", 10)


def test_another_content_is_a_new_object_where_done_ones_go() -> None:
    one = progress(keeps=False)
    one.learn({"a": Place("a", "1", 10, 3, done=True).offset()})
    assert one.plan([found("a", "2", 12)], 0) == []
    assert one.next() == Place("a", "2", 12)


def test_after_a_failure_of_the_store_the_same_object_is_next() -> None:
    one = progress()
    one.plan([found("a"), found("b")], 0)
    one.next()
    one.postpone(Place("a", "1", 10, 5, 50))
    assert one.next() == Place("a", "1", 10, 5, 50)
