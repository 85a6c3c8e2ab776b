"""A Java worker and one of ours with the same plugins on one broker: what each has said, written and counted."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kconnect.java.devbroker import find_java
from kit.distributed_worker import Distributed, cluster_settings
from kit.java_compiled import compiled
from kit.java_connect import JavaConnect
from kit.pace import ample_s
from kit.ports import free_port
from kit.rest_json import request_json
from kit.waiting import eventually, wait_http

__all__ = ["DUMP", "Pair", "Record", "Side", "causes", "pair", "plugin_folder", "totals_of"]

DUMP = "parity.Dump"
_HERE = Path(__file__).parent
_STARTED_S = 120.0
_DONE_S = 90.0
_COUNTED_S = 5.0
_QUIET_S = 1.5
"""So long nothing has come: it is over."""
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_OF_SINKS = ("sink-record-read-total", "sink-record-send-total")
_OF_SOURCES = ("source-record-poll-total", "source-record-write-total")
_OF_BOTH = (
    "total-record-failures",
    "total-record-errors",
    "total-records-skipped",
    "total-retries",
    "total-errors-logged",
)
_SHARED = {
    "offset.flush.interval.ms": "500",
    "key.converter": _JSON,
    "value.converter": _JSON,
    "plugin.discovery": "hybrid_warn",
    "connector.client.config.override.policy": "All",
}


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a consumer gets it, without the name of its side."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    has_time: bool


@dataclass
class Side:
    """One of the two. `token` stands in all names of its own; it is put away in what is compared."""

    name: str
    token: str
    bootstrap: str
    url: str
    folder: Path
    read_totals: Callable[[], dict[tuple[str, str], dict[str, float]]]

    def plain(self, text: str) -> str:
        """Without what is of this side alone."""
        found = text.replace(self.token, "SIDE").replace(str(self.folder), "FOLDER")
        return re.sub(r"127\.0\.0\.1:\d+(?=\"|$|/)", "ADDRESS", found)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body; again while the group rebalances."""

        def asked() -> tuple[int, Any]:
            status, answer = request_json(self.url + path, method, body, timeout_s=60)
            assert status not in (409, 503) or "already exists" in str(answer), f"{path}: {status} {answer}"
            return status, answer

        found: tuple[int, Any] = eventually(asked, _DONE_S, f"{self.name} answers {path}", pause_s=0.2)
        return found

    def create(self, name: str, config: Mapping[str, str]) -> str:
        """Create a connector `name`; what is said of it, empty where it is taken."""
        status, answer = self.ask("POST", "/connectors", {"name": self.named(name), "config": dict(config)})
        return "" if status == 201 else f"{status}: {self.plain(str(answer.get('message')))}"

    def named(self, name: str) -> str:
        """A name of this side."""
        return f"{self.token}-{name}"

    def delete(self, name: str) -> None:
        self.ask("DELETE", f"/connectors/{self.named(name)}")

    def states(self, name: str) -> dict[str, Any]:
        """Connector and tasks: state, type, version and the messages of the trace."""
        _, body = self.ask("GET", f"/connectors/{self.named(name)}/status")
        parts = {"connector": body.get("connector", {}), **{f"task {one['id']}": one for one in body.get("tasks", [])}}
        found: dict[str, Any] = {key: one.get("state") for key, one in parts.items()}
        found["type"] = body.get("type")
        return found

    def trace(self, name: str) -> str:
        """The first trace that there is, of the connector or of a task; empty where there is none."""
        _, body = self.ask("GET", f"/connectors/{self.named(name)}/status")
        for one in (body.get("connector", {}), *body.get("tasks", [])):
            if one.get("trace"):
                return self.plain(one["trace"])
        return ""

    def await_started(self, name: str) -> None:
        """Wait until connector and tasks are past their start."""

        def started() -> bool:
            states = self.states(name)
            tasks = [state for key, state in states.items() if key.startswith("task")]
            assert states["connector"] == "FAILED" or (tasks and set(tasks) <= {"RUNNING", "FAILED"}), f"{states}"
            return True

        eventually(started, _DONE_S, f"{name} has started at {self.name}", pause_s=0.2)

    def offsets(self, name: str) -> Any:
        """As REST tells them, in order."""
        _, body = self.ask("GET", f"/connectors/{self.named(name)}/offsets")
        return sorted(json.loads(self.plain(json.dumps(body.get("offsets")))) or [], key=str)

    def topics(self) -> list[str]:
        """Those of this side's connectors."""
        return sorted(topic for topic in _topics(self.bootstrap) if topic.startswith(f"{self.token}."))

    def records(self, name: str, least: int) -> list[Record]:
        """All of topics that begin with a name, once there are so many and no more come."""
        prefix = f"{self.token}.{name}"
        seen, since = -1, time.monotonic()

        def over() -> bool:
            nonlocal seen, since
            ends = _ends(self.bootstrap, prefix).items()
            count = sum(end for place, end in ends if "heartbeat" not in place.topic)  # those never end
            if count != seen:
                seen, since = count, time.monotonic()
            assert count >= least, f"{count} records of {least}"
            assert time.monotonic() - since > _QUIET_S, "records still come"
            return True

        eventually(over, _DONE_S, f"{self.name} has written {least} records to {prefix}", pause_s=0.3)
        return [self._plain_record(message) for message in _read(self.bootstrap, prefix)]

    def _plain_record(self, message: Any) -> Record:
        def plain(data: bytes | None) -> bytes | None:
            return None if data is None else data.replace(self.token.encode(), b"SIDE")

        headers = tuple((key, plain(data)) for key, data in message.headers() or ())
        place = message.topic().replace(self.token, "SIDE"), message.partition()
        return Record(*place, plain(message.key()), plain(message.value()), headers, message.timestamp()[0] != 0)

    def totals(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """What the metrics of task 0 of each connector have counted of records, by Java's names."""
        found = self.read_totals()
        return {
            name: {key: found.get((self.named(name), "0"), {}).get(key, -1.0) for key in self._counted(name, found)}
            for name in names
        }

    def _counted(self, name: str, found: Mapping[tuple[str, str], Mapping[str, float]]) -> Sequence[str]:
        is_sink = "sink-record-read-total" in found.get((self.named(name), "0"), {})
        return (*(_OF_SINKS if is_sink else _OF_SOURCES), *_OF_BOTH)


@dataclass
class Pair:
    """Both sides, and one broker."""

    java: Side
    ours: Side
    bootstrap: str
    folder: Path

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.java, self.ours

    def each(self, ask: Callable[[Side], Any]) -> tuple[Any, Any]:
        """The same of both at once, Java first."""
        with ThreadPoolExecutor(2) as pool:
            java, ours = pool.map(ask, self.sides)
        return java, ours


def totals_of(pair: Pair, names: Sequence[str]) -> tuple[Any, Any]:
    """What both have counted for connectors, once it is the same or has been another for long: counts come a little
    after the records.
    """
    seen: tuple[Any, Any] = ({}, {})

    def is_same() -> bool:
        nonlocal seen
        seen = pair.each(lambda side: side.totals(names))
        assert seen[0] == seen[1], "they have counted otherwise"
        return True

    with suppress(AssertionError):  # the difference is what is reported
        eventually(is_same, _COUNTED_S, "both have counted the same", pause_s=0.5)
    return seen


def causes(java: str, ours: str) -> tuple[str, str]:
    """What failed first by Java's trace, class and message, and the same of ours: all of it where it lacks that."""
    found = re.findall(r"^Caused by: (.*)$", java, re.MULTILINE) or java.splitlines() or [""]
    cause = str(found[-1]).strip()
    return cause, cause if cause in ours and bool(cause) == bool(ours) else ours


def plugin_folder(path: Path) -> Path:
    """A folder `parity` with the sink that writes down what it is given; gives `path`."""
    folder = path / "parity"
    folder.mkdir(parents=True)
    (folder / "parity.jar").write_bytes(compiled(_HERE / "java_sources").read_bytes())
    return path


@contextmanager
def pair(
    folder: Path, bootstrap: str, plugin_path: Sequence[Path], more: Mapping[str, str] | None = None
) -> Iterator[Pair]:
    """Both workers, started side by side with the same plugins; `more` are settings of both."""
    tokens = {"java": f"jv{free_port():05}", "ours": f"us{free_port():05}"}
    shared = {**_SHARED, "plugin.path": ",".join(map(str, plugin_path)), **(more or {})}
    jmx = free_port()
    options: tuple[str, ...] = (
        "-Xmx1G",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.rmi.server.hostname=127.0.0.1",
    )
    remote = (f"{key}=false" for key in ("authenticate", "ssl"))
    options += (
        f"-Dcom.sun.management.jmxremote.port={jmx}",
        *(f"-Dcom.sun.management.jmxremote.{one}" for one in remote),
    )
    with ExitStack() as stack:
        groups = {side: cluster_settings(token) for side, token in tokens.items()}
        java = JavaConnect(
            folder / "java", bootstrap, mode="distributed", worker={**groups["java"], **shared}, jvm_options=options
        )
        own = {"kconnect.slots": "1", "spark.master": "local[1]", "kconnect.java.heap": "768m"}
        (folder / "ours").mkdir(parents=True)
        ours = Distributed(folder / "ours", bootstrap, tokens["ours"], {**shared, **own})
        stack.enter_context(ours)
        ours.launch()
        stack.callback(java.stop)
        java.start(_STARTED_S)
        eventually(lambda: wait_http(f"{ours.url}/health", 1.0), _STARTED_S, "our worker is up")
        sides = (
            Side("java", tokens["java"], bootstrap, java.url, folder / "java", lambda: _java_totals(jmx)),
            Side("ours", tokens["ours"], bootstrap, ours.url, folder / "ours", lambda: _our_totals(ours.url)),
        )
        yield Pair(*sides, bootstrap, folder)
        ours.stop()


def _java_totals(port: int) -> dict[tuple[str, str], dict[str, float]]:
    java = find_java("Java's metrics in tests")
    jar = compiled(_HERE / "java_sources")
    command = [str(java.executable), "-XX:TieredStopAtLevel=1", "-cp", str(jar), "parity.TaskTotals", str(port)]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=ample_s(60), check=True).stdout.splitlines()
    found: dict[tuple[str, str], dict[str, float]] = {}
    for connector, task, name, value in (line.split("\t") for line in lines):
        found.setdefault((connector, task), {})[name] = float(value)
    return found


