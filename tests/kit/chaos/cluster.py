"""The cluster that is harmed: a broker of its own, workers of ours, VerifiableSource and VerifiableSink."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kit.brokers import PatientBroker
from kit.chaos.account import Account, account_of, delivered, sink_lines
from kit.chaos.service import Service
from kit.pace import ample_s, now
from kit.ports import free_port
from kit.spark_cluster import SparkCluster
from kit.topics import create_topic
from kit.waiting import eventually

__all__ = ["ChaosCluster", "Shape"]

SOURCE, SINK, TOPIC = "chaos-source", "chaos-sink", "chaos-numbers"
# Of each worker
SLOTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large it is, and what it promises."""

    workers: int = 3
    source_tasks: int = 4
    sink_tasks: int = 2
    rate: int = 100
    """Records a second of each source task."""
    exactly_once: bool = False
    on_spark: bool = False
    """Slots run on a Spark standalone cluster, not in a local Spark below each worker."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of each worker, beside those that make it a worker of this cluster."""


class ChaosCluster:
    """A context manager: the broker runs inside, and at the end nothing does. `start` brings all to RUNNING."""

    def __init__(self, folder: Path, shape: Shape, broker: PatientBroker | None = None) -> None:
        self.folder, self.shape = folder, shape
        self.broker = broker or PatientBroker(free_port(), folder / "broker")
        self.journal = folder / "sink.jsonl"
        self.services: list[Service] = []
        self.spark = SparkCluster(folder / "spark", shape.workers, cores=SLOTS) if shape.on_spark else None
        self._stack = ExitStack()

    def __enter__(self) -> ChaosCluster:
        self.broker.start()
        self._stack.callback(self.broker.stop)
        if self.spark is not None:
            self._stack.enter_context(self.spark)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            for service in self.services:
                self._stack.callback(service.stop)

    def start(self, within_s: float) -> None:
        """Bring workers and connectors up."""
        bootstrap = self.broker.bootstrap
        create_topic(bootstrap, TOPIC, partitions=self.shape.source_tasks)
        self.services = [
            Service(self.folder, number, self._settings_of(number)) for number in range(self.shape.workers)
        ]
        self._connect()
        for service in self.services:
            service.start()
        for service in self.services:
            service.await_healthy(within_s)
        self.ask("PUT", f"/connectors/{SOURCE}/config", self._source(), within_s=within_s)
        self.ask("PUT", f"/connectors/{SINK}/config", self._sink(), within_s=within_s)
        self.await_running(within_s)

    def await_running(self, within_s: float) -> None:
        """Wait until every worker is up and both connectors run with all their tasks."""
        for service in self.services:
            service.await_healthy(within_s)
        wanted = {SOURCE: self.shape.source_tasks, SINK: self.shape.sink_tasks}

        def running() -> bool:
            for service in self.services:
                service.keep_up()
            for name, tasks in wanted.items():
                status = self.ask("GET", f"/connectors/{name}/status", within_s=2.0)
                states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
                assert states == ["RUNNING"] * (tasks + 1), status
            return True

        eventually(running, within_s, "connectors and tasks RUNNING", pause_s=0.5)

    def await_moving(self, within_s: float) -> None:
        """Wait until each task of the source has committed something since the call.

        A status may be one that a killed worker left behind; numbers that go on are not.
        """
        before = self.committed(within_s)

        def moving() -> bool:
            for service in self.services:
                service.keep_up()
            now = self.committed(2.0)
            still = [task for task in range(self.shape.source_tasks) if now.get(task, -1) <= before.get(task, -1)]
            assert not still, f"source tasks {still} have committed nothing since {before}"
            return True

        eventually(moving, within_s, "all source tasks commit", pause_s=0.3)

    def stop_source(self, within_s: float) -> None:
        """Stop it, and wait until all its tasks have ended."""
        self.ask("PUT", f"/connectors/{SOURCE}/stop", within_s=within_s)

        def stopped() -> bool:
            status = self.ask("GET", f"/connectors/{SOURCE}/status", within_s=2.0)
            assert not status["tasks"], status
            assert status["connector"]["state"] == "STOPPED", status
            return True

        eventually(stopped, within_s, "the source is stopped", pause_s=0.3)

    def account(self, within_s: float) -> Account:
        """Stop the source, let the sink read all, and count. `within_s` is for each of these."""
        self.stop_source(within_s)
        records = delivered(self.broker.bootstrap, TOPIC, committed_only=self.shape.exactly_once)
        ends: dict[int, int] = {}
        for record in records:
            ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
        self.await_drained(ends, within_s)
        return account_of(records, sink_lines(self.journal), self.committed(within_s), self.shape.source_tasks)

    def await_drained(self, ends: Mapping[int, int], within_s: float) -> None:
        """Wait until the sink has committed up to the last record of each partition.

        Behind it there may be the end of a transaction, which no consumer is given.
        """

        def drained() -> bool:
            for service in self.services:
                service.keep_up()
            done = self.sink_offsets()
            behind = {part: end - done[part] for part, end in ends.items() if done[part] < end}
            assert not behind, f"the sink is behind by {behind} records (by partition)"
            return True

        eventually(drained, within_s, "the sink has read all", pause_s=0.5)

    def committed(self, within_s: float) -> dict[int, int]:
        """The seqno committed for each source task."""
        body = self.ask("GET", f"/connectors/{SOURCE}/offsets", within_s=within_s)
        return {entry["partition"]["id"]: entry["offset"]["seqno"] for entry in body["offsets"]}

    def sink_offsets(self) -> dict[int, int]:
        """What the sink has committed: partition -> offset of the next record."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": f"connect-{SINK}", "log_level": 2})
        try:
            parts = [TopicPartition(TOPIC, part) for part in range(self.shape.source_tasks)]
            return {part.partition: max(0, part.offset) for part in consumer.committed(parts, timeout=ample_s(10))}
        finally:
            consumer.close()

    def ask(self, method: str, path: str, body: object = None, *, within_s: float) -> Any:
        """What the cluster answers, asked of one worker after the other until one does. Errors: AssertionError."""
        deadline = now() + within_s
        while True:
            problems = []
            for service in self.services:
                if not service.is_running or service.is_frozen:
                    continue
                try:
                    return _request(method, service.url + path, body, max(2.0, min(within_s, 20.0)))
                except AssertionError as err:
                    problems.append(str(err))
            assert now() < deadline, f"{method} {path}: {problems or 'no worker runs'}"
            time.sleep(0.3)

    def rebalances(self) -> int:
        """Generations of the group that any worker's log tells of."""
        return len(set().union(*(service.generations() for service in self.services)))

    def _connect(self) -> None:
        """The services are made, and not started yet."""

    def _settings_of(self, number: int) -> dict[str, str]:
        """Of one worker."""
        return self._settings()

    def _settings(self) -> dict[str, str]:
        once = {"exactly.once.source.support": "enabled"} if self.shape.exactly_once else {}
        topics = {f"{kind}.storage.topic": f"chaos-{kind}" for kind in ("config", "offset", "status")}
        copies = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
        return {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": "chaos",
            **topics,
            **copies,
            "offset.storage.partitions": "5",
            "status.storage.partitions": "2",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "5000",
            "kconnect.slots": str(SLOTS),
            **once,
            **self._spark_settings(),
            **self.shape.settings,
        }

    def _spark_settings(self) -> dict[str, str]:
        if self.spark is None:
            return {}
        return {
            **self.spark.settings(spark_cores_max=str(SLOTS), spark_executor_cores="1"),
            "spark.pyspark.python": sys.executable,
            "kconnect.link.bind.host": "127.0.0.1",
            "kconnect.link.advertised.host": "127.0.0.1",
        }

    def _source(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
            "tasks.max": str(self.shape.source_tasks),
            "topic": TOPIC,
            "throughput": str(self.shape.rate),
            "file": "/dev/null",
        }

    def _sink(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.tools.VerifiableSinkConnector",
            "tasks.max": str(self.shape.sink_tasks),
            "topics": TOPIC,
            "file": str(self.journal),
        }


def _request(method: str, url: str, body: object, timeout_s: float) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            text = answer.read()
    except urllib.error.HTTPError as answer:
        raise AssertionError(f"{url} answers {answer.code}: {answer.read()[:300]!r}") from answer
    except OSError as err:
        raise AssertionError(f"{url}: {err}") from err
    return json.loads(text) if text else None
