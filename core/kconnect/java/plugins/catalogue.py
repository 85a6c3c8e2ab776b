"""JavaPlugins: Java's plugins of a worker's plugin.path, as classes of ours."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kconnect.api import (
    ConfigProvider,
    Connector,
    ConnectorClientConfigOverridePolicy,
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
)
from kconnect.errors import ConfigError, ConnectError
from kconnect.java.compat.maven_version_range import VersionRange, version_order
from kconnect.java.door import DOOR
from kconnect.java.kafka_jars import KAFKA_VERSION
from kconnect.java.plugins.connectors import JavaSinkConnector, JavaSourceConnector
from kconnect.java.plugins.descriptions import describe
from kconnect.java.plugins.host import HostProcess, JavaSettings
from kconnect.java.plugins.hosting import Hosted, java_class
from kconnect.java.plugins.index import JavaIndex, in_order
from kconnect.java.plugins.own_jvm import END_TIMEOUT_S
from kconnect.java.plugins.preparation import Preparation
from kconnect.java.plugins.versions import Loaded, PluginVersions
from kconnect.java.plugins.worker_plugins import JavaConfigProvider, JavaOverridePolicy

_MIRROR: Final = "org.apache.kafka.connect.mirror"

KAFKAS_OWN: Final = tuple(f"{_MIRROR}.Mirror{what}Connector" for what in ("Checkpoint", "Heartbeat", "Source"))
"""Class names; all are source connectors. Source: META-INF/services of connect-mirror (Kafka 4.3)."""


log = logging.getLogger(__name__)

PREFIX: Final = "java:"
"""Before a class name: Java's class, even where there is one of ours with this name."""

_STAGES: Final[Mapping[str, str]] = {
    "transformation": "JavaTransformation",
    "predicate": "JavaPredicate",
    "converter": "JavaConverter",
    "header_converter": "JavaHeaderConverter",
}


def _stands_for(kind: str) -> type[Any]:
    """Our class for Java's plugins of a kind. Those of stages need Arrow, which takes a while to import."""
    if kind == "source":
        return JavaSourceConnector
    if kind == "sink":
        return JavaSinkConnector
    if kind in _OF_WORKER:
        return _OF_WORKER[kind]
    from kconnect.java.plugins import stages

    found: type[Any] = getattr(stages, _STAGES[kind])
    return found


_OF_WORKER: Final[Mapping[str, type[Any]]] = {
    "configprovider": JavaConfigProvider,
    "connector_client_config_override_policy": JavaOverridePolicy,
}
_KINDS: Final[Mapping[type, tuple[str, ...]]] = {
    Connector: ("sink", "source"),
    SinkConnector: ("sink",),
    SourceConnector: ("source",),
    Transformation: ("transformation",),
    Predicate: ("predicate",),
    Converter: ("converter",),
    HeaderConverter: ("header_converter",),
    ConfigProvider: ("configprovider",),
    ConnectorClientConfigOverridePolicy: ("connector_client_config_override_policy",),
}


_CONVERTERS: Final = frozenset(("converter", "header_converter"))
"""One class may be both."""
LISTED: Final = ("source", "sink", *_STAGES)
"""The kinds that Connect's REST lists."""


@dataclass(frozen=True, slots=True)
class JavaPluginInfo:
    """A Java plugin in a list."""

    class_name: str
    plugin_class: type[Any]
    kind: str
    location: str
    version: str


