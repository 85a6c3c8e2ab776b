"""`connect .. --direct` in this process on a cluster without workers, and what its topics and groups have then."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect_cli.app import run
from kit.written_cluster import WrittenCluster

SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/in", "topic": "t", "db.password": "geheim"}


class DirectCommands:
    """Runs `connect ARGS`. A worker that would be asked over REST is not there."""

    def __init__(
        self, cluster: WrittenCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
    ) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("KCONNECT_URL", "http://127.0.0.1:1")
        monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        monkeypatch.setenv("COLUMNS", "200")

    def __call__(self, *args: str, stdin: str = "", expect: int = 0) -> tuple[str, str]:
        """What it writes to stdout and stderr."""
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run(args)
        out, err = self._capsys.readouterr()
        assert code == expect, f"connect {' '.join(map(str, args))} ended with {code}\n{out}\n{err}"
        return out, err


def records_of(
    cluster: WrittenCluster, which: InternalTopic, connector: str, since: Mapping[int, int] | None = None
) -> list[tuple[str, str | None]]:
    """Keys and values of a connector's records, from an offset on; one partition after the other."""
    with ClusterReader(cluster.access) as reader:
        found = sorted(reader.records(which, begin=since), key=lambda record: (record.partition, record.offset))
    return [
        ((record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in found
        if connector in (record.key or b"").decode()
    ]


def end_of_configs(cluster: WrittenCluster) -> dict[int, int]:
    with ClusterReader(cluster.access) as reader:
        return {0: reader.configs().snapshot.offset}


def snapshot(cluster: WrittenCluster) -> ClusterSnapshot:
    with ClusterReader(cluster.access) as reader:
        return reader.configs().snapshot


def committed(bootstrap: str, group: str, topic: str, partitions: int = 2) -> list[int]:
    """A group's offsets in a topic; -1001 where it has none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, number) for number in range(partitions)]
        return [part.offset for part in consumer.committed(asked, 10)]
    finally:
        consumer.close()


def commit_one(producer: Producer, cluster: WrittenCluster) -> None:
    """One record in the offsets topic, in a transaction. Errors: KafkaException of a producer that was fenced."""
    producer.begin_transaction()
    producer.produce(cluster.access.topic(InternalTopic.OFFSET), b"zombie", b"zombie")
    producer.commit_transaction(10)
