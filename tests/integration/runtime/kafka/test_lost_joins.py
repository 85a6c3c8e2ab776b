"""A sink's consumer whose request to join has no answer: another client joins in its place and reads on."""

from __future__ import annotations

import pytest

from kconnect.runtime.kafka.admin import KafkaAdmin
from kconnect.runtime.kafka.consumer import RecordConsumer
from kit.pace import ample_s
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
