"""Where a sink is moved to by a time, an end or a shift, and which of its partitions. No broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.offsets.sink_targets import Chosen, ShiftBy, offsets_at, sink_offsets_at
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.model import AtOffset, AtTime, ConnectorInfo, ConnectorType, Edge, TopicPartition

THERE = {"orders": 2, "orders-eu": 1, "lines": 3}
LISTED = {"topics": " orders ,lines,gone", "topics.regex": ""}
PATTERN = {"topics": "", "topics.regex": "orders(-\\p{Lower}+)?"}


def at(topic, partition):
    return TopicPartition(topic, partition)


@pytest.mark.parametrize(
    ("chosen", "config", "expected"),
    [
        (Chosen(), LISTED, [at("lines", 0), at("lines", 1), at("lines", 2), at("orders", 0), at("orders", 1)]),
        (Chosen(frozenset({"orders"})), LISTED, [at("orders", 0), at("orders", 1)]),
        (Chosen(partitions=frozenset({1})), LISTED, [at("lines", 1), at("orders", 1)]),
        (Chosen(frozenset({"lines"}), frozenset({2})), LISTED, [at("lines", 2)]),
        (Chosen(), PATTERN, [at("orders", 0), at("orders", 1), at("orders-eu", 0)]),
    ],
)
def test_the_partitions_are_those_the_sink_reads(chosen, config, expected):
    assert chosen.of("c", THERE, config, {}) == expected


@pytest.mark.parametrize(
    ("chosen", "config", "message"),
    [
        (Chosen(frozenset({"orders-eu"})), LISTED, "Connector c reads no topic orders-eu"),
        (Chosen(frozenset({"gone"})), LISTED, "Connector c reads no topic gone"),
        (Chosen(partitions=frozenset({3})), LISTED, "Connector c reads no partition 3"),
    ],
)
def test_what_the_sink_does_not_read_is_not_found(chosen, config, message):
    with pytest.raises(NotFoundError, match=message) as raised:
        chosen.of("c", THERE, config, {})
    assert raised.value.hint is not None
    assert "lines, orders" in raised.value.hint or "at most 3 partitions" in raised.value.hint


def test_a_pattern_that_java_would_refuse_is_refused():
    with pytest.raises(BadRequestError, match=r"topics\.regex \["):
        Chosen().of("c", THERE, {"topics": "", "topics.regex": "["}, {})


def test_an_offset_is_taken_where_each_partition_has_it_and_refused_elsewhere():
    known = {at("orders", 0): (5, 9), at("orders", 1): (0, 7)}
    for offset in (5, 7):
        assert offsets_at(AtOffset(offset), known, {}, {}) == dict.fromkeys(known, offset)
    with pytest.raises(BadRequestError, match="orders-1 has no offset 8: its records are from 0 to 6, the next is 7"):
        offsets_at(AtOffset(8), known, {}, {})


ranges = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 3)),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (pair[0], pair[0] + pair[1])),
)
targets = st.one_of(st.sampled_from(list(Edge)), st.integers(0, 10).map(AtTime), st.integers(-200, 200).map(ShiftBy))


@given(ranges, targets, st.integers(-1, 60), st.integers(0, 100))
def test_every_offset_is_one_at_which_something_can_be_read(known, target, first, committed):
    found_first = {
        place: first if begin <= first < end else -1 for place, (begin, end) in known.items()
    }  # as a broker answers
    found = offsets_at(target, known, dict.fromkeys(known, committed), found_first)
    assert found.keys() == known.keys()
    for place, offset in found.items():
        begin, end = known[place]
        assert begin <= offset <= end
        if isinstance(target, ShiftBy) and begin <= committed + target.records <= end:
            assert offset == committed + target.records
        if isinstance(target, AtTime):
            assert offset == (found_first[place] if found_first[place] >= 0 else end)
        if isinstance(target, Edge):
            assert offset == (begin if target is Edge.EARLIEST else end)


def test_a_shift_needs_an_offset_to_shift_from():
    with pytest.raises(BadRequestError, match="b-1 has no committed offset to shift from"):
        offsets_at(ShiftBy(-1), {at("a", 0): (0, 9), at("b", 1): (0, 9)}, {at("a", 0): 3}, {})


def test_a_source_is_refused_before_a_broker_is_asked():
    info = ConnectorInfo("c", {"connector.class": "FileStreamSource"}, [], ConnectorType.SOURCE)
    with pytest.raises(BadRequestError, match="c is a source"):
        sink_offsets_at(ClusterAccess({}), info, Edge.LATEST, Chosen())
