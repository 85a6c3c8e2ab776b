"""Kafka 2.8.2 with ZooKeeper, and a worker of its Connect: what companies still run."""

from __future__ import annotations

import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kconnect.files.folders import cache_folder
from kconnect.java.installed import find_java
from kconnect.java.maven import ArtifactSet, read_lock
from kit.java_connect import write_properties
from kit.pace import ample_s
from kit.ports import free_port
from kit.server_process import ServerProcess

__all__ = ["OlderKafka", "older_kafka"]

_LOCK = Path(__file__).with_name("kafka-2.8.lock")
_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_LOG_SETTINGS = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class OlderKafka:
    """Where the broker and the worker of Java answer, and the worker's properties file."""

    bootstrap: str
    connect_url: str
    worker_file: Path


@contextmanager
def older_kafka(folder: Path) -> Iterator[OlderKafka]:
    """All three processes; they are killed at the end, and their data are thrown away."""
    jars = ArtifactSet(
        "Kafka 2.8's jars", cache_folder() / "jars" / "kafka-2.8.2", read_lock(_LOCK.read_text())
    ).fetch()
    (folder / "log4j.properties").write_text(_LOG_SETTINGS)
    keeper, broker, rest = (free_port() for _ in range(3))
    bootstrap, url = f"127.0.0.1:{broker}", f"http://127.0.0.1:{rest}"
    worker_file = write_properties(folder / "worker.properties", _worker(folder, bootstrap, url))
    steps = [
        (
            "ZooKeeper",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            write_properties(
                folder / "zookeeper.properties",
                {"dataDir": str(folder / "zookeeper"), "clientPort": str(keeper), "admin.enableServer": "false"},
            ),
            lambda: _is_open(keeper),
        ),
        (
            "the older broker",
            "kafka.Kafka",
            write_properties(folder / "server.properties", _server(folder, bootstrap, keeper)),
            lambda: _has_broker(bootstrap),
        ),
        (
            "the older worker of Java",
            "org.apache.kafka.connect.cli.ConnectDistributed",
            worker_file,
            lambda: _has_worker(url),
        ),
    ]
    plugins = folder / "plugins" / "connect-file"
    plugins.mkdir(parents=True)
    for jar in jars:
        if jar.name.startswith("connect-file"):
            (plugins / jar.name).symlink_to(jar)
    with ExitStack() as stack:
        for title, main, settings, answers in steps:
            process = ServerProcess(title, folder / f"{settings.stem}.log", answers)
            stack.callback(process.kill)
            log_settings = f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}"
            classes = os.pathsep.join(str(jar) for jar in jars if not jar.name.startswith("connect-file"))
            java = str(find_java("an older Kafka in tests").executable)
            process.start([java, *_JVM_OPTIONS, log_settings, "-cp", classes, main, str(settings)])
        yield OlderKafka(bootstrap, url, worker_file)


def _server(folder: Path, bootstrap: str, keeper: int) -> dict[str, str]:
    return {
        "broker.id": "0",
        "listeners": f"PLAINTEXT://{bootstrap}",
        "log.dirs": str(folder / "logs"),
        "zookeeper.connect": f"127.0.0.1:{keeper}",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
    }


def _worker(folder: Path, bootstrap: str, url: str) -> dict[str, str]:
    found = {
        "bootstrap.servers": bootstrap,
        "group.id": "older",
        "listeners": url,
        "plugin.path": str(folder / "plugins"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    for name in ("config", "offset", "status"):
        found |= {f"{name}.storage.topic": f"older-{name}", f"{name}.storage.replication.factor": "1"}
    return found


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _has_broker(bootstrap: str) -> bool:
    try:
        return bool(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False


def _has_worker(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/connectors", timeout=ample_s(2)) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
