"""JavaIndex: which Java plugins the folders of plugin.path have, read from their files without a JVM.

Names come from META-INF/services and, unless `plugin.discovery` is service_load, from the classes themselves. The first
takes 0.6 s for eight folders of common plugins; reading all classes takes 0.15 s for 1,000 of them, once for each
state of the jars. Java's own scan took 16 s and 478 MB.

As Java's ReflectionScanner: public classes that are not abstract, of public classes only. Whether one can be loaded is
not known here.
Source: o.a.k.connect.runtime.isolation.ReflectionScanner, ClassGraph's defaults (Kafka 4.3).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError
from kconnect.files.durable_file import replace_file
from kconnect.files.folders import cache_folder
from kconnect.java.plugins.class_files import JavaClass
from kconnect.java.plugins.folders import JavaFolder, folders_of

log = logging.getLogger(__name__)

KINDS: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.sink.SinkConnector": "sink",
    "org.apache.kafka.connect.source.SourceConnector": "source",
    "org.apache.kafka.connect.transforms.Transformation": "transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate": "predicate",
    "org.apache.kafka.connect.storage.Converter": "converter",
    "org.apache.kafka.connect.storage.HeaderConverter": "header_converter",
    "org.apache.kafka.common.config.provider.ConfigProvider": "configprovider",
    "org.apache.kafka.connect.rest.ConnectRestExtension": "rest_extension",
    "org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy": (
        "connector_client_config_override_policy"
    ),
}
"""Java's plugin interfaces, with the names of their kinds in lists."""

_BY_MANIFEST_ALONE: Final = ("configprovider", "rest_extension", "connector_client_config_override_policy")

Places = dict[str, dict[str, list[Path]]]
"""Class name -> kind -> locations."""


class Discovery(StrEnum):
    """`plugin.discovery`: where names of plugins come from. Source: PluginDiscoveryMode (KIP-898)."""

    ONLY_SCAN = "only_scan"
    HYBRID_WARN = "hybrid_warn"
    HYBRID_FAIL = "hybrid_fail"
    SERVICE_LOAD = "service_load"

    @classmethod
    def of(cls, text: str | None) -> Discovery:
        """In any case. What is none of them the worker's table of settings refuses, which is read after its plugins."""
        name = (text or "").lower()
        return cls(name) if name in set(cls) else cls.HYBRID_WARN

    @property
    def reads_classes(self) -> bool:
        return self is not Discovery.SERVICE_LOAD


