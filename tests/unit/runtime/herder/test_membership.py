"""Decisions of a group member that need no group: what it offers, when it must stop, which errors are final."""

from __future__ import annotations

import base64
from itertools import pairwise

import pytest

from kconnect.runtime.herder.assignment.protocol import Assignment, MemberState, Work, decode_metadata
from kconnect.runtime.herder.group.errors import error_name, final_error
from kconnect.runtime.herder.group.member import GroupCallbacks, GroupMember, GroupSettings, offered_protocols
from kconnect.runtime.herder.group.member_threads import Rhythm, must_stop_at, next_beat_at
from kconnect.runtime.herder.group.security import Access
from kconnect.runtime.herder.membership import Joining
from kit.golden import load
from kit.waiting import eventually

STATE = MemberState(2, "http://h:8083/", 7, Assignment(2, "l", "http://l/", 7, Work(("a",))))


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("sessioned", ["sessioned", "compatible", "default"]),
        ("compatible", ["compatible", "default"]),
        ("eager", ["default"]),
    ],
)
def test_a_member_offers_its_protocol_and_all_older_ones(setting, names):
    offered = offered_protocols(setting, STATE)

    assert [name for name, _ in offered] == names
    for name, data in offered:
        state = decode_metadata(data)
        assert state.version == {"sessioned": 2, "compatible": 1, "default": 0}[name]
        assert (state.url, state.offset) == (STATE.url, STATE.offset)
        if state.version:
            assert state.assignment is not None
            assert state.assignment.version == state.version
            assert state.assignment.work == Work(("a",))
        else:
            assert state.assignment is None


def test_a_newcomer_s_metadata_is_java_s_byte_by_byte():
    (first,) = next(iter(load("topics/group-protocol-disabled.json").values()))["members"]
    state = MemberState(2, "http://127.0.0.1:28085/", -1)
    assert dict(offered_protocols("sessioned", state))["sessioned"] == base64.b64decode(first["metadata_b64"])


def test_a_member_gives_up_before_the_broker_can_and_outlives_a_missed_heartbeat():
    rhythm = Rhythm(session_s=10, interval_s=3, rebalance_s=60)  # Java's defaults
    last_answered = 100.0
    broker_gives_up_at = last_answered + rhythm.session_s  # at the earliest: it counts from the heartbeat's arrival

    assert must_stop_at(last_answered, rhythm) <= broker_gives_up_at - 2
    assert must_stop_at(last_answered, rhythm) > last_answered + 2 * rhythm.interval_s


def test_heartbeats_after_a_round_come_early_then_as_often_as_set_or_a_little_more():
    beats = beats_of(Rhythm(session_s=10.0, interval_s=3.0, rebalance_s=60.0), joined_at=100.0, count=8)

    assert beats == pytest.approx([100.25, 100.75, 101.75, 102.55, 105.1, 107.65, 110.2, 112.75])


def test_one_heartbeat_falls_just_after_the_session_of_a_member_killed_after_the_same_beat():
    for session_s, interval_s in ((10.0, 3.0), (6.0, 1.0), (30.0, 10.0), (9.0, 3.0), (10.0, 9.0)):
        beats = beats_of(Rhythm(session_s, interval_s, rebalance_s=60.0), joined_at=0.0, count=60)
        pauses = [after - before for before, after in pairwise(beats)]

        assert max(pauses) <= interval_s + 1e-9
        for last_of_killed in beats[4:20]:
            seen_at = next(beat for beat in beats if beat > last_of_killed + session_s)
            assert seen_at - (last_of_killed + session_s) == pytest.approx(0.2)


def test_early_heartbeats_are_no_rarer_than_the_interval():
    beats = beats_of(Rhythm(session_s=6.0, interval_s=0.5, rebalance_s=60.0), joined_at=0.0, count=5)

    assert beats == pytest.approx([0.25, 0.477, 0.75, 0.954, 1.431], abs=1e-3)


def beats_of(rhythm: Rhythm, joined_at: float, count: int) -> list[float]:
    beats = [joined_at]
    while len(beats) <= count:
        beats.append(next_beat_at(joined_at, beats[-1], rhythm))
    return beats[1:]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        (23, "consumer group"),
        (24, "group.id"),
        (26, "session.timeout.ms=6000"),
        (30, "READ"),
        (81, "group.max.size"),
    ],
)
def test_errors_that_do_not_pass_name_what_to_set(code, named):
    error = final_error(code, "orders", 6000)
    assert error is not None
    assert named in f"{error} {error.hint}"
    assert "orders" in f"{error} {error.hint}" or "session.timeout.ms" in str(error)
    assert error_name(code) in str(error)


@pytest.mark.parametrize("code", [14, 15, 16, 22, 25, 27, 79, 82, -1])
def test_errors_that_pass_are_not_final(code):
    assert final_error(code, "orders", 6000) is None


def test_what_nobody_foresaw_in_an_attempt_to_join_is_logged_and_tried_again(caplog):
    # the name has an empty part: a UnicodeError, which no layer below the attempt expects
    nowhere = Access(bootstrap=(("kafka..example", 9092),), client_id="me")
    callbacks = GroupCallbacks(metadata=lambda: STATE, assign=lambda group: {})
    member = GroupMember(GroupSettings(group_id="orders"), nowhere, callbacks)
    try:
        assert member.poll(5) == [Joining()]
        eventually(lambda: member.poll(0.05) == [] and member.meter.failures.count >= 2, 5, "it tried twice")
    finally:
        member.stop(5)
    assert "Joining the group failed unexpectedly" in caplog.text
    assert "Traceback" in caplog.text
    assert "joining will be retried: Unicode" in caplog.text
