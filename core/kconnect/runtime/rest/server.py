"""RestServer: uvicorn in a thread of its own, started and stopped by the worker.

States: new -> serving -> stopped. Threads: `rest-server` runs the event loop, `rest-N` run the handlers, `forward-N`
speak to other workers.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import uvicorn
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.client.peers import Peers
from kconnect.errors import ConfigError, EnvironmentProblemError
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.rest.app import AppSettings, create_app, endpoints_for
from kconnect.runtime.rest.conditions import ANSWER_S, OtherWorkers
from kconnect.runtime.rest.connection import ConnectionLimits, connection_class
from kconnect.runtime.rest.exchange import Endpoint
from kconnect.runtime.rest.extensions import Extensions
from kconnect.runtime.rest.forward import Forwarder
from kconnect.runtime.rest.guards import Guards
from kconnect.runtime.rest.late_console import LateConsole, MakeConsole
from kconnect.runtime.rest.listeners import BoundListener, Listeners, bind_listeners
from kconnect.runtime.rest.options import RestOptions

log = logging.getLogger(__name__)


# Requests that wait for the herder at one time; threads are only made when needed
_POOL_THREADS = 32
# From bound sockets to serving is an event loop's start: 20 ms; more means a machine in trouble
_START_TIMEOUT_S = 10.0


class RestServer:
    """Serves the REST API of a herder on listeners, given as addresses or already bound."""

    def __init__(
        self,
        herder: Herder,
        listeners: Sequence[str] | Listeners,
        settings: AppSettings | None = None,
        options: RestOptions | None = None,
        console: MakeConsole | None = None,
        more: Sequence[Endpoint] = (),
    ) -> None:
        """`more`: routes below /admin that a floor above answers."""
        self._herder = herder
        self._wanted = listeners
        self._settings = settings
        self._options = options or RestOptions()
        self._extensions = Extensions(self._options.extensions)
        self._guards = Guards(self._options, herder)
        self._make_console = console
        self._more = tuple(more)
        self._consoles: list[LateConsole] = []
        self._listeners: Listeners | None = None
        self._admin: Listeners | None = None
        self._servers: list[tuple[uvicorn.Server, list[socket.socket]]] = []
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._forwarder: Forwarder | None = None
        self._others: OtherWorkers | None = None

    @property
    def bound(self) -> tuple[BoundListener, ...]:
        """What is listened on, with real ports; empty before start(). Without admin listeners of their own."""
        return self._listeners.bound if self._listeners else ()

    @property
    def urls(self) -> list[str]:
        """URLs that work on this machine, one for each listener."""
        return [listener.url for listener in self.bound]

    @property
    def admin_urls(self) -> list[str]:
        """URLs below which /admin answers; empty when it is switched off."""
        if self._options.admin_listeners is None:
            return self.urls
        return [listener.url for listener in self._admin.bound] if self._admin else []

    def start(self) -> None:
        """Bind, and return when requests are answered. Errors: as bind_listeners; ConfigError for https without TLS."""
        wanted = self._wanted
        self._listeners = wanted if isinstance(wanted, Listeners) else bind_listeners(wanted)
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="rest")
        timeout_s = (self._settings or AppSettings()).request_timeout_s
        self._forwarder = Forwarder(Peers(self._options.peer_tls, timeout_s))
        self._others = OtherWorkers(Peers(self._options.peer_tls, ANSWER_S), self._peer_scheme)
        try:
            if self._options.admin_listeners:
                self._admin = bind_listeners(self._options.admin_listeners, "admin.listeners")
            self._servers = self._make_servers(self._listeners, self._pool)
        except BaseException:
            self._close_listeners()
            self._close_consoles()
            self._extensions.close()
            self._pool.shutdown()
            self._forwarder.close()
            self._others.close()
            raise
        self._guards.start()
        self._thread = threading.Thread(target=self._serve, name="rest-server", daemon=True)
        self._thread.start()
        self._await_started()
        log.info("REST server listening at %s", ", ".join(self.urls))
        if self._admin is not None:
            log.info("REST admin endpoints at %s", ", ".join(self.admin_urls))

    def stop(self, timeout_s: float = 5.0, *, log_level: int = logging.INFO) -> None:
        """Take no more requests, let running ones end until the deadline, join the threads. Idempotent.

        `log_level` is the level of the log line that says it is done.
        """
        servers, thread, pool = self._servers, self._thread, self._pool
        if thread is None or pool is None:
            if isinstance(self._wanted, Listeners):
                self._wanted.close()
            return
        self._servers, self._thread, self._pool = [], None, None
        deadline = time.monotonic() + timeout_s
        for server, _ in servers:
            # What uvicorn waits for requests; half of our time leaves it the rest to close connections
            server.config.timeout_graceful_shutdown = max(1, round(timeout_s / 2))
            server.should_exit = True
        thread.join(max(0.1, deadline - time.monotonic()))
        if thread.is_alive():
            for server, _ in servers:
                server.force_exit = True
            thread.join(1.0)
        if self._forwarder is not None:
            self._forwarder.close()
        if self._others is not None:
            self._others.close()
        pool.shutdown(wait=False, cancel_futures=True)
        self._join_pool(pool, deadline)
        self._guards.stop()
        self._close_consoles()
        self._extensions.close()
        self._close_listeners()
        if thread.is_alive():
            log.warning("The REST server's thread did not end within %s s", timeout_s)
        else:
            log.log(log_level, "REST server stopped")

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _peer_scheme(self) -> str:
        """What other workers are taken to speak: what this one tells them of itself."""
        return self._options.peer_scheme or min(listener.scheme for listener in self.bound)

    def _make_servers(
        self, listeners: Listeners, pool: ThreadPoolExecutor
    ) -> list[tuple[uvicorn.Server, list[socket.socket]]]:
        """One server for http and one for https; two more when /admin has listeners of its own."""
        options, login, extensions = self._options, self._options.login is not None, self._extensions
        extensions.register(self._herder)
        guards = self._guards
        settings = self._settings or AppSettings()
        apps: dict[bool, ASGIApp] = {}  # what is below /admin, and all else, with everything around it

        async def ask(scope: Scope, receive: Receive, send: Send) -> None:
            await apps[True in apps and scope["path"].startswith("/admin/")](scope, receive, send)

        async def ask_main(scope: Scope, receive: Receive, send: Send) -> None:
            await apps[False](scope, receive, send)

        served = endpoints_for(admin=None if options.admin_listeners is None else False)
        served += self._more if options.admin_listeners is None else ()
        app = create_app(
            self._herder,
            pool,
            self._settings,
            served,
            login=login,
            forwarder=self._forwarder,
            others=self._others,
            more_routes=[
                *extensions.routes(pool, settings.request_timeout_s, settings.max_body_bytes, options.gatekeeper),
                *self._console_over(ask_main),
            ],
            gatekeeper=options.gatekeeper,
            trail=options.trail,
            changes=options.changes,
            server=guards,
        )
        apps[False] = main = options.around_main(extensions.around(guards.around(app)), guards.refused_login)
        servers = _by_scheme(main, listeners, options.tls, options.connections)
        if self._admin is not None:
            served = endpoints_for(admin=True) + self._more
            admin_app = create_app(
                self._herder,
                pool,
                self._settings,
                served,
                login=login,
                gatekeeper=options.gatekeeper,
                more_routes=self._console_over(ask),
                trail=options.trail,
                changes=options.changes,
                server=guards,
            )
            apps[True] = admin = options.around_admin(extensions.around(guards.around(admin_app)), guards.refused_login)
            servers += _by_scheme(admin, self._admin, options.admin_tls, options.connections)
        return servers

    def _console_over(self, app: ASGIApp) -> Sequence[BaseRoute]:
        """The console's route. That of the main listeners does not see what only admin listeners serve."""
        if self._make_console is None:
            return ()
        console = LateConsole(self._make_console, app)
        self._consoles.append(console)
        return (console,)

    def _close_consoles(self) -> None:
        while self._consoles:
            self._consoles.pop().close()

    def _serve(self) -> None:
        """The thread's top: every server in one event loop."""
        servers = list(self._servers)

        async def serve_all() -> None:
            await asyncio.gather(*(server.serve(sockets) for server, sockets in servers))

        asyncio.run(serve_all())

    def _await_started(self) -> None:
        assert self._thread is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not all(server.started for server, _ in self._servers):
            self._thread.join(0.005)
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.stop(1.0)
                raise EnvironmentProblemError(
                    "Unable to initialize REST server: its thread ended or hung while starting",
                    hint="The log above says why.",
                )

    def _join_pool(self, pool: ThreadPoolExecutor, deadline: float) -> None:
        for thread in list(pool._threads):  # the executor offers no join with a deadline
            thread.join(max(0.05, deadline - time.monotonic()))
            if thread.is_alive():
                log.warning("A REST request still waits for the herder; its thread %s was abandoned", thread.name)

    def _close_listeners(self) -> None:
        for listeners in (self._listeners, self._admin):
            if listeners is not None:
                listeners.close()


def _by_scheme(
    app: ASGIApp, listeners: Listeners, tls: ssl.SSLContext | None, limits: ConnectionLimits
) -> list[tuple[uvicorn.Server, list[socket.socket]]]:
    servers = []
    for scheme in ("http", "https"):
        pairs = zip(listeners.bound, listeners.sockets, strict=True)
        sockets = [sock for listener, sock in pairs if listener.scheme == scheme]
        if not sockets:
            continue
        if scheme == "https" and tls is None:
            raise ConfigError("An https listener needs a certificate: listeners.https.ssl.keystore.location.")
        servers.append((_uvicorn(app, tls if scheme == "https" else None, limits), sockets))
    return servers


def _uvicorn(app: ASGIApp, tls: ssl.SSLContext | None, limits: ConnectionLimits) -> uvicorn.Server:
    # uvicorn sets signal handlers in the main thread only, so never here
    return uvicorn.Server(
        uvicorn.Config(
            app,
            loop="asyncio",
            http=connection_class(limits),
            timeout_keep_alive=max(1, round(limits.idle_s)),
            h11_max_incomplete_event_size=limits.max_header_bytes,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
    )
