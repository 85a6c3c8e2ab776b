"""Settings of the plugins that a connector's config names: one table for all, as REST shows them.

Source: ConnectorConfig.enrich, PluginsRecommenders (Kafka 4.3).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kconnect.api.config_key import NO_DEFAULT, ConfigKey, ConfigValue
from kconnect.api.config_parse import java_trim, parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConnectError, NotFoundError

log = logging.getLogger(__name__)

_T, _I, _W = ConfigDef.Type, ConfigDef.Importance, ConfigDef.Width
_IMPLICIT = ("predicate", "negate")
_DEFAULT_HEADER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_NOT_FOUND = " could not be found."
_KIND_OF = (
    (re.compile(r"(key|value)\.converter"), "converter"),
    (re.compile(r"header\.converter"), "header_converter"),
    (re.compile(r"transforms\..+\.type"), "transformation"),
    (re.compile(r"predicates\..+\.type"), "predicate"),
)


class PluginLike(Protocol):
    """One plugin as the registry describes it."""

    @property
    def class_name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def version(self) -> str | None: ...
    @property
    def location(self) -> str: ...


class PluginFinder(Protocol):
    """What validation needs of the plugin registry; each finder raises ConfigError for an unknown name."""

    def connector_class(self, name: str, version: str | None = None) -> type[Any]: ...
    def converter(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Any]: ...
    def header_converter(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Any]: ...
    def transformation(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Any]: ...
    def predicate(self, name: str, version: str | None = None, beside: type[Any] | None = None) -> type[Any]: ...
    def any_plugin(self, name: str, version: str | None = None) -> type[Any]: ...
    def java_name(self, plugin_class: type) -> str:
        """The full name of a plugin's class, as REST has it."""
        ...

    def versions(self, plugin_class: type) -> list[str]:
        """The installed versions of a plugin, oldest first."""
        ...

    def describe(self) -> Sequence[PluginLike]: ...
    def nearest(self, name: str, *kinds: str) -> list[str]:
        """Plugins of these kinds that an unknown name may have meant."""
        ...

    def password_keys(self, config: Mapping[str, str]) -> frozenset[str]: ...
    def require_version(self, plugin: Any, wanted: str | None) -> None:
        """Errors: ConfigError if a plugin has another version than requested."""
        ...


def enriched(
    base: ConfigDef,
    props: Mapping[str, str | None],
    plugins: PluginFinder,
    worker: Mapping[str, str],
    described: Sequence[PluginLike] = (),
) -> ConfigDef:
    """The table of a connector: Connect's own rows, with the worker's defaults, and those of named plugins.

    `described`: the plugins that are offered as values.
    """
    names: dict[str, dict[str, None]] = {}  # a class in several folders or versions once
    for plugin in described:
        names.setdefault(plugin.type, {})[plugin.class_name] = None
    offered = {kind: tuple(found) for kind, found in names.items()}
    table = _with_plugin_defaults(refusing_other_kinds(base, plugins), props, plugins, worker, offered)
    _add(table, _Kind("Transformation", "transforms", "Transforms", plugins.transformation), props, plugins, offered)
    _add(table, _Kind("Predicate", "predicates", "Predicates", plugins.predicate), props, plugins, offered)
    return table


def refusing_other_kinds(base: ConfigDef, plugins: PluginFinder) -> ConfigDef:
    """The same table, whose converters have to be classes of their kind."""
    table = ConfigDef()
    for key in base.config_keys.values():
        match key.name:
            case "key.converter" | "value.converter":
                key = replace(key, validator=_OfKind("Converter", plugins.converter, str(key.validator), plugins))
            case "header.converter":
                find = plugins.header_converter
                key = replace(key, validator=_OfKind("HeaderConverter", find, str(key.validator), plugins))
        table.define_key(key)
    return table


def any_plugin(plugins: PluginFinder, name: str, version: str | None = None) -> type[Any]:
    """The class of any kind that a name means, as Java loads any class first. Errors: ConfigError."""
    try:
        return plugins.any_plugin(name, version)
    except (ConfigError, NotFoundError):
        if _inner_classes(plugins, name):
            return type
        raise


def suggest_nearest(values: Iterable[ConfigValue], props: Mapping[str, str | None], plugins: PluginFinder) -> None:
    """Add "Did you mean .." to the message of each converter, transformation or predicate that is not found.

    Differs: Java only reports that the class could not be found, as ours does if no name is similar.
    """
    for value in values:
        kind = _kind_of(value.name)
        if kind is None:
            continue
        for index, message in enumerate(value.error_messages):
            close = plugins.nearest(props.get(value.name) or "", kind) if message.endswith(_NOT_FOUND) else []
            if close:
                value.error_messages[index] = f"{message} Did you mean {' or '.join(close)}?"


