"""A standalone worker with Java's plugins, and the JVMs below its slot."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.pace import ample_s
from kit.processes import below, named
from kit.standalone import Standalone
from kit.topics import consume_values
from kit.waiting import eventually

__all__ = ["JSON", "MISBEHAVES", "NUMBERS", "JavaWorker", "java_worker", "texts"]

JSON = "org.apache.kafka.connect.json.JsonConverter"
NUMBERS = {"connector.class": "kit.TestPlugins$Numbers"}
MISBEHAVES = {"transforms": "bad", "transforms.bad.type": "kit.TestPlugins$Misbehaves", "transforms.bad.does": "throw"}


class JavaWorker(Standalone):
    """One slot, whose tasks share a JVM."""

    def __init__(self, folder: Path, bootstrap: str, plugins: Path, **more: str) -> None:
        settings = {
            "plugin.path": str(plugins),
            "kconnect.slots": "1",
            "spark.master": "local[1]",
            "kconnect.java.timeout.ms": "8000",  # more than a JVM waits for its turn on a busy machine
            "task.shutdown.graceful.timeout.ms": "2000",
        }
        super().__init__(folder, bootstrap, {}, {**settings, **more})

    def start(self, within_s: float = 60.0, *, running: bool = True) -> Self:
        super().start(within_s, running=running)
        with self.client() as client:
            client.plugins()  # the JVM beside the worker is up
        return self

    def create(self, name: str, /, **config: str) -> None:
        with self.client() as client:
            client.create_connector(name, config)

    def await_running(self, *names: str) -> None:
        for name in names:
            self.await_task(name, RunState.RUNNING)

    def run(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, and wait until it runs."""
        self.create(name, **config)
        self.await_running(name)

    def metrics_of(self, connector: str) -> set[str]:
        """The samples of plugins of a connector, without values that pass."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Accept": "text/plain"})
        with urllib.request.urlopen(request, timeout=ample_s(10)) as answer:
            lines = answer.read().decode().splitlines()
        begins, has = "kafka_connect_plugins_", f'connector="{connector}"'
        found = [line for line in lines if line.startswith(begins) and has in line]
        return {line.rpartition(" ")[0] if "_rate{" in line else line for line in found}

    def sink_offset(self, name: str, topic: str) -> int | None:
        """What a sink has committed of a topic. Its group outlives it: others of its name had other topics."""
        with self.client() as client:
            found = client.connector_offsets(name)
        offsets = {one.partition["kafka_topic"]: one.offset for one in found}
        offset = offsets.get(topic)
        return None if offset is None else int(offset["kafka_offset"])

    def delete(self, *names: str) -> None:
        with self.client() as client:
            for name in names:
                client.delete_connector(name)

    def await_logged(self, text: str) -> None:
        """Wait until the log has this: lines of slots and of their JVMs come to it by themselves."""
        eventually(lambda: text in self.log_text(), 20, f"the log says {text!r}")

    def jvms(self) -> list[psutil.Process]:
        """The JVMs of Java's plugins below the slots."""
        return [jvm for slot in self.slots() for jvm in named(below(slot, deep=False), "java")]


@contextmanager
def java_worker(folder: Path, bootstrap: str, plugins: Path, **more: str) -> Iterator[JavaWorker]:
    """A worker that runs, and is stopped in the end."""
    with JavaWorker(folder, bootstrap, plugins, **more) as made:
        made.start()
        yield made
        made.stop()


def texts(broker: DevBroker, topic: str, count: int) -> list[str]:
    return [str(value, "utf-8") for value in consume_values(broker.bootstrap, topic, count) if value is not None]
