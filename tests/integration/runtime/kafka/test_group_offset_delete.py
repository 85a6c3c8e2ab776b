"""Single offsets of a consumer group are forgotten on a real broker; the others are there all the time."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import ConflictError, NotFoundError, UnreachableError
from kconnect.model import TopicPartition
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
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


@pytest.fixture
def groups(broker):
    opened = kafka_group_offsets({"bootstrap.servers": broker.bootstrap}, _WITHIN_S, timeout_setting="t")
    with opened({"name": "s"}) as found:
        yield found


def test_the_other_offsets_are_there_all_the_time(broker, topic, places, groups):
    gone, stay = places[:2], places[2:]
    over, seen = threading.Event(), []
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


def test_what_is_not_there_is_fine(broker, topic, places, groups):
    groups.delete_offsets(f"{topic}-none", places)
    groups.delete_group(f"{topic}-none")
    groups.alter_offsets(topic, {})
    groups.alter_offsets(topic, {places[0]: 5})
    groups.delete_offsets(topic, [places[1], TopicPartition("no-such-topic", 0)])
    groups.delete_offsets(topic, [])
    assert group_offsets(broker.bootstrap, topic) == {places[0]: 5}
    groups.delete_group(topic)
    assert group_offsets(broker.bootstrap, topic) == {}


def test_offsets_of_a_partition_that_is_not_there_are_not_altered(topic, places, groups):
    there = f"cannot be altered, for {places[0].topic}-9: Unknown topic or partition"
    with pytest.raises(NotFoundError, match=there):
        groups.alter_offsets(topic, {TopicPartition(places[0].topic, 9): 5})


def test_a_group_with_members_is_left_alone(broker, topic, places, groups):
    with member_of(broker.bootstrap, topic, topic):
        assert groups.member_count(topic) == 1
        for change in (
            lambda: groups.delete_offsets(topic, [places[-1]]),
            lambda: groups.alter_offsets(topic, {places[-1]: 1}),
            lambda: groups.delete_group(topic),
        ):
            with pytest.raises(ConflictError, match="still has members"):
                change()


def test_brokers_that_do_not_answer_end_it_at_its_deadline():
    opened = kafka_group_offsets({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, 1, timeout_setting="request.time")
    place = TopicPartition("t", 0)
    with opened({"name": "s"}) as groups:
        for change in (
            lambda: groups.delete_offsets("g", [place]),
            lambda: groups.alter_offsets("g", {place: 1}),
            lambda: groups.delete_group("g"),
            lambda: groups.member_count("g"),
        ):
            with pytest.raises(UnreachableError, match=r"within 1 s \(request\.time\)") as error:
                change()
            assert "bootstrap.servers" in error.value.hint
