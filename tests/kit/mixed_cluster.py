"""Java workers and workers of ours in one group: their processes, what the broker knows of them, numbered lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker, read_group
from kconnect.java.devbroker import DevBroker
from kconnect.runtime.herder.group.description import describe_group
from kit.distributed_worker import Distributed, cluster_settings
from kit.java_connect import JavaConnect
from kit.pace import ample_s
from kit.rest_json import request_json
from kit.topics import consume, create_topic, end_offset
from kit.waiting import eventually

__all__ = ["FILE_SINK", "FILE_SOURCE", "JAVA_SINK", "JAVA_SOURCE", "SETTLED_S", "MixedCluster", "Node", "mixed_cluster"]

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
# The same, but by names that only Java's plugins have: their code runs on all workers
JAVA_SOURCE = "kit.JavaLines"
JAVA_SINK = "kit.JavaFile"

_SHARED = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "500",
    "offset.flush.interval.ms": "500",
    "consumer.session.timeout.ms": "6000",
    "consumer.heartbeat.interval.ms": "1000",
}
# A killed worker has to time out first, Java starts beside other work: generous, nothing waits it out.
SETTLED_S = 180.0
# In these a request is answered with 409 until the rebalance is over; Java gives 500 when the leader it knows is gone.
_NOT_NOW = frozenset({409, 500, 503})


@dataclass
class Node:
    """One worker of either kind."""

    name: str
    worker: JavaConnect | Distributed
    is_up: bool = False

    @property
    def is_java(self) -> bool:
        return isinstance(self.worker, JavaConnect)

    @property
    def url(self) -> str:
        return str(self.worker.url)

    @property
    def id(self) -> str:
        """What statuses name it."""
        return f"127.0.0.1:{self.worker.port}"

    def start(self) -> None:
        self.worker.start(SETTLED_S)
        self.is_up = True

    def stop(self) -> None:
        """SIGTERM: what it ran is given back, what it read is committed."""
        self.is_up = False
        self.worker.stop()

    def kill(self) -> None:
        """SIGKILL."""
        self.is_up = False
        self.worker.kill()

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON body of a REST request to this very node."""
        return request_json(self.url + path, method, body, timeout_s=60)

    def get(self, path: str) -> Any:
        status, body = self.request("GET", path)
        assert status == 200, f"{self.name}: GET {path} answers {status}: {body}"
        return body

    def order(self, method: str, path: str, body: Any = None, *, expect: int) -> Any:
        """A request that changes something; again while a rebalance is under way."""

        def ask() -> tuple[Any]:
            status, answer = self.request(method, path, body)
            assert status not in _NOT_NOW, f"{self.name}: {method} {path} answers {status}: {answer}"
            if status != expect:
                raise RuntimeError(f"{self.name}: {method} {path} answers {status}, not {expect}: {answer}")
            return (answer,)

        return eventually(ask, SETTLED_S, f"{self.name} takes {method} {path}", pause_s=0.2)[0]


@dataclass
class Lines:
    """A file of numbered lines that a source reads into a topic of its own."""

    connector: str
    topic: str
    file: Path
    connector_class: str = FILE_SOURCE
    written: int = 0

    def write(self, count: int) -> None:
        """The next numbers."""
        with self.file.open("a") as out:
            out.write("".join(f"{self.connector} {self.written + number}\n" for number in range(count)))
        self.written += count

    @property
    def config(self) -> dict[str, str]:
        return {"connector.class": self.connector_class, "tasks.max": "1", "file": str(self.file), "topic": self.topic}


