"""The console's pages put together: every route and every entry of the navigation.

`/ui/banners` is here, too: what every page says at its top, kept current on those that are not read again by
themselves. While the worker does not answer this request, the page that is open says that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp

from kconnect.admin.console.answers import banners
from kconnect.admin.console.cluster import Clusters
from kconnect.admin.console.openers import WorkerClusters
from kconnect.admin.console.page_request import Fragment, PageRequest, Reply, Route, Tab, Unchanged
from kconnect.admin.console.pages import (
    actions,
    bulk,
    config,
    connector,
    doctor,
    letters,
    loggers,
    offsets,
    overview,
    plugins,
    topics,
    workers,
)
from kconnect.admin.console.routing import ConsoleRoute
from kconnect.admin.direct.access import ClusterAccess
from kconnect.client.patience import LIMIT_S


def _show_banners(request: PageRequest) -> Reply:
    """The banners, if they are others than those of the page."""
    values = banners(request)
    return Unchanged() if request.query.get("v") == values["reported"] else Fragment("banners.html", values)


_BANNERS: Final = (Route("/banners", {"GET": _show_banners}),)


ROUTES: Final[tuple[Route, ...]] = (
    *overview.ROUTES,
    *connector.ROUTES,
    *actions.ROUTES,
    *bulk.ROUTES,
    *config.ROUTES,
    *offsets.ROUTES,
    *topics.ROUTES,
    *letters.ROUTES,
    *workers.ROUTES,
    *plugins.ROUTES,
    *loggers.ROUTES,
    *doctor.ROUTES,
    *_BANNERS,
)

TABS: Final = (
    Tab("connectors", "Connectors", "/ui"),
    Tab("workers", "Workers", "/ui/workers"),
    Tab("plugins", "Plugins", "/ui/plugins", lambda view: view.capabilities.has_workers),
    Tab("loggers", "Loggers", "/ui/loggers", lambda view: view.capabilities.has_workers),
    Tab("log", "Log", "/ui/log", lambda view: view.capabilities.is_ours),
    Tab("doctor", "Doctor", "/ui/doctor"),
)


def console(clusters: Clusters) -> ConsoleRoute:
    """The console of any cluster. Whoever makes it closes it."""
    return ConsoleRoute(clusters, ROUTES, TABS)


def worker_console(app: ASGIApp, settings: Mapping[str, str] | None = None, read_s: float = LIMIT_S) -> ConsoleRoute:
    """The console of a worker whose REST application, with everything around it, is `app`.

    `settings`: its properties, with references resolved, for what is read from Kafka itself. `read_s`: how long
    a page waits for what it only reads.
    """
    clusters = WorkerClusters(app, None if settings is None else ClusterAccess(settings), read_s)
    return ConsoleRoute(clusters, ROUTES, TABS, clusters.set_loop)
