"""MirrorMaker 2 between two real clusters: `connect mirror`, whose connectors are Java's."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from kconnect.java.devbroker import DevBroker
from kit.brokers import PatientBroker
from kit.mirror import Mirror, committed, group_offsets, same_records, topic_config
from kit.pace import ample_s, now
from kit.ports import free_port
from kit.topics import consume, create_topic, end_offset
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]


@pytest.fixture
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevBroker, DevBroker]]:
    folders = [tmp_path_factory.mktemp(name) / "data" for name in ("source", "target")]
    with PatientBroker(free_port(), folders[0]) as source, PatientBroker(free_port(), folders[1]) as target:
        yield source, target


def produce(bootstrap: str, topic: str, partition: int, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        key, value = (None, None) if number % 10 == 7 else (f"k{number}".encode(), f"value {number}".encode())
        headers = [("one", b"\x00\xff"), ("one", None), ("number", str(number).encode())]
        producer.produce(topic, value, key, partition=partition, headers=headers, timestamp=1_700_000_000_000 + number)
    assert producer.flush(30) == 0


def test_topics_groups_and_their_offsets_are_mirrored_whatever_is_killed(
    clusters: tuple[DevBroker, DevBroker], tmp_path: Path
) -> None:
    source, target = clusters
    a, b = source.bootstrap, target.bootstrap
    create_topic(a, "orders", partitions=3, config={"retention.ms": "-1", "max.message.bytes": "123456"})
    for part in range(3):
        produce(a, "orders", part, range(200))
    committed(a, "shop", {("orders", part): 100 + part for part in range(3)})
    flow = {
        "clusters": "A, B",
        "A.bootstrap.servers": a,
        "B.bootstrap.servers": b,
        "A->B.enabled": "true",
        "A->B.topics": "orders.*",
        "B->A.emit.heartbeats.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "B.offset.flush.interval.ms": "500",
    }
    with Mirror(tmp_path, flow) as mirror:
        mirror.launch()
        eventually(lambda: same_records(a, "orders", b, "A.orders", 3), 60, "the topics are equal")
        eventually(lambda: topic_config(b, "A.orders", "max.message.bytes") == "123456", 20, "the settings are equal")
        eventually(lambda: end_offset(b, "heartbeats") > 0, 20, "there are heartbeats")

        # Records that come later have offset syncs of their own; those of old records are few, on purpose
        for part in range(3):
            produce(a, "orders", part, range(200, 300))
        done = {0: 300, 1: 250, 2: 251}
        committed(a, "shop", {("orders", part): offset for part, offset in done.items()})
        eventually(lambda: translated(b, done), 40, "the group has its offsets in the target")
        assert end_offset(a, "mm2-offset-syncs.B.internal") > 0
        assert end_offset(b, "A.checkpoints.internal") > 0

        # The group fails over: it goes on where it was, and misses nothing
        read = read_on(b, "shop", "A.orders", {part: 300 for part in range(3)})
        assert read[0] == []
        for part in (1, 2):
            assert read[part][-1] == 299
            assert read[part][0] <= done[part]

        # A new topic and new partitions are found
        create_topic(a, "orders-late")
        produce(a, "orders-late", 0, range(20))
        admin = AdminClient({"bootstrap.servers": a})
        admin.create_partitions([NewPartitions("orders", 4)])["orders"].result(timeout=ample_s(10))
        eventually(lambda: same_records(a, "orders-late", b, "A.orders-late", 1), 40, "the new topic is mirrored")
        produce(a, "orders", 3, range(50))
        eventually(lambda: same_records(a, "orders", b, "A.orders", 4), 40, "the new partition is mirrored")

        # The worker is killed, and started again
        (worker,) = mirror.workers()
        worker.send_signal(signal.SIGKILL)
        produce(a, "orders", 0, range(300, 400))
        eventually(lambda: has_all(b, "A.orders", 400), 60, "it went on after its worker was killed")
        eventually(lambda: mirror.says("was killed by signal 9; it is started again"), 20, "that is reported")

        # The target is killed, and comes back
        target.kill()
        produce(a, "orders", 0, range(400, 500))
        target.start()
        eventually(lambda: has_all(b, "A.orders", 500), 60, "it went on after its target was killed")
        mirror.kill()  # its workers end with it


def test_ctrl_c_during_the_start_ends_all_of_it(tmp_path: Path) -> None:
    flow = {
        "clusters": "A, B",
        "A.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "B.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "A->B.enabled": "true",
        "B->A.emit.heartbeats.enabled": "false",
        "A->B.topcs": "orders",
    }
    with Mirror(tmp_path, flow) as mirror:
        mirror.launch()
        eventually(lambda: mirror.says("[A->B] "), 30, "its worker is on its way")
        eventually(lambda: mirror.says("No Kafka broker answers"), 30, "it misses its broker")
        family = mirror.descendants()
        mirror.signal(signal.SIGINT)
        assert mirror.wait(30) == 130
        mirror.assert_gone(family)
        assert not mirror.says("Fatal Python error"), mirror.log_text()
        assert mirror.says("Unknown setting: A->B.topcs. Did you mean A->B.topics?")


def translated(bootstrap: str, done: dict[int, int]) -> bool:
    """Whether the group has offsets in the target: what it has read to the end, or somewhat less."""
    found = group_offsets(bootstrap, "shop")
    assert found.get(("A.orders", 0)) == done[0], f"{found}"
    assert all(0 < found.get(("A.orders", part), 0) <= offset for part, offset in done.items()), f"{found}"
    return True


def read_on(bootstrap: str, group: str, topic: str, ends: dict[int, int]) -> dict[int, list[int]]:
    """What a member of the group reads up to these offsets: the records' numbers, by partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "error"})
    read: dict[int, list[int]] = {part: [] for part in ends}
    try:
        consumer.subscribe([topic])
        deadline = now() + 30

        def at_end() -> bool:
            places = [TopicPartition(topic, part) for part in ends]
            return all(max(place.offset, 0) >= ends[place.partition] for place in consumer.committed(places, 10))

        while not at_end():
            assert now() < deadline, f"the group has read {read}"
            messages = consumer.consume(1000, timeout=0.5)
            for message in messages:
                assert message.error() is None, message.error()
                read[message.partition() or 0].append(message.offset() or 0)
            if messages:  # the client refuses to commit what it has committed
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return read


def has_all(bootstrap: str, topic: str, count: int) -> bool:
    """Partition 0 has each number; twice where something was killed."""
    messages = consume(bootstrap, topic, sum(end_offset(bootstrap, topic, part) for part in range(4)))
    found = {dict(m.headers() or ())["number"] for m in messages if m.partition() == 0}
    assert found == {str(number).encode() for number in range(count)}, f"{len(found)} of {count}"
    return True
