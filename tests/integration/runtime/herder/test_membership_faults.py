"""Group members when something goes wrong: answers of the coordinator, its silence, its restart, killed members."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import pytest

from kconnect.runtime.herder.membership import Assigned, Joining, Lost
from kit.coordinator_proxy import FIND_COORDINATOR, HEARTBEAT, JOIN_GROUP, SYNC_GROUP, CoordinatorProxy
from kit.group_members import Member, is_settled, member_ids, remove
from kit.pace import ended
from kit.places import TESTS
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]


@pytest.fixture
def group() -> str:
    return f"membership-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def proxy(broker) -> Iterator[CoordinatorProxy]:
    with CoordinatorProxy(broker.port) as running:
        yield running


def test_a_member_that_the_group_forgot_gives_up_its_work_and_joins_anew(broker, group):
    with Member(broker.bootstrap, group) as member:
        first = member.await_assigned()
        remove(broker.bootstrap, group, first.member_id)
        again = member.await_assigned(2)
        assert [type(event) for _, event in member.events] == [Joining, Assigned, Lost, Joining, Assigned]
        assert again.member_id != first.member_id
        assert member.reported[-1].assignment is None, "it reported the group of work that it has given up"


@pytest.mark.parametrize(
    ("error", "keeps_its_id"), [(82, False), (22, True)], ids=["FENCED_INSTANCE_ID", "ILLEGAL_GENERATION"]
)
def test_a_member_that_is_fenced_gives_up_its_work_and_joins_anew(broker, proxy, group, error, keeps_its_id):
    with Member(proxy.bootstrap, group) as member:
        first = member.await_assigned()
        proxy.answer_next(HEARTBEAT, error)
        member.await_event(Lost)
        if not keeps_its_id:
            remove(broker.bootstrap, group, first.member_id)  # as the broker does that fences a member
        again = member.await_assigned(2)
        assert [type(event) for _, event in member.events] == [Joining, Assigned, Lost, Joining, Assigned]
        assert (again.member_id == first.member_id) is keeps_its_id
        assert member.reported[-1].assignment is None


@pytest.mark.parametrize(
    ("request_", "error"),
    [(JOIN_GROUP, 14), (JOIN_GROUP, 16), (SYNC_GROUP, 15), (SYNC_GROUP, 27)],
    ids=["join: LOADING", "join: NOT_COORDINATOR", "sync: NOT_AVAILABLE", "sync: REBALANCE_IN_PROGRESS"],
)
def test_a_join_that_meets_a_passing_error_is_tried_again_and_work_is_kept(proxy, group, request_, error):
    with Member(proxy.bootstrap, group) as member:
        first = member.await_assigned()
        proxy.answer_next(request_, error)
        member.member.request_rejoin("to meet the error")
        again = member.await_assigned(2)
        assert not proxy.is_due(request_)
        assert again.member_id == first.member_id
        assert not member.all(Lost)
        assert len(member.all(Joining)) == 2


def test_a_member_that_is_unknown_when_it_joins_gives_up_its_work_first(broker, group):
    with Member(broker.bootstrap, group) as member:
        first = member.await_assigned()
        member.member.request_rejoin("to be reported")
        remove(broker.bootstrap, group, first.member_id)
        member.await_event(Lost)
        eventually(lambda: type(member.events[-1][1]) is Assigned, 10, "it is back")
        assert member.reported[-1].assignment is None


def test_a_coordinator_that_moves_is_followed_without_losing_the_place(broker, proxy, group):
    with CoordinatorProxy(broker.port) as other, Member(proxy.bootstrap, group) as member:
        member.await_assigned()
        proxy.leads_to = other.port
        proxy.answer_next(HEARTBEAT, 16)
        eventually(lambda: other.seen.count(HEARTBEAT) >= 2, 10, "heartbeats at the new coordinator")
        assert [type(event) for _, event in member.events] == [Joining, Assigned]
        member.member.request_rejoin("to see that joining finds it too")
        member.await_assigned(2)
        assert other.seen.count(JOIN_GROUP) == 1
        assert proxy.seen.count(FIND_COORDINATOR) == 2


def test_a_member_that_hears_nothing_gives_up_its_work_while_the_group_still_waits_for_it(broker, proxy, group):
    with Member(proxy.bootstrap, group) as cut_off, Member(broker.bootstrap, group, "other") as other:
        cut_off.await_assigned()
        eventually(lambda: is_settled(broker.bootstrap, group, 2), 10, "both are in")
        eventually(lambda: cut_off.last_assigned().generation == other.last_assigned().generation, 10, "all know it")
        place = cut_off.member.member_id
        joins = len(other.all(Joining))
        assert place in member_ids(broker.bootstrap, group)
        proxy.freeze()
        lost_at = cut_off.await_event(Lost)
        # Reported by the times of events: the broker waits for another second only, less than it may take to ask it
        eventually(lambda: len(other.all(Joining)) > joins, 15, "the broker misses the one that is cut off")
        missed_at = [at for at, event in other.events if isinstance(event, Joining)][joins]
        assert lost_at < missed_at, "the broker gave its work away before it gave it up"
        proxy.thaw()
        eventually(lambda: type(cut_off.events[-1][1]) is Assigned, 15, "it is back")


def test_an_outage_of_the_broker_costs_no_place_and_work_only_when_it_is_long_for_the_session(own_broker, group):
    with (
        Member(own_broker.bootstrap, f"{group}-long", session_ms=600_000) as patient,  # a start takes a minute, rarely
        Member(own_broker.bootstrap, group) as short,
    ):
        first = short.await_assigned()
        patient.await_assigned()
        own_broker.kill()
        short.await_event(Lost)
        assert short.member.runs_until is None
        down_until = time.monotonic()
        own_broker.start()
        assert short.await_assigned(2, within_s=30).member_id == first.member_id
        eventually(lambda: patient.member.runs_until > down_until + 600 * 0.8, 20, "heartbeats are answered again")
        assert [type(event) for _, event in patient.events] == [Joining, Assigned]
        assert short.error is patient.error is None


def test_a_killed_member_is_missed_a_frozen_one_stops_its_work_when_it_wakes_a_busy_one_stays(broker, group):
    with (
        Member(broker.bootstrap, group, "a-stays") as stays,
        process(broker.bootstrap, group, "b-killed") as killed,
        process(broker.bootstrap, group, "c-frozen") as frozen,
    ):
        eventually(lambda: is_settled(broker.bootstrap, group, 3), 20, "all three are in")
        stays.busy.set()  # its heartbeats go on while its herder is busy for longer than a session
        os.kill(killed.pid, signal.SIGKILL)
        os.kill(frozen.pid, signal.SIGSTOP)
        eventually(
            lambda: member_ids(broker.bootstrap, group) == {stays.member.member_id}, 30, "the broker misses both"
        )
        stays.busy.clear()
        os.kill(frozen.pid, signal.SIGCONT)
        eventually(lambda: is_settled(broker.bootstrap, group, 2), 20, "the frozen one is back")
        assert not stays.all(Lost)
        reported = iter(frozen.stdout.readline, "")  # the group is settled before a member has heard of it
        assert "Lost\n" in reported
        assert "Assigned\n" in reported, "it is assigned after that"
        frozen.stdin.close()
        assert "Lost\n" not in reported
        assert ended(frozen, 20) == 0
        eventually(lambda: member_ids(broker.bootstrap, group) == {stays.member.member_id}, 10, "it left")


class process:
    """A member in a process of its own; killed at the end if it still runs."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(TESTS), str(TESTS.parent / "core")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kit.group_members", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self._process

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        ended(self._process, 10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
