"""Cases of clusters: workers that start, hundreds of creates over REST, a worker that is killed, one that joins.

Each side has the same settings, those of its release where nothing is said: `session.timeout.ms` 10 s and
`heartbeat.interval.ms` 3 s, `scheduled.rebalance.max.delay.ms` 0. Workers are processes on one machine with one broker.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.ground import START_S, Ground, Metrics, file_source
from bench.meter import ProcessTree, longest_gap, longest_gap_ms
from bench.starting import is_healthy
from kconnect.java.devbroker import KAFKA_VERSION, JarSet
from kconnect.java.maven import Jar
from kit.distributed_worker import Distributed, cluster_settings
from kit.java_connect import RELEASE_JVM_OPTIONS, JavaConnect
from kit.mixed_cluster import MixedCluster, Node
from kit.topics import consume, create_topic, delete_topic, end_offset
from kit.waiting import eventually

__all__ = ["cluster_creates", "cluster_join", "cluster_list", "cluster_up"]

_WORKERS = 3
_SOURCES, _LISTED = 300, 1_000
_LISTINGS = 5
# A rebalance of Java's at each create: 131 s for 300 on 2 quiet cores; on a loaded machine much more
_CREATES_S = 900.0
# Java's three were up after 6.5 s on 2 quiet cores
_UP_S = 120.0
_RETRY_S = 0.05
_LOOK_EVERY_S = 0.1
# session.timeout.ms is 10 s; the rest is for a loaded machine
_TAKEN_OVER_S = 120.0
# Records that tell when a task stood still: one each 20 ms from each of 24 tasks
_STEADY_SOURCES, _STEADY_TASKS, _STEADY_RATE = 6, 4, 50
_SETTLE_S, _QUIET_S = 3.0, 5.0
_AROUND_MS = 200
_SETTINGS = {"offset.flush.interval.ms": "10000", "heartbeat.interval.ms": "3000"}
# Java's VerifiableSource is in no jar of its worker; this one has nothing else
_TEST_PLUGINS = Jar(
    f"org.apache.kafka:connect-test-plugins:{KAFKA_VERSION}",
    "a72b1c28951586442fedd8de30e18b8827a40d8059afc91b74726cb07b0dfef5",
    28_124,
    frozenset(),
)


def cluster_up(side: str, ground: Ground) -> Metrics:
    """Three workers started at the same time, until all are in the group, healthy, and able to run tasks."""
    with _cluster(side, ground, "cluster-up") as cluster:
        return {"up_s": cluster.start(), "up_cpu_s": sum(tree.cpu_s() for tree in cluster.trees())}


def cluster_creates(side: str, ground: Ground) -> Metrics:
    """300 file sources created one after the other, at each of three workers in turn; then kill -9 of the leader.

    A create that is answered with 409 is tried again. `moved_on_s`: from the kill until all is RUNNING elsewhere.
    """
    with _cluster(side, ground, "cluster-creates") as cluster:
        cluster.start()
        names, metrics = cluster.create_sources(_SOURCES)
        metrics["worker_pss_mb"] = statistics.mean(tree.pss_mb() for tree in cluster.trees())
        victim = cluster.group.leader
        began = time.monotonic()
        cluster.kill(victim)
        cluster.await_running(names, _TAKEN_OVER_S)
        return metrics | {"moved_on_s": time.monotonic() - began}


def cluster_join(side: str, ground: Ground) -> Metrics:
    """A third worker joins two, on which 24 tasks produce 50 records a second each.

    `gap_ms`: the longest pause between two records of a task that stays where it is, by their timestamps, from the
    start of the new worker until its tasks run. On a machine with two cores that is how much its start takes from
    others: so `rebalance_gap_ms` is the same while tasks move, and `quiet_gap_ms` in five seconds before.
    `moved_gap_ms`: of tasks that move.
    """
    with _cluster(side, ground, "cluster-join") as cluster, cluster.steady_sources() as topics:
        newcomer = cluster.nodes[-1]
        cluster.start(cluster.nodes[:-1])
        cluster.create_steady(topics)
        before = cluster.await_running(topics, START_S, tasks=_STEADY_TASKS)
        time.sleep(_SETTLE_S)
        quiet_ms = _now_ms()
        time.sleep(_QUIET_S)
        began_ms = _now_ms()
        cluster.start([newcomer])
        after = cluster.await_balanced(topics, newcomer)
        time.sleep(1.0)  # what a task that stood still does next is in the topic too
        ended_ms = _now_ms()
        records = cluster.record_times(topics)
    moved = {task for task in before if before[task] != after[task]}
    stay = [times for task, times in records.items() if task not in moved]
    stood = [longest_gap(records[task], began_ms, ended_ms) for task in moved]
    rebalance = min(begin for begin, _ in stood) - _AROUND_MS, max(end for _, end in stood) + _AROUND_MS
    return {
        "moved": len(moved),
        "gap_ms": max(longest_gap_ms(times, began_ms, ended_ms) for times in stay),
        "rebalance_gap_ms": max(longest_gap_ms(times, *rebalance) for times in stay),
        "quiet_gap_ms": max(longest_gap_ms(times, quiet_ms, began_ms) for times in records.values()),
        "moved_gap_ms": max(end - begin for begin, end in stood),
    }


def cluster_list(side: str, ground: Ground) -> Metrics:
    """1,000 sources on three workers: GET /connectors?expand=status&expand=info of the slowest worker. Bar 1 s."""
    with _cluster(side, ground, "cluster-list") as cluster:
        cluster.start()
        names, metrics = cluster.create_sources(_LISTED)
        lists = [statistics.median(_listing_ms(node, len(names)) for _ in range(_LISTINGS)) for node in cluster.nodes]
        return metrics | {"list_ms": max(lists)}


@dataclass
class _Cluster:
    """Nodes of one kind; those that were not killed and are started."""

    bootstrap: str
    name: str
    folder: Path
    nodes: list[Node]

    @property
    def group(self) -> MixedCluster:
        """As the broker knows it."""
        return MixedCluster(self.bootstrap, self.name, self.folder, self.nodes)

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes if node.is_up]

    def trees(self) -> list[ProcessTree]:
        return [ProcessTree(_pid(node)) for node in self.up]

    def start(self, nodes: Sequence[Node] | None = None) -> float:
        """Start nodes at the same time; gives the seconds until they are healthy and in the group, with all others."""
        began_nodes = self.nodes if nodes is None else nodes
        for node in began_nodes:
            if isinstance(node.worker, JavaConnect):
                node.worker.prepare()  # copies jars
        began = time.monotonic()
        with ThreadPoolExecutor(len(began_nodes)) as pool:
            list(pool.map(_start, began_nodes))
        eventually(self._is_whole, _UP_S, f"all workers of {self.name} are in the group", pause_s=0.02)
        return time.monotonic() - began

    def kill(self, node: Node) -> None:
        """SIGKILL, and no wait for what is below it."""
        node.is_up = False
        os.kill(_pid(node), signal.SIGKILL)

    def create_sources(self, count: int) -> tuple[list[str], Metrics]:
        """File sources whose files do not grow, until all are RUNNING; gives their names, and how it went."""
        files = self.folder / "files"
        files.mkdir()
        names = [f"{self.name}-{number}" for number in range(count)]
        trees = self.trees()
        cpu_before = sum(tree.cpu_s() for tree in trees)
        began = time.monotonic()
        deadline = began + _CREATES_S
        conflicts = 0
        for number, name in enumerate(names):
            file = files / f"{number}.txt"
            file.touch()
            conflicts += self._create(self.nodes[number % len(self.nodes)], file_source(name, file), deadline)
        created = time.monotonic()
        self.await_running(names, START_S)
        return names, {
            "creates_per_s": count / (created - began),
            "conflicts": conflicts,
            "settled_s": time.monotonic() - created,
            "create_cpu_ms": (sum(tree.cpu_s() for tree in trees) - cpu_before) / count * 1000,
        }

    @contextlib.contextmanager
    def steady_sources(self) -> Iterator[list[str]]:
        """Topics for sources that produce steadily; a source is named as its topic."""
        topics = [f"{self.name}-{number}" for number in range(_STEADY_SOURCES)]
        for topic in topics:
            create_topic(self.bootstrap, topic)
        try:
            yield topics
        finally:
            for topic in topics:
                delete_topic(self.bootstrap, topic)

    def create_steady(self, topics: Sequence[str]) -> None:
        deadline = time.monotonic() + START_S
        for topic in topics:
            config = {
                "name": topic,
                "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
                "tasks.max": str(_STEADY_TASKS),
                "throughput": str(_STEADY_RATE),
                "topic": topic,
                "file": os.devnull,  # of ours; Java's lines go to its log
            }
            self._create(self.nodes[0], config, deadline)

    def await_running(self, names: Sequence[str], within_s: float, tasks: int = 1) -> dict[str, str]:
        """Wait until connectors and tasks are RUNNING at workers that are up; gives who runs each task."""

        def owners() -> dict[str, str]:
            return _owners(self.up[0], names, tasks, {node.id for node in self.up})

        return eventually(owners, within_s, f"all of {self.name} is RUNNING", pause_s=_LOOK_EVERY_S)

    def await_balanced(self, names: Sequence[str], newcomer: Node) -> dict[str, str]:
        """Wait until a worker that came has its share of the tasks, and all run; gives who runs each task."""

        def balanced() -> dict[str, str]:
            owners = _owners(self.up[0], names, _STEADY_TASKS, {node.id for node in self.up})
            counts = Counter(owners.values())
            assert counts[newcomer.id] >= len(owners) // len(self.up), f"{counts}"
            return owners

        return eventually(balanced, START_S, f"{newcomer.name} has its share", pause_s=_LOOK_EVERY_S)

    def record_times(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """The timestamps of all records, in ms and in order, by the task they are of."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for topic in topics:
            for message in consume(self.bootstrap, topic, end_offset(self.bootstrap, topic)):
                found[f"{topic}-{str(message.key(), 'utf-8')}"].append(message.timestamp()[1])
        return {task: sorted(times) for task, times in found.items()}

    def stop(self) -> None:
        for node in self.nodes:
            if isinstance(node.worker, JavaConnect):
                node.worker.kill()
            else:
                node.worker.__exit__(None, None, None)
        for kind in ("config", "offset", "status"):
            if end_offset(self.bootstrap, f"{self.name}-{kind}"):
                delete_topic(self.bootstrap, f"{self.name}-{kind}")

    def _is_whole(self) -> bool:
        shown = self.group.described()
        return shown.state == "Stable" and len(shown.workers) == len(self.up)

    def _create(self, node: Node, config: Mapping[str, str], deadline: float) -> int:
        """Create by REST; gives how often the answer was 409, after which it was tried again."""
        conflicts = 0
        body = {"name": config["name"], "config": dict(config)}
        while True:
            status, answer = node.request("POST", "/connectors", body)
            if status == 201:
                return conflicts
            if status != 409 or time.monotonic() > deadline:
                raise RuntimeError(f"{node.name}: the create of {config['name']} is answered with {status}: {answer}")
            if "already exists" in str(answer):  # an attempt before has made it all the same
                return conflicts
            conflicts += 1
            time.sleep(_RETRY_S)


