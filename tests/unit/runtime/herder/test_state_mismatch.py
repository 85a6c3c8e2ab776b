"""Workers that do not fit together: what is reported, when it is sure, and how often."""

from __future__ import annotations

import pytest

from kconnect.model import TargetState
from kconnect.runtime.herder.decisions.events import Started, Written
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.herder.decisions.instructions import Instruction, Tell
from kconnect.runtime.herder.decisions.mismatches import (
    ClusterNames,
    ConfigTopicEnds,
    ConfigTopicUnread,
    ExactlyOnceElsewhere,
    KeyFromFuture,
    Mismatch,
    ProtocolDowngraded,
    WrittenByOther,
    sentence,
)
from kconnect.runtime.herder.decisions.writes import ForRequest
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.config_topic import encode_logger_level, encode_target_state
from kconnect.runtime.storage.session_key import SessionKey
from kit.herder_state import KEY, Member

# Nothing asks for a rebalance by itself here
TIMES = HerderTimes(quiet_ms=10_000_000, longest_quiet_ms=10_000_000, session_timeout_ms=10_000)


def findings(reported: list[Instruction]) -> list[Mismatch]:
    return [one.finding for one in reported if isinstance(one, Tell)]


def leader(**settings: str) -> Member:
    return Member(times=TIMES, **settings).settled()


def test_a_record_that_only_a_leader_writes_is_asked_to_the_leader_that_did_not_write_it():
    member = leader()
    member.another_writes("theirs")
    assert findings(member.read()) == []
    assert findings(member.wait(9_999)) == []
    assert member.state.next_due_ms() == member.now_ms + 1
    assert findings(member.wait(1)) == [WrittenByOther("connector-theirs", 1)]


def test_a_leader_that_is_still_the_same_member_in_a_later_generation_need_not_wait():
    member = leader()
    member.another_writes("theirs")
    member.read()
    member.step(Joining())
    reported = [*member.place(["theirs"]), *member.wait(0)]
    assert findings(reported) == [WrittenByOther("connector-theirs", 1)]


def test_a_leader_that_had_lost_its_group_suspects_nobody():
    """The new leader wrote; that this one led no more it learned later."""
    member = leader()
    member.another_writes("theirs")
    member.read()
    member.step(Lost("the group no longer knows it"))
    member.place(["theirs"])
    assert findings(member.wait(20_000)) == []


def test_a_leader_that_left_for_its_configs_suspects_nobody():
    member = leader()
    member.another_writes("theirs")
    member.read()
    member.step(Joining())
    member.place(offset=member.snapshot.offset + 1)
    member.caught_up("too slow")
    member.wait(300_000)
    member.caught_up()
    member.place(["theirs"])
    assert findings(member.wait(20_000)) == []


def test_what_this_leader_writes_itself_is_nobody_elses():
    member = leader()
    member.connector("mine", tasks=3)
    member.connector("mine", tasks=3)
    member.connector("large", tasks=2_500)
    member.store.put_task_count_record("mine", 3)
    member.store.put_session_key(KEY)
    member.read()
    assert member.store.foreign is None
    assert not [one for one in findings(member.wait(20_000)) if isinstance(one, WrittenByOther)]


def test_what_any_worker_may_write_is_no_sign_of_a_stranger():
    member = leader()
    member.topic.append(*encode_target_state("c", TargetState.PAUSED))
    member.topic.append(*encode_logger_level("root", "DEBUG"))
    member.read()
    assert findings(member.wait(20_000)) == []


def test_a_follower_expects_the_leader_to_write():
    member = Member(leads=False, times=TIMES).settled()
    member.another_writes("theirs")
    member.read()
    assert findings(member.wait(20_000)) == []


def test_what_the_leader_before_wrote_is_no_strangers():
    member = Member(times=TIMES)
    member.step(Started(member.snapshot))
    member.step(Joining())
    member.another_writes("of the former leader")
    member.place()
    member.read()
    assert findings(member.wait(20_000)) == []


