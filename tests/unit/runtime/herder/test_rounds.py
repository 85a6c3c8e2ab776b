"""What a member says when it joins, and what it assigns when it leads: with the configs as they are just then."""

from __future__ import annotations

import pytest

from kconnect.clock import SystemClock
from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.eager import JoinedGroup
from kconnect.runtime.herder.assignment.protocol import (
    CONFIG_MISMATCH,
    PROTOCOL_NAMES,
    Assignment,
    MemberState,
    Work,
    decode_assignment,
    encode_metadata,
)
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.storage.snapshot import ClusterSnapshot

ME, OTHER = "http://me/", "http://other/"
T0 = TaskId("c", 0)


def configs(offset: int, *connectors: str) -> ClusterSnapshot:
    return ClusterSnapshot(
        offset=offset,
        configs={name: {} for name in connectors},
        task_counts=dict.fromkeys(connectors, 1),
        task_configs={name: {0: {}} for name in connectors},
    )


class Topic:
    """The configs as the member has read them."""

    def __init__(self) -> None:
        self.now = configs(5, "c")

    def rounds(self, version: int = 2) -> RebalanceRounds:
        rounds = RebalanceRounds(lambda: self.now, version, 0, SystemClock())
        rounds.url = ME
        return rounds


def group(*offsets: int, version: int = 2, generation: int = 1) -> JoinedGroup:
    """This member, which leads, and others that have read the configs up to there."""
    states = [MemberState(version, ME if not n else OTHER, offset) for n, offset in enumerate(offsets)]
    return JoinedGroup(
        leader="m0",
        protocol=PROTOCOL_NAMES[version],
        members={f"m{number}": encode_metadata(state) for number, state in enumerate(states)},
        generation=generation,
        last_generation=generation - 1,
    )


def assigned(given: dict[str, bytes]) -> dict[str, Assignment]:
    found = {member: decode_assignment(data) for member, data in given.items()}
    return {member: assignment for member, assignment in found.items() if assignment is not None}


def test_a_member_tells_its_url_how_far_it_has_read_and_what_it_has():
    topic = Topic()
    rounds = topic.rounds()
    assert rounds.metadata() == MemberState(2, ME, 5, None, is_kconnect=True)
    owned = rounds.owned = Assignment(2, "m0", ME, 5, Work(("c",), (T0,)))
    topic.now = configs(9, "c")
    assert rounds.metadata() == MemberState(2, ME, 9, owned, is_kconnect=True)
    assert rounds.reported is topic.now


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_leader_assigns_with_the_configs_it_reported_of_whatever_it_has_read_since(version):
    topic = Topic()
    rounds = topic.rounds(version)
    rounds.metadata()
    topic.now = configs(9, "c", "later")
    given = assigned(rounds.assign(group(5, 4, version=version)))
    assert {one.offset for one in given.values()} == {5}, "one that has read less is to read up to there"
    assert {(one.leader, one.leader_url, one.error) for one in given.values()} == {("m0", ME, 0)}
    assert sorted(name for one in given.values() for name in one.work.connectors) == ["c"]


def test_a_leader_that_a_member_is_ahead_of_assigns_with_what_it_has_read_since():
    topic = Topic()
    rounds = topic.rounds()
    rounds.metadata()
    topic.now = configs(9, "c", "later")
    given = assigned(rounds.assign(group(5, 8)))
    assert {one.offset for one in given.values()} == {9}
    assert sorted(name for one in given.values() for name in one.work.connectors) == ["c", "later"]
    assert rounds.reported is topic.now, "the leader itself need not catch up"


def test_a_leader_that_is_still_behind_assigns_nothing_and_tells_all_to_read_on():
    topic = Topic()
    rounds = topic.rounds()
    rounds.metadata()
    given = assigned(rounds.assign(group(5, 12)))
    assert {(one.offset, one.error, one.work) for one in given.values()} == {(12, CONFIG_MISMATCH, Work())}
    assert rounds.owner_url("c") is None


def test_who_runs_what_is_known_to_the_leader_until_the_group_joins_again():
    topic = Topic()
    rounds = topic.rounds()
    assert rounds.owner_url("c") is None
    rounds.metadata()
    given = assigned(rounds.assign(group(5, 5)))
    urls = {"m0": ME, "m1": OTHER}
    for part in ("c", T0):
        (owner,) = [member for member, one in given.items() if part in (*one.work.connectors, *one.work.tasks)]
        assert rounds.owner_url(part) == urls[owner]
    assert rounds.owner_url("none") is None
    rounds.metadata()
    assert rounds.owner_url("c") is None
