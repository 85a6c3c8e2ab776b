"""PluginInfo: what the list of plugins says of one, of which kinds a class is, and which settings are PASSWORDs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kconnect.api import (
    ConfigDef,
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
)
from kconnect.client.masks import named_plugins
from kconnect.errors import ConfigError
from kconnect.java.compat.maven_version_range import version_order
from kconnect.runtime.plugins.aliases import PluginType

log = logging.getLogger(__name__)

BASES: Final[dict[PluginType, type]] = {
    PluginType.SINK: SinkConnector,
    PluginType.SOURCE: SourceConnector,
    PluginType.TRANSFORMATION: Transformation,
    PluginType.PREDICATE: Predicate,
    PluginType.CONVERTER: Converter,
    PluginType.HEADER_CONVERTER: HeaderConverter,
}


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin as shown in lists. Source: PluginDesc."""

    class_name: str
    type: str
    version: str | None
    location: str

    def to_json(self) -> dict[str, Any]:
        return {"class": self.class_name, "type": self.type, "version": self.version}

    def __str__(self) -> str:
        return (
            f"PluginDesc{{klass=class {self.class_name}, name='{self.class_name}', version='{self.version}', "
            f"encodedVersion={self.version}, type={self.type}, typeName='{self.type}', location='{self.location}'}}"
        )


def kinds_of(*classes: type) -> list[PluginType]:
    """The kinds that a class, or one of several bases, is of."""
    return [kind for kind, base in BASES.items() if any(issubclass(one, base) for one in classes)]


def info_of(class_name: str, kind: PluginType, plugin_class: type, location: str) -> PluginInfo:
    return PluginInfo(class_name, str(kind), version_reported(plugin_class), location)


def version_reported(plugin_class: type) -> str:
    """The version that an object of the class tells; undefined where it tells none."""
    try:
        version = plugin_class().version()
    except Exception as err:  # a plugin's constructor may raise anything; it is listed anyway
        log.warning("The version of plugin %s cannot be read: %r", python_name(plugin_class), err)
        return "undefined"
    return "undefined" if version is None else str(version)


def python_name(plugin_class: type) -> str:
    return f"{plugin_class.__module__}.{plugin_class.__qualname__}"


def in_order(infos: Iterable[PluginInfo]) -> list[PluginInfo]:
    """In the order of lists; a version of a class in two folders is one row."""
    order = list(PluginType)
    found: dict[tuple[str, str, str | None], PluginInfo] = {}
    for info in infos:
        same = found.get((info.class_name, str(info.type), info.version))
        place = info.location if same is None else f"{same.location}, {info.location}"
        found[info.class_name, str(info.type), info.version] = replace(info, location=place)
    return sorted(
        found.values(),
        key=lambda info: (order.index(PluginType(info.type)), info.class_name, version_order(str(info.version))),
    )


Finder = Callable[[str, str | None], type[Any]]
CONVERTERS: Final = "converter"


class PasswordSettings:
    """Reads the ConfigDef of each plugin once. Threads: any; one may be read twice at worst."""

    def __init__(self, finders: Mapping[str, Finder]) -> None:
        """`finders`: by the first part of a setting's name, "" for the connector; others are `CONVERTERS`."""
        self._finders = finders
        self._known: dict[tuple[str, str, str | None], frozenset[str]] = {}  # by kind, name and version

    def of(self, config: Mapping[str, str]) -> frozenset[str]:
        """Settings of the connector, its transformations, predicates and converters, whose names need not say so.

        A plugin that is missing or fails has none: the error appears when it is run.
        """
        return frozenset(
            f"{prefix}{key}"
            for prefix, name in named_plugins(config)
            for key in self._of(prefix.partition(".")[0], name, config.get(f"{prefix or 'connector.'}plugin.version"))
        )

    def _of(self, kind: str, name: str, version: str | None) -> frozenset[str]:
        found = self._known.get((kind, name, version))
        if found is not None:
            return found
        try:
            found = self._read(kind, name, version)
        except Exception as err:  # a plugin call
            log.debug("%s does not say what its settings are: %r", name, err)
            found = frozenset()
            if not isinstance(err, ConfigError) or err.__cause__ is not None:
                return found  # it is asked again: its JVM may have died just now
        self._known[kind, name, version] = found
        return found

    def _read(self, kind: str, name: str, version: str | None) -> frozenset[str]:
        """Errors: whatever the plugin raises."""
        find = self._finders.get(kind, self._finders[CONVERTERS])
        table = find(name, version)().config()
        if not isinstance(table, ConfigDef):
            return frozenset()
        return frozenset(key.name for key in table.config_keys.values() if key.type is ConfigDef.Type.PASSWORD)
