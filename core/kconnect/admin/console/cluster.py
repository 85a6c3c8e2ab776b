"""What pages need of a cluster: `Cluster`, and `Clusters`, which opens one for who asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from starlette.types import Scope

if TYPE_CHECKING:
    from kconnect.admin.cluster.activity import Activity
    from kconnect.admin.cluster.port import Changes
    from kconnect.admin.dead_letters.through import Sink
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ConnectClient
    from kconnect.client.outage import Outage
    from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorStatus


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this cluster can tell and do. A page leaves out what it cannot, and says why."""

    has_workers: bool = True
    """False: read from the internal topics, states are the last that workers wrote."""
    is_ours: bool = True
    """Slots, history, conditions, logs: a Java worker has none."""


@dataclass(frozen=True, slots=True)
class Announced:
    """A replay of dead letters: how many go to which topics, and whether their records are changed on the way."""

    targets: Mapping[str, int]
    edited: bool = False


OpenSink: TypeAlias = "Callable[[Mapping[str, str], Mapping[str, str]], AbstractContextManager[Sink]]"
"""Of a connector's and a worker's settings, with references resolved."""


class Cluster(Protocol):
    """A cluster, for one request. Threads: one. Errors of every method: ConnectError and its kinds."""

    @property
    def place(self) -> str:
        """Where it is read: the worker's URL, or the topics."""
        ...

    @property
    def rest(self) -> ConnectClient | None:
        """For pages that only a worker can fill; None without one."""
        ...

    @property
    def direct(self) -> DirectClient | None:
        """For pages that read the topics; None where only a worker is known."""
        ...

    @property
    def brokers(self) -> ClusterAccess | None:
        """The cluster's brokers, for what is read from Kafka itself; None where only a worker's URL is known.

        What is read there is shown only to a caller who may see the connector over REST: ask that first.
        """
        ...

    def allow_letters(self, name: str, replay: Announced | None = None) -> None:
        """Whether this caller may read records of the connector's dead letters, or replay them, with `brokers`' login.

        `replay`: what is about to be sent; the audit log of a worker has it.
        Errors: ForbiddenError; NotFoundError for an unknown connector; BadRequestError where nobody can tell.
        """
        ...

    @property
    def open_sink(self) -> OpenSink | None:
        """Runs a sink's own code in this process: the reader's own, and never a worker's, which has None."""
        ...

    @property
    def outage(self) -> Outage | None:
        """Kafka is away, according to the last answer."""
        ...

    @property
    def changes(self) -> Changes:
        """Changes of connectors, as this caller may make them."""
        ...

    def starting(self) -> str | None:
        """What the worker waits for while it starts; None once it has started."""
        ...

    def server_info(self) -> Mapping[str, Any]: ...
    def capabilities(self) -> Capabilities: ...
    def connector_statuses(self) -> Mapping[str, ConnectorStatus]: ...
    def activities(self) -> Mapping[str, Activity]: ...
    def connector(self, name: str) -> ConnectorInfo: ...
    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str]:
        """With a tag that is another one once the config is; the worker's ETag, or one of `seen.content_tag`."""
        ...

    def connector_status(self, name: str) -> ConnectorStatus: ...
    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]: ...
    def tagged_offsets(self, name: str) -> tuple[Sequence[ConnectorOffset], str]:
        """As `tagged_connector`."""
        ...

    def topics(self, name: str) -> Sequence[str] | None:
        """Topics a connector was seen to use; None where nobody tracks them."""
        ...

    def plugins(self) -> Sequence[Mapping[str, Any]]: ...
    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]: ...
    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Mapping[str, Any]: ...


class Clusters(Protocol):
    """Opens the cluster of a console. Threads: any."""

    @property
    def place(self) -> str: ...

    def open(self, caller: Caller) -> AbstractContextManager[Cluster]:
        """The cluster as this caller may see and change it. Opens no connection."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the ASGI scope of the request, which carries the login and, over TLS, the certificate."""

    scope: Scope = field(repr=False)  # the password is in it

    @property
    def identity(self) -> str:
        """The same for two requests of the same caller: what one may see is kept apart from what another may."""
        login = next((value for name, value in self.scope["headers"] if name == b"authorization"), b"")
        known = (login, sorted((key, repr(value)) for key, value in carried(self.scope).items()))
        return hashlib.sha256(repr(known).encode()).hexdigest()


# What of a scope is about the request itself or its routing; all else is about who asks, or from where
_OF_THE_REQUEST = frozenset(
    {"type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers"}
    | {"client", "server", "app", "router", "endpoint", "path_params", "route", "state"}
)


def carried(scope: Scope) -> dict[str, Any]:
    """What TLS and middleware have added to a scope about the caller, such as the certificate."""
    return {key: value for key, value in scope.items() if key not in _OF_THE_REQUEST}
