"""Single offsets of a consumer group are forgotten on a real broker; the others are there all the time."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConflictError, UnreachableError
from kconnect.model import TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import delete_group_offsets, kafka_group_offsets
from kconnect.runtime.kafka.admin import KafkaAdmin
from kit.group_offsets import group_offsets, member_of
from kit.ports import free_port
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = pytest.mark.broker

# The first group makes a broker create the topic of groups' offsets, which takes its time on a busy machine
_WITHIN_S = 60.0


@pytest.fixture
def places(broker, topic):
    create_topic(broker.bootstrap, f"{topic}-b", partitions=3)
    return [TopicPartition(f"{topic}-b", number) for number in range(3)] + [TopicPartition(topic, 0)]


def test_the_other_offsets_are_there_all_the_time(broker, topic, places):
    gone, stay = places[:2], places[2:]
    over, seen = threading.Event(), []
    with (
        kafka_group_offsets({"bootstrap.servers": broker.bootstrap}, _WITHIN_S, timeout_setting="t")(
            {"name": "s"}
        ) as groups,
    ):
        groups.alter_offsets(topic, {at: number for number, at in enumerate(places)})

        def watch():
            while not over.is_set():
                seen.append(group_offsets(broker.bootstrap, topic))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            eventually(lambda: seen, _WITHIN_S, "the watcher looks")
            rounds = 0
            while rounds < 30 or len(seen) <= 10:  # a busy machine may let the watcher look seldom
                groups.delete_offsets(topic, gone)
                groups.alter_offsets(topic, dict.fromkeys(gone, 7))
                rounds += 1
            groups.delete_offsets(topic, gone)
        finally:
            over.set()
            thread.join(_WITHIN_S)
        assert groups.list_offsets(topic) == {at: places.index(at) for at in stay}
    assert len(seen) > 10
    assert [found for found in seen if not found.keys() >= set(stay)] == []


def test_what_is_not_there_is_fine(broker, topic, places):
    settings = {"bootstrap.servers": broker.bootstrap}
    delete_group_offsets(settings, f"{topic}-none", places, _WITHIN_S, timeout_setting="t")
    with KafkaAdmin(settings, "test") as admin:
        admin.alter_group_offsets(topic, {places[0]: 5}, _WITHIN_S)
        delete_group_offsets(
            settings, topic, [places[1], TopicPartition("no-such-topic", 0)], _WITHIN_S, timeout_setting="t"
        )
        delete_group_offsets(settings, topic, [], _WITHIN_S, timeout_setting="t")
        assert group_offsets(broker.bootstrap, topic) == {places[0]: 5}


def test_a_group_with_members_is_left_alone(broker, topic, places):
    settings = {"bootstrap.servers": broker.bootstrap}
    with (
        member_of(broker.bootstrap, topic, topic),
        pytest.raises(ConflictError, match="still has members"),
    ):
        delete_group_offsets(settings, topic, [places[-1]], _WITHIN_S, timeout_setting="t")


def test_brokers_that_do_not_answer_end_it_at_its_deadline():
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    with pytest.raises(UnreachableError, match=r"within 2 s \(request\.time\)") as error:
        delete_group_offsets(settings, "g", [TopicPartition("t", 0)], 2, timeout_setting="request.time")
    assert "bootstrap.servers" in error.value.hint
