"""When rows that wait are written: by their number, their size or their age, and of several tables the largest."""

from __future__ import annotations

import pyarrow as pa

from kconnect.api import TopicPartition
from kconnect.builtin.stores.flush_plan import FlushLimits, FlushPlan, due_plans

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**columns):
    return pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


def test_rows_are_due_by_their_number_their_size_or_their_age():
    plan = FlushPlan(FlushLimits(rows=3, bytes=1_000, seconds=10))
    assert not plan.is_due(0)
    plan.add(A, batch(a=[1]), 5, 6, now_s=100)
    plan.add(B, batch(a=[1]), 0, 1, now_s=104)
    assert (plan.is_due(109.9), plan.is_due(110), plan.due_in_s(104)) == (False, True, 6)
    plan.add(A, None, 6, 8, now_s=105)
    assert not plan.is_due(105)
    plan.add(B, batch(a=[1]), 1, 2, now_s=105)
    assert plan.is_due(105)
    (joined,) = plan.commits(joins_partitions=True)
    assert {at: (one.start, one.stop, one.rows) for at, one in joined.items()} == {A: (5, 8, 1), B: (0, 2, 2)}
    assert [list(commit) for commit in plan.commits(joins_partitions=False)] == [[A], [B]]
    plan.drop([A])
    assert (plan.waits(A), plan.waits(B)) == (False, True)
    plan.add(A, batch(a=list(range(200))), 8, 208, now_s=105)
    assert plan.bytes > 1_000


def test_the_largest_tables_are_written_until_the_rest_fits_into_memory():
    limits = FlushLimits(rows=1_000, bytes=100, seconds=10)
    plans = [FlushPlan(FlushLimits(rows=1_000, bytes=1_000, seconds=10)) for _ in range(4)]
    for plan, rows in zip(plans, (5, 9, 7, 0), strict=True):
        plan.add(A, batch(a=list(range(rows))), 0, rows, now_s=0)
    assert [plan.bytes for plan in plans] == [40, 72, 56, 0]
    assert due_plans(plans, limits, 1) == [plans[1]]
    assert due_plans(plans, limits, 11) == plans[:3]


def test_records_without_rows_wait_for_nothing():
    plan = FlushPlan(FlushLimits(rows=1, bytes=1, seconds=0))
    plan.add(A, None, 0, 5, now_s=0)
    plan.add(A, batch(a=[]), 5, 6, now_s=0)
    assert not plan.waits(A)
    assert plan.commits(joins_partitions=True) == []
