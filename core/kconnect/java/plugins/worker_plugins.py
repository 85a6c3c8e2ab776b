"""Java's plugins of the worker itself: config providers, and policies for client overrides."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from kconnect.api import ConfigData, ConfigProvider, ConnectorClientConfigOverridePolicy, ConnectorClientConfigRequest
from kconnect.api.config_key import ConfigValue
from kconnect.errors import ConnectError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.descriptions import version_of
from kconnect.java.plugins.hosting import Hosted
from kconnect.java.plugins.java_error import JavaHostDiedError

log = logging.getLogger(__name__)

_BASES: Final = {
    "source": "org.apache.kafka.connect.source.SourceConnector",
    "sink": "org.apache.kafka.connect.sink.SinkConnector",
}


class _OfWorker(Hosted):
    """One object in Java for as long as this one lives; it is made again when its JVM died in between."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._java: JavaConnection | None = None

    def configure(self, props: Mapping[str, str]) -> None:
        self._config = {key: value for key, value in props.items() if value is not None}
        self._made()

    def close(self) -> None:
        java, self._java = self._java, None
        if java is not None:
            try:
                java.call("close")
            except JavaHostDiedError as err:
                log.debug("%s is gone already: %s", self.java_class, err)
            finally:
                java.close()

    def _made(self) -> JavaConnection:
        made = self.connect("worker")
        try:
            made.call("configure", config=self._config)
        except BaseException:
            made.close()
            raise
        self._java = made
        return made

    def _ask(self, method: str, **arguments: Any) -> Any:
        """Errors: what Java throws; JavaHostDiedError when the JVM dies of it."""
        java = self._java
        if java is not None:
            try:
                return java.call(method, **arguments)
            except JavaHostDiedError as err:
                log.warning("%s is made again: %s", self.java_class, err)
                java.close()
                self._java = None
        return self._made().call(method, **arguments)


class JavaConfigProvider(_OfWorker, ConfigProvider):
    """Runs o.a.k.common.config.provider.ConfigProvider in the host JVM; not subscribed to, as in Java's workers."""

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        told = self._ask("get", path=path, keys=list(keys))
        return ConfigData({key: value for key, value in told["data"].items() if value is not None}, told["ttl"])


class JavaOverridePolicy(_OfWorker, ConnectorClientConfigOverridePolicy):
    """Runs o.a.k.connect.connector.policy.ConnectorClientConfigOverridePolicy in the host JVM."""

    def validate(self, request: ConnectorClientConfigRequest) -> list[ConfigValue]:
        kind, named = str(request.connector_type), request.connector_class
        # What a policy may ask of the class of Python's connectors is their kind
        place = (named.java_class, named.folder) if issubclass(named, Hosted) else (_BASES[kind], None)
        told = self._ask(
            "validate",
            name=request.connector_name,
            type=kind,
            client=str(request.client_type),
            props=dict(request.client_props),
            **{"class": place[0], "folder": place[1]},
        )
        return [ConfigValue(value["name"], value["value"], [], list(value["errors"] or ())) for value in told]

    def version(self) -> str:
        try:
            return version_of(type(self))
        except ConnectError:
            return "undefined"
