"""What a worker tells of its last rebalances: when, why, what moved, who came and went."""

from __future__ import annotations

from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import Assignment, Work
from kconnect.runtime.herder.decisions.events import Placed, Tick
from kconnect.runtime.herder.decisions.instructions import RequestRejoin
from kconnect.runtime.herder.decisions.rebalances import (
    FIRST,
    HANDED_OVER,
    UNASKED,
    Rebalance,
    Rebalances,
    RoundMembers,
)
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kit.distributed import memory_cluster

NONE = Work()


def placed(generation: int, work: Work = NONE, revoked: Work = NONE, version: int = 2, delay_ms: int = 0) -> Placed:
    assignment = Assignment(
        version=version, leader="m1", leader_url="http://one", offset=3, work=work, revoked=revoked, delay_ms=delay_ms
    )
    return Placed(assignment, generation, "m1", ClusterSnapshot())


def noted(*steps: tuple[object, list[RequestRejoin], int]) -> list[Rebalance]:
    log = Rebalances()
    for event, reported, now_ms in steps:
        log.note(event, reported, now_ms)  # type: ignore[arg-type]
    return log.kept()


def test_the_first_one_is_that_the_worker_came():
    (only,) = noted((Joining(), [], 100), (placed(1), [], 130))
    assert (only.why, only.generation, only.began_ms, only.ended_ms, only.is_leader) == (FIRST, 1, 100, 130, True)


def test_one_that_the_worker_asked_for_tells_its_reason():
    found = noted(
        (placed(1), [], 0),
        (Tick(50), [RequestRejoin("connectors or tasks have changed")], 50),
        (Joining(), [], 60),
        (placed(2), [], 70),
    )
    assert found[-1].why == "connectors or tasks have changed"


def test_a_reason_that_comes_with_an_assignment_is_that_of_the_next_round():
    found = noted((placed(1), [RequestRejoin("revoked work has to be handed out")], 0), (placed(2), [], 5))
    assert [one.why for one in found] == [FIRST, "revoked work has to be handed out"]


def test_one_that_others_asked_for_says_so_and_a_lost_membership_why():
    found = noted((placed(1), [], 0), (placed(2), [], 1), (Lost("session timed out"), [], 2), (placed(3), [], 9))
    assert [one.why for one in found[1:]] == [UNASKED, "this worker lost its membership: session timed out"]


def test_the_reason_of_a_round_is_what_happened_beside_what_this_worker_asked_for():
    asked, unasked = noted((placed(1), [], 0), (placed(2), [], 1))
    members = RoundMembers(("http://a:1/", "http://b:2/"), joined=("http://b:2/",), left=("http://c:3/",))
    assert unasked.with_members(members).why == "worker b:2 joined, worker c:3 left"
    assert asked.with_members(members).why == "this worker joined, worker b:2 joined, worker c:3 left"
    assert unasked.with_members(RoundMembers(("http://a:1/",))).why == HANDED_OVER
    assert unasked.with_members(None) is unasked


def test_what_moved_is_counted_and_an_eager_assignment_revokes_nothing():
    work, revoked = Work(("a",), (TaskId("a", 0), TaskId("a", 1))), Work((), (TaskId("b", 0),))
    (reported,) = noted((placed(1, work, revoked, delay_ms=400), [], 0))
    moved = (
        reported.connectors_added,
        reported.tasks_added,
        reported.connectors_revoked,
        reported.tasks_revoked,
        reported.delay_ms,
    )
    assert moved == (1, 2, 0, 1, 400)
    (eager,) = noted((placed(1, work, Work(), version=0), [], 0))
    assert (eager.tasks_added, eager.tasks_revoked) == (2, 0)


def test_only_the_last_fifty_are_kept():
    found = noted(*((placed(number), [], number) for number in range(1, 61)))
    assert [found[0].generation, len(found)] == [11, 50]


def test_the_leader_tells_who_came_and_who_went_and_a_follower_that_it_does_not_know():
    with memory_cluster(2) as cluster:
        third = cluster.add()
        cluster.await_settled()
        urls = {node.url for node in cluster.nodes}
        last = cluster.leader.herder.rebalances()[-1]
        assert last.round is not None
        assert set(last.round.members) == urls
        came = [url for one in cluster.leader.herder.rebalances() if one.round for url in one.round.joined]
        assert third.url in came
        cluster.kill(third)
        cluster.await_settled()
        went = [url for one in cluster.leader.herder.rebalances() if one.round for url in one.round.left]
        assert went == [third.url]
        place = third.url.removeprefix("http://").rstrip("/")
        assert cluster.leader.herder.rebalances()[-1].why == f"worker {place} left"
        assert all(one.round is None for node in cluster.followers for one in node.herder.rebalances())
        assert cluster.leader.herder.rebalances()[-1].to_json()["members"] == sorted(urls - {third.url})
