"""Which brokers get the replicas that partitions lack."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.edit.replicas import more_replicas
from kconnect.runtime.herder.group.admin_frames import PlaceReplicas
from kconnect.runtime.herder.group.frames import frame_of

BROKERS = (1, 2, 3, 4)


def test_those_that_have_it_stay_first_and_others_follow_in_turn():
    assert more_replicas({0: (2,), 1: (2,)}, (1, 2, 3), 3) == {0: (2, 3, 1), 1: (2, 1, 3)}
    assert more_replicas({0: (2, 3, 1), 1: (1,)}, (1, 2, 3), 3) == {1: (1, 2, 3)}, "one that has enough is left alone"
    assert more_replicas({0: (1,)}, (1,), 3) == {}, "nobody else is there"
    assert more_replicas({0: (9,)}, (1, 2), 2) == {0: (9, 2)}, "one that is down may come back"


@given(
    st.dictionaries(
        st.integers(0, 30), st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True), max_size=25
    ),
    st.integers(1, 3),
)
def test_each_gets_as_many_as_wanted_and_keeps_what_it_has(now, wanted):
    found = more_replicas(now, BROKERS, wanted)
    assert set(found) == {number for number, brokers in now.items() if len(brokers) < wanted}
    for number, brokers in found.items():
        assert (len(brokers), len(set(brokers))) == (wanted, wanted)
        assert list(brokers[: len(now[number])]) == list(now[number])


def test_the_load_is_even():
    found = more_replicas({number: (1,) for number in range(24)}, BROKERS, 3)
    added = [broker for brokers in found.values() for broker in brokers[1:]]
    assert {broker: added.count(broker) for broker in BROKERS} == {1: 0, 2: 16, 3: 16, 4: 16}


def test_the_request_is_that_of_the_protocol():
    """AlterPartitionReassignments v0, flexible: compact arrays count from one, and structures end with tags."""
    frame = frame_of(PlaceReplicas("t", {7: (1, 2)}, 5000), 0, 9, "c")
    body = "00001388" + "02" + "0274" + "02" + "00000007" + "03" + "00000001" + "00000002" + "00" + "00" + "00"
    assert frame.hex() == "00000024" + "002d" + "0000" + "00000009" + "000163" + "00" + body
