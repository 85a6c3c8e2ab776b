"""Herders of one cluster over memory: topics, group, launchers; all real code, no processes, no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from kconnect.errors import BadRequestError, ConnectError, NotFoundError, UnreachableError
from kconnect.model import RunState, TargetState, TaskId
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.herder import DistributedHerder
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.decisions.facts import HerderTimes, Phase
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.herders import MemoryGroups, config
from kit.memory_group import MemoryGroup, MemoryMember, Questions
from kit.memory_launcher import MemoryLauncher
from kit.sample_connectors import Journal, SamplePlugins, fresh_journal
from kit.waiting import eventually

TIMES = HerderTimes(quiet_ms=10, longest_quiet_ms=100, sync_timeout_ms=1_000, unsync_backoff_ms=200, max_delay_ms=0)


@dataclass
class Node:
    """One worker of the cluster."""

    url: str
    herder: DistributedHerder
    launcher: MemoryLauncher
    member: MemoryMember
    is_up: bool = True

    @property
    def tasks(self) -> set[TaskId]:
        return set(self.launcher.tasks)

    def stop(self) -> None:
        if self.is_up:
            self.is_up = False
            self.herder.stop(5.0)


@dataclass
class Cluster:
    """Workers that share topics and a group in memory."""

    group: MemoryGroup
    configs: MemoryTopic
    statuses: MemoryTopic
    offsets: MemoryTopic
    journal: Journal
    nodes: list[Node] = field(default_factory=list)
    forwards: list[tuple[str, str]] = field(default_factory=list)
    """Task configs that went to a leader: its URL, the connector."""
    refused_forwards: int = 0
    """So many of the next ones fail."""
    variables: Variables = field(default_factory=Variables)
    """What configs refer to, the same on all workers."""
    _stops: list[Callable[[], None]] = field(default_factory=list)

    def add(self, times: HerderTimes = TIMES, **changes: object) -> Node:
        """One more worker; `changes` are fields of its ClusterParts."""
        number = len(self.nodes)
        url, launcher = f"http://w{number}/", MemoryLauncher()
        configs = TopicConfigStore(MemoryRecordLog(self.configs))
        statuses = TopicStatusStore(MemoryRecordLog(self.statuses))
        offsets = TopicOffsetStore(MemoryRecordLog(self.offsets))
        members: list[MemoryMember] = []

        def membership(questions: Questions) -> MemoryMember:
            members.append(self.group.member(questions))
            return members[0]

        cluster = ClusterParts(
            group_id="connect-cluster",
            config_topic=self.configs.name,
            configs=configs,
            statuses=statuses,
            offsets=offsets,
            membership=membership,
            leader=_Leaders(self),
            times=times,
            request_timeout_s=30.0,
        )
        herder = DistributedHerder(herder_parts(launcher, offsets, self.variables), replace(cluster, **changes))  # type: ignore[arg-type]
        node = Node(url, herder, launcher, members[0])
        self.nodes.append(node)
        for store in (configs, statuses, offsets):
            store.start()
            self._stops.insert(0, store.stop)
        launcher.start(herder.events)
        herder.start(f"w{number}:8083", url, "cluster-1")
        herder.ready()
        return node

    @property
    def leader(self) -> Node:
        """Errors: AssertionError while there is none."""
        leaders = [node for node in self.nodes if node.is_up and node.herder.is_leader]
        assert leaders, f"nobody leads: {self.group.rebalances}"
        return leaders[0]

    @property
    def followers(self) -> list[Node]:
        return [node for node in self.nodes if node.is_up and not node.herder.is_leader]

    def await_settled(self, within_s: float = 5.0) -> None:
        """Wait until all workers that are up are in one generation and act on it."""

        def settled() -> bool:
            up = [node.herder.state.facts for node in self.nodes if node.is_up]
            is_over = not self.group.is_joining and {facts.generation for facts in up} == {self.group.generation}
            return is_over and all(facts.phase is Phase.STABLE for facts in up)

        eventually(settled, within_s, "all workers settled", pause_s=0.005)

    def create(self, name: str = "fsrc", kind: str = "source", state: TargetState | None = None, **props: str) -> None:
        self.leader.herder.put_connector(name, config(name, kind, **props), initial_state=state, replace=False)

    def owners(self, task: TaskId) -> list[Node]:
        return [node for node in self.nodes if task in node.tasks]

    def await_running(self, *names: str, tasks: int = 1, within_s: float = 5.0) -> None:
        """Wait until connectors and that many tasks of each run, each of them on one worker."""

        def running() -> bool:
            for name in names:
                try:
                    status = self.leader.herder.connector_status(name)
                except NotFoundError:
                    return False
                states = [status.connector.state, *(task.state for task in status.tasks)]
                if states != [RunState.RUNNING] * (tasks + 1):
                    return False
                if any(len(self.owners(TaskId(name, number))) != 1 for number in range(tasks)):
                    return False
            return True

        eventually(running, within_s, f"{names} run with {tasks} tasks", pause_s=0.005)

    def kill(self, node: Node) -> None:
        """As kill -9: its tasks are gone, it says nothing any more, the group finds out."""
        assert node.member is not None
        node.is_up = False
        node.member.is_cut_off = True
        node.launcher.tasks.clear()
        self.group.expel(node.member, "session timed out")

    def stop(self) -> None:
        for node in self.nodes:
            if node.member is not None:
                node.member.is_cut_off = False
            node.herder.stop(2.0)
            node.launcher.stop(1.0)
        for stop in self._stops:
            stop()


class _Leaders:
    """LeaderRequests straight to the herder of that URL."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: SessionKey | None
    ) -> None:
        cluster = self._cluster
        cluster.forwards.append((leader_url, connector))
        if cluster.refused_forwards > 0:
            cluster.refused_forwards -= 1
            raise ConnectError("refused by the test")
        for node in cluster.nodes:
            if node.url == leader_url and node.is_up:
                return node.herder.put_task_configs(connector, configs)
        raise UnreachableError(f"Nobody answers at {leader_url}")

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        for node in self._cluster.nodes:
            if node.url == leader_url and node.is_up:
                return node.herder.fence_zombies(connector)
        raise UnreachableError(f"Nobody answers at {leader_url}")


