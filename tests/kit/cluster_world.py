"""The same as `rest_replay.world`, with the herder of a cluster of one worker, its topics and group in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.herder import DistributedHerder
from kconnect.runtime.herder.decisions.facts import HerderTimes
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest import RestServer
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.status_store import TopicStatusStore
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore
from kit.herders import MemoryGroups
from kit.memory_group import MemoryGroup
from kit.memory_launcher import MemoryLauncher
from kit.rest_parts import rest_parts
from kit.rest_replay import World
from kit.waiting import eventually


class _NoLeader:
    """A single worker asks nobody."""

    def put_task_configs(self, leader_url: str, connector: str, configs: object, key: object) -> None:
        raise AssertionError(f"task configs of {connector} for {leader_url}")


@contextmanager
def cluster_world(worker_id: str, settings: Mapping[str, str]) -> Iterator[World]:
    """A worker that leads its group and is not ready yet: call `herder.ready()`."""
    groups, launcher, plugins = MemoryGroups(), MemoryLauncher(), PluginRegistry.load()
    configs = TopicConfigStore(MemoryRecordLog(MemoryTopic("configs")))
    statuses = TopicStatusStore(MemoryRecordLog(MemoryTopic("statuses", 5)))
    offsets = TopicOffsetStore(MemoryRecordLog(MemoryTopic("offsets", 25)))
    herder = DistributedHerder(
        rest_parts(settings, plugins, launcher, offsets, groups),
        ClusterParts(
            group_id=settings.get("group.id", "connect-cluster"),
            config_topic=settings.get("config.storage.topic", "connect-configs"),
            configs=configs,
            statuses=statuses,
            offsets=offsets,
            membership=MemoryGroup().member,
            leader=_NoLeader(),
            times=HerderTimes(quiet_ms=1, longest_quiet_ms=10),
            request_timeout_s=5.0,
        ),
    )
    with ExitStack() as stack:
        stack.callback(plugins.close)
        for store in (configs, statuses, offsets):
            store.start()
            stack.callback(store.stop)
        launcher.start(herder.events)
        stack.callback(lambda: launcher.stop(1))
        herder.start(worker_id, f"http://{worker_id}/", "cluster")
        stack.callback(lambda: herder.stop(5))
        eventually(lambda: herder.await_group(0.01), 5, f"{worker_id} is in the group")
        server = stack.enter_context(RestServer(herder, ["http://127.0.0.1:0"]))
        yield World(server.urls[0], herder, launcher, offsets, groups, plugins)
