"""The console's pages put together: every route and every entry of the navigation."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp

from kconnect.console.cluster import Clusters
from kconnect.console.pages import actions, config, connector, overview
from kconnect.console.rest_cluster import WorkerClusters
from kconnect.console.routing import ConsoleRoute
from kconnect.console.visit import Route, Tab

ROUTES: Final[tuple[Route, ...]] = (*overview.ROUTES, *connector.ROUTES, *actions.ROUTES, *config.ROUTES)

TABS: Final = (Tab("connectors", "Connectors", "/ui"),)


def console(clusters: Clusters) -> ConsoleRoute:
    """The console of any cluster. Whoever makes it closes it."""
    return ConsoleRoute(clusters, ROUTES, TABS)


def worker_console(app: ASGIApp) -> ConsoleRoute:
    """The console of a worker whose REST application, with everything around it, is `app`."""
    clusters = WorkerClusters(app)
    return ConsoleRoute(clusters, ROUTES, TABS, clusters.set_loop)