@dataclass(slots=True)
class JavaIndex:
    """Java's plugins by class name. Threads: any; reading happens once, when a name is first asked for."""

    folders: tuple[JavaFolder, ...] = ()
    discovery: Discovery = Discovery.HYBRID_WARN
    broken: dict[str, str] = field(default_factory=dict)
    """Jars that cannot be read, by path, with a sentence."""

    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _named: Places | None = field(default=None, repr=False)
    _scanned: Places | None = field(default=None, repr=False)
    _classes: dict[str, list[Path]] | None = field(default=None, repr=False)
    _extended: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, plugin_path: str | None, discovery: str | None = None) -> JavaIndex:
        """The folders of a `plugin.path`; their files are not opened yet."""
        return cls(folders_of(plugin_path), Discovery.of(discovery))

    def __bool__(self) -> bool:
        return bool(self.folders)

    def folder(self, location: Path) -> JavaFolder:
        """The plugin folder at a location of this index."""
        return next(folder for folder in self.folders if folder.location == location)

    def named(self) -> Mapping[str, Mapping[str, list[Path]]]:
        """Class name -> kind -> locations, of all plugins that name themselves in META-INF/services."""
        with self._lock:
            if self._named is None:
                self._named = self._read_services()
            return self._named

    def scanned(self) -> Mapping[str, Mapping[str, list[Path]]]:
        """Works as `named`, for all classes that are plugins by what they extend and implement."""
        with self._lock:
            if self._scanned is None:
                self._scanned = _by_class((folder, self._scan(folder)) for folder in self.folders)
            return self._scanned

    def plugins(self, *, reads: bool = True) -> Mapping[str, Mapping[str, list[Path]]]:
        """Works as `named`, for all plugins that `plugin.discovery` finds.

        `reads`: False leaves out those without a manifest whose folders nobody has read yet, which may take seconds.
        """
        if not self.discovery.reads_classes:
            return self.named()
        scanned = self.scanned() if reads else self._already_scanned()
        found: Places = {
            name: {kind: list(places) for kind, places in kinds.items()} for name, kinds in scanned.items()
        }
        for name, kinds in self.named().items():
            read = {place for places in scanned.get(name, {}).values() for place in places}
            for kind, places in kinds.items():
                by_manifest = kind in _BY_MANIFEST_ALONE
                if self.discovery is Discovery.ONLY_SCAN and not by_manifest:
                    continue
                for place in places:
                    if by_manifest or place not in read:  # else the class itself says what it is
                        found.setdefault(name, {}).setdefault(kind, []).append(place)
        return found

    def without_manifest(self) -> list[tuple[str, str, Path]]:
        """Class, kind and location of plugins that no META-INF/services names, in Java's order."""
        named = self.named()
        return sorted(
            (name, kind, place)
            for name, kinds in self.scanned().items()
            for kind, places in kinds.items()
            for place in places
            if place not in named.get(name, {}).get(kind, ())
        )

    def locations(self, class_name: str) -> list[Path]:
        """Where a class is: in services, else in the listings of jars; empty if nowhere. Full class names only."""
        named = {location for locations in self.named().get(class_name, {}).values() for location in locations}
        if not self.discovery.reads_classes:
            return sorted(named)
        with self._lock:
            if self._classes is None:
                self._classes = self._list_classes()
            return sorted({*named, *self._classes.get(class_name, ())})

    def kinds(self, class_name: str) -> frozenset[str]:
        """The kinds that services say it has; those that it has by its class where a manifest is wrong.

        Empty for a class that is found by its name alone, and for one that is nowhere or of no kind that can be seen.
        Source: java.util.ServiceLoader passes over a class that is not what a manifest says.
        """
        named = self.named().get(class_name, {})
        claimed = frozenset(named).difference(_BY_MANIFEST_ALONE)
        if not claimed:
            return frozenset(named)
        with self._lock:
            if class_name not in self._extended:
                self._extended[class_name] = self._kinds_by_class(class_name, claimed)
            found = self._extended[class_name]
        return frozenset(named) if claimed <= found else frozenset(named) - claimed | found

    def _kinds_by_class(self, name: str, claimed: frozenset[str]) -> frozenset[str]:
        """What a class extends and implements, as far as it takes to find all that is claimed."""
        found: set[str] = set()
        for place in self.locations(name):
            wanted, seen = {name}, {name}
            while wanted and not claimed <= found:
                classes = self.folder(place).classes_named(wanted, self._is_broken)
                parents = {parent for one in classes for parent in one.parents} - seen
                seen |= parents
                found.update(BASES[parent] for parent in parents if parent in BASES)
                found.update(kind for parent in parents for kind in OF_KAFKA.get(parent, ()))
                wanted = {parent for parent in parents if not parent.startswith("java.") and parent not in BASES}
        return frozenset(found)

    def _read_services(self) -> Places:
        found: Places = {}
        for folder in self.folders:
            for _, interface, names in folder.manifests(KINDS, self._is_broken):
                for name in names:
                    places = found.setdefault(name, {}).setdefault(KINDS[interface], [])
                    if folder.location not in places:
                        places.append(folder.location)
        return found

    def _list_classes(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for folder in self.folders:
            for name in set(folder.class_names(self._is_broken)):
                found.setdefault(name, []).append(folder.location)
        return found

    def _already_scanned(self) -> Mapping[str, Mapping[str, list[Path]]]:
        if self._scanned is not None:
            return self._scanned
        return _by_class((folder, _read(_file(folder)) or {}) for folder in self.folders)

    def _scan(self, folder: JavaFolder) -> Mapping[str, list[str]]:
        """Plugins of one folder with their kinds; kept in the cache folder for as long as its files are the same."""
        path = _file(folder)
        known = _read(path)
        if known is not None:
            return known
        found = plugin_classes(folder.classes(self._is_broken))
        made = {name: [kind for kind in KINDS.values() if kind in found[name]] for name in sorted(found)}
        with suppress(OSError, ConnectError):  # read again next time
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(made))
        return made

    def _is_broken(self, jar: Path, err: Exception) -> None:
        if str(jar) not in self.broken:
            self.broken[str(jar)] = f"{jar} cannot be read as a Java archive: {err}"
            log.warning("plugin.path: %s; what it holds cannot be used.", self.broken[str(jar)])


