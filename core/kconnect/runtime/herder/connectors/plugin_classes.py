"""From a connector's config to its plugin class, kind and a new instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.errors import BadRequestError, ConnectError
from kconnect.logs.log_context import mask
from kconnect.model import ConnectorType
from kconnect.runtime.herder.validation.plugin_keys import PluginLike

if TYPE_CHECKING:
    from kconnect.api import Connector


_VERSION: Final = "connector.plugin.version"


class ConnectorPlugins(Protocol):
    """What a herder needs of the plugin registry."""

    def connector_class(self, name: str, version: str | None = None) -> type[Connector]:
        """The class a `connector.class` names, in a version if there are several. Errors: ConnectError as in Java."""
        ...

    def describe(self) -> Sequence[PluginLike]:
        """All plugins: imports each that is written in Python, and asks Java for versions."""
        ...

    def describe_one(self, name: str) -> Sequence[PluginLike]:
        """What the list of plugins says of the one that a setting means; loads no other, and starts no JVM."""
        ...

    def java_name(self, plugin_class: type) -> str:
        """The name REST shows for a class: Java's for our built-in ones, else `module.Class`."""
        ...

    def password_keys(self, config: Mapping[str, str]) -> frozenset[str]:
        """Settings of type PASSWORD, by the tables of the plugins that a config names."""
        ...

    def abandon(self, connector: str, task: int | None) -> None:
        """Let go of the Java plugins of a connector (no task) that hangs. Never blocks."""
        ...

    def java_stack(self, connector: str, task: int | None) -> list[str] | None:
        """Where it was in Java when this was asked before; None where it has nothing there. Never blocks."""
        ...

    def java_ports(self) -> tuple[int, ...]:
        """On which JVMs of Java's plugins listen in this process."""
        ...

    def require_version(self, plugin: Any, wanted: str | None) -> None:
        """Errors: ConfigError if a plugin has another version than requested."""
        ...


def connector_kind(plugins: ConnectorPlugins, config: Mapping[str, str]) -> ConnectorType:
    """Source or sink; UNKNOWN when the class cannot be found. Source: AbstractHerder#connectorType."""
    from kconnect.api import SinkConnector, SourceConnector

    try:
        plugin = plugins.connector_class(config.get("connector.class") or "", config.get(_VERSION))
    except ConnectError:
        return ConnectorType.UNKNOWN
    if issubclass(plugin, SourceConnector):
        return ConnectorType.SOURCE
    return ConnectorType.SINK if issubclass(plugin, SinkConnector) else ConnectorType.UNKNOWN


def new_connector(plugins: ConnectorPlugins, config: Mapping[str, str]) -> Connector:
    """A new instance, neither initialized nor started. Errors: ConnectError, and any error of its constructor."""
    from kconnect.api import SinkConnector, SourceConnector

    name = config.get("connector.class")
    if name is None:
        shown = "{" + ", ".join(f"{key}={value}" for key, value in mask(config).items()) + "}"
        raise BadRequestError(f"Connector config {shown} contains no connector type")
    connector = plugins.connector_class(name, config.get(_VERSION))()
    if (wanted := config.get(_VERSION)) is not None:
        plugins.require_version(connector, wanted)
    if not isinstance(connector, SourceConnector | SinkConnector):
        raise ConnectError("Connector implementations must be a subclass of either SourceConnector or SinkConnector")
    return connector