class JavaPlugins:
    """Finds classes by name; each stands for a Java class, which is loaded in the host JVM when it is used.

    Threads: any.
    """

    def __init__(self, index: JavaIndex, settings: JavaSettings) -> None:
        self.index = index
        self._settings = settings
        self._host = HostProcess(index, settings)
        alone = replace(settings, door=None)  # plugins that end their JVM as they are looked at end this one
        self.versions = PluginVersions(index, self._host, lambda: HostProcess(index, alone))
        self._made: dict[tuple[str, str | None, str], type[Any]] = {}  # made twice at worst: no lock

    def prepare(self) -> Preparation:
        """Have what a JVM needs fetched and compiled in the background."""
        preparation = Preparation(self._settings.home)
        preparation.start()
        return preparation

    def share(self) -> Mapping[str, str]:
        """Lend the JVM to slots on this machine, until close().

        Shape: settings for them beside the worker's; empty where each has its own. A secret.
        """
        return {DOOR: self._host.share()} if self._settings.is_shared else {}

    def close(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """End the JVM, if there is one; kills it at the deadline."""
        self._host.stop(timeout_s)

    def abandon(self, connector: str, task: int | None) -> None:
        """Let go of the Java plugins of a task that did not stop in time, or of a connector. Never blocks."""
        self._host.abandon(connector, task)

    def stack(self, connector: str, task: int | None) -> list[str] | None:
        """Works as HostJvm.stack."""
        return self._host.stack(connector, task)

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None while there is none."""
        return self._host.pid

    @property
    def ports(self) -> tuple[int, ...]:
        """On which the JVMs of this process listen, by kconnect.java.opts."""
        return self._host.ports

    def find(
        self, name: str, base: type, wanted: VersionRange | None = None, beside: str | None = None
    ) -> list[type[Any]]:
        """The classes of a kind that a name may mean: the full Java name, or a short one as Java has it.

        `wanted`: the newest version in this range; the newest of all if there is none. `beside`: a folder whose own
        class goes before others.
        Source: DelegatingClassLoader.findPluginLoader (KIP-891).
        """
        kinds = _KINDS.get(base, ())
        if name.startswith(PREFIX):
            full = name.removeprefix(PREFIX)
            return [self._class(full, self._folder(full, wanted, beside), kinds)]
        if self.index and self.index.locations(name):
            return [self._class(name, self._folder(name, wanted, beside), kinds)]
        if name in KAFKAS_OWN and "source" in kinds:
            return [self._class(name, None, kinds)]
        if "." in name:
            return []
        return [
            self._class(full, self._folder(full, wanted, beside), (kind,)) for full, kind in self._meant(name, kinds)
        ]

    def _meant(self, short: str, kinds: Container[str]) -> list[tuple[str, str]]:
        """The classes that have a short name, with their kind; of several those that Java can load."""
        named: dict[str, Iterable[str]] = {**dict.fromkeys(KAFKAS_OWN, ("source",)), **self.index.plugins()}
        found = [
            (full, kind)
            for full, of in named.items()
            for kind in of
            if kind in kinds and short in _short_names(full, kind) and self._is_of(full, kind)
        ]
        if len(found) < 2:
            return found
        known = self.versions.of_all([(full, place) for full, _ in found for place in self.index.locations(full)])
        loads = {full: [one.problem is None for (name, _), one in known.items() if name == full] for full, _ in found}
        return [(full, kind) for full, kind in found if any(loads[full] or [True])] or found

    def _is_of(self, full: str, kind: str) -> bool:
        """Whether no manifest says wrongly that a class is of a kind."""
        return kind not in self.index.named().get(full, {}) or kind in self.index.kinds(full)

    def listed(self, kinds: Container[str] = LISTED, *, asks: bool = True) -> list[JavaPluginInfo]:
        """All plugins that `plugin.discovery` finds and Java can load. Starts a JVM when these jars are new.

        Without Java, or where it may not be asked, all are listed, with no version.
        """
        found = [plugin for plugin in in_order(self.index.plugins()) if plugin[1] in kinds]
        known = self.versions.of_all([(name, place) for name, _, place in found], asks=asks)
        made = [
            JavaPluginInfo(name, self._class(name, None, ("source",)), "source", "classpath", KAFKA_VERSION)
            for name in KAFKAS_OWN
            if "source" in kinds and not self.index.locations(name)
        ]
        for name, kind, place in found:
            loaded = known.get((name, place), Loaded(kinds=(kind,)))
            if loaded.problem is None and kind in loaded.kinds:
                plugin = self._class(name, str(place), (kind,)) if kind in LISTED else object
                made.append(JavaPluginInfo(name, plugin, kind, str(place), loaded.version))
        return made

    def available(self, name: str) -> list[str]:
        """The versions of a class, oldest first: one for each place and kind, as Java's messages list them."""
        kinds = self.index.plugins().get(name, {})
        pairs = [(kind, place) for kind, places in kinds.items() for place in places]
        known = self.versions.of_all([(name, place) for _, place in pairs])
        found = [known[name, place] for _, place in pairs if (name, place) in known]
        return sorted((loaded.version for loaded in found if loaded.problem is None), key=version_order)

    def _folder(self, name: str, wanted: VersionRange | None, beside: str | None) -> str | None:
        """Where the class is taken from. None for one of Kafka's own jars."""
        places = self.index.locations(name)
        if len(places) < 2:
            return str(places[0]) if places else None
        if wanted is None and beside is not None and Path(beside) in places:
            return beside
        known = self.versions.of_all([(name, place) for place in places])
        loaded = {place: known.get((name, place), Loaded()) for place in places}
        usable = [place for place in places if loaded[place].problem is None] or places
        ranked = sorted(usable, key=lambda place: (version_order(loaded[place].version), str(place)))
        fitting = [place for place in ranked if wanted is None or wanted.holds(loaded[place].version)]
        if beside is not None and Path(beside) in fitting:
            return beside
        return str((fitting or ranked)[-1])

    def _class(self, name: str, folder: str | None, kinds: tuple[str, ...]) -> type[Any]:
        kind = self._kind(name, folder, kinds)
        found = self._made.get((name, folder, kind))
        if found is None:
            found = self._made[name, folder, kind] = java_class(name, folder, _stands_for(kind), self._host)
        return found

    def _kind(self, name: str, folder: str | None, kinds: tuple[str, ...]) -> str:
        """Which of the wanted kinds the class is: by services, else Java is asked. Errors: ConfigError."""
        known: Any = {"source"} if name in KAFKAS_OWN else self.index.kinds(name)
        # Its manifests may name fewer: what extends StringConverter is a header converter too
        if not known & set(kinds):
            known = known | {kind for kind in self.index.plugins(reads=False).get(name, {}) if self._is_of(name, kind)}
        if not known or (not known & set(kinds) and known | set(kinds) <= _CONVERTERS):
            known = known | self._kinds_by_java(name, folder)
        for kind in kinds:
            if kind in known:
                return kind
        raise ConfigError(
            f"{name} is a Java class of type {' and '.join(sorted(known)) or 'unknown'}, not {' or '.join(kinds)}",
            hint="Connect's REST extensions cannot run here: kconnect has its own."
            if "rest_extension" in known
            else None,
        )

    def _kinds_by_java(self, name: str, folder: str | None) -> set[str]:
        try:
            return set(describe(java_class(name, folder, Hosted, self._host))["kinds"])
        except ConfigError:
            raise
        except ConnectError as err:
            raise ConfigError(f"Java cannot load {name}: {err}", hint=err.hint) from err


def _short_names(full: str, kind: str) -> tuple[str, ...]:
    """The simple name, with and without the classes around it, and that without the word for its kind.

    Source: PluginUtils.prunedName.
    """
    simple = full.rpartition(".")[2]
    inner = simple.rpartition("$")[2]
    ends = {
        "sink": ("Connector",),
        "source": ("Connector",),
        "converter": ("Converter",),
        "header_converter": ("HeaderConverter", "Converter"),
        "transformation": ("Transformation", "Transform"),
        "predicate": ("Predicate",),
        "configprovider": ("ConfigProvider",),
        "connector_client_config_override_policy": ("ConnectorClientConfigOverridePolicy",),
    }.get(kind, ())
    cut = [name.removesuffix(end) for name in (simple, inner) for end in ends if name.endswith(end) and name != end]
    return simple, inner, *cut
