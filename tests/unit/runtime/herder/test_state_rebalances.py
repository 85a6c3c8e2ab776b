"""Rules of membership: what an assignment starts and stops, and when a member stays away."""

from __future__ import annotations

import pytest

from kconnect.model import TaskId
from kconnect.runtime.herder.assignment.protocol import CONFIG_MISMATCH, Work
from kconnect.runtime.herder.decisions.events import Claimed, Started, StopAsked
from kconnect.runtime.herder.decisions.facts import HerderTimes, Phase
from kconnect.runtime.herder.decisions.instructions import (
    CatchUp,
    LeaveGroup,
    RequestRejoin,
    StartWork,
    StopWork,
    TakeGeneration,
    Tell,
)
from kconnect.runtime.herder.decisions.mismatches import (
    ClusterNames,
    ConfigTopicEnds,
    ConfigTopicUnread,
    HeldBack,
    sentence,
)
from kconnect.runtime.herder.membership import Joining, Lost
from kit.herder_state import Member, kinds, of

C, T0, T1 = "fsrc", TaskId("fsrc", 0), TaskId("fsrc", 1)


def started(leads: bool = True, version: int = 2) -> Member:
    member = Member(leads=leads, version=version)
    member.connector(C, tasks=2)
    member.step(Started(member.snapshot))
    member.step(Joining())
    return member


def test_an_assignment_at_the_configs_that_were_read_starts_its_work():
    reported = started().place([C], [T0])
    assert of(StartWork, reported).work == Work((C,), (T0,))
    assert of(TakeGeneration, reported) == TakeGeneration(1, True)


def test_a_leader_claims_the_config_topic_and_cleans_up_after_the_rebalance():
    assert kinds(started().place([C], [T0])) == ["TakeGeneration", "StartWork", "CleanUp", "Claim"]
    assert kinds(started(leads=False).place([C], [T0])) == ["TakeGeneration", "StartWork"]


def test_a_claim_that_fails_is_made_again_after_a_pause():
    member = started()
    member.place()
    assert member.step(Claimed("fenced")) == []
    assert member.wait(249) == []
    assert kinds(member.wait(1)) == ["Claim"]


def test_a_member_that_lags_catches_up_before_it_starts_anything():
    member = started(leads=False)
    behind = member.snapshot
    member.connector("other")
    reported = member.place([C], reported=behind)
    assert kinds(reported) == ["TakeGeneration", "CatchUp"]
    assert of(CatchUp, reported).timeout_ms == 3_000
    assert of(StartWork, member.caught_up()).work == Work((C,))


def test_a_member_whose_config_topic_ends_before_that_of_the_group_tells_it_leaves_and_comes_back():
    member = started(leads=False)
    member.place([C], [T0])
    member.step(Joining())
    reported = member.place(offset=member.snapshot.offset + 5)
    assert of(CatchUp, reported).offset == member.snapshot.offset + 5
    reported = member.caught_up()
    ends = ConfigTopicEnds(member.snapshot.offset, member.snapshot.offset + 5)
    assert of(Tell, reported).finding == member.state.facts.away == ends
    assert kinds(reported) == ["Tell", "StopWork", "LeaveGroup"]
    assert not member.state.wants_group
    assert kinds(member.wait(300_000)) == ["CatchUp"]
    member.caught_up()
    assert member.state.facts.away == ends, "it is out of order until it has work again"
    member.place([C], [T0])
    assert member.state.facts.away is None


def test_a_leader_whose_config_topic_ends_before_that_of_a_member_leaves_the_lead_to_it():
    member = started()
    reported = member.place(offset=member.snapshot.offset + 5, error=CONFIG_MISMATCH)
    assert of(CatchUp, reported).offset == member.snapshot.offset + 5
    assert kinds(member.caught_up()) == ["Tell", "LeaveGroup"]


def test_a_member_that_has_read_beyond_the_assignment_joins_again():
    member = started(leads=False)
    behind, offset = member.snapshot, member.snapshot.offset
    reported = member.place([C], offset=offset + 1, reported=behind)
    assert kinds(reported) == ["TakeGeneration", "CatchUp"]
    member.connector("a")
    member.connector("b")
    assert kinds(member.caught_up()) == ["RequestRejoin"]
    assert member.state.facts.phase is Phase.JOINING


def test_a_failed_assignment_has_the_leader_read_on_and_join_again():
    member = started()
    assert kinds(member.place(error=CONFIG_MISMATCH)) == ["TakeGeneration", "CatchUp"]
    assert kinds(member.caught_up()) == ["RequestRejoin"]


def test_a_failed_assignment_has_a_follower_that_is_up_to_date_just_join_again():
    assert kinds(started(leads=False).place(error=CONFIG_MISMATCH)) == ["TakeGeneration", "RequestRejoin"]