@contextlib.contextmanager
def _cluster(side: str, ground: Ground, case: str) -> Iterator[_Cluster]:
    """Three workers that are made, not started; all that run at the end are killed."""
    name = ground.next_name(side, case)
    folder = ground.folder / name
    folder.mkdir()
    nodes = [_node(side, ground, name, folder / f"{side}-{number + 1}") for number in range(_WORKERS)]
    cluster = _Cluster(ground.bootstrap, name, folder, nodes)
    try:
        yield cluster
    except (RuntimeError, AssertionError) as err:
        logs = "\n".join(f"{node.name}:\n{_log_tail(node)}" for node in nodes)
        raise RuntimeError(f"{name}: {err}\n{logs}") from err
    finally:
        cluster.stop()
        time.sleep(0.5)  # the broker writes and forgets: let it finish before the next run


def _node(side: str, ground: Ground, group: str, folder: Path) -> Node:
    if side == "ours":
        return Node(folder.name, Distributed(folder, ground.bootstrap, group, _SETTINGS))
    settings = cluster_settings(group) | _SETTINGS
    jars = JarSet("test-plugins", jars=[_TEST_PLUGINS]).fetch()
    java = JavaConnect(
        folder, ground.bootstrap, mode="distributed", worker=settings, jvm_options=RELEASE_JVM_OPTIONS, jars=jars
    )
    return Node(folder.name, java)


