"""The console over a MemoryHerder, without a socket: `PageCaller(herder).page("/ui")`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from kconnect.admin.console import worker_console
from kconnect.runtime.rest.app import AppSettings, create_app
from kit.asgi import Answered, RestCaller

SAME_SITE = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}


class PageCaller(RestCaller):
    """A worker's application with its console; `around` puts middleware around both.

    `settings`: the worker's, for pages that ask its brokers. `more`: for create_app, such as a gatekeeper.
    """

    def __init__(self, herder, around: Callable = lambda app: app, settings=None, **more):
        super().__init__(herder)

        async def ask(scope, receive, send):
            await self._app(scope, receive, send)

        self._rest_pool = ThreadPoolExecutor(4, thread_name_prefix="rest-of-console")
        self._console = worker_console(ask, settings)
        app = create_app(herder, self._rest_pool, AppSettings(), more_routes=[self._console.route], **more)
        self._app = around(app)

    def page(self, target, **headers) -> str:
        """A page that must be there."""
        found = self.ask("GET", target, headers=headers)
        assert found.status == 200, found.body.decode()
        return found.body.decode()

    def fragment(self, target, **headers) -> Answered:
        """As htmx asks."""
        return self.ask("GET", target, headers={"hx-request": "true", **headers})

    def post(self, target, form, *, scope=None, **headers) -> Answered:
        """A form of a page of the console."""
        return self.ask("POST", target, urlencode(form).encode(), headers={**SAME_SITE, **headers}, scope=scope)

    def close(self):
        super().close()
        self._console.close()
        self._rest_pool.shutdown()
