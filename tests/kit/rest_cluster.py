"""Workers of one cluster behind real REST servers: real herders, plugins, validation, forwarding and signatures.

Topics, the group and tasks are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from kconnect.client.peers import Peers
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.group_status import RestLeader
from kconnect.runtime.herder.cluster.herder import DistributedHerder
from kconnect.runtime.herder.cluster.rebalance_rounds import VERSIONS
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest import RestOptions, RestServer
from kconnect.runtime.rest.jaas import Login
from kconnect.runtime.rest.late_console import MakeConsole
from kconnect.runtime.rest.tls import peer_context, server_context
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.distributed import TIMES
from kit.herders import MemoryGroups
from kit.memory_group import MemoryGroup
from kit.memory_launcher import MemoryLauncher
from kit.rest_parts import rest_parts
from kit.waiting import eventually


@dataclass
class ClusterWorker:
    """One worker; it has what `rest_replay.World` has."""

    url: str
    herder: DistributedHerder
    launcher: MemoryLauncher
    offsets: TopicOffsetStore
    groups: MemoryGroups
    plugins: PluginRegistry
    server: RestServer
    workers: frozenset[str] = frozenset()

    @property
    def known_classes(self) -> set[str]:
        return {plugin.class_name for plugin in self.plugins.describe()}

    def stop(self) -> None:
        self.herder.stop(5.0)
        self.server.stop(10.0)


@dataclass
class RestCluster:
    """What the workers share."""

    settings: Mapping[str, str]
    stack: ExitStack
    plugins: PluginRegistry
    group: MemoryGroup = field(default_factory=MemoryGroup)
    configs: MemoryTopic = field(default_factory=lambda: MemoryTopic("configs"))
    statuses: MemoryTopic = field(default_factory=lambda: MemoryTopic("statuses", 3))
    offsets: MemoryTopic = field(default_factory=lambda: MemoryTopic("offsets", 3))
    workers: list[ClusterWorker] = field(default_factory=list)

    def add(
        self,
        worker_id: str | None = None,
        *,
        options: RestOptions | None = None,
        url: str | None = None,
        console: MakeConsole | None = None,
    ) -> ClusterWorker:
        """One more worker, in the group when this returns; `url`: what it tells the others as its own.

        Without a `worker_id` it is the address where it answers, as that of a real worker.
        """
        settings, stack = self.settings, self.stack
        launcher, groups = MemoryLauncher(), MemoryGroups()
        configs = TopicConfigStore(MemoryRecordLog(self.configs))
        statuses = TopicStatusStore(MemoryRecordLog(self.statuses))
        offsets = TopicOffsetStore(MemoryRecordLog(self.offsets))
        for store in (configs, statuses, offsets):
            store.start()
            stack.callback(store.stop)
        is_https = options is not None and options.tls is not None
        peers = Peers(peer_context(settings), 5.0)
        stack.callback(peers.close)
        cluster = ClusterParts(
            group_id="connect-cluster",
            config_topic="connect-configs",
            configs=configs,
            statuses=statuses,
            offsets=offsets,
            membership=self.group.member,
            leader=RestLeader(peers, settings.get("inter.worker.signature.algorithm", "HmacSHA256")),
            protocol_version=VERSIONS[settings.get("connect.protocol", "sessioned")],
            verification_algorithms=settings.get("inter.worker.verification.algorithms", "HmacSHA256").split(","),
            times=TIMES,
            request_timeout_s=10.0,
        )
        herder = DistributedHerder(rest_parts(settings, self.plugins, launcher, offsets, groups), cluster)
        scheme = "https" if is_https else "http"
        server = RestServer(herder, [f"{scheme}://127.0.0.1:0"], None, options, console=console)
        server.start()
        worker_id = worker_id or server.urls[0].partition("//")[2]
        worker = ClusterWorker(server.urls[0], herder, launcher, offsets, groups, self.plugins, server)
        stack.callback(lambda: launcher.stop(1.0))
        stack.callback(worker.stop)
        launcher.start(herder.events)
        herder.start(worker_id, (url or worker.url) + "/", "cluster")
        self.workers.append(worker)
        eventually(lambda: herder.await_group(0.01), 5, f"{worker_id} is in the group")
        herder.ready()
        return worker


@contextmanager
def rest_cluster(settings: Mapping[str, str] | None = None) -> Iterator[RestCluster]:
    """A cluster without workers yet; the first one that is added leads."""
    with ExitStack() as stack:
        yield RestCluster(dict(settings or {}), stack, PluginRegistry.load())


def https_options(settings: Mapping[str, str], login: Login | None = None) -> RestOptions:
    """Options of an https listener with these worker settings."""
    return RestOptions(login=login, tls=server_context(settings), peer_tls=peer_context(settings))
