"""`connect mirror` as users run it, and what stands in two clusters, to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psutil
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from kit.pace import ample_s
from kit.processes import below, command
from kit.standalone import Standalone, write_properties
from kit.topics import consume, end_offset

__all__ = ["Mirror", "committed", "group_offsets", "same_records", "topic_config"]

# Tests wait for none of them
QUICK = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.partitions": "2",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.enabled": "false",
    "offset.lag.max": "0",
    "kconnect.slots": "1",
    "spark.master": "local[1]",
}


class Mirror(Standalone):
    """`connect mirror` in a process. `start()` returns when the log says what it waits for."""

    def __init__(self, folder: Path, properties: Mapping[str, str], *options: str) -> None:
        temporary = folder / "tmp"  # of its own: what a killed worker leaves is removed by the next one there
        temporary.mkdir()
        super().__init__(folder, "unused", {}, env={"TMPDIR": str(temporary)})
        self.command = "mirror"
        self.files = [write_properties(folder / "mm2.properties", {**QUICK, **properties})]
        self._names = []
        self._options = options

    def says(self, words: str, times: int = 1) -> bool:
        return self.log_text().count(words) >= times

    def workers(self) -> list[psutil.Process]:
        """The processes of the flows."""
        return [child for child in below(self.pid, deep=False) if "mirror-flow" in command(child)]


def same_records(source: str, topic: str, target: str, mirrored: str, partitions: int) -> bool:
    """Whether two topics have the same records: partition, key, value, headers, timestamp, order."""
    counts = [
        sum(end_offset(bootstrap, name, part) for part in range(partitions))
        for bootstrap, name in ((source, topic), (target, mirrored))
    ]
    assert counts[0] == counts[1], f"{counts[0]} records in {topic}, {counts[1]} in {mirrored}"
    theirs, ours = (
        _by_partition(consume(bootstrap, name, counts[0])) for bootstrap, name in ((source, topic), (target, mirrored))
    )
    assert theirs == ours
    return True


def _by_partition(messages: list[Message]) -> dict[int | None, list[object]]:
    found: dict[int | None, list[object]] = {}
    for message in messages:
        row = (message.offset(), message.key(), message.value(), message.headers(), message.timestamp())
        found.setdefault(message.partition(), []).append(row)
    return found


def topic_config(bootstrap: str, topic: str, name: str) -> str:
    """One setting of a topic."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must live until the answer is there
    (answer,) = admin.describe_configs([resource]).values()
    return str(answer.result(timeout=ample_s(10))[name].value)


def committed(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets of a group that nobody is in."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        places = [TopicPartition(topic, part, offset) for (topic, part), offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
    finally:
        consumer.close()


def group_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """The offsets that a group has committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must live until the answer is there
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(timeout=ample_s(10)).topic_partitions
    return {(place.topic, place.partition): place.offset for place in found}