def with_full_names(values: Iterable[ConfigValue], plugins: PluginFinder) -> None:
    """Report the whole name of each plugin where a setting has a short one; what is not found stays as it is.

    Differs: `java:` before a name stays, for it chooses between two classes of this name.
    """
    finders = {
        "converter": plugins.converter,
        "header_converter": plugins.header_converter,
        "transformation": plugins.transformation,
        "predicate": plugins.predicate,
    }
    for value in values:
        kind, name = _kind_of(value.name), value.value
        if kind is None or not isinstance(name, str) or name.startswith("java:"):
            continue
        with suppress(ConfigError, NotFoundError):  # reported already
            value.value = _full_name(finders[kind], name, plugins)


def instance_of(plugin_class: type[Any]) -> Any:
    """A new plugin, only to read its settings."""
    return plugin_class()


@dataclass(frozen=True, slots=True)
class _Kind:
    """Transformations or predicates: the setting that lists their aliases, and how to find them."""

    name: str
    key: str
    group: str
    find: Callable[..., type[Any]]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A recommender with the same values whatever the other settings are."""

    values: tuple[str, ...]
    is_visible: bool = True

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return list(self.values)

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.is_visible


def _with_plugin_defaults(
    base: ConfigDef,
    props: Mapping[str, str | None],
    plugins: PluginFinder,
    worker: Mapping[str, str],
    offered: Mapping[str, tuple[str, ...]],
) -> ConfigDef:
    """The base table with what depends on plugins: the worker's converters, versions, recommended values."""
    table = ConfigDef()
    for key in base.config_keys.values():
        match key.name:
            case "key.converter" | "value.converter":
                key = replace(
                    key,
                    default=worker.get(key.name),
                    recommender=_Offer(offered.get("converter", ())),
                )
            case "header.converter":
                key = replace(
                    key,
                    default=worker.get(key.name, _DEFAULT_HEADER),
                    recommender=_Offer(offered.get("header_converter", ())),
                )
            case name if name.endswith(".plugin.version"):
                key = _version_key(key, props, plugins, worker)
        table.define_key(key)
    return table


def _version_key(
    key: ConfigKey, props: Mapping[str, str | None], plugins: PluginFinder, worker: Mapping[str, str]
) -> ConfigKey:
    """The row of a `.plugin.version` with the version that is taken without it, and those there are.

    Source: ConnectorConfig.converterDefaults, PluginsRecommenders.
    """
    setting = key.name.removesuffix(".plugin.version")
    if setting == "connector":
        chosen = props.get("connector.class") or ""
        versions = _versions(plugins, plugins.connector_class, chosen)
        default = versions[-1] if versions else None
    else:
        given = props.get(setting)
        chosen = worker.get(setting) or _DEFAULT_HEADER if given is None else given
        find = plugins.header_converter if setting == "header.converter" else plugins.converter
        versions = _versions(plugins, find, chosen)
        if given is not None:
            default = _version(find, chosen, _connector(props, plugins))
        else:
            default = worker.get(key.name) or (versions[-1] if versions else None)
    return replace(key, default=default, recommender=_Offer(tuple(versions), _is_class(plugins, chosen)))


def _add(
    table: ConfigDef,
    kind: _Kind,
    props: Mapping[str, str | None],
    plugins: PluginFinder,
    offered: Mapping[str, tuple[str, ...]],
) -> None:
    aliases = parse_type(kind.key, props.get(kind.key), _T.LIST) or []
    for alias in dict.fromkeys(aliases):
        prefix, group = f"{kind.key}.{alias}.", f"{kind.group}: {alias}"
        given = props.get(f"{prefix}type")
        lower = kind.name.lower()
        table.define(
            f"{prefix}type",
            _T.CLASS,
            NO_DEFAULT,
            _TypeOf(kind, alias, props, plugins, _connector(props, plugins)),
            _I.HIGH,
            f"Class of the {lower} {alias}.",
            group=group,
            order=0,
            width=_W.LONG,
            display_name=f"{kind.name} type for {alias}",
            recommender=_Offer(offered.get(lower, ())),
        )
        beside = _connector(props, plugins)
        version = _version(kind.find, given, beside) if given is not None else None
        wanted = props.get(f"{prefix}plugin.version")
        table.define(
            f"{prefix}plugin.version",
            _T.STRING,
            version,
            _VersionOf(kind, given, plugins, beside),
            _I.HIGH,
            f"Version of the {lower} {alias} to use; the newest if not given.",
            group=group,
            order=1,
            width=_W.LONG,
            display_name=f"{kind.name} version for {alias}",
            recommender=_Offer(() if given is None else tuple(_versions(plugins, kind.find, given))),
        )
        own = None if given is None else _own_table(kind, given, plugins, wanted, beside)
        if own is not None:
            table.embed(prefix, group, 2, own)


def _own_table(
    kind: _Kind, name: str, plugins: PluginFinder, wanted: str | None, beside: type[Any] | None
) -> ConfigDef | None:
    """The settings of one plugin with the implicit ones of its kind.

    None if its class is not installed, or not in the required version.
    """
    try:
        plugin = instance_of(kind.find(name, wanted, beside))
        plugins.require_version(plugin, wanted)
        definition = plugin.config()
    except (ConfigError, NotFoundError):
        return None
    if definition is None:  # reported with the type
        return None
    table: ConfigDef = definition
    if kind.name == "Transformation":
        for hidden in definition.names() & set(_IMPLICIT):
            log.warning("The setting %s of %s is hidden by the one every transformation has.", hidden, name)
        table = definition.without(*_IMPLICIT)
        table.define("predicate", _T.STRING, None, None, _I.MEDIUM, "Alias of the predicate that guards it.")
        table.define("negate", _T.BOOLEAN, False, None, _I.MEDIUM, "Whether it applies where the predicate is false.")
    return table