@dataclass
class MixedCluster:
    """Nodes of one group, and the files that its sources read."""

    bootstrap: str
    group: str
    folder: Path
    nodes: list[Node]
    sources: dict[str, Lines] = field(default_factory=dict)
    sinks: dict[str, Path] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    """Connectors of a test's own, each with one task."""
    unsafe: set[str] = field(default_factory=set)
    """Lines written while a worker was killed: those may come twice."""

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes if node.is_up]

    @property
    def java(self) -> list[Node]:
        return [node for node in self.up if node.is_java]

    @property
    def ours(self) -> list[Node]:
        return [node for node in self.up if not node.is_java]

    @property
    def leader(self) -> Node:
        """Who leads, by the bytes the broker has."""
        leaders = [worker.url for worker in self.described().workers if worker.is_leader]
        assert len(leaders) == 1, f"leaders {leaders}"
        return self._node(leaders[0])

    def start(self, nodes: Sequence[Node]) -> None:
        """Start nodes side by side."""
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(Node.start, nodes))

    def described(self) -> LiveGroup:
        return read_group(describe_group({"bootstrap.servers": self.bootstrap}, self.group, ample_s(10.0)))

    def lines(self, connector: str, connector_class: str = FILE_SOURCE) -> Lines:
        """A new file and topic for a source of this name; it is not created yet."""
        topic = f"{self.group}-{connector}"
        create_topic(self.bootstrap, topic)
        found = self.sources[connector] = Lines(connector, topic, self.folder / f"{connector}.txt", connector_class)
        found.file.touch()
        return found

    def create_source(self, connector: str, at: Node, connector_class: str = FILE_SOURCE) -> Lines:
        lines = self.lines(connector, connector_class)
        at.order("POST", "/connectors", {"name": connector, "config": lines.config}, expect=201)
        return lines

    def create_sink(self, connector: str, source: str, at: Node, connector_class: str = FILE_SINK) -> Path:
        """A sink of what a source reads; gives its file."""
        file = self.sinks[connector] = self.folder / f"{connector}.out"
        config = {"connector.class": connector_class, "tasks.max": "1", "file": str(file)}
        config |= {"topics": self.sources[source].topic, "errors.tolerance": "none"}
        at.order("POST", "/connectors", {"name": connector, "config": config}, expect=201)
        return file

    def await_settled(self, *connectors: str, within_s: float = SETTLED_S) -> dict[str, Node]:
        """Wait until all nodes that are up are in the group, each connector and task has one owner, and runs there.

        Connectors: all unless named, each with one task. Gives who runs the task of each.
        """
        names = list(connectors or (*self.sources, *self.sinks, *self.others))

        def settled() -> dict[str, Node]:
            return self._owners(names)

        owners: dict[str, Node] = eventually(settled, within_s, f"{self.group} is settled with {names}", pause_s=0.2)
        return owners

    def await_spread(self, within_s: float = SETTLED_S) -> dict[str, Node]:
        """The same, until each node runs one at least: one that came may wait for its share until the next round."""
        names = [*self.sources, *self.sinks, *self.others]

        def spread() -> dict[str, Node]:
            owners = self._owners(names)
            idle = {node.name for node in self.up} - {owner.name for owner in owners.values()}
            assert not idle, f"{idle} run nothing yet"
            return owners

        owners: dict[str, Node] = eventually(spread, within_s, f"{names} are spread over {self.group}", pause_s=0.2)
        return owners

    def await_same_statuses(self, within_s: float = SETTLED_S) -> dict[str, Any]:
        """Wait until every node tells the same of all connectors; gives it."""

        def same() -> dict[str, Any]:
            reported = {node.name: node.get("/connectors?expand=status") for node in self.up}
            first = next(iter(reported.values()))
            assert all(one == first for one in reported.values()), f"statuses differ: {reported}"
            return dict(first)

        reported: dict[str, Any] = eventually(same, within_s, "all nodes tell the same statuses", pause_s=0.2)
        return reported

    def await_committed(self, within_s: float = SETTLED_S) -> None:
        """Wait until every line written is in its topic and its offset committed: who dies now repeats nothing."""

        def committed() -> bool:
            for lines in self.sources.values():
                offsets = self.up[0].get(f"/connectors/{lines.connector}/offsets")["offsets"]
                read = [one["offset"]["position"] for one in offsets]
                assert read == [lines.file.stat().st_size], f"{lines.connector}: {offsets}"
            return True

        eventually(committed, within_s, "all that was written is committed", pause_s=0.2)

    def write(self, count: int = 50) -> None:
        """The next lines for every source, read and committed."""
        for lines in self.sources.values():
            lines.write(count)
        self.await_committed()

    def write_unsafe(self, count: int = 50) -> None:
        """The next lines for every source; who reads them may be killed before they are committed."""
        for lines in self.sources.values():
            self.unsafe |= {f"{lines.connector} {lines.written + number}" for number in range(count)}
            lines.write(count)

    def repeated(self) -> dict[str, int]:
        """Lines that came more than once although nobody was killed, and how often.

        Errors: AssertionError when one is missing.
        """
        found: dict[str, int] = {}
        for lines in self.sources.values():
            messages = consume(self.bootstrap, lines.topic, end_offset(self.bootstrap, lines.topic))
            counts = Counter(str(message.value(), "utf-8") for message in messages)
            expected = {f"{lines.connector} {number}" for number in range(lines.written)}
            missing = sorted(expected - set(counts))
            assert not missing, f"{lines.connector}: {len(missing)} of {lines.written} lines lost: {missing[:5]}"
            assert set(counts) == expected, f"{lines.connector}: unknown lines {sorted(set(counts) - expected)[:5]}"
            found |= {line: count for line, count in counts.items() if count > 1 and line not in self.unsafe}
        return found

    def await_sunk(self, connector: str, source: str, within_s: float = SETTLED_S) -> None:
        """Wait until a sink has written every line of a source."""
        lines = self.sources[source]
        expected = {f"{source} {number}" for number in range(lines.written)}

        def sunk() -> bool:
            file = self.sinks[connector]
            missing = expected - set(file.read_text().splitlines() if file.exists() else [])
            assert not missing, f"{len(missing)} of {lines.written} lines are not in {connector}: {sorted(missing)[:5]}"
            return True

        eventually(sunk, within_s, f"{connector} has all lines of {source}", pause_s=0.2)

    def task_config_writes(self) -> Counter[str]:
        """How often task configs of each connector were written, by its config topic."""
        topic = f"{self.group}-config"
        keys = [message.key() or b"" for message in consume(self.bootstrap, topic, end_offset(self.bootstrap, topic))]
        return Counter(str(key, "utf-8").removeprefix("commit-") for key in keys if key.startswith(b"commit-"))

    def _owners(self, names: Sequence[str]) -> dict[str, Node]:
        shown = self.described()
        assert shown.state == "Stable", f"the group is {shown.state}"
        urls = sorted(worker.url for worker in shown.workers)
        assert urls == sorted(f"{node.url}/" for node in self.up), f"in the group: {urls}"
        statuses = self.up[0].get("/connectors?expand=status")
        owners = {}
        for name in names:
            assert name in statuses, f"{name} is not known yet"
            status = statuses[name]["status"]
            assert len(status["tasks"]) == 1, f"{name}: {status}"
            self._assert_runs(name, status["connector"], [w for w in shown.workers if name in w.work.connectors])
            tasks = [w for w in shown.workers if any(str(task) == f"{name}-0" for task in w.work.tasks)]
            owners[name] = self._assert_runs(f"{name}-0", status["tasks"][0], tasks)
        return owners

    def _assert_runs(self, what: str, status: Mapping[str, Any], workers: Sequence[LiveWorker]) -> Node:
        """By the group's bytes on one worker, and by its status RUNNING there."""
        assert len(workers) == 1, f"{what} is at {[worker.url for worker in workers]}"
        node = self._node(workers[0].url)
        assert (status["state"], status["worker_id"]) == ("RUNNING", node.id), f"{what} is at {node.id}: {status}"
        return node

    def _node(self, url: str) -> Node:
        return next(node for node in self.nodes if f"{node.url}/" == url)