def _start(node: Node) -> None:
    """Until GET /health says that the worker is in its group; of ours also until a slot is up for its tasks."""
    node.is_up = True
    if isinstance(node.worker, JavaConnect):
        node.worker.start(ready=False)
        eventually(lambda: is_healthy(node.url), _UP_S, f"{node.name} is healthy", pause_s=0.05)
    else:
        node.worker.start(_UP_S)
        eventually(lambda: _has_slot(node), _UP_S, f"a slot of {node.name} is up", pause_s=0.05)


def _has_slot(node: Node) -> bool:
    return any(slot["attached"] for slot in node.get("/admin/slots"))


def _owners(node: Node, names: Sequence[str], tasks: int, workers: set[str]) -> dict[str, str]:
    """Who runs each task. Errors: AssertionError while something is not RUNNING at one of the workers."""
    try:
        known = node.get("/connectors?expand=status")
    except OSError as err:
        raise AssertionError(f"{node.name} does not answer: {err}") from err
    owners: dict[str, str] = {}
    for name in names:
        assert name in known, f"{name} is not known yet"
        status = known[name]["status"]
        assert len(status["tasks"]) == tasks, f"{name}: {status}"
        for part in (status["connector"], *status["tasks"]):
            assert part["state"] == "RUNNING", f"{name}: {status}"
            assert part["worker_id"] in workers, f"{name}: {status}"
        owners |= {f"{name}-{task['id']}": task["worker_id"] for task in status["tasks"]}
    return owners


def _listing_ms(node: Node, count: int) -> float:
    began = time.monotonic()
    found = node.get("/connectors?expand=status&expand=info")
    taken = time.monotonic() - began
    if len(found) != count or not all({"status", "info"} <= set(one) for one in found.values()):
        raise RuntimeError(f"the list of {count} connectors is not whole")
    return taken * 1000


def _pid(node: Node) -> int:
    worker = node.worker
    return worker.process.pid if isinstance(worker, JavaConnect) else worker.pid


def _log_tail(node: Node, size: int = 3000) -> str:
    log = node.worker.log
    return log.read_text("utf-8", errors="replace")[-size:] if log.exists() else "(no log)"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
