"""RestServer: uvicorn in a thread of its own, started and stopped by the worker.

States: new -> serving -> stopped. Threads: `rest-server` runs the event loop, `rest-N` run the handlers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import uvicorn

from kconnect.errors import EnvironmentProblemError
from kconnect.herder.interface import Herder
from kconnect.rest.app import AppSettings, create_app
from kconnect.rest.listeners import BoundListener, Listeners, bind_listeners

__all__ = ["RestServer"]

log = logging.getLogger(__name__)

# Requests that wait for the herder at one time; threads are only made when needed
_POOL_THREADS = 32
# From bound sockets to serving is an event loop's start: 20 ms; more means a machine in trouble
_START_TIMEOUT_S = 10.0


class RestServer:
    """Serves the REST API of a herder on listeners, given as addresses or already bound."""

    def __init__(
        self, herder: Herder, listeners: Sequence[str] | Listeners, settings: AppSettings | None = None
    ) -> None:
        self._herder = herder
        self._wanted = listeners
        self._settings = settings
        self._listeners: Listeners | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def bound(self) -> tuple[BoundListener, ...]:
        """What is listened on, with real ports; empty before start()."""
        return self._listeners.bound if self._listeners else ()

    @property
    def urls(self) -> list[str]:
        """URLs that work on this machine, one for each listener."""
        return [listener.url for listener in self.bound]

    def start(self) -> None:
        """Bind, and return when requests are answered. Errors: as bind_listeners."""
        wanted = self._wanted
        listeners = wanted if isinstance(wanted, Listeners) else bind_listeners(wanted)
        self._listeners = listeners
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="rest")
        self._server = uvicorn.Server(
            uvicorn.Config(
                create_app(self._herder, self._pool, self._settings),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                log_level=logging.WARNING,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        # uvicorn sets signal handlers in the main thread only, so never here
        self._thread = threading.Thread(
            target=self._server.run, args=(list(listeners.sockets),), name="rest-server", daemon=True
        )
        self._thread.start()
        self._await_started()
        log.info("REST server listening at %s", ", ".join(self.urls))

    def stop(self, timeout_s: float = 5.0) -> None:
        """Take no more requests, let running ones end until the deadline, join the threads. Idempotent."""
        server, thread, pool = self._server, self._thread, self._pool
        if server is None or thread is None or pool is None:
            if isinstance(self._wanted, Listeners):
                self._wanted.close()
            return
        self._server = self._thread = self._pool = None
        deadline = time.monotonic() + timeout_s
        # What uvicorn waits for requests; half of our time leaves it the rest to close connections
        server.config.timeout_graceful_shutdown = max(1, round(timeout_s / 2))
        server.should_exit = True
        thread.join(max(0.1, deadline - time.monotonic()))
        if thread.is_alive():
            server.force_exit = True
            thread.join(1.0)
        pool.shutdown(wait=False, cancel_futures=True)
        self._join_pool(pool, deadline)
        if self._listeners is not None:
            self._listeners.close()
        if thread.is_alive():
            log.warning("The REST server's thread did not end within %s s", timeout_s)
        else:
            log.info("REST server stopped")

    def __enter__(self) -> RestServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def _await_started(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
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
                log.warning("A REST request still waits for the herder; its thread %s is left behind", thread.name)