@contextmanager
def memory_cluster(workers: int = 0, *, variables: Variables | None = None, **changes: object) -> Iterator[Cluster]:
    """A cluster of that many workers, all in the group."""
    cluster = Cluster(
        MemoryGroup(), MemoryTopic("configs"), MemoryTopic("statuses", 3), MemoryTopic("offsets", 3), fresh_journal()
    )
    cluster.variables = variables or cluster.variables
    try:
        for _ in range(workers):
            cluster.add(**changes)  # type: ignore[arg-type]
        if workers:
            cluster.await_settled()
        yield cluster
    finally:
        cluster.journal.gate.open()
        cluster.stop()


def herder_parts(launcher: MemoryLauncher, offsets: TopicOffsetStore, variables: Variables) -> HerderParts:
    """Parts of a herder whose connectors are samples."""

    def check(props: Mapping[str, str]) -> None:
        if props.get("bad"):
            raise BadRequestError("Connector configuration is invalid")

    @contextmanager
    def groups(_: Mapping[str, str]) -> Iterator[MemoryGroups]:
        yield MemoryGroups()

    return HerderParts(
        worker_config={"bootstrap.servers": "localhost:9092"},
        plugins=SamplePlugins(),
        launcher=launcher,
        offsets=offsets,
        groups=groups,
        validate=check,
        explain=lambda props: ConfigInfos(props.get("connector.class") or "", 0, (), ()),
        plugin_config=lambda plugin, version: [],
        times=PluginTimes(call_s=30.0, stop_s=10.0),  # of calls that hang; who waits for the end of one gives less
        variables=variables,
    )
