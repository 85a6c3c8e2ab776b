"""Groups as the broker describes them over our own connection, beside what another client reads of them."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kconnect.errors import ConnectError, UnreachableError
from kconnect.runtime.herder.group.description import describe_group, groups_of_type
from kit.group_members import Member
from kit.group_offsets import member_of
from kit.guarded_broker import login_of
from kit.pace import ample_s
from kit.ports import free_port
from kit.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture
def settings(broker):
    return {"bootstrap.servers": broker.bootstrap}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_group_is_described_as_another_client_describes_it(broker, topic, settings, protocol):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with member_of(broker.bootstrap, topic, topic, protocol):

        def other():
            found = admin.describe_consumer_groups([topic])[topic].result(ample_s(10))
            return found if found.state.name == "STABLE" else None

        theirs = eventually(other, 30, "the group is stable")
        ours = describe_group(settings, topic, ample_s(10))
        assert (ours.state, ours.protocol_type, ours.protocol) == ("Stable", "consumer", theirs.partition_assignor)
        assert [(one.id, one.client_id, one.host) for one in ours.members] == [
            (one.member_id, one.client_id, one.host) for one in theirs.members
        ]
    left = describe_group(settings, topic, ample_s(10))
    assert (left.state, left.members) == ("Empty", ())


def test_a_group_that_does_not_exist_is_dead(settings, topic):
    found = describe_group(settings, topic, ample_s(10))
    assert (found.name, found.state, found.protocol_type, found.members) == (topic, "Dead", "", ())


def test_groups_of_workers_are_found_among_those_of_consumers(broker, topic, settings):
    with Member(broker.bootstrap, f"{topic}-workers", "first") as first, member_of(broker.bootstrap, topic, topic):
        first.await_assigned()
        found = {group.name: group for group in groups_of_type(settings, "connect", ample_s(10))}
        assert topic not in found
        (member,) = found[f"{topic}-workers"].members
        assert member.id == first.member.member_id


def test_brokers_that_are_away_end_it_with_the_setting_of_its_time():
    away = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    for ask in (lambda: describe_group(away, "g", 0.5), lambda: groups_of_type(away, "connect", 0.5)):
        with pytest.raises(UnreachableError, match=r"within 0\.5 s \(--timeout\)"):
            ask()


def test_a_broker_that_refuses_the_login_is_not_called_away(broker):
    away = f"127.0.0.1:{free_port()}"
    settings = {**login_of("reader", "wrong-password"), "bootstrap.servers": f"{away},{broker.guarded}"}
    with pytest.raises(ConnectError, match=f"{broker.guarded} refuses the login") as reported:
        groups_of_type(settings, "connect", ample_s(10))
    assert not isinstance(reported.value, UnreachableError)
    assert "sasl.jaas.config" in (reported.value.hint or "")
    assert "wrong-password" not in str(reported.value)
