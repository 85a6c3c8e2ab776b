"""Rules for task configs: compared, written or handed to the leader, tried again; and for session keys."""

from __future__ import annotations

from kconnect.errors import ConnectError
from kconnect.model import TargetState, TaskId
from kconnect.runtime.herder.decisions.events import (
    Claimed,
    Reconfigure,
    Started,
    TaskConfigsFailed,
    TaskConfigsForwarded,
)
from kconnect.runtime.herder.decisions.facts import HerderTimes, Phase
from kconnect.runtime.herder.decisions.instructions import AskTaskConfigs, ForwardTaskConfigs, Write
from kconnect.runtime.herder.decisions.request_signatures import KeyForm
from kconnect.runtime.herder.decisions.writes import ForTasks, NewSessionKey, PutTasks
from kconnect.runtime.herder.membership import Joining
from kconnect.runtime.storage.session_key import SessionKey
from kit.herder_state import KEY, LEADER_URL, Member, kinds, of

C, T0 = "fsrc", TaskId("fsrc", 0)
SAME, OTHER = {"n": "0"}, {"n": "9"}


def asked(*, leads: bool = True) -> Member:
    """A member whose connector was asked for task configs; it has one task, with the config SAME."""
    member = Member(leads=leads)
    member.connector(C, tasks=1)
    member.settled([C], [T0])
    assert kinds(member.step(Reconfigure(C))) == ["AskTaskConfigs"]
    return member


def test_the_same_task_configs_are_not_written():
    assert asked().gave(C, SAME) == []


def test_other_task_configs_are_written_by_the_leader():
    write = of(Write, asked().gave(C, OTHER))
    assert write == Write(ForTasks(C), PutTasks(C, (OTHER,)))


def test_another_number_of_tasks_is_written():
    assert of(Write, asked().gave(C, SAME, OTHER))
    assert of(Write, asked().gave(C))


def test_the_same_task_configs_of_another_connector_config_are_written_so_that_tasks_take_it():
    member = asked()
    member.connector(C, **{"value.converter": "other"})
    assert of(Write, member.gave(C, SAME))


def test_task_configs_that_compaction_took_are_written_again():
    member = asked()
    member.store._log.send(b"commit-fsrc", b'{"tasks":3}')
    member.read()
    assert member.snapshot.inconsistent == {C}
    assert of(Write, member.gave(C, SAME))


def test_a_follower_hands_other_task_configs_to_its_leader():
    found = of(ForwardTaskConfigs, asked(leads=False).gave(C, OTHER))
    assert (found.connector, list(found.configs), found.leader_url) == (C, [OTHER], LEADER_URL)


def test_a_connector_that_can_not_say_is_asked_again_at_once_then_less_and_less_often():
    member = asked()
    pauses = []
    for _ in range(12):
        before = member.now_ms
        reported = member.step(TaskConfigsFailed(C, "the system is away"))
        while "AskTaskConfigs" not in kinds(reported):
            due_ms = member.state.next_due_ms()
            reported = member.wait(due_ms - member.now_ms)
        pauses.append(member.now_ms - before)
    assert pauses == [0, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]


def test_a_leader_that_takes_no_task_configs_is_asked_again():
    member = asked(leads=False)
    member.gave(C, OTHER)
    assert kinds(member.step(TaskConfigsForwarded(C, "refused"))) == ["AskTaskConfigs"]
    member.gave(C, OTHER)
    assert member.step(TaskConfigsForwarded(C, "refused")) == []
    assert kinds(member.wait(250)) == ["AskTaskConfigs"]


def test_what_worked_ends_the_back_off():
    member = asked(leads=False)
    for problem in ("refused", None):
        member.gave(C, OTHER)
        member.step(TaskConfigsForwarded(C, problem))
    member.step(Reconfigure(C))
    member.gave(C, OTHER)
    assert kinds(member.step(TaskConfigsForwarded(C, "refused"))) == ["AskTaskConfigs"]


def test_a_write_of_task_configs_that_failed_is_tried_again():
    member = asked()
    write = of(Write, member.gave(C, OTHER))
    assert kinds(member.written(write, ConnectError("no broker"))) == ["AskTaskConfigs"]


def test_too_many_tasks_are_not_asked_for_again():
    member = asked()
    assert member.step(TaskConfigsFailed(C, "too many tasks", is_final=True)) == []
    assert member.wait(120_000) == []