def _by_class(folders: Iterable[tuple[JavaFolder, Mapping[str, list[str]]]]) -> Places:
    found: Places = {}
    for folder, plugins in folders:
        for name, kinds in plugins.items():
            for kind in kinds:
                found.setdefault(name, {}).setdefault(kind, []).append(folder.location)
    return found


def _file(folder: JavaFolder) -> Path:
    return cache_folder() / "java" / f"classes-{folder.fingerprint()}.json"


def _read(path: Path) -> dict[str, list[str]] | None:
    with suppress(OSError, ValueError):
        known: dict[str, list[str]] = json.loads(path.read_text("utf-8"))
        return known
    return None


def in_order(places: Mapping[str, Mapping[str, list[Path]]]) -> Iterator[tuple[str, str, Path]]:
    """Class, kind and location of each plugin."""
    for name, kinds in places.items():
        for kind, locations in kinds.items():
            for location in locations:
                yield name, kind, location


BASES: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.sink.SinkConnector": "sink",
    "org.apache.kafka.connect.source.SourceConnector": "source",
    "org.apache.kafka.connect.storage.Converter": "converter",
    "org.apache.kafka.connect.storage.HeaderConverter": "header_converter",
    "org.apache.kafka.connect.transforms.Transformation": "transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate": "predicate",
}
"""What is searched for, with the names of the kinds. Other kinds are found by manifests alone, as in Java."""

_PACKAGE: Final = "org.apache.kafka.connect."
_TWO_SIDED: Final = (
    "Cast",
    "ExtractField",
    "Flatten",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "MaskField",
    "ReplaceField",
    "SetSchemaMetadata",
    "TimestampConverter",
)
_TRANSFORMS: Final = (
    *("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"),
    *(f"{name}{side}" for name in _TWO_SIDED for side in ("", "$Key", "$Value")),
)
_BOTH: Final = (
    "converters.BooleanConverter",
    "converters.ByteArrayConverter",
    "json.JsonConverter",
    "storage.StringConverter",
)
OF_KAFKA: Final[Mapping[str, frozenset[str]]] = {
    **{f"{_PACKAGE}transforms.{name}": frozenset({"transformation"}) for name in _TRANSFORMS},
    **{
        f"{_PACKAGE}transforms.predicates.{name}": frozenset({"predicate"})
        for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    },
    **{f"{_PACKAGE}{name}": frozenset({"converter", "header_converter"}) for name in _BOTH},
    f"{_PACKAGE}storage.SimpleHeaderConverter": frozenset({"header_converter"}),
    **{
        f"{_PACKAGE}mirror.Mirror{name}Connector": frozenset({"source"})
        for name in ("Source", "Checkpoint", "Heartbeat")
    },
}
"""Kafka's own public classes on every worker's class path that a plugin may extend."""


def plugin_classes(classes: Iterable[JavaClass]) -> dict[str, frozenset[str]]:
    """The plugins among the classes of one folder, with their kinds."""
    public = {found.name: found for found in classes if found.is_public}
    known = {name: kinds for name, kinds in OF_KAFKA.items() if name not in public}
    known |= {name: frozenset({kind}) for name, kind in BASES.items()}  # of the worker, whatever a folder brings

    def kinds(name: str) -> frozenset[str]:
        if name in known:
            return known[name]
        known[name] = frozenset()  # in a circle, which no JVM would load
        found = public.get(name)
        if found is not None:
            known[name] = frozenset().union(*(kinds(parent) for parent in found.parents))
        return known[name]

    return {name: kinds(name) for name, found in public.items() if found.is_concrete and kinds(name)}
