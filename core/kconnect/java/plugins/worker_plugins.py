"""Java's plugins of a worker, one for its life: config providers, and policies for overrides."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from kconnect.api import (
    ConfigData,
    ConfigDef,
    ConfigProvider,
    ConnectorClientConfigOverridePolicy,
    ConnectorClientConfigRequest,
)
from kconnect.api.config_key import ConfigValue
from kconnect.errors import ConnectError, TimedOutError
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.definitions import config_values
from kconnect.java.plugins.descriptions import version_of
from kconnect.java.plugins.hosting import Hosted
from kconnect.java.plugins.java_error import JavaHostDiedError

log = logging.getLogger(__name__)

_BASES: Final = {
    "source": "org.apache.kafka.connect.source.SourceConnector",
    "sink": "org.apache.kafka.connect.sink.SinkConnector",
}
# Each takes a thread in the JVM until it has its answer; a vault that is away keeps them all.
_MOST_REQUESTS: Final = 8


@dataclass(slots=True)
class _Made:
    """One object in Java, and the connections on which it can be asked side by side."""

    key: str
    owner: JavaConnection
    """It ends the object with it."""
    idle: list[JavaConnection] = field(default_factory=list)

    def close(self) -> None:
        for connection in (*self.idle, self.owner):
            connection.close()


class OfWorker(Hosted):
    """One object in Java for as long as this one lives; it is made again when its JVM died in between.

    Threads: any. As in Java's worker, connectors that start, reloads and requests ask it side by side.
    """

    turn_s: ClassVar[float] = 30.0
    """It waits no longer while all other requests have no answer; as long as Kafka's own clients."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._requests = threading.Semaphore(_MOST_REQUESTS)
        self._lock = threading.Lock()  # guards the object and its idle connections
        self._made: _Made | None = None

    def configure(self, props: Mapping[str, str]) -> None:
        with self._lock:
            self._config = {key: value for key, value in props.items() if value is not None}
            self._made = self._make()

    def close(self) -> None:
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            try:
                made.owner.call("close")
            except JavaHostDiedError as err:
                log.debug("%s is gone already: %s", self.java_class, err)
            finally:
                made.close()

    def _make(self) -> _Made:
        key = uuid.uuid4().hex
        made = self.connect("worker", key=key)
        try:
            made.call("configure", config=self._config)
        except BaseException:
            made.close()
            raise
        return _Made(key, made)

    def _ask(self, method: str, **arguments: Any) -> Any:
        """Errors: what Java throws; JavaHostDiedError when the JVM dies of it; TimedOutError when it answers nobody."""
        if not self._requests.acquire(timeout=self.turn_s):
            raise TimedOutError(
                f"{self.java_class} has not answered any of {_MOST_REQUESTS} other requests for {self.turn_s:.0f} s",
                hint="The system that it asks may be down or slow. Set a timeout in its own settings.",
            )
        try:
            try:
                with self._asked() as java:
                    return java.call(method, **arguments)
            except JavaHostDiedError as err:
                log.warning("%s is made again: %s", self.java_class, err)
            with self._asked() as java:
                return java.call(method, **arguments)
        finally:
            self._requests.release()

    @contextlib.contextmanager
    def _asked(self) -> Iterator[JavaConnection]:
        """A connection that nobody else uses."""
        with self._lock:
            made = self._made = self._made or self._make()
            java = made.idle.pop() if made.idle else None
        try:
            java = java or self._joined(made)
            yield java
        except JavaHostDiedError:
            self._forget(made)
            raise
        finally:
            if java is not None:
                self._give_back(made, java)

    def _joined(self, made: _Made) -> JavaConnection:
        try:
            return self.connect("worker_again", key=made.key)
        except ConnectError as err:  # or a new JVM does not know the key
            raise JavaHostDiedError(f"The JVM that ran it is gone: {err}") from err

    def _forget(self, made: _Made) -> None:
        with self._lock:
            if self._made is not made:
                return
            self._made = None
        made.close()

    def _give_back(self, made: _Made, java: JavaConnection) -> None:
        with self._lock:
            if self._made is made:
                made.idle.append(java)
                return
        java.close()


class JavaConfigProvider(OfWorker, ConfigProvider):
    """Runs o.a.k.common.config.provider.ConfigProvider in the host JVM; not subscribed to, as in Java's workers."""

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        reported = self._ask("get", path=path, keys=list(keys))
        found = reported["data"] or {}
        return ConfigData({key: value for key, value in found.items() if value is not None}, reported["ttl"])


class JavaOverridePolicy(OfWorker, ConnectorClientConfigOverridePolicy):
    """Runs o.a.k.connect.connector.policy.ConnectorClientConfigOverridePolicy in the host JVM.

    Differs: where it gives no list Java's worker takes the connector, whose tasks fail; here it is refused.
    """

    def validate(self, request: ConnectorClientConfigRequest) -> list[ConfigValue]:
        kind, named = str(request.connector_type), request.connector_class
        # What a policy may ask of the class of Python's connectors is their kind
        place = (named.java_class, named.folder) if issubclass(named, Hosted) else (_BASES[kind], None)
        reported = self._ask(
            "validate",
            name=request.connector_name,
            type=kind,
            client=str(request.client_type),
            props=dict(request.client_props),
            **{"class": place[0], "folder": place[1]},
        )
        if reported is None:
            raise ConnectError(f"{self.java_class}.validate() must return a list, not null")
        return config_values(reported, ConfigDef())

    def version(self) -> str:
        try:
            return version_of(type(self))
        except ConnectError:
            return "undefined"
