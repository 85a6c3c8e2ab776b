"""Members of a worker group on a real broker: they join, lead, follow, leave, and are refused by name."""

from __future__ import annotations

import threading
import uuid

import pytest
from confluent_kafka import Consumer

from kconnect.errors import ConnectError
from kconnect.runtime.herder.assignment.protocol import decode_assignment, decode_metadata
from kconnect.runtime.herder.group.description import describe_group
from kconnect.runtime.herder.membership import Joining, Lost
from kit.group_members import Member, member_ids
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]


@pytest.fixture
def group() -> str:
    return f"membership-{uuid.uuid4().hex[:8]}"


def test_one_member_leads_the_other_follows_and_work_comes_back_when_it_leaves(broker, group):
    with Member(broker.bootstrap, group, "first") as first:
        first.await_assigned()
        assert first.owned.work.connectors == ("c0", "c1")

        with Member(broker.bootstrap, group, "second") as second:
            second.await_assigned()
            first.await_assigned(2)
            assert first.leads
            assert not second.leads
            assert second.last_assigned().assignment.leader_url == "http://first/"
            assert second.last_assigned().generation == first.last_assigned().generation == 2
            assert member_ids(broker.bootstrap, group) == {first.member.member_id, second.member.member_id}
            assert first.reported[-1].assignment.work.connectors == ("c0", "c1")

        # It said that it leaves: the broker did not wait for its session to end
        assert member_ids(broker.bootstrap, group) == {first.member.member_id}
        first.await_assigned(3)
        assert not first.all(Lost)
    assert member_ids(broker.bootstrap, group) == set()


def test_the_broker_shows_what_members_reported_and_were_given_without_anyone_joining(broker, group):
    with Member(broker.bootstrap, group, "first") as first:
        first.await_assigned()
        shown = describe_group({"bootstrap.servers": broker.bootstrap}, group, 10.0)
        (member,) = shown.members
        assert (shown.state, shown.protocol_type, shown.protocol) == ("Stable", "connect", "sessioned")
        assert (member.id, member.client_id) == (first.member.member_id, "first")
        assert decode_assignment(member.assignment) == first.last_assigned().assignment
        assert decode_metadata(member.metadata) == first.reported[-1]


@pytest.mark.parametrize(("older", "version"), [("compatible", 1), ("eager", 0)])
def test_the_group_speaks_what_its_oldest_member_knows_and_what_all_know_when_it_has_left(
    broker, group, older, version
):
    with Member(broker.bootstrap, group, "new") as new:
        new.await_assigned()
        assert new.member.protocol_version == 2
        with Member(broker.bootstrap, group, "old", protocol=older) as old:
            new.await_assigned(2)
            old.await_assigned()
            assert new.member.protocol_version == old.member.protocol_version == version
            assert new.last_assigned().assignment.version == version
        new.await_assigned(3)
        assert new.member.protocol_version == 2


def test_a_rejoin_that_is_asked_for_makes_one_rebalance(broker, group):
    with Member(broker.bootstrap, group) as member:
        member.await_assigned()
        for _ in range(5):
            member.member.request_rejoin("a connector is new")
        member.await_assigned(2)
        assert len(member.all(Joining)) == 2
        assert member.last_assigned().generation == 2
        assert member.last_assigned().member_id == member.member.member_id


def test_a_wakeup_ends_a_poll_of_minutes(broker, group):
    member = Member(broker.bootstrap, group).member
    results = []
    try:
        while not any(results):
            results.append(member.poll(10))  # Joining
        thread = threading.Thread(target=lambda: results.append([member.poll(100), member.poll(100)]))
        thread.start()
        member.wakeup()
        eventually(lambda: len(results) > 1 or member.wakeup(), 20, "both polls over")
        thread.join(10)
        assert not thread.is_alive()
    finally:
        member.stop(5)


def test_a_member_leaves_while_its_join_waits_for_others(broker, group):
    with Member(broker.bootstrap, group, "slow") as slow:
        slow.await_assigned()
        slow.busy.set()  # joins not before it is asked to: the newcomer waits
        newcomer = Member(broker.bootstrap, group, "newcomer")
        with newcomer:
            eventually(
                lambda: newcomer.reported and len(member_ids(broker.bootstrap, group)) == 2, 10, "the newcomer waits"
            )
            newcomer.stop()
        assert not newcomer.all(type(slow.last_assigned()))
        assert member_ids(broker.bootstrap, group) == {slow.member.member_id}


def test_a_member_whose_herder_is_stuck_leaves_and_tells_it_when_it_is_back(broker, group):
    with Member(broker.bootstrap, group, rebalance_ms=1_000) as member:
        first = member.await_assigned()
        member.busy.set()
        eventually(lambda: not member_ids(broker.bootstrap, group), 10, "the stuck member has left")
        member.busy.clear()
        member.await_event(Lost)
        again = member.await_assigned(2)
        assert again.member_id != first.member_id
        (lost,) = member.all(Lost)
        assert "rebalance.timeout.ms=1000" in lost.why
        assert member.reported[-1].assignment is None


def test_a_consumer_group_of_the_same_name_is_reported_in_a_sentence(broker, topic, group):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 20, "the consumer is in its group")
        with Member(broker.bootstrap, group) as member:
            eventually(lambda: member.error, 10, "the worker is refused")
            assert isinstance(member.error, ConnectError)
            assert f"group.id={group} is in use" in str(member.error)
            assert "consumer group" in str(member.error)
            assert "group.id" in member.error.hint
    finally:
        consumer.close()


def test_a_session_timeout_that_the_broker_does_not_take_is_named(broker, group):
    with Member(broker.bootstrap, group, session_ms=100) as member:
        eventually(lambda: member.error, 10, "the worker is refused")
    assert "session.timeout.ms=100" in str(member.error)
    assert "group.min.session.timeout.ms" in member.error.hint


def test_nothing_is_said_twice_a_second_while_no_broker_answers(caplog):
    with Member("127.0.0.1:1", "nobody") as member:
        eventually(lambda: len(member.reported) > 4, 20, "some attempts")
    assert member.error is None
    assert sum("Connection refused" in record.getMessage() for record in caplog.records) == 1