def test_a_member_that_can_not_catch_up_stops_leaves_and_comes_back_after_the_back_off():
    member = started(leads=False)
    member.place([C], [T0])
    member.step(Joining())
    reported = member.place(offset=member.snapshot.offset + 1)
    assert kinds(reported) == ["TakeGeneration", "CatchUp"]
    reported = member.caught_up("too slow")
    assert of(StopWork, reported).work == Work((C,), (T0,))
    assert isinstance(reported[-1], LeaveGroup)
    assert not member.state.wants_group
    assert member.state.facts.away == ConfigTopicUnread("too slow")
    assert member.state.next_due_ms() == member.now_ms + 6_000
    assert member.wait(5_999) == []
    assert kinds(member.wait(1)) == ["CatchUp"]
    assert member.caught_up() == []
    assert member.state.wants_group
    assert of(StartWork, member.place([C], [T0])).work == Work((C,), (T0,))


@pytest.mark.parametrize("leads", [True, False])
def test_reading_that_fails_again_and_again_keeps_the_member_away_for_longer_each_time(leads):
    member = started(leads)
    member.place(offset=member.snapshot.offset + 1, error=CONFIG_MISMATCH)
    waits = []
    for _ in range(7):
        assert kinds(member.caught_up("too slow")) == ["LeaveGroup"]
        assert not member.state.wants_group
        waits.append(member.state.next_due_ms() - member.now_ms)
        assert kinds(member.wait(waits[-1])) == ["CatchUp"]
    assert waits == [6_000, 7_500, 10_000, 15_000, 30_000, 1, 6_000]


def test_the_configs_that_were_read_at_last_make_the_next_back_off_a_first_one():
    member = started()
    for _ in range(2):
        member.place(offset=member.snapshot.offset + 1)
        member.caught_up("too slow")
        assert member.state.next_due_ms() == member.now_ms + 6_000
        member.wait(6_000)
        member.caught_up()


def test_a_member_of_an_eager_group_stays_away_for_its_whole_back_off():
    member = started(leads=False, version=0)
    member.place(offset=member.snapshot.offset + 1)
    for _ in range(2):
        member.caught_up("too slow")
        assert member.wait(299_999) == []
        assert kinds(member.wait(1)) == ["CatchUp"]


def test_a_back_off_of_nothing_is_a_moment_in_which_a_stop_can_come():
    member = Member(times=HerderTimes(max_delay_ms=0))
    member.step(Started(member.snapshot))
    member.place(offset=member.snapshot.offset + 1)
    assert kinds(member.caught_up("too slow")) == ["LeaveGroup"], "not a CatchUp as well: that would go on for ever"


def test_a_newcomer_gets_nothing_in_the_round_that_revokes_and_its_work_in_the_next():
    member = started(leads=False)
    assert kinds(member.place()) == ["TakeGeneration"]
    member.step(Joining())
    assert of(StartWork, member.place([C], [T0])).work == Work((C,), (T0,))


def test_a_member_from_which_work_was_revoked_keeps_the_rest_in_the_next_round():
    member = started(leads=False)
    member.place([C], [T0, T1])
    member.step(Joining())
    member.place(revoked=Work((C,), (T1,)))
    assert member.step(Joining()) == []
    assert kinds(member.place()) == ["TakeGeneration"]
    assert member.state.owned_assignment.work == Work((), (T0,))


@pytest.mark.parametrize("is_incomplete", [False, True])
def test_revoked_work_stops_once_and_starts_again_when_it_comes_back(is_incomplete):
    member = started(leads=False)
    member.place([C], [T0])
    if is_incomplete:  # a round that could not be begun, as the member had read beyond it
        member.step(Joining())
        reported = member.snapshot
        for name in ("one", "another"):
            member.connector(name)
        assert kinds(member.place(offset=reported.offset + 1, reported=reported)) == ["TakeGeneration", "CatchUp"]
        assert kinds(member.caught_up()) == ["RequestRejoin"]
    member.step(Joining())
    stops = [reported for reported in member.place(revoked=Work((C,))) if isinstance(reported, StopWork)]
    assert [stop.work for stop in stops] == [Work((C,))]
    member.step(Joining())
    reported = member.place([C])
    assert of(StartWork, reported).work == Work((C,))
    assert "StopWork" not in kinds(reported), "the task ran on all the time"


def test_work_that_comes_with_a_delay_starts_at_once_and_the_rest_when_it_is_over():
    member = started(leads=False)
    assert of(StartWork, member.place([], [T1], delay_ms=10_000)).work == Work((), (T1,))
    assert member.wait(9_900) == []
    assert kinds(member.wait(100)) == ["RequestRejoin"]
    member.step(Joining())
    assert of(StartWork, member.place([C], [T0])).work == Work((C,), (T0,))
    assert member.wait(20_000) == [], "once"


