"""Which offsets may be committed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import DataError
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.inflight import InFlight, partition_key

A, B = {"table": "a"}, {"table": "b"}


def offsets(found: list[ConnectorOffset]) -> dict[str, object]:
    return {offset.partition["table"]: (offset.offset or {}).get("row") for offset in found}


def test_nothing_is_committable_before_an_acknowledgement() -> None:
    inflight = InFlight()
    inflight.submit([(A, {"row": 1})])
    assert inflight.committable() == []
    assert inflight.waiting_units() == 1


def test_an_offset_waits_for_all_units_before_it_in_its_partition() -> None:
    inflight = InFlight()
    first, second = inflight.submit([(A, {"row": 1})]), inflight.submit([(A, {"row": 2})])
    second.ack()
    assert inflight.committable() == []
    first.ack()
    assert offsets(inflight.committable()) == {"a": 2}


def test_partitions_do_not_wait_for_each_other() -> None:
    inflight = InFlight()
    inflight.submit([(A, {"row": 1})])
    inflight.submit([(B, {"row": 7})]).ack()
    assert offsets(inflight.committable()) == {"b": 7}


def test_a_unit_over_two_partitions_settles_both_at_once() -> None:
    inflight = InFlight()
    unit = inflight.submit([(A, {"row": 1}), (B, {"row": 2})])
    assert inflight.committable() == []
    unit.ack()
    assert offsets(inflight.committable()) == {"a": 1, "b": 2}


def test_an_offset_is_given_once() -> None:
    inflight = InFlight()
    inflight.submit([(A, {"row": 1})]).ack()
    assert offsets(inflight.committable()) == {"a": 1}
    assert inflight.committable() == []


def test_partitions_written_in_another_order_of_fields_are_the_same() -> None:
    inflight = InFlight()
    inflight.submit([({"x": 1, "y": 2}, {"row": 1})]).ack()
    inflight.submit([({"y": 2, "x": 1}, {"row": 2})]).ack()
    assert [offset.offset for offset in inflight.committable()] == [{"row": 2}]


def test_an_offset_of_none_is_committed_as_none() -> None:
    inflight = InFlight()
    inflight.submit([(A, None)]).ack()
    assert [offset.offset for offset in inflight.committable()] == [None]


def test_a_nested_source_partition_is_refused_with_its_value() -> None:
    with pytest.raises(DataError, match=r"\{'a': \['nested'\]\}"):
        partition_key({"a": ["nested"]})


@given(st.lists(st.sets(st.sampled_from("abc"), min_size=1), max_size=30), st.randoms(use_true_random=False))
def test_no_offset_passes_an_unacknowledged_unit_and_none_is_held_back(
    units: list[set[str]], order: random.Random
) -> None:
    inflight = InFlight()
    submitted = [
        inflight.submit([({"table": name}, {"row": index}) for name in sorted(names)])
        for index, names in enumerate(units)
    ]
    pending = list(range(len(units)))
    order.shuffle(pending)
    committed: dict[str, int] = {}
    while pending:
        submitted[pending.pop()].ack()
        for name, row in offsets(inflight.committable()).items():
            committed[name] = row  # type: ignore[assignment]
        for name in "abc":
            mine = [index for index, names in enumerate(units) if name in names]
            blocked = next((index for index in mine if index in pending), len(units))
            free = [index for index in mine if index < blocked]
            assert committed.get(name) == (free[-1] if free else None)
    assert inflight.waiting_units() == 0


def test_an_offset_of_several_units_of_a_poll_waits_for_all_of_them_and_for_the_end_of_the_poll() -> None:
    inflight = InFlight()
    inflight.begin_poll()
    units = [inflight.submit([(A, {"row": row})]) for row in (1, 2, 2)]
    units[0].ack()
    units[1].ack()
    assert inflight.committable() == []
    inflight.end_poll()
    assert offsets(inflight.committable()) == {"a": 1}
    inflight.begin_poll()
    inflight.submit([(A, {"row": 2})])
    units[2].ack()
    assert offsets(inflight.committable()) == {"a": 2}
