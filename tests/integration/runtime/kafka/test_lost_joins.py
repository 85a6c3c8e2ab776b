"""A sink's consumer whose request to join has no answer: another client joins in its place and reads on.

Where brokers lack the protocol that it asks by, no client will: that is an error.
"""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.runtime.kafka.admin import KafkaAdmin
from kconnect.runtime.kafka.consumer import RecordConsumer
from kconnect.runtime.kafka.consumer_additions import LostJoins
from kit.brokers import PatientBroker
from kit.pace import ample_s
from kit.played_broker import CONSUMER_GROUP_HEARTBEAT, played_broker
from kit.ports import free_port
from kit.topics import produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker


class Listener:
    def assigned(self, _partitions):
        return {}

    def to_pause(self, _partitions):
        return ()

    def revoked(self, _partitions):
        pass

    lost = revoked


class LostOnce:
    """Says so at the first look, as of a group that was handed on meanwhile."""

    def __init__(self):
        self.looks, self.has_joined = 0, False

    def is_lost(self, _member_id):
        self.looks += 1
        return self.looks == 1

    def joined(self):
        self.has_joined = True

    def waits(self):
        self.has_joined = False


def test_another_client_joins_in_place_of_one_whose_request_was_lost(broker, topic, caplog):
    produce_lines(broker.bootstrap, topic, ["a", "b"])
    joins, admin = LostOnce(), KafkaAdmin({"bootstrap.servers": broker.bootstrap}, "test")
    config = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer, values = RecordConsumer({**config, "enable.auto.commit": False}, "c", lost_joins=joins), []
    try:
        consumer.subscribe([topic], Listener())

        def has_read():
            values.extend(value for run in consumer.fetch(10, 0.1) for value in run.values)
            return values == [b"a", b"b"]

        eventually(has_read, 30, "both records are read")
        assert joins.has_joined
        assert f"the group {topic} does not have it" in caplog.text
        eventually(lambda: len(admin.group_members(topic, ample_s(5))) == 1, 30, "it is the only member")
        looks = joins.looks
        consumer.fetch(10, 0.1)
        assert joins.looks == looks  # whoever has partitions is not looked at
    finally:
        consumer.close()
        admin.close()


class Ahead:
    """A clock that is as far ahead as wanted."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def joining_by_consumer_protocol(bootstrap, group, topic):
    """A consumer that has asked to join, its clock, and an admin client."""
    admin, clock = KafkaAdmin({"bootstrap.servers": bootstrap}, "test"), Ahead()
    joins = LostJoins(lambda: admin.group_members(group, ample_s(5)), clock)
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    consumer = RecordConsumer({**config, "enable.auto.commit": False}, "c-0", lost_joins=joins)
    consumer.subscribe([topic], Listener())
    return consumer, clock, admin


NO_PROTOCOL = "c-0 cannot join the group .* by group.protocol=consumer: it "


def test_brokers_that_refuse_the_protocol_of_a_group_are_an_error(tmp_path, topic):
    settings = {"group.coordinator.rebalance.protocols": "classic"}
    with PatientBroker(free_port(), tmp_path / "classic", settings=settings) as classic:
        consumer, _, admin = joining_by_consumer_protocol(classic.bootstrap, topic, topic)

        def fetch():
            consumer.fetch(10, 0.1)
            return False

        try:
            with pytest.raises(ConnectError, match=f"{NO_PROTOCOL}is refused .*API version not supported") as caught:
                eventually(fetch, 30, "an error")
            assert "consumer.override.group.protocol=classic" in (caught.value.hint or "")
        finally:
            consumer.close()
            admin.close()


def test_brokers_too_old_for_the_protocol_of_a_group_are_an_error():
    with played_broker() as old:
        old.forget(CONSUMER_GROUP_HEARTBEAT)  # librdkafka then asks and asks, and says nothing
        clock = Ahead()
        config = {"bootstrap.servers": old.bootstrap, "group.id": "g", "group.protocol": "consumer"}
        joins = LostJoins(tuple, clock)
        consumer = RecordConsumer({**config, "enable.auto.commit": False}, "c-0", lost_joins=joins)
        try:
            consumer.subscribe(["t"], Listener())
            clock.now_s = 11
            assert consumer.fetch(10, 0.1) == []
            clock.now_s = 17
            with pytest.raises(ConnectError, match=f"{NO_PROTOCOL}is not a member of it"):
                consumer.fetch(10, 0.1)
        finally:
            consumer.close()


def test_a_member_of_a_group_of_brokers_may_wait_for_its_topic(broker, topic):
    consumer, clock, admin = joining_by_consumer_protocol(broker.bootstrap, topic, "no-such-topic")
    try:

        def has_joined():
            consumer.fetch(10, 0.1)
            return len(admin.group_members(topic, ample_s(5))) == 1

        eventually(has_joined, 30, "it is a member without partitions")
        for clock.now_s in range(11, 300, 7):
            assert consumer.fetch(10, 0.01) == []
    finally:
        consumer.close()
        admin.close()
