"""PluginRegistry: resolves a name in a config to a plugin class, and lists all plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any, TypeVar

from kconnect.api import Connector, Converter, HeaderConverter, Predicate, Transformation
from kconnect.api.config_parse import java_trim
from kconnect.errors import ConfigError
from kconnect.java.compat.maven_version_range import VersionRange, version_order
from kconnect.java.plugins import DiscoveryCheck, Hosted, JavaIndex, JavaPlugins, JavaSettings, Preparation
from kconnect.runtime.plugins.aliases import BUILTINS, PluginType, builtins_by_name, names_of, short_names
from kconnect.runtime.plugins.isolation import PluginFolders, installed_points
from kconnect.runtime.plugins.plugin_info import (
    CONVERTERS,
    PasswordSettings,
    PluginInfo,
    in_order,
    info_of,
    kinds_of,
    python_name,
    version_reported,
)
from kconnect.runtime.plugins.python_classes import load_builtin, load_point, nearest, python_class
from kconnect.runtime.plugins.source_reading import ClassFacts
from kconnect.runtime.plugins.unclear_names import UnknownPlugins, several_plugins

log = logging.getLogger(__name__)

P = TypeVar("P")

# Java names by ours; a connector's task is in the same module or package in both languages
_JAVA_NAMES = {known.target.replace(":", "."): known.java_name for known in BUILTINS}
_JAVA_NAMES |= {
    f"{ours.removesuffix('Connector')}Task": f"{java_name.removesuffix('Connector')}Task"
    for ours, java_name in _JAVA_NAMES.items()
    if java_name.endswith("Connector")
}
# Java's classes that ours stand in for
_COUNTERPARTS = frozenset(_JAVA_NAMES.values())


class PluginRegistry:
    """Finds plugin classes by name. A name is tried, in this order, as

    1. the Java name of a plugin we ship, its simple name, or that without Connector, Converter, ..;
    2. an entry point of group `kconnect.plugins`: its name, its `module:Class`, or its class's short names;
    3. a Python class: `package.module.Class` or `package.module:Class`;
    4. a class in a `plugin.path` folder, by its class name or short names;
    5. a Java class in a folder with jars, likewise; `java:` before the name takes no other.

    Errors: ConfigError in Java's words, with a hint about names that are close.
    Threads: any; results are cached. Source: o.a.k.connect.runtime.isolation.Plugins.
    """

    def __init__(
        self, folders: PluginFolders, points: tuple[EntryPoint, ...] = (), java: JavaPlugins | None = None
    ) -> None:
        self._folders = folders
        self._java = java
        self._points = points + tuple(point for root in folders.roots for point in root.entry_points)
        # By name, kind, version and place; looked up twice at worst: no lock around a plugin's import
        self._found: dict[tuple[str, type, str | None, str | None], type] = {}
        self._unknown = UnknownPlugins()
        self._any: dict[tuple[str, str | None], type] = {}  # by name and version, whatever its kind, likewise
        self._password_settings = PasswordSettings(
            {
                "": self.connector_class,
                "transforms": self.transformation,
                "predicates": self.predicate,
                "header": self.header_converter,
                CONVERTERS: self.converter,
            }
        )

    @classmethod
    def load(
        cls, plugin_path: str | None = None, *, tells_skipped: bool = True, java: JavaSettings | None = None
    ) -> PluginRegistry:
        """The registry of this environment. Reads folders and entry points; imports no plugin yet.

        `plugin_path` is the worker's `plugin.path`: folders, comma-separated. They are added to sys.path.
        `tells_skipped`: log what is skipped; for the worker, so that slots on its machine do not repeat it.
        `java`: how the JVM for Java's plugins is started; it is when the first one is used.
        """
        folders = PluginFolders.read(plugin_path, tells_skipped=tells_skipped)
        folders.open()
        java = java or JavaSettings()
        java_plugins = JavaPlugins(JavaIndex.of(plugin_path, java.discovery), java)
        return cls(folders, installed_points(), java_plugins)

    def check_discovery(self) -> DiscoveryCheck | None:
        """Say, or refuse, as `plugin.discovery` of the worker asks, what Java's plugins lack; to be stopped.

        None where no plugin is Java's. Errors: ConfigError in Java's words.
        """
        if self._java is None or not self._java.index:
            return None
        check = DiscoveryCheck(self._java)
        check.start()
        return check

    def prepare(self) -> Preparation | None:
        """Fetch and compile in the background what Java's plugins need.

        None where no plugin is Java's, or each has a counterpart here, which runs instead.
        """
        if self._java is None or not self._java.index:
            return None
        return None if self._java.index.plugins().keys() <= _COUNTERPARTS else self._java.prepare()

    def share_java(self) -> Mapping[str, str]:
        """Lend the JVM of Java's plugins to slots on this machine, until close().

        Shape: settings for them beside the worker's, a secret; empty where each has its own (kconnect.java.host).
        """
        return {} if self._java is None else self._java.share()

    def close(self, timeout_s: float | None = None) -> None:
        """End the JVM of Java's plugins, if one was started; kills it at the deadline, if given. Idempotent."""
        if self._java is None:
            return
        if timeout_s is None:
            self._java.close()
        else:
            self._java.close(timeout_s)

    def abandon(self, connector: str, task: int | None) -> None:
        """Let go of the Java plugins of a task that did not stop in time, or of a connector (no task) that hangs.

        The thread that waits for them comes back. Never blocks.
        """
        if self._java is not None:
            self._java.abandon(connector, task)

    def java_stack(self, connector: str, task: int | None) -> list[str] | None:
        """Where a task, or a connector (no task), was in Java when this was asked before, innermost call first.

        Empty at first; None where it has nothing in Java. Never blocks.
        """
        return None if self._java is None else self._java.stack(connector, task)

    def java_ports(self) -> tuple[int, ...]:
        """On which JVMs of Java's plugins listen in this process, by kconnect.java.opts. Never blocks."""
        return () if self._java is None else self._java.ports

    def connector_class(self, name: str, version: str | None = None) -> type[Connector]:
        """The class a `connector.class` names. Errors: ConfigError.

        `version`, here and below: which of several to take, as `connector.plugin.version` has it. Without one that
        matches the newest is taken, which `require_version` then refuses.
        """
        found: type[Connector] = self._class(name, Connector, version)
        return found

    def password_keys(self, config: Mapping[str, str]) -> frozenset[str]:
        """Settings of a connector's config that a plugin's table types as PASSWORD: their names need not say so."""
        return self._password_settings.of(config)

    def converter(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Converter]:
        """The class a `key.converter` or `value.converter` names. Errors: ConfigError.

        `beside`, here and below: the connector, whose own copy in its folder goes before others, as in Java.
        """
        found: type[Converter] = self._class(name, Converter, version, beside)
        return found

    def header_converter(
        self, name: str, version: str | None = None, beside: type[Any] | None = None
    ) -> type[HeaderConverter]:
        """The class a `header.converter` names. Errors: ConfigError."""
        found: type[HeaderConverter] = self._class(name, HeaderConverter, version, beside)
        return found

    def any_converter(self, name: str) -> type[Converter | HeaderConverter]:
        """The class that one of a worker's converters names, of whichever kind. Errors: ConfigError, as of values'."""
        try:
            return self.converter(name)
        except ConfigError as no_converter:
            try:
                return self.header_converter(name)
            except ConfigError:
                raise no_converter from None

    def transformation(
        self, name: str, version: str | None = None, beside: type[Any] | None = None
    ) -> type[Transformation]:
        """The class a `transforms.X.type` names. Errors: ConfigError."""
        found: type[Transformation] = self._class(name, Transformation, version, beside)
        return found

    def predicate(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Predicate]:
        """The class a `predicates.X.type` names. Errors: ConfigError."""
        found: type[Predicate] = self._class(name, Predicate, version, beside)
        return found

    def java_class(self, name: str, base: type[P]) -> type[P] | None:
        """A Java class of a kind that only workers have: a config provider, an override policy. None if there is none.

        Errors: ConfigError for a short name of several, and for a class that Java cannot load.
        """
        found: list[type[Any]] = self._of_java(java_trim(name), base, None, None)
        if len(found) > 1:
            raise several_plugins(name, base, [(self.java_name(match), match) for match in found])
        return found[0] if found else None

    def python_class(self, name: str, base: type[P]) -> type[P] | None:
        """A class of a kind that is named in Python only, such as an interceptor: `module:Class` or `module.Class`.

        None if there is no such class, as for the name of a Java class. Errors: ConfigError if it is not a `base`, or
        if its module cannot be imported.
        """
        found = next(python_class(java_trim(name)), None)
        if found is not None and not issubclass(found, base):
            raise ConfigError(f"{name} is not a {base.__name__}.", hint=f"Extend kconnect.api.{base.__name__}.")
        return found

    def any_plugin(self, name: str, version: str | None = None) -> type[Any]:
        """The class of any kind with this name, as Java loads any class first. Errors: ConfigError.

        Cached: each kind without it costs a scan of all plugins, and each validation looks up all classes that its
        config names.
        """
        found = self._any.get((name, version))
        if found is None:
            found = self._any[name, version] = self._of_any_kind(name, version)
        return found

    def _of_any_kind(self, name: str, version: str | None) -> type[Any]:
        for base in (Converter, Transformation, Predicate, HeaderConverter):
            with suppress(ConfigError):  # several of this kind
                found, _ = self._match(java_trim(name), base, _span(version), None)
                if found is not None:
                    return found
        return self.connector_class(name, version)

    def describe(self) -> list[PluginInfo]:
        """All plugins: sinks, sources, transformations, predicates, converters, header converters, each by name.

        Shape: a class of two kinds is listed twice, one version of it in two folders once, with both. Reads plugins in
        plugin.path without importing them, unless a version is computed; imports all others, of which an entry point
        that fails is logged and left out. Modules that have come to plugin.path since it was read are among them.
        Source: ConnectorPluginsResource.
        """
        self._look_again()
        return list(self._in_order)

    def describe_one(self, name: str) -> list[PluginInfo]:
        """What the list says of the plugin that a setting means. Loads no other, and starts no JVM."""
        full = self.known_as(name)
        infos = [] if full is None else in_order(self._with_java(self._of_python(full), asks=False))
        return [info for info in infos if info.class_name == full]

    def nearest(self, name: str, *kinds: str) -> list[str]:
        """Short names of the plugins of these kinds (PluginType) that `name` may have meant; empty if none is close."""
        return nearest(name, [info for info in self._all if info.type in kinds])

    def known_as(self, name: str) -> str | None:
        """The full name of the plugin, of any kind, that a setting means; None if none of the worker's is called so.

        Imports and starts nothing, as a setting's value may be anything that Python can import.
        """
        name = java_trim(name).removeprefix("java:").replace(":", ".")
        if name in _JAVA_NAMES:
            return _JAVA_NAMES[name]
        names = self._names
        if name not in names and self._java is not None and self._java.index.locations(name):
            return name
        return names.get(name)

    @property
    def _names(self) -> dict[str, str]:
        """Full names by what a plugin may be called; of plugins with one short name the first counts."""
        kinds: list[tuple[str, Iterable[str]]] = [
            (plugin.java_name, plugin.types if plugin.has_short_name else ()) for plugin in BUILTINS
        ]
        points = {point.name: point.value.replace(":", ".") for point in self._points}
        kinds += [(name, PluginType) for name in points.values()]
        kinds += [(f"{declared.module}.{declared.name}", of) for declared, of, _ in self._folder_classes]
        if self._java is not None:
            kinds += self._java.index.plugins(reads=False).items()
        return {**names_of(kinds), **points}

    def require_version(self, plugin: Any, wanted: str | None) -> None:  # a plugin of any type
        """Refuse a plugin whose version does not match a setting such as `key.converter.plugin.version`.

        Errors: ConfigError with Java's message, for another version and for an invalid one.
        Source: DelegatingClassLoader#findPluginLoader (KIP-891).
        """
        span = None if wanted is None else VersionRange.parse(wanted)
        if span is None:
            return
        found = str(plugin.version())
        if not span.holds(found):
            available = self._available(type(plugin)) or [found]
            several = ", ".join(dict.fromkeys(available))
            raise ConfigError(
                f"Plugin {self.java_name(type(plugin))} not found that matches the version range {span}, "
                f"available versions: [{', '.join(available)}]",
                hint=f"This worker has version {several}: ask for {'one of these' if ',' in several else 'that one'}, "
                "or for none.",
            )

    def versions(self, plugin_class: type) -> list[str]:
        """The versions of a plugin that are installed, oldest first, each once."""
        return list(dict.fromkeys(self._available(plugin_class)))

    def _available(self, plugin_class: type) -> list[str]:
        """One for each place and kind, as Java lists them; of a class of ours with its twins in plugin.path, as far as
        Java was asked about these.
        """
        name = self.java_name(plugin_class)
        if self._java is not None and issubclass(plugin_class, Hosted) and self._java.index.locations(name):
            return self._java.available(name)
        self._look_again()
        infos = self._with_java(self._of_python(name), asks=False)
        return sorted((str(info.version) for info in infos if info.class_name == name), key=version_order)

    def java_name(self, plugin_class: type) -> str:
        """The name of a class in REST: Java's for built-in plugins and their tasks, else `module.Class`.

        A Java worker of the cluster finds a task by this name when the connector runs here.
        """
        name = python_name(plugin_class)
        return _JAVA_NAMES.get(name, name)

    def _class(
        self, name: str, base: type, version: str | None = None, beside: type[Any] | None = None
    ) -> Any:  # the subclass of base that the callers promise
        name = java_trim(name)
        key = (name, base, version, getattr(beside, "folder", None))
        found = self._found.get(key)
        if found is None:
            try:
                found = self._resolve(name, base, _span(version), key[3])
            except ConfigError:
                if not self._look_again():
                    raise
                found = self._resolve(name, base, _span(version), key[3])
            self._found[key] = found
        return found

    def _look_again(self) -> bool:
        """Whether modules have come to plugin.path since it was read: they are found without a restart."""
        now = self._folders.refreshed()
        if now is None:
            return False
        self._folders = now
        self._unknown.clear()
        for cached in ("_folder_classes", "_all", "_in_order"):
            self.__dict__.pop(cached, None)
        return True

    def _resolve(self, name: str, base: type, wanted: VersionRange | None, beside: str | None) -> type:
        found, others = self._match(name, base, wanted, beside)
        if found is None:
            raise self._unknown.error(name, base, others, self._all, self._notes())
        return found

    def _match(
        self, name: str, base: type, wanted: VersionRange | None, beside: str | None
    ) -> tuple[type | None, list[type]]:
        """The class of a kind, and those of other kinds with its name. Errors: ConfigError for several."""
        others: list[type] = []
        if name.startswith("java:"):
            return self._of_java(name, base, wanted, beside)[0], others
        finders: tuple[Callable[[], Iterable[type]], ...] = (
            lambda: self._builtin(name),
            lambda: self._installed(name),
            lambda: python_class(name),
            lambda: self._in_folders(name),
            lambda: self._of_java(name, base, wanted, beside),
        )
        for find in finders:
            matches = list(dict.fromkeys(find()))
            fitting = [match for match in matches if issubclass(match, base)]
            if len(fitting) > 1:
                raise several_plugins(name, base, [(self.java_name(match), match) for match in fitting])
            if fitting:
                return self._in_version(fitting[0], base, wanted), others
            others += matches
        return None, others

    def _in_version(self, found: type, base: type, wanted: VersionRange | None) -> type:
        """Java's class of the same name where that is the one which has the version."""
        if wanted is None or issubclass(found, Hosted) or wanted.holds(str(version_reported(found))):
            return found
        twins = self._of_java(self.java_name(found), base, wanted, None)
        return next((twin for twin in twins if wanted.holds(str(version_reported(twin)))), found)

    def _builtin(self, name: str) -> Iterator[type]:
        yield from map(load_builtin, builtins_by_name().get(name, ()))

    def _installed(self, name: str) -> Iterator[type]:
        for point in self._points:
            simple = point.value.rsplit(":", 1)[-1].rsplit(".", 1)[-1]
            shorts = {short for kind in PluginType for short in short_names(simple, kind)}
            if name in (point.name, point.value, point.value.replace(":", ".")) or name in shorts:
                yield load_point(point)

    def _in_folders(self, name: str) -> Iterator[type]:
        for declared, kinds, _ in self._folder_classes:
            class_name = f"{declared.module}.{declared.name}"
            if name == class_name or any(name in short_names(class_name, kind) for kind in kinds):
                found = self._folders.load(declared)
                if found is not None:
                    yield found

    def _of_java(self, name: str, base: type, wanted: VersionRange | None, beside: str | None) -> list[type]:
        return [] if self._java is None else self._java.find(name, base, wanted, beside)

    @cached_property
    def _folder_classes(self) -> list[tuple[ClassFacts, list[PluginType], str]]:
        """Each plugin of plugin.path as its source declares it, of which kinds it is, and where it lies."""
        return [
            (declared, kinds, str(root.location))
            for declared, root in self._folders.classes()
            if (kinds := kinds_of(*declared.bases))
        ]

    @cached_property
    def _in_order(self) -> list[PluginInfo]:
        return in_order(self._all)

    @cached_property
    def _all(self) -> list[PluginInfo]:
        return self._with_java(self._of_python(), asks=True)

    def _with_java(self, infos: list[PluginInfo], *, asks: bool) -> list[PluginInfo]:
        taken = {(info.class_name, info.type, info.version) for info in infos}
        return infos + [
            PluginInfo(found.class_name, found.kind, found.version, found.location)
            for found in ([] if self._java is None else self._java.listed(asks=asks))
            if (found.class_name, found.kind, found.version) not in taken
        ]

    def _of_python(self, name: str | None = None) -> list[PluginInfo]:
        """Gives all that is not Java's, or what has this class name alone: then others are not imported."""

        def is_meant(found: str) -> bool:
            return name is None or found == name

        infos = [
            info_of(plugin.java_name, kind, load_builtin(plugin), "classpath")
            for plugin in BUILTINS
            if is_meant(plugin.java_name)
            for kind in plugin.types
        ]
        installed: dict[type, None] = {}
        for point in self._points:
            if name is not None and _last(point.value) != _last(name):
                continue
            try:
                installed[load_point(point)] = None
            except ConfigError as err:
                log.warning("%s It is left out of the list of plugins.", err)
        known = {info.class_name for info in infos} | set(_JAVA_NAMES)
        infos += [
            info_of(python_name(found), kind, found, "classpath")
            for found in installed
            if is_meant(python_name(found)) and python_name(found) not in known
            for kind in kinds_of(found)
        ]
        known |= {python_name(found) for found in installed}
        infos += [
            PluginInfo(found_name, str(kind), self._version_of(declared), location)
            for declared, kinds, location in self._folder_classes
            if is_meant(found_name := f"{declared.module}.{declared.name}") and found_name not in known
            for kind in kinds
        ]
        return infos

    def _version_of(self, declared: ClassFacts) -> str:
        """Gives the version as its source has it; only a version that is computed takes an import."""
        if declared.version is not None:
            return declared.version
        found = self._folders.load(declared)
        return "undefined" if found is None else version_reported(found)

    def _notes(self) -> list[str]:
        """Why modules in `plugin.path` failed to load: the missing plugin may be in one of them."""
        return [f"Note: {note}." for note in (*self._folders.conflicts, *self._folders.broken.values())]


def _last(name: str) -> str:
    """Gives the class of `module:Class`, or the last part of a dotted name."""
    return name.replace(":", ".").rpartition(".")[2]


def _span(version: str | None) -> VersionRange | None:
    """Returns None for an invalid one too, which `require_version` refuses."""
    try:
        return None if version is None else VersionRange.parse(version)
    except ConfigError:
        return None