@contextmanager
def mixed_cluster(
    broker: DevBroker, folder: Path, group: str, *, java: int, ours: int, plugins: Sequence[Path] = ()
) -> Iterator[MixedCluster]:
    """Nodes that are made, not started: java-1, java-2, ours-1, ...; all that run at the end are killed.

    `plugins`: folders of Java's plugins, which workers of both kinds have in their plugin.path.
    """
    settings = {**cluster_settings(group), **_SHARED}
    folders = ",".join(map(str, plugins))
    nodes = []
    for number in range(1, java + 1):
        place = folder / f"java-{number}"
        own = {**settings, "plugin.path": ",".join(filter(None, (str(place / "plugins"), folders)))}
        jvm = JavaConnect(place, broker.bootstrap, mode="distributed", worker=own)
        nodes.append(Node(place.name, jvm))
    for number in range(1, ours + 1):
        own = {**settings, "kconnect.slots": "2", **({"plugin.path": folders} if folders else {})}
        nodes.append(Node(f"ours-{number}", Distributed(folder / f"ours-{number}", broker.bootstrap, group, own)))
    cluster = MixedCluster(broker.bootstrap, group, folder, nodes)
    try:
        yield cluster
    finally:
        for node in cluster.nodes:
            if isinstance(node.worker, JavaConnect):
                node.worker.kill()
            else:
                node.worker.__exit__(None, None, None)
