"""MirrorSettings: what an mm2.properties file says, and the settings of workers and connectors that follow from it.

Everything here is a pure function of the file. Source: MirrorMakerConfig (Kafka 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from kconnect.errors import ConfigError, ConfigProblem
from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, PRODUCER
from kconnect.runtime.config.client_security import SECURITY_KEYS
from kconnect.runtime.config.misspelt import misspelt_settings
from kconnect.runtime.config.removed_settings import removed_of_mirror
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.config.worker_config import DISTRIBUTED_CONFIG, KCONNECT_CONFIG

CONNECTORS: Final = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
"""The connectors of each flow, by name. Source: MirrorMaker.CONNECTOR_CLASSES."""

_PACKAGE: Final = "org.apache.kafka.connect.mirror"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_SERVERS: Final = "bootstrap.servers"
_HEARTBEATS: Final = "emit.heartbeats.enabled"
_PROVIDERS: Final = "config.providers"
_POLICY: Final = "replication.policy"
# Settings of all workers that may stand at the top of the file; others belong to a cluster or a flow
_OF_WORKERS: Final = (
    *("offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter"),
    *("task", "worker", _POLICY),
)
_INTERNAL_REST: Final = "dedicated.mode.enable.internal.rest"
# Settings that Java's workers have not, for all workers of the file
_OUR_OWN: Final = ("kconnect.", "spark.")
# Settings of the one REST server that a file can ask for
_REST: Final = re.compile(r"listeners(\..*)?|rest\..*|admin\.listeners.*")
CLIENT: Final = (SECURITY_KEYS | {"bootstrap.servers", "security.protocol"}) - {"ssl.client.auth"}
"""What every client of a cluster takes. Source: MirrorClientConfig.CLIENT_CONFIG_DEF."""

_OF_CONNECTORS: Final = """
config.action.reload connector.class connector.plugin.version errors.log.enable errors.log.include.messages
errors.retry.delay.max.ms errors.retry.timeout errors.tolerance header.converter header.converter.plugin.version
key.converter key.converter.plugin.version name predicates tasks.max tasks.max.enforce transforms value.converter
value.converter.plugin.version
"""
_OF_MIRROR: Final = """
admin.timeout.ms checkpoints.topic.replication.factor config.properties.exclude config.property.filter.class
config.providers consumer.poll.timeout.ms emit.checkpoints.enabled emit.checkpoints.interval.seconds
emit.heartbeats.enabled emit.heartbeats.interval.seconds emit.offset-syncs.enabled enabled forwarding.admin.class
group.filter.class groups groups.exclude heartbeats.replication.enabled heartbeats.topic.replication.factor
metric.names.formats metric.reporters offset-syncs.topic.location offset-syncs.topic.replication.factor offset.lag.max
refresh.groups.enabled refresh.groups.interval.seconds refresh.topics.enabled refresh.topics.interval.seconds
replication.factor replication.policy.class replication.policy.internal.topic.separator.enabled
replication.policy.separator source.cluster.alias sync.group.offsets.enabled sync.group.offsets.interval.seconds
sync.topic.acls.enabled sync.topic.acls.interval.seconds sync.topic.configs.enabled
sync.topic.configs.interval.seconds target.cluster.alias topic.filter.class topics topics.exclude
"""

CONNECTOR: Final = frozenset((CLIENT - {"bootstrap.servers"}) | set(_OF_CONNECTORS.split()) | set(_OF_MIRROR.split()))
"""What the three connectors take. Source: MirrorMakerConfig#allConfigNames."""


