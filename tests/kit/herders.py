"""A standalone herder over memory: launcher, offsets, consumer groups; all real code, no processes, no network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kconnect.api import ConfigDef
from kconnect.errors import BadRequestError, ConflictError, ConnectError, NotFoundError
from kconnect.model import TargetState, TopicPartition
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.offsets.log_ranges import LogRanges
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.standalone.herder import StandaloneHerder
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.storage import MemoryOffsetStore
from kit.memory_launcher import MemoryLauncher
from kit.sample_connectors import Journal, SamplePlugins, fresh_journal

WORKER_ID = "127.0.0.1:28088"
_FILE_KEYS = ConfigDef().define("file", ConfigDef.Type.STRING, "")


class MemoryGroups:
    """Consumer groups in a table."""

    def __init__(self) -> None:
        self.offsets: dict[str, dict[TopicPartition, int]] = {}
        self.has_members = False
        self.broken = False
        self.topics = {"t"}
        self.partitions = 1_000
        """How many each topic has."""
        self.log = (0, 10**9)
        """Where each begins and ends."""

    def list_offsets(self, group: str) -> dict[TopicPartition, int]:
        self._check()
        return dict(self.offsets.get(group, {}))

    def alter_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._check(offsets)
        self.offsets.setdefault(group, {}).update(offsets)

    def delete_offsets(self, group: str, partitions: Collection[TopicPartition]) -> None:
        self._check(partitions)
        for partition in partitions:
            self.offsets.get(group, {}).pop(partition, None)

    def delete_group(self, group: str) -> None:
        if self.has_members:
            raise ConflictError("the group has members")
        self.offsets.pop(group, None)

    def log_ranges(self, partitions: Collection[TopicPartition]) -> LogRanges:
        there = [at for at in partitions if at.topic in self.topics and 0 <= at.partition < self.partitions]
        return LogRanges(dict.fromkeys(self.topics, self.partitions), dict.fromkeys(there, self.log))

    def _check(self, partitions: Collection[TopicPartition] = ()) -> None:
        if self.broken:
            raise ConnectError("no broker")
        if partitions and self.has_members:
            raise ConflictError("the group has members")
        if any(
            not 0 <= partition.partition < self.partitions or partition.topic not in self.topics
            for partition in partitions
        ):
            raise NotFoundError("UNKNOWN_TOPIC_OR_PARTITION")


@dataclass
class Bench:
    """A herder and everything round it."""

    herder: StandaloneHerder
    launcher: MemoryLauncher
    offsets: MemoryOffsetStore
    groups: MemoryGroups
    journal: Journal
    validated: list[Mapping[str, str]] = field(default_factory=list)

    def create(self, name: str = "fsrc", kind: str = "source", state: TargetState | None = None, **props: str) -> None:
        self.herder.put_connector(name, config(name, kind, **props), initial_state=state, replace=False)

    def change(self, name: str = "fsrc", kind: str = "source", **props: str) -> None:
        self.herder.put_connector(name, config(name, kind, **props), replace=True)

    def states(self, name: str = "fsrc") -> tuple[str, list[str]]:
        status = self.herder.connector_status(name)
        return str(status.connector.state), [str(task.state) for task in status.tasks]


def config(name: str, kind: str = "source", **props: str) -> dict[str, str]:
    spelled = {key.replace("_", "."): value for key, value in props.items()}
    return {"name": name, "connector.class": kind, **spelled}


@contextmanager
def herder_bench(
    *,
    is_up: bool = True,
    call_s: float = 30.0,
    stop_s: float = 10.0,
    validate: Callable[[Mapping[str, str]], None] | None = None,
    variables: Variables | None = None,
) -> Iterator[Bench]:
    """A started herder; at the end hanging calls are let go and everything is stopped."""
    journal, launcher, offsets, groups = (
        fresh_journal(),
        MemoryLauncher(is_up=is_up),
        MemoryOffsetStore(),
        MemoryGroups(),
    )
    validated: list[Mapping[str, str]] = []

    def check(props: Mapping[str, str]) -> None:
        validated.append(props)
        if props.get("bad"):
            raise BadRequestError("Connector configuration is invalid")
        if validate is not None:
            validate(props)

    @contextmanager
    def group_offsets(_: Mapping[str, str]) -> Iterator[MemoryGroups]:
        yield groups

    herder = StandaloneHerder(
        HerderParts(
            worker_config={"bootstrap.servers": "localhost:9092"},
            plugins=SamplePlugins(),
            launcher=launcher,
            offsets=offsets,
            groups=group_offsets,
            validate=check,
            explain=lambda props: ConfigInfos(props.get("connector.class") or "", 0, (), ()),
            plugin_config=lambda plugin, version: list(_FILE_KEYS.config_keys.values()),
            variables=variables or Variables(),
            times=PluginTimes(call_s=call_s, stop_s=stop_s),
        )
    )
    launcher.start(herder.events)
    herder.start(WORKER_ID, "cluster-1")
    try:
        yield Bench(herder, launcher, offsets, groups, journal, validated)
    finally:
        journal.gate.open()
        herder.stop(5.0)
        launcher.stop(1.0)
