"""RestServer: uvicorn in a thread of its own, started and stopped by the worker; and what guards the application in it.

States: new -> serving -> stopped. Threads: `rest-server` runs the event loop, `rest-N` run the handlers, `forward-N`
speak to other workers.

The guards are the limit of requests, and the audit log's share of refused logins. A caller, which is a user, or the
address of an unknown one, may ask as often as a token bucket allows; beyond it the answer is 429. Requests of other
workers of the cluster, which sign them, are not counted: the worker that was asked has counted them. Those for
`/metrics` and `/health` are counted.
Differs: Java has no limits.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final

import uvicorn
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.client.peers import Peers
from kconnect.errors import ConfigError, EnvironmentProblemError, ForbiddenError
from kconnect.runtime.herder.interface import Herder
from kconnect.runtime.herder.interface import Peers as HerderPeers
from kconnect.runtime.metrics import Reading
from kconnect.runtime.metrics.readings import RestView, rest_readings
from kconnect.runtime.rest.access.callers import Caller
from kconnect.runtime.rest.app import AppSettings, create_app, endpoints_for
from kconnect.runtime.rest.audit.entry import AuditEntry
from kconnect.runtime.rest.conditions import ANSWER_S, OtherWorkers
from kconnect.runtime.rest.connection import ConnectionLimits, connection_class
from kconnect.runtime.rest.exchange import Endpoint
from kconnect.runtime.rest.extensions import Extensions
from kconnect.runtime.rest.forward import Forwarder
from kconnect.runtime.rest.late_console import LateConsole, MakeConsole
from kconnect.runtime.rest.listeners import BoundListener, Listeners, bind_listeners
from kconnect.runtime.rest.options import RestOptions
from kconnect.runtime.rest.problems import error_body

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
        self._forwarder = Forwarder(Peers(self._options.peer_tls, timeout_s), self._options.forward_answer_s)
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


# In the scope of a request that was counted: those that it makes itself, for a page of the console, are not
_COUNTED: Final = "kconnect.counted"
_CHANGES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Guards:
    """Threads: start, stop and the readings from any; the rest on the server's event loop. Implements ServerState."""

    def __init__(self, options: RestOptions, herder: HerderPeers) -> None:
        self._keeper, self._trail, self._herder = options.gatekeeper, options.trail, herder
        self._trails = [trail for trail in (options.trail, options.changes) if trail is not None]
        self._limit: RateLimit | None = None
        if options.rate is not None:
            self._limit = RateLimit(TokenBuckets(*options.rate), self._caller, self._is_exempt)
        self._denied_logins = 0

    def start(self) -> None:
        for trail in self._trails:
            trail.start()

    def stop(self) -> None:
        """Idempotent."""
        for trail in self._trails:
            trail.stop()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, for callers within their limit; stands inside of what finds out who calls."""
        if self._limit is None:
            return app
        limited = self._limit.around(app)

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            await limited({**scope, _COUNTED: True} if _COUNTED not in scope else scope, receive, send)

        async def once(scope: Scope, receive: Receive, send: Send) -> None:
            await (app if _COUNTED in scope else counted)(scope, receive, send)

        return once

    def refused_login(self, scope: Scope) -> Response | None:
        """Count and write down who was not let in; 429 for an address that tries too often."""
        self._denied_logins += 1
        too_many = self._limit.refusal(scope) if self._limit is not None else None
        if self._trail is not None and scope["method"] in _CHANGES:
            client = scope.get("client")
            entry = AuditEntry(
                time_ms=time.time_ns() // 1_000_000,
                request_id="",
                caller=Caller(None, str(client[0]) if client else ""),
                worker=self._herder.worker_id,
                method=scope["method"],
                path=scope["raw_path"].decode("latin-1"),
                status=401 if too_many is None else 429,
                message="No user that is known, or not the right password",
            )
            self._trail.record(entry.to_line)
        return too_many

    def readings(self) -> Sequence[Reading]:
        trail = self._trail
        return list(
            rest_readings(
                RestView(
                    denied=self._keeper.denied + self._denied_logins,
                    limited=self._limit.refused if self._limit is not None else 0,
                    has_current_roles=not self._keeper.warnings(),
                    audit_written=trail.written if trail is not None else 0,
                    audit_lost=trail.lost if trail is not None else 0,
                    is_audit_written=trail is None or trail.problem is None,
                )
            )
        )

    def warnings(self) -> Sequence[str]:
        reported = [
            f"Changes are not written down: {trail.problem}"
            for trail in self._trails
            if trail.problem is not None and not trail.is_required  # required: a reason not to be healthy
        ]
        return [*self._keeper.warnings(), *reported]

    def _caller(self, scope: Scope) -> str:
        caller = self._keeper.caller(scope)
        return f"User {caller.name}" if caller.name is not None else f"Address {caller.address}"

    def _is_exempt(self, scope: Scope) -> bool:
        """Requests between workers: signed ones are checked by their handlers, others here."""
        parts = scope["raw_path"].decode("latin-1").strip("/").split("/")
        if len(parts) == 3 and (scope["method"], parts[2]) in (("POST", "tasks"), ("PUT", "fence")):
            return True
        try:
            return self._keeper.signed_caller(scope, self._herder.peer_signature) is not None
        except ForbiddenError:
            return False


SETTING = "kconnect.rest.requests.per.second"
# As many callers as a worker has ever had, some 100 bytes each; beyond, the one that was quiet longest starts again
_MOST_CALLERS = 10_000


class TokenBuckets:
    """Pure but for the clock. Threads: one."""

    def __init__(self, per_s: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def wait_s(self, caller: str) -> float:
        """0 and a token less, or how long until there is one."""
        now_s = self._monotonic()
        tokens, counted_s = self._left.pop(caller, (float(self._burst), now_s))
        tokens = min(self._burst, tokens + (now_s - counted_s) * self._per_s)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._per_s
        self._left[caller] = (tokens - 1 if wait_s == 0 else tokens, now_s)
        if len(self._left) > _MOST_CALLERS:
            self._left.popitem(last=False)
        return wait_s


class RateLimit:
    """One worker's limit. Threads: the server's event loop."""

    def __init__(
        self, buckets: TokenBuckets, caller_of: Callable[[Scope], str], is_peer: Callable[[Scope], bool]
    ) -> None:
        self._buckets = buckets
        self._caller_of = caller_of
        self._is_peer = is_peer
        self.refused = 0

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, for callers that are within the limit."""

        async def limited(scope: Scope, receive: Receive, send: Send) -> None:
            refusal = self.refusal(scope) if scope["type"] == "http" else None
            await (app if refusal is None else refusal)(scope, receive, send)

        return limited

    def refusal(self, scope: Scope) -> Response | None:
        """429 with how long to wait, for a request too many."""
        if self._is_peer(scope):
            return None
        caller = self._caller_of(scope)
        wait_s = self._buckets.wait_s(caller)
        if wait_s == 0:
            return None
        self.refused += 1
        retry_s = max(1, math.ceil(wait_s))
        message = f"{caller} asks too often (setting {SETTING} of the worker): try again in {retry_s} s"
        return Response(error_body(429, message), 429, {"retry-after": str(retry_s)}, media_type="application/json")