@dataclass(frozen=True, slots=True)
class Flow:
    """From one cluster to another, by their aliases."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def namespace(self) -> str:
        """Where Java's workers of this flow ask each other, before /connectors. Source: MirrorMaker#encodePath."""
        return f"/{quote(self.source, safe='*')}/{quote(self.target, safe='*')}"


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """An mm2.properties file.

    `properties` may hold `${..}`, which workers resolve; `resolved` has none, and says which flows there are.
    """

    properties: Mapping[str, str] = field(repr=False)  # secrets live here
    resolved: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MirrorSettings:
        """Errors: ConfigError for a provider or a reference that cannot be resolved."""
        variables = Variables.of_worker(properties)
        try:
            return cls(properties, variables.resolve(properties, "MirrorMaker").values)
        finally:
            variables.close()

    def clusters(self) -> list[str]:
        """The aliases. Errors: ConfigError in Java's words."""
        given = self.resolved.get("clusters")
        if given is None:
            text = 'Missing required configuration "clusters" which has no default value.'
            raise _invalid("clusters", None, text, self._hint_at("clusters", "primary, backup"))
        found = [alias.strip() for alias in given.split(",")] if given.strip() else []
        if "" in found:
            raise _invalid("clusters", given, "Configuration 'clusters' values must not be empty.")
        return list(dict.fromkeys(found))

    def flows(self, targets: tuple[str, ...] = ()) -> list[Flow]:
        """The flows to run, of all clusters or only to some. Errors: ConfigError when there is none.

        A flow that is not enabled has its heartbeats, unless these are off as well: they tell whether the way back
        works.
        """
        clusters = self.clusters()
        for target in targets:
            if target not in clusters:
                raise _invalid(
                    "--clusters", target, f"{target} is not a cluster of the file, which has: {_list(clusters)}"
                )
        found = [
            Flow(source, target)
            for source in clusters
            for target in clusters
            if source != target and (not targets or target in targets)
        ]
        found = [flow for flow in found if self.is_enabled(flow) or self._has_heartbeats(flow)]
        if not found:
            raise ConfigError(
                "No source->target replication flows.", hint="Enable one, such as: primary->backup.enabled = true"
            )
        for prefix in ("", *(f"{flow}." for flow in found)):
            for key, message in removed_of_mirror(self.resolved, prefix):
                raise _invalid(key, self.resolved[key], message)
        for flow in found:
            for alias in (flow.source, flow.target):
                if _SERVERS not in self._of_cluster(alias):
                    key = f"{alias}.{_SERVERS}"
                    text = f"Cluster {alias} has no {key}: flow {flow} cannot reach it"
                    raise _invalid(key, None, text, self._hint_at(key, "host:9092"))
        return found

    def is_enabled(self, flow: Flow) -> bool:
        """Whether the flow replicates topics."""
        return _is_true(self.resolved.get(f"{flow}.enabled"))

    def strangers(self) -> list[str]:
        """Settings of clusters that the file does not name, and of flows between such; they have no effect."""
        clusters = self.clusters()
        named = {f"{alias}.{_SERVERS}" for alias in clusters}
        known = tuple(f"{source}->{target}." for source in clusters for target in clusters)
        return sorted(
            key
            for key in self.properties
            if (not key.startswith(known) if "->" in key else key.endswith(f".{_SERVERS}") and key not in named)
        )

    def misspelt(self) -> Mapping[str, str]:
        """Keys that are almost one of MirrorMaker's or a worker's: as written -> as probably meant."""
        clusters = self.clusters()
        return misspelt(self.properties, clusters, [f"{one}->{other}" for one in clusters for other in clusters])

    def worker_config(self, flow: Flow) -> dict[str, str]:
        """Settings of a flow's workers. Source: MirrorMakerConfig#workerConfig.

        Differs: `${..}` stay, for our workers resolve them themselves.
        """
        made = self._of_cluster(flow.target)
        for prefix in (*_OF_WORKERS, _PROVIDERS):
            made |= self._beginning(prefix)
        defaults = {
            "client.id": str(flow),
            "group.id": f"{flow.source}-mm2",
            "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
            "status.storage.topic": f"mm2-status.{flow.source}.internal",
            "config.storage.topic": f"mm2-configs.{flow.source}.internal",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "header.converter": _BYTES,
        }
        return defaults | made

    def our_worker_config(self, flow: Flow) -> dict[str, str]:
        """`worker_config` with what our workers need besides: REST of their own, our settings at the top of the file.

        With internal REST the workers of a file listen at one port after the other, in the order of its flows; without,
        on this machine alone. A flow that only has heartbeats gets one slot.
        Differs: Java's flows share one server.
        """
        made = {key: value for key, value in self.worker_config(flow).items() if not _REST.fullmatch(key)}
        made |= {key: value for key, value in self.properties.items() if key.startswith(_OUR_OWN)}
        if not self.is_enabled(flow):
            made |= {"kconnect.slots": "1"}
        made |= {"listeners": "http://127.0.0.1:0", "kconnect.rest.namespace": flow.namespace}
        if _is_true(self.resolved.get(_INTERNAL_REST)):
            made |= {key: value for key, value in self.properties.items() if _REST.fullmatch(key)}
            number = self.flows().index(flow)
            given = self.resolved.get("listeners", "http://:8083").split(",")
            made["listeners"] = ",".join(_next_port(listener.strip(), number) for listener in given)
            if "rest.advertised.port" in made:
                made["rest.advertised.port"] = str(int(self.resolved["rest.advertised.port"]) + number)
        # Java's dedicated mode has this policy whatever the file says
        return made | {"connector.client.config.override.policy": "All"}

    def connector_config(self, flow: Flow, connector: str) -> dict[str, str]:
        """The config of one of CONNECTORS. Source: MirrorMakerConfig#connectorBaseConfig."""
        made = {key: value for key, value in self.properties.items() if key in CONNECTOR}
        made |= self._beginning(_PROVIDERS) | self._beginning(_POLICY)
        for side, alias in (("source", flow.source), ("target", flow.target)):
            for key, value in self._of_cluster(alias).items():
                is_clients = key.startswith(("consumer", "producer", "admin"))
                made[f"{side}.{key}" if is_clients else f"{side}.cluster.{key}"] = value
        defaults = {
            "name": connector,
            "connector.class": f"{_PACKAGE}.{connector}",
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
        }
        return {"enabled": "false"} | defaults | made | self._stripped(f"{flow}.")

    def connector_configs(self, flow: Flow) -> dict[str, dict[str, str]]:
        """The configs of all of a flow's connectors, by name."""
        return {name: self.connector_config(flow, name) for name in CONNECTORS}

    def _hint_at(self, key: str, example: str) -> str:
        """What to do about a key that is missing: it may only be misspelt."""
        alias = [key.removesuffix(f".{_SERVERS}")] if key.endswith(_SERVERS) else []
        for wrong, meant in misspelt(self.properties, alias, ()).items():
            if meant == key:
                return f"Unknown setting: {wrong}. Did you mean {key}?"
        return f"Add it, such as: {key} = {example}"

    def _has_heartbeats(self, flow: Flow) -> bool:
        everywhere = self.resolved.get(_HEARTBEATS, "true")
        return _is_true(self.resolved.get(f"{flow}.{_HEARTBEATS}", everywhere))

    def _of_cluster(self, alias: str) -> dict[str, str]:
        """What is said of a cluster, with its clients' settings. Source: MirrorMakerConfig#clusterProps."""
        made = self._stripped(f"{alias}.")
        for said in (dict(made), self.properties):
            for key in CLIENT & said.keys():
                for client in ("producer.", "consumer.", "admin.", ""):
                    made.setdefault(client + key, said[key])
        return made

    def _stripped(self, prefix: str) -> dict[str, str]:
        return dict(_stripped(self.properties, prefix))

    def _beginning(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self.properties.items() if key.startswith(prefix)}


