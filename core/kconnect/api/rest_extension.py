"""REST extensions: routes and middleware that a worker adds to its REST API. Named in `rest.extension.classes`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from kconnect.api.configdef import ConfigDef
from kconnect.model import ConnectorType

# ASGI's own types, spelled out so that this module needs no web framework
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


USER: Final = "kconnect.user"
"""Where middleware that knows who calls puts the user's name, in the scope that it passes on: roles are given to it.

Only middleware may put it there: nothing of a request ever does.
"""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """A request to a route of an extension."""

    method: str
    path: str
    path_parts: Mapping[str, str]
    """By their names in the route."""
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str] = field(repr=False)  # they contain the password
    """By names in lower case."""
    body: bytes = b""
    user: str | None = None
    """Who sent it, after login or by certificate; None if nobody asked."""


@dataclass(frozen=True, slots=True)
class RestResponse:
    """The answer: `body` as it is if bytes, as UTF-8 if text, else as JSON; None is no body."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


RestHandler: TypeAlias = Callable[[RestRequest], RestResponse]


@dataclass(frozen=True, slots=True)
class HealthState:
    """The state of a connector or a task. Source: o.a.k.connect.health.AbstractState."""

    state: str
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorHealth:
    """The states of a connector and its tasks. Source: o.a.k.connect.health.ConnectorHealth."""

    name: str
    connector_state: HealthState
    tasks_state: Mapping[int, HealthState]
    type: ConnectorType


class ConnectClusterState(Protocol):
    """What an extension may read of the cluster. Each call may wait for the worker. Threads: any.

    Errors: NotFoundError for an unknown connector. Source: o.a.k.connect.health.ConnectClusterState.
    """

    def connectors(self) -> Collection[str]: ...

    def connector_health(self, name: str) -> ConnectorHealth: ...

    def connector_config(self, name: str) -> Mapping[str, str]:
        """Gives the config as it was written, with `${..}` references; it may contain secrets."""
        ...

    def kafka_cluster_id(self) -> str | None:
        """Returns None until it is known."""
        ...


class ConnectRestExtensionContext(Protocol):
    """What a worker offers an extension while it registers. Source: ConnectRestExtensionContext."""

    def cluster_state(self) -> ConnectClusterState: ...

    def add_route(
        self, path: str, handler: RestHandler, methods: Sequence[str] = ("GET",), role: str | None = None
    ) -> None:
        """Answer these requests, such as `/ext/{name}`, on `listeners`. Connect's own routes come first.

        `role`: what callers need where the worker has roles: reader, operator, editor or admin; by default reader for
        GET, else admin. It must be for the connector that `{connector}` in the path names, or else for any.

        The handler is called on a pool thread, at the same time for several requests. NotFoundError and the like get
        the status that Connect's own routes give them, any other error is 500.
        """
        ...

    def add_middleware(self, wrap: Callable[[AsgiApp], AsgiApp]) -> None:
        """Put the ASGI application that `wrap` returns around all routes, on `listeners` and `admin.listeners`.

        It also sees the requests between workers (POST /connectors/X/tasks, PUT /connectors/X/fence), which carry no
        user and are signed instead: a guard must let them through.
        """
        ...


class ConnectRestExtension(ABC):
    """Adds to the REST API of a worker. One instance lives in the worker.

    Lifecycle: constructed without arguments -> configure() -> register() -> close().
    Source: o.a.k.connect.rest.ConnectRestExtension (Kafka 4.3).
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the worker's settings. Called once. Errors: any keeps the worker from starting."""
        return

    @abstractmethod
    def register(self, context: ConnectRestExtensionContext) -> None:
        """Add routes and middleware. Called once, before requests are served. Must not block.

        Errors: any keeps the worker from starting, since the extension may be what keeps strangers out.
        """

    def close(self) -> None:
        """Release resources. Called once, when no request is served any more; not if the process dies."""
        return

    def version(self) -> str:
        """The version of this plugin."""
        return "undefined"

    def config(self) -> ConfigDef:
        """The settings of this extension."""
        return ConfigDef()