def test_what_is_held_back_is_reported_once_and_known_until_it_is_handed_out():
    member = started(leads=False)
    held = Work((C,), (T0,))
    reported = of(Tell, member.place([], [T1], delay_ms=10_000, held=held))
    assert reported.finding == HeldBack(held, 10_000)
    assert "held back for 10 s" in sentence(reported.finding, ClusterNames("g", "t"), "")
    assert member.state.held_until_ms(T0) == member.state.held_until_ms(C) == member.now_ms + 10_000
    assert member.state.held_until_ms(T1) is None
    member.wait(4_000)
    member.step(Joining())
    assert "Tell" not in kinds(member.place(delay_ms=6_000, held=held))
    member.step(Joining())
    member.place([C], [T0])
    assert member.state.held_until_ms(T0) is None
    member.place(delay_ms=10_000, held=held)
    member.step(Lost("it was slow"))
    assert member.state.held_until_ms(T0) is None, "nobody knows out of the group"


def test_time_that_orders_take_counts_against_the_delay():
    member = started(leads=False)
    member.place([C], delay_ms=20_000)
    assert member.wait(12_000) == [], "a start was slow"
    assert member.state.next_due_ms() == member.now_ms + 8_000


def test_a_rebalance_that_comes_before_the_delay_is_over_says_how_long_it_is_now():
    member = started(leads=False)
    member.place([C], delay_ms=20_000)
    member.wait(5_000)
    member.step(Joining())
    member.place(delay_ms=15_000)
    assert member.state.next_due_ms() == member.now_ms + 15_000
    member.step(Joining())
    member.place()
    assert member.state.next_due_ms() is None


def test_revoked_work_stops_and_the_member_joins_again_so_that_others_get_it():
    member = started(leads=False)
    member.place([C], [T0, T1])
    member.step(Joining())
    reported = member.place(revoked=Work((), (T1,)))
    assert kinds(reported) == ["StopWork", "TakeGeneration", "RequestRejoin"]
    assert of(StopWork, reported).work == Work((), (T1,))
    assert member.state.owned_assignment.work == Work((C,), (T0,))


def test_work_that_stays_is_not_touched_by_a_cooperative_rebalance():
    member = started(leads=False)
    member.place([C], [T0])
    assert member.step(Joining()) == []
    assert kinds(member.place([], [T1])) == ["TakeGeneration", "StartWork"]
    assert set(member.state.facts.running_tasks) == {T0, T1}


def test_an_eager_rebalance_stops_everything_first_and_starts_what_is_given():
    member = started(leads=False, version=0)
    member.place([C], [T0])
    assert of(StopWork, member.step(Joining())).work == Work((C,), (T0,))
    assert of(StartWork, member.place([], [T0])).work == Work((), (T0,))
    assert member.state.owned_assignment.work == Work((), (T0,))


def test_held_back_work_brings_a_rebalance_when_its_delay_is_over():
    member = started(leads=False)
    member.place([C], delay_ms=8_000)
    assert member.state.next_due_ms() == member.now_ms + 8_000
    assert member.wait(7_999) == []
    assert of(RequestRejoin, member.wait(1)).why == "the delay for lost workers is over"


def test_a_member_that_lost_its_group_stops_everything_and_owns_nothing_when_it_joins_again():
    member = started(leads=False)
    member.place([C], [T0])
    reported = member.step(Lost("the session timed out"))
    assert of(StopWork, reported) == StopWork(Work((C,), (T0,)), "the session timed out", is_cut_off=True)
    assert member.state.owned_assignment is None
    assert member.state.wants_group
    assert of(StartWork, member.place([C], [T0])).work == Work((C,), (T0,))


def test_work_that_runs_and_was_never_assigned_stops_when_the_group_settles():
    member = started(leads=False)
    member.place([C], [T0])
    member.step(Joining())
    member.state.facts.running_tasks[T1] = member.snapshot.offset
    assert of(StopWork, member.place()).work == Work((), (T1,))


def test_a_worker_that_stops_stops_its_work_and_joins_no_more():
    member = started()
    member.place([C], [T0])
    assert of(StopWork, member.step(StopAsked())).work == Work((C,), (T0,))
    assert not member.state.wants_group


def test_a_leader_that_may_not_write_for_some_seconds_says_so_until_it_may_or_leads_no_more():
    member = started()
    member.place()
    facts = member.state.facts
    member.step(Claimed("lacks WRITE"))
    assert not facts.is_unclaimed(facts.now_ms + 2_999)
    member.wait(1_000)
    member.step(Claimed("lacks DESCRIBE", "Grant it"))
    assert facts.is_unclaimed(facts.now_ms + 2_000), "since the first try"
    assert (facts.unclaimed, facts.unclaimed_hint) == ("lacks DESCRIBE", "Grant it")
    member.step(Claimed())
    assert not facts.is_unclaimed(facts.now_ms + 60_000)
    member.step(Claimed("lacks WRITE"))
    member.step(Lost("the session is over"))
    assert facts.unclaimed is None