def _next_port(listener: str, number: int) -> str:
    """The listener `number` ports further; a port that the system chooses, or none, stays."""
    address, _, port = listener.rpartition(":")
    return f"{address}:{int(port) + number}" if port.isdecimal() and int(port) else listener


def _stripped(properties: Mapping[str, str], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in properties.items():
        if key.startswith(prefix) and key != prefix:
            yield key.removeprefix(prefix), value


def _is_true(text: str | None) -> bool:
    """Decides as Boolean.parseBoolean does."""
    return text is not None and text.lower() == "true"


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"


def _invalid(key: str, value: str | None, message: str, hint: str | None = None) -> ConfigError:
    return ConfigError(message, [ConfigProblem(key, value, message)], hint=hint)


# Its clients tell what they do not know of these, and a plugin has names of its own
_OF_OTHERS: Final = ("admin.", "consumer.", "producer.", "source.", "target.", "transforms.", "predicates.")
_OF_THE_FILE: Final = ("clusters", "dedicated.mode.enable.internal.rest")


def misspelt(properties: Iterable[str], clusters: Collection[str], flows: Collection[str]) -> Mapping[str, str]:
    """Keys that resemble a known one of their place (the top, a cluster, a flow): as written -> as probably meant."""
    clients = {*CLIENT, *ADMIN, *CONSUMER, *PRODUCER}
    workers = {*DISTRIBUTED_CONFIG.names(), *clients}
    top = {*_OF_THE_FILE, *CONNECTOR, *workers, *KCONNECT_CONFIG.names()}
    places = {f"{flow}.": {*CONNECTOR, *clients} for flow in flows} | {f"{alias}.": workers for alias in clusters}
    found: dict[str, str] = {}
    for key in properties:
        # The longest that fits: an alias may be the beginning of another
        place = max((place for place in places if key.startswith(place)), key=len, default="")
        name = key.removeprefix(place)
        if not name.startswith(_OF_OTHERS):
            meant = misspelt_settings([name], places.get(place, top)).get(name)
            found |= {key: place + meant} if meant else {}
    return found
