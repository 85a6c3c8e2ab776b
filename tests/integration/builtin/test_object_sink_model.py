"""ObjectSink under random kills, commits and limits: each record is in exactly one object, whatever happened before."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import SinkRecord
from kconnect.testing import MemoryLog, SinkHarness
from kit.examples import examples
from kit.waiting import eventually

HOUR_MS = 3_600_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 7)),
        st.tuples(st.just("commit"), st.just(0)),
        st.tuples(st.just("kill"), st.integers(1, 5)),
    ),
    min_size=1,
    max_size=14,
)


def harness(url: str, log: MemoryLog, rows: int, path: str, flush_ms: int = 60_000) -> SinkHarness:
    config = {"object.url": url, "topics": "t", "object.path": path}
    return SinkHarness("ObjectSink", {**config, "flush.rows": str(rows), "flush.ms": str(flush_ms)}, log=log)


def numbers_in(url: str) -> Counter[int]:
    store = fsspec.filesystem("memory")
    paths = store.find(url.removeprefix("memory:/"))
    return Counter(json.loads(line)["n"] for path in paths for line in store.cat_file(path).splitlines())


@examples(30)
@given(steps=STEPS, rows=st.integers(1, 6), path=st.sampled_from(["", "x", "h=${date:%H}", "${topic}/${partition}"]))
def test_each_record_is_in_one_object(steps: list[tuple[str, int]], rows: int, path: str) -> None:
    url, log = f"memory://{uuid.uuid4().hex}", MemoryLog()
    count, committed = 0, {}
    sink = harness(url, log, rows, path).start()
    for step, number in steps:
        if step == "put":
            times = [(count + n) * HOUR_MS // 3 for n in range(number)]
            sink.put_records(
                [
                    SinkRecord("t", 0, None, None, None, {"n": count + n}, count + n, timestamp=time)
                    for n, time in enumerate(times)
                ]
            )
            count += number
        elif step == "commit":
            committed = sink.commit() or committed
        else:
            sink.crash()
            sink = harness(url, log, number, path)
            sink.committed.update(committed)
            sink.start()
            sink.put_records([])
    sink.crash()
    sink = harness(url, log, rows, path, flush_ms=1)
    sink.committed.update(committed)
    sink.start()

    def all_written() -> bool:
        sink.put_records([])
        sink.task.put([])
        return not sink.task._units

    eventually(all_written, 5, "the rest is written")
    sink.crash()
    assert numbers_in(url) == Counter(range(count))
    fsspec.filesystem("memory").rm(url.removeprefix("memory:/"), recursive=True) if count else None


def records(first: int, count: int) -> list[SinkRecord]:
    return [SinkRecord("t", 0, None, None, None, {"n": n}, n, timestamp=n) for n in range(first, first + count)]


def test_a_task_that_was_frozen_while_another_took_over_doubles_nothing() -> None:
    url, log = f"memory://{uuid.uuid4().hex}", MemoryLog()
    frozen = harness(url, log, 100, "${topic}/h=${date:%H}", flush_ms=1000).start()
    frozen.put_records(records(0, 5))
    owner = harness(url, log, 2, "${topic}/h=${date:%H}").start()
    owner.deliver()
    owner.put_records(records(5, 4))
    assert numbers_in(url) == Counter(range(8)), "it keeps the last"
    frozen.task.now_s = lambda: time.monotonic() + 60
    frozen.put_records(records(9, 1))
    assert numbers_in(url) == Counter(range(8)), "its own unit is late, and what the other wrote is seen"
    assert set(frozen.commit().values()) == {0}, "nothing of its own is done"
    frozen.deliver()
    assert numbers_in(url) == Counter(range(8)), "the same objects again"
    owner.deliver()
    assert numbers_in(url) == Counter(range(10))
    owner.crash()
    frozen.crash()


@pytest.mark.parametrize("rows", [4, 100], ids=["full", "late"])
def test_a_task_that_is_frozen_in_put_doubles_nothing(rows: int) -> None:
    """It had looked what others wrote, and was frozen before it wrote."""
    url, log = f"memory://{uuid.uuid4().hex}", MemoryLog()
    clock = [0.0]
    frozen = harness(url, log, rows, "${topic}/h=${date:%H}", flush_ms=1000)
    frozen.start().task.now_s = lambda: clock[0]
    owner = harness(url, log, 2, "${topic}/h=${date:%H}").start()
    encode, frozen_for_s = frozen.task._encoder.piece, [60.0]

    def slowly(found: list[SinkRecord]) -> Any:
        if frozen_for_s:
            owner.deliver()
            clock[0] += frozen_for_s.pop()
        return encode(found)

    frozen.task._encoder.piece = slowly
    frozen.task.put([])
    frozen.put_records(records(0, 5))
    assert numbers_in(url) == Counter(range(4)), "what the other wrote is seen"
    assert set(frozen.commit().values()) == {0}, "nothing of its own is done"
    frozen.deliver()
    assert numbers_in(url) == Counter(range(4)), "the same objects again"
    owner.put_records(records(5, 1))
    assert numbers_in(url) == Counter(range(6))
    owner.crash()
    frozen.crash()


def test_a_task_that_was_frozen_with_nothing_kept_doubles_nothing() -> None:
    """Rows of it come that it had fetched before."""
    url, log = f"memory://{uuid.uuid4().hex}", MemoryLog()
    frozen = harness(url, log, 2, "").start()
    frozen.put_records(records(0, 2))
    owner = harness(url, log, 3, "").start()
    owner.deliver()
    owner.put_records(records(2, 3))
    assert numbers_in(url) == Counter(range(5))
    frozen.task.now_s = lambda: time.monotonic() + 60
    frozen.task.put(records(2, 2))
    assert numbers_in(url) == Counter(range(5))
    frozen.task.put(records(4, 1))
    assert numbers_in(url) == Counter(range(5)), "the same object again"
    owner.crash()
    frozen.crash()
