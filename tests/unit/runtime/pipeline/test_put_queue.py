"""PutQueue: how much Java is given before it has put what came first."""

from __future__ import annotations

import pytest

from kconnect.java.plugins import JavaSinkTask
from kconnect.model import TopicPartition
from kconnect.runtime.pipeline.java_chain import TakenByJava
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.put_queue import PutBatch, PutQueue
from kconnect.runtime.pipeline.stages import RaiseAlways

PLACE = TopicPartition("t", 0)


def taken(size: int) -> PutBatch:
    batch = TakenByJava(JavaSinkTask(), RaiseAlways(), plugin_call)
    batch._batch.size = size
    return PutBatch(batch, {PLACE: 0}, {PLACE: 1})


@pytest.mark.parametrize(
    ("sizes", "is_ahead"),
    [
        ([], False),
        ([230_000], False),
        ([230_000, 230_000], False),
        ([230_000, 230_000, 230_000], True),
        ([64_000_000], False),
        ([64_000_000, 1_000], True),
        ([500_000, 600_000], True),
    ],
)
def test_two_small_batches_may_wait_in_java_or_one_large_one(sizes: list[int], is_ahead: bool) -> None:
    queue = PutQueue()
    for size in sizes:
        queue.add([taken(size)])
    assert queue.is_ahead is is_ahead
