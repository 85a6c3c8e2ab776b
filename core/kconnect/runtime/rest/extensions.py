"""REST extensions written in Python: found by `rest.extension.classes`, registered, and their routes answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kconnect.api.rest_extension import (
    AsgiApp,
    ConnectClusterState,
    ConnectorHealth,
    ConnectRestExtension,
    HealthState,
    RestHandler,
    RestRequest,
    RestResponse,
)
from kconnect.errors import ConfigError
from kconnect.runtime.herder.interface import Connectors, Health
from kconnect.runtime.rest.access.access import CHALLENGE, DeniedError, Gatekeeper
from kconnect.runtime.rest.access.needs import ADMINISTERS, SEES_SOME, Needs, Of, Role
from kconnect.runtime.rest.bodies import BodyTooLargeError, read_body
from kconnect.runtime.rest.exchange import json_bytes
from kconnect.runtime.rest.problems import error_body, status_and_message

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)

_SETTING: Final = "rest.extension.classes"


def load_extensions(
    names: Sequence[str], plugins: PluginRegistry | None, configs: Mapping[str, str], included: str
) -> list[ConnectRestExtension]:
    """New, configured extensions, in order. `included`: the name of the extension that needs no class.

    Errors: ConfigError. Differs: an extension that cannot run here stops the worker, because it may be what keeps
    strangers out.
    """
    extensions: list[ConnectRestExtension] = []
    for name in names:
        found = None if plugins is None else plugins.python_class(name, ConnectRestExtension)  # type: ignore[type-abstract]  # looks for a subclass
        if found is None:
            message = (
                f"a Java class cannot run here; {included} is the one that is built in, others are Python classes that "
                "extend kconnect.api.ConnectRestExtension"
            )
            raise ConfigError.invalid(_SETTING, name, message)
        try:
            extension = found()
            extension.configure(configs)
        except Exception as error:  # a plugin call
            raise ConfigError(f"{_SETTING}={name} cannot be set up: {type(error).__name__}: {error}") from error
        extensions.append(extension)
    return extensions


class _Shown(Connectors, Health, Protocol):
    """What extensions may know of a worker."""


class Extensions:
    """The extensions of one REST server. Lifecycle: constructed -> register -> close.

    Threads: register and close by whoever starts and stops the server.
    """

    def __init__(self, extensions: Sequence[ConnectRestExtension] = ()) -> None:
        self._extensions = extensions
        self._added: list[_Added] = []

    def register(self, herder: _Shown) -> None:
        """Let each add its routes and middleware. Errors: ConfigError with what it raised."""
        for extension in self._extensions:
            added = _Added(ClusterState(herder))
            try:
                extension.register(added)
            except Exception as error:  # a plugin call
                name = type(extension).__name__
                raise ConfigError(f"{name}.register() raised {type(error).__name__}: {error}") from error
            self._added.append(added)

    def routes(
        self, executor: Executor, timeout_s: float, max_body_bytes: int, gatekeeper: Gatekeeper | None = None
    ) -> list[Route]:
        """Their routes; handlers run in the executor."""
        runs = _Runs(executor, timeout_s, max_body_bytes, gatekeeper or Gatekeeper())
        return [
            Route(path, partial(_respond, handler, role, runs), methods=list(methods))
            for added in self._added
            for path, handler, methods, role in added.routes
        ]

    def around(self, app: AsgiApp) -> AsgiApp:
        """The application inside their middleware: that of the first one named sees a request first."""
        for added in reversed(self._added):
            for wrap in reversed(added.middleware):
                app = wrap(app)
        return app

    def close(self) -> None:
        """Close each. What they raise is logged."""
        for extension in self._extensions:
            try:
                extension.close()
            except Exception:  # a plugin call
                log.exception("%s.close() failed", type(extension).__name__)


class _Added:
    """What one extension added. Implements ConnectRestExtensionContext."""

    def __init__(self, state: ConnectClusterState) -> None:
        self._state = state
        self.routes: list[tuple[str, RestHandler, Sequence[str], Role | None]] = []
        self.middleware: list[Callable[[AsgiApp], AsgiApp]] = []

    def cluster_state(self) -> ConnectClusterState:
        return self._state

    def add_route(
        self, path: str, handler: RestHandler, methods: Sequence[str] = ("GET",), role: str | None = None
    ) -> None:
        """Errors: ConfigError for an unknown role."""
        roles = {str(known): known for known in Role}
        if role is not None and role not in roles:
            raise ConfigError(f"The route {path} names an unknown role: {role}. Roles are {', '.join(roles)}")
        self.routes.append((path, handler, methods, None if role is None else roles[role]))

    def add_middleware(self, wrap: Callable[[AsgiApp], AsgiApp]) -> None:
        self.middleware.append(wrap)


class ClusterState:
    """Implements ConnectClusterState. Source: o.a.k.connect.runtime.health.ConnectClusterStateImpl (Kafka 4.3)."""

    def __init__(self, herder: _Shown) -> None:
        self._herder = herder

    def connectors(self) -> Collection[str]:
        return self._herder.connectors()

    def connector_health(self, name: str) -> ConnectorHealth:
        found = self._herder.connector_status(name)
        own = found.connector
        return ConnectorHealth(
            name,
            HealthState(own.state, own.worker_id, own.trace),
            {task.id: HealthState(task.state, task.worker_id, task.trace) for task in found.tasks},
            found.type,
        )

    def connector_config(self, name: str) -> Mapping[str, str]:
        return self._herder.connector_config(name)

    def kafka_cluster_id(self) -> str | None:
        return self._herder.server_info().kafka_cluster_id


@dataclass(frozen=True, slots=True)
class _Runs:
    """What every route of extensions runs with."""

    executor: Executor
    timeout_s: float
    max_body_bytes: int
    gatekeeper: Gatekeeper


async def _respond(handler: RestHandler, role: Role | None, runs: _Runs, request: Request) -> Response:
    access, what = runs.gatekeeper.access(request.scope), f"{request.method} {request.url.path}"
    connector = request.path_params.get("connector")
    try:
        access.require(_needs(role, request.method, connector), connector, what)
    except DeniedError as error:
        response = _failed(error.status, str(error))
        if error.status == 401:
            response.headers["www-authenticate"] = CHALLENGE
        return response
    try:
        body = await read_body(request, runs.max_body_bytes)
    except BodyTooLargeError as error:
        return _failed(413, str(error))
    given = RestRequest(
        request.method,
        request.url.path,
        request.path_params,
        request.query_params.multi_items(),
        dict(request.headers),
        body,
        access.caller.name,
    )
    job = asyncio.get_running_loop().run_in_executor(runs.executor, _answer, handler, given)
    try:
        return await asyncio.wait_for(job, runs.timeout_s)
    except TimeoutError:
        log.warning("%s of a REST extension did not end within %s s", what, runs.timeout_s)
        return _failed(500, "Request timed out.")


def _needs(role: Role | None, method: str, connector: str | None) -> Needs:
    """A route that names no role is a reader's if it only shows something, else the administrators'."""
    if role is None:
        return SEES_SOME if method in ("GET", "HEAD") else ADMINISTERS
    if role is Role.ADMIN:
        return ADMINISTERS
    return Needs(role, Of.ANY if connector is None else Of.CONNECTOR)


def _answer(handler: RestHandler, request: RestRequest) -> Response:
    """Runs in a pool thread: the error boundary of extensions."""
    try:
        return _rendered(handler(request))
    except Exception as error:  # a plugin call
        return _failed(*status_and_message(error, request.method, request.path))


def _rendered(answer: RestResponse) -> Response:
    headers = dict(answer.headers)
    if answer.body is None or isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers)
    if isinstance(answer.body, str):
        return Response(answer.body.encode(), answer.status, {"content-type": "text/plain; charset=utf-8", **headers})
    return Response(json_bytes(answer.body), answer.status, {"content-type": "application/json", **headers})


def _failed(status: int, message: str) -> Response:
    return Response(error_body(status, message), status, media_type="application/json")