def test_requests_while_a_connector_is_asked_are_one_more_round():
    member = asked()
    for _ in range(3):
        assert member.step(Reconfigure(C)) == []
    assert member.state.next_due_ms() is None or member.state.next_due_ms() > member.now_ms
    assert kinds(member.gave(C, SAME)) == ["AskTaskConfigs"]
    assert member.gave(C, SAME) == []


def test_a_paused_connector_is_not_asked_and_one_elsewhere_neither():
    member = Member()
    member.connector(C, tasks=1)
    member.connector("paused")
    member.target("paused", TargetState.PAUSED)
    member.settled(["paused"])
    assert member.step(Reconfigure(C)) == []
    assert member.step(Reconfigure("paused")) == []


def test_task_configs_given_during_a_rebalance_are_written_after_it():
    member = asked()
    member.step(Joining())
    assert member.gave(C, OTHER) == []
    assert "Write" in kinds([*member.place(), *member.step(Claimed())])


def test_the_config_a_connector_is_asked_with_is_the_one_as_written():
    member = Member()
    member.connector(C, secret="${file:x:y}")
    member.settled([C])
    assert of(AskTaskConfigs, member.step(Reconfigure(C))).config["secret"] == "${file:x:y}"


# -- session keys -----------------------------------------------------------------------------------------------------


def test_a_leader_makes_a_new_key_when_the_old_one_is_as_old_as_it_may_be():
    member = Member(times=HerderTimes(key_ttl_ms=60_000)).settled()
    assert member.state.next_due_ms() == KEY.created_ms + 60_000
    assert member.wait(59_999) == []
    assert of(Write, member.wait(1)).write == NewSessionKey(KEY.created_ms + 60_000)


def test_a_follower_makes_no_keys():
    assert Member(leads=False, times=HerderTimes(key_ttl_ms=60_000)).settled().wait(600_000) == []


def test_keys_are_kept_when_their_time_to_live_is_0():
    assert Member(times=HerderTimes(key_ttl_ms=0)).settled().wait(10**9) == []


def test_groups_that_do_not_sign_have_no_keys():
    assert Member(version=1, times=HerderTimes(key_ttl_ms=1)).settled().wait(600_000) == []


def test_a_key_of_another_form_is_replaced_at_once():
    member = Member()
    member.store.put_session_key(SessionKey(b"short", "HmacSHA256", member.now_ms))
    member.step(Started(member.snapshot))
    member.step(Joining())
    member.place()
    assert isinstance(of(Write, member.step(Claimed())).write, NewSessionKey)
    assert KeyForm().size_bytes == 32


def test_a_key_that_may_be_written_or_not_has_the_leader_read_the_topic_to_its_end():
    member = Member(times=HerderTimes(key_ttl_ms=60_000)).settled()
    write = of(Write, member.wait(60_000))
    assert kinds(member.written(write, ConnectError("timed out"))) == ["CatchUp"]
    assert member.state.facts.phase is Phase.SETTLING
    assert member.state.wants_group
    assert isinstance(of(Write, member.caught_up()).write, NewSessionKey)


def test_a_key_that_was_written_after_all_is_not_written_again_and_moves_no_work():
    member = asked()
    member.state.facts.times = HerderTimes(key_ttl_ms=60_000)
    write = of(Write, member.wait(60_000))
    member.store.put_session_key(SessionKey(b"n" * 32, "HmacSHA256", member.now_ms))
    assert kinds(member.written(write, ConnectError("timed out"))) == ["CatchUp"]
    assert member.caught_up() == [], "neither a rebalance, nor a key"
    assert member.state.facts.phase is Phase.STABLE
    assert member.state.next_due_ms() == member.now_ms + 60_000


def test_a_leader_that_can_not_read_what_it_wrote_leaves_the_group():
    member = Member(times=HerderTimes(key_ttl_ms=60_000)).settled()
    write = of(Write, member.wait(60_000))
    member.written(write, ConnectError("timed out"))
    assert kinds(member.caught_up("too slow")) == ["LeaveGroup"]


def test_a_follower_that_becomes_the_leader_takes_care_of_the_key_and_a_former_leader_no_more():
    member = Member(leads=False, times=HerderTimes(key_ttl_ms=60_000)).settled()
    assert member.state.next_due_ms() is None
    for leader, due_ms in (("me", KEY.created_ms + 60_000), ("other", None)):
        member._leader = leader
        member.step(Joining())
        member.place()
        member.step(Claimed())
        assert member.state.next_due_ms() == due_ms
    assert member.wait(600_000) == []
