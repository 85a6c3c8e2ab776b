"""JavaPlugins: Java's plugins of a worker's plugin.path, as classes of ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import (
    Connector,
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
)
from kconnect.errors import ConfigError, ConnectError
from kconnect.java_plugins.connectors import JavaSinkConnector, JavaSourceConnector
from kconnect.java_plugins.descriptions import describe
from kconnect.java_plugins.host import HostProcess, JavaSettings
from kconnect.java_plugins.hosting import Hosted, java_class
from kconnect.java_plugins.index import JavaIndex
from kconnect.java_plugins.versions import versions

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
    from kconnect.java_plugins import stages

    found: type[Any] = getattr(stages, _STAGES[kind])
    return found


_KINDS: Final[Mapping[type, tuple[str, ...]]] = {
    Connector: ("sink", "source"),
    SinkConnector: ("sink",),
    SourceConnector: ("source",),
    Transformation: ("transformation",),
    Predicate: ("predicate",),
    Converter: ("converter",),
    HeaderConverter: ("header_converter",),
}


@dataclass(frozen=True, slots=True)
class JavaPluginInfo:
    """A Java plugin in a list."""

    plugin_class: type[Any]
    kind: str
    location: str
    version: str


class JavaPlugins:
    """Finds classes by name; each stands for a Java class, which is loaded in the host JVM when it is used.

    Threads: any.
    """

    def __init__(self, index: JavaIndex, settings: JavaSettings) -> None:
        self._index = index
        self._host = HostProcess(index, settings)
        self._made: dict[tuple[str, str | None, str], type[Any]] = {}  # made twice at worst: no lock

    def close(self) -> None:
        """End the JVM, if there is one."""
        self._host.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the JVM; None while there is none."""
        return self._host.pid

    def find(self, name: str, base: type) -> list[type[Any]]:
        """The classes of a kind that a name may mean: the full Java name, or a short one as Java has it."""
        kinds = _KINDS.get(base, ())
        if name.startswith(PREFIX):
            full = name.removeprefix(PREFIX)
            return [self._class(full, self._folder(full), kinds)]
        if not self._index:
            return []
        if self._index.locations(name):
            return [self._class(name, self._folder(name), kinds)]
        if "." in name:
            return []
        return [
            self._class(full, self._folder(full), (kind,))
            for full, found in self._index.named().items()
            for kind in found
            if kind in kinds and name in _short_names(full, kind)
        ]

    def listed(self) -> list[JavaPluginInfo]:
        """All plugins that name themselves in META-INF/services. Starts a JVM when these jars are new."""
        if not self._index:
            return []
        known = versions(self._index, self._host)
        return [
            JavaPluginInfo(self._class(full, str(location), (kind,)), kind, str(location), known.get(full, "undefined"))
            for full, kinds in self._index.named().items()
            for kind, locations in kinds.items()
            if kind in ("source", "sink", *_STAGES)
            for location in locations[:1]
        ]

    def _folder(self, name: str) -> str | None:
        locations = self._index.locations(name)
        return str(locations[0]) if locations else None

    def _class(self, name: str, folder: str | None, kinds: tuple[str, ...]) -> type[Any]:
        kind = self._kind(name, folder, kinds)
        found = self._made.get((name, folder, kind))
        if found is None:
            found = self._made[name, folder, kind] = java_class(name, folder, _stands_for(kind), self._host)
        return found

    def _kind(self, name: str, folder: str | None, kinds: tuple[str, ...]) -> str:
        """Which of the wanted kinds the class is: by services, else Java is asked. Errors: ConfigError."""
        known: Any = self._index.kinds(name)
        if not known:
            try:
                known = describe(java_class(name, folder, Hosted, self._host))["kinds"]
            except ConnectError as err:
                raise ConfigError(f"Java cannot load {name}: {err}", hint=err.hint) from err
        for kind in kinds:
            if kind in known:
                return kind
        raise ConfigError(
            f"{name} is a Java class of type {' and '.join(sorted(known)) or 'unknown'}, not {' or '.join(kinds)}",
            hint="Connect's REST extensions cannot run here: kconnect has its own."
            if "rest_extension" in known
            else None,
        )


def _short_names(full: str, kind: str) -> tuple[str, str]:
    """The simple name, and that without the word for its kind. Source: PluginUtils.prunedName."""
    simple = full.rpartition(".")[2]
    ends = {
        "sink": ("Connector",),
        "source": ("Connector",),
        "converter": ("Converter",),
        "header_converter": ("HeaderConverter", "Converter"),
        "transformation": ("Transformation", "Transform"),
        "predicate": ("Predicate",),
    }.get(kind, ())
    for end in ends:
        if simple.endswith(end) and simple != end:
            return simple, simple.removesuffix(end)
    return simple, simple