def _our_totals(url: str) -> dict[tuple[str, str], dict[str, float]]:
    import urllib.request

    with urllib.request.urlopen(f"{url}/metrics", timeout=ample_s(30)) as answer:
        text = answer.read().decode()
    found: dict[tuple[str, str], dict[str, float]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"kafka_connect_(?:source_task|sink_task|task_error)_metrics_(\w+)\{(.*)\} (\S+)", line)
        if match:
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            if "task" in labels:
                key = labels.get("connector", ""), labels["task"]
                found.setdefault(key, {})[match[1].replace("_", "-")] = float(match[3])
    return found


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "parity", "enable.auto.commit": False})


def _topics(bootstrap: str) -> list[str]:
    consumer = _consumer(bootstrap)
    try:
        return list(consumer.list_topics(timeout=ample_s(20)).topics)
    finally:
        consumer.close()


def _ends(bootstrap: str, prefix: str) -> dict[TopicPartition, int]:
    """The number of records of each partition of topics that begin so."""
    consumer = _consumer(bootstrap)
    try:
        topics = consumer.list_topics(timeout=ample_s(20)).topics
        places = [
            TopicPartition(name, number)
            for name, topic in sorted(topics.items())
            if name.startswith(prefix)
            for number in topic.partitions
        ]
        return {place: consumer.get_watermark_offsets(place, timeout=ample_s(20))[1] for place in places}
    finally:
        consumer.close()


def _read(bootstrap: str, prefix: str) -> list[Any]:
    ends = {place: end for place, end in _ends(bootstrap, prefix).items() if end}
    consumer = _consumer(bootstrap)
    found: list[Any] = []
    try:
        for place, end in ends.items():
            consumer.assign([TopicPartition(place.topic, place.partition, 0)])
            while True:
                message = consumer.poll(ample_s(5))
                assert message is not None, f"no more than {len(found)} records of {place}"
                if message.error() is None:
                    found.append(message)
                    if (message.offset() or 0) >= end - 1:
                        break
    finally:
        consumer.close()
    return found
