"""Settings of one plugin of any type: what `GET /connector-plugins/X/config` lists.

Source: AbstractHerder#connectorPluginConfig, Plugins#pluginClass (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Protocol

from kconnect.api import (
    Converter,
    HeaderConverter,
    Predicate,
    SinkConnector,
    SourceConnector,
    Transformation,
)
from kconnect.api.config_key import ConfigKey
from kconnect.api.configdef import ConfigDef
from kconnect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError
from kconnect.java.compat.maven_version_range import VersionRange
from kconnect.runtime.config.connector_keys import SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.herder.validation.plugin_keys import PluginFinder, any_plugin, instance_of

_VERSION: Final = "connector.plugin.version"
_KINDS = (SinkConnector, SourceConnector, Converter, HeaderConverter, Transformation, Predicate)


class NamedPlugins(PluginFinder, Protocol):
    """A registry that also returns the names of classes."""

    def java_name(self, plugin_class: type) -> str: ...


def plugin_config_keys(plugins: NamedPlugins, name: str, version: str | None) -> list[ConfigKey]:
    """The plugin's own settings, then, of a connector, Connect's; one that both have is the plugin's.

    A nested class such as HoistField$Value has no short name here, as in Java; in configs it has.

    Errors: NotFoundError, BadRequestError for a version that is not installed, ConnectError for a plugin that raises.
    """
    if "$" in name and "." not in name:
        raise NotFoundError(f"Unknown plugin {name}.")
    try:
        plugin_class = any_plugin(plugins, name, version)
    except (ConfigError, NotFoundError) as err:
        raise NotFoundError(f"Unknown plugin {name}.") from err
    if not issubclass(plugin_class, _KINDS):  # the common prefix of such names as HoistField$Key and HoistField$Value
        raise NotFoundError(f"Unknown plugin {name}.")
    try:
        plugin = instance_of(plugin_class)
        _require_version(plugins, plugin, version)
        own = plugin.config()
    except ConnectError:
        raise
    except Exception as err:  # a plugin call
        raise ConnectError(f"Plugin {name} gave no settings: {type(err).__name__}: {err}") from err
    if not isinstance(own, ConfigDef):
        raise ConnectError(f"{name}.config() gave {type(own).__name__}, not a ConfigDef")
    common = {SinkConnector: SINK_CONFIG, SourceConnector: SOURCE_CONFIG}
    keys = dict(own.config_keys)
    for kind, table in common.items():
        if isinstance(plugin, kind):
            keys |= {key: row for key, row in table.config_keys.items() if key not in keys}
            # Java has none for a connector of its own jars (DelegatingClassLoader.latestVersion)
            if getattr(plugin_class, "folder", "") is not None:
                newest = (plugins.versions(plugin_class) or [str(plugin.version())])[-1]
                keys[_VERSION] = replace(keys[_VERSION], default=newest)
    return list(keys.values())


def _require_version(plugins: NamedPlugins, plugin: Any, wanted: str | None) -> None:  # a plugin of any type
    """Errors: BadRequestError in the words that Java has for this request."""
    try:
        if wanted is not None:
            VersionRange.parse(wanted)
    except ConfigError as err:
        raise BadRequestError(
            f"Invalid version specification: {wanted}", hint="Write 4.3.0, [4.3.0], [4.0,5.0) or latest."
        ) from err
    try:
        plugins.require_version(plugin, wanted)
    except ConfigError as err:
        raise BadRequestError(str(err), hint=err.hint) from err