def test_strangers_are_reported_of_once_an_hour():
    member = leader()
    for number in range(3):
        member.another_writes(f"theirs-{number}")
        member.read()
        assert len(findings(member.wait(10_000))) == (1 if number == 0 else 0)
    member.wait(3_600_000)
    member.another_writes("again")
    member.read()
    assert findings(member.wait(10_000)) == [WrittenByOther("connector-again", 4)]


def test_a_session_key_from_the_future_tells_that_clocks_differ_once_for_each_key():
    member = Member(leads=False, times=TIMES).settled()
    ahead = SessionKey(b"n" * 32, "HmacSHA256", member.now_ms + 60_000)
    member.store.put_session_key(ahead)
    assert findings(member.read()) == [KeyFromFuture(ahead.created_ms, member.now_ms)]
    member.connector("c")
    assert findings(member.read()) == []


def test_clocks_that_agree_within_seconds_and_keys_of_long_ago_are_no_news():
    member = Member(leads=False, times=TIMES).settled()
    for created_ms in (member.now_ms + 9_000, 1):
        member.store.put_session_key(SessionKey(b"n" * 32, "HmacSHA256", created_ms))
        assert findings(member.read()) == []


def test_a_worker_that_starts_sees_the_key_of_a_leader_whose_clock_is_ahead():
    member = Member(leads=False, times=TIMES)
    member.store.put_session_key(SessionKey(b"n" * 32, "HmacSHA256", 61_000))
    assert findings(member.step(Started(member.snapshot))) == [KeyFromFuture(61_000, 1_000)]


@pytest.mark.parametrize(("support", "is_reported"), [("disabled", True), ("preparing", False), ("enabled", False)])
def test_task_counts_tell_a_worker_without_exactly_once_support_that_others_have_it(support: str, is_reported: bool):
    """`preparing` is on the way: such a worker runs beside those that have it."""
    member = leader(exactly_once=support)
    member.connector("c", tasks=2)
    member.store.put_task_count_record("c", 2)
    assert findings(member.read()) == ([ExactlyOnceElsewhere(("c",))] if is_reported else [])
    member.store.put_task_count_record("c", 2)
    assert findings(member.read()) == [], "once for each connector"


def test_a_leader_that_counts_tasks_for_another_worker_tells_it_with_the_write():
    member = leader()
    member.connector("c", tasks=1)
    member.read()
    member.store.put_task_count_record("c", 1)
    assert findings(member.step(Written(ForRequest(1), member.snapshot))) == [ExactlyOnceElsewhere(("c",))]


def test_task_counts_of_deleted_and_of_stopped_connectors_tell_nothing():
    member = leader()
    member.store.put_task_count_record("deleted", 2)
    member.connector("stopped")
    member.store.put_task_count_record("stopped", 0)
    assert findings(member.read()) == []


def test_a_member_that_takes_the_signatures_away_from_the_group_is_reported_of_once():
    member = Member(leads=False, version=1, times=TIMES)
    member.step(Started(member.snapshot))
    member.step(Joining())
    assert findings(member.place()) == [ProtocolDowngraded(2, 1)]
    member.step(Joining())
    assert findings(member.place()) == []


@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (ConfigTopicEnds(3, 9), ["config.storage.topic=orders-config", "offset 3", "offset 9", "group.id=orders"]),
        (ConfigTopicUnread("late"), ["config.storage.topic=orders-config", "worker.sync.timeout.ms", "(late)"]),
        (WrittenByOther("connector-c", 7), ["connector-c at offset 7", "group.id", "status.storage.topic"]),
        (
            KeyFromFuture(1_700_000_060_000, 1_700_000_000_000),
            [
                "2023-11-14 22:14:20.000Z",
                "2023-11-14 22:13:20.000Z",
                "60.0 s",
                "http://l:1/",
                "inter.worker.key.ttl.ms",
            ],
        ),
        (ExactlyOnceElsewhere(("a", "b")), ["a, b", "exactly.once.source.support=disabled", "preparing"]),
        (ProtocolDowngraded(2, 0), ["connect.protocol", "eager", "sessioned"]),
    ],
)
def test_every_finding_is_a_sentence_with_the_names_of_the_settings(finding: Mismatch, words: list[str]):
    reported = sentence(finding, ClusterNames("orders", "orders-config"), "http://l:1/")
    for word in words:
        assert word in reported
