"""The console's pages put together: every route and every entry of the navigation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp

from kconnect.admin.console.cluster import Clusters
from kconnect.admin.console.openers import WorkerClusters
from kconnect.admin.console.page_request import Route, Tab
from kconnect.admin.console.pages import (
    actions,
    activity,
    banners,
    bulk,
    config,
    connector,
    dead_letters,
    doctor,
    history,
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

ROUTES: Final[tuple[Route, ...]] = (
    *overview.ROUTES,
    *connector.ROUTES,
    *actions.ROUTES,
    *bulk.ROUTES,
    *config.ROUTES,
    *offsets.ROUTES,
    *history.ROUTES,
    *topics.ROUTES,
    *dead_letters.ROUTES,
    *letters.ROUTES,
    *activity.ROUTES,
    *workers.ROUTES,
    *plugins.ROUTES,
    *loggers.ROUTES,
    *doctor.ROUTES,
    *banners.ROUTES,
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