def _version(find: Callable[..., type[Any]], name: str, beside: type[Any] | None = None) -> str | None:
    """The version of a plugin that is taken when none is asked for."""
    try:
        plugin = instance_of(find(name, None, beside))
        version = getattr(plugin, "version", None)
        return None if version is None else str(version())
    except ConnectError:
        return None


def _versions(plugins: PluginFinder, find: Callable[..., type[Any]], name: str) -> list[str]:
    """All versions of a plugin, oldest first; none of one that is not here."""
    try:
        return plugins.versions(find(name))
    except ConnectError:
        return []


def _connector(props: Mapping[str, str | None], plugins: PluginFinder) -> type[Any] | None:
    """The connector, beside which its own plugins are looked for; None when it is not here."""
    try:
        return plugins.connector_class(props.get("connector.class") or "", props.get("connector.plugin.version"))
    except ConnectError:
        return None


def _full_name(find: Callable[..., type[Any]], name: str, plugins: PluginFinder) -> str:
    """The name of the class of a kind, or else of any. Errors: ConfigError for none."""
    try:
        found = find(name)
    except (ConfigError, NotFoundError):
        found = any_plugin(plugins, name)
    return name if found is type else plugins.java_name(found)


def _kind_of(setting: str) -> str | None:
    """The kind of plugin that a setting names, if it is one."""
    return next((kind for pattern, kind in _KIND_OF if pattern.fullmatch(setting)), None)


def _is_class(plugins: PluginFinder, name: str) -> bool:
    try:
        any_plugin(plugins, name)
    except (ConfigError, NotFoundError):
        return False
    return True


def _inner_classes(plugins: PluginFinder, name: str) -> list[str]:
    """Plugins whose Java name is an inner class of `name`, such as `HoistField$Key` of `HoistField`. None of a plugin,
    which may have others within it, as its predicate.
    """
    found, own = {plugin.class_name for plugin in plugins.describe()}, java_trim(name)
    return [] if own in found else sorted(other for other in found if other.startswith(f"{own}$"))


@dataclass(frozen=True, slots=True)
class _OfKind:
    """Refuses a class of another kind. Source: ConnectorConfig's validators of converters."""

    interface: str
    find: Callable[..., type[Any]]
    text: str
    plugins: PluginFinder

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            return
        try:
            self.find(value)
        except (ConfigError, NotFoundError) as err:
            other = _full_name(self.find, value, self.plugins)
            raise ConfigError(f"Class class {other} does not implement the {self.interface} interface") from err

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _TypeOf:
    """Checks the class of one alias. Source: ConnectorConfig.EnrichablePlugin."""

    kind: _Kind
    alias: str
    props: Mapping[str, str | None]
    plugins: PluginFinder
    beside: type[Any] | None

    def ensure_valid(self, name: str, value: Any) -> None:
        prefix = f"{self.kind.key}.{self.alias}."
        negate, predicate = f"{prefix}negate", f"{prefix}predicate"
        if self.kind.name == "Transformation" and negate in self.props and predicate not in self.props:
            raise ConfigError(
                f"Config '{negate}' was provided but there is no config '{predicate}' "
                "defining a predicate to be negated."
            )
        if value is None:
            return
        inner = _inner_classes(self.plugins, value)
        if inner:
            raise ConfigError(f"This class is abstract and cannot be created. Did you mean {', '.join(inner)}?")
        _OfKind(self.kind.name, self.kind.find, "", self.plugins).ensure_valid(name, value)
        wanted = self.props.get(f"{prefix}plugin.version")
        try:
            plugin = instance_of(self.kind.find(value, wanted, self.beside))
            self.plugins.require_version(plugin, wanted)
            definition = plugin.config()
        except ConnectError:
            raise
        except Exception as err:  # a plugin may raise anything from its constructor or config()
            raise ConfigError.invalid(
                name, f"class {value}", f"Error getting config definition from {self.kind.name}: {err}"
            ) from err
        if definition is None:
            raise ConnectError(f"{value}.config() must return a ConfigDef that is not null.")

    def __str__(self) -> str:
        return f"valid configs for {self.alias} {self.kind.name.lower()}"


@dataclass(frozen=True, slots=True)
class _VersionOf:
    """Refuses a version that the class of an alias does not have. Source: ConnectorConfig.PluginVersionValidator."""

    kind: _Kind
    named: str | None
    plugins: PluginFinder
    beside: type[Any] | None

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None or self.named is None:
            return
        try:
            plugin = instance_of(self.kind.find(self.named, value, self.beside))
        except (ConfigError, NotFoundError):  # reported with the type
            return
        self.plugins.require_version(plugin, value)

    def __str__(self) -> str:
        return "a version or range of versions"
