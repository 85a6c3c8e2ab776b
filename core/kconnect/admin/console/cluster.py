"""The caller of a page, and `Clusters`, which opens the cluster for them."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from starlette.types import Scope

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Cluster


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
    """The caller: the ASGI scope of the request, which carries the login and, over TLS, the certificate."""

    scope: Scope = field(repr=False)  # the password is in it

    @property
    def identity(self) -> str:
        """The same for two requests of the same caller: what one may see is kept apart from what another may."""
        login = next((value for name, value in self.scope["headers"] if name == b"authorization"), b"")
        known = (login, sorted((key, repr(value)) for key, value in carried(self.scope).items()))
        return hashlib.sha256(repr(known).encode()).hexdigest()


# What of a scope is about the request itself or its routing; all else is about the caller
_OF_THE_REQUEST = frozenset(
    {"type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers"}
    | {"client", "server", "app", "router", "endpoint", "path_params", "route", "state"}
)


def carried(scope: Scope) -> dict[str, Any]:
    """What TLS and middleware have added to a scope about the caller, such as the certificate."""
    return {key: value for key, value in scope.items() if key not in _OF_THE_REQUEST}
