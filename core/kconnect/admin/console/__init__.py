"""The web console: pages about a Connect cluster, for a browser.

Served by each worker at `/ui` (`worker_console`), and by `connect ui` for any cluster (`console`, `serve`): ours,
Java's, and one without workers from its topics. It imports `client` and `direct` and asks as anybody does, so what a
caller may not do over REST is not possible here; nothing in this room decides who may do what.

A request's way: `routing.py` (where it comes from, which page) -> a handler in `pages/`, in a thread of the pool, with
a `PageRequest` (`page_request.py`) -> `Page`, `Fragment`, `Redirect` or `Unchanged` -> `answers.py` (templates, errors
as pages).

To add a page:
1. `pages/NAME.py`: functions from `PageRequest` to a reply, and at its end `ROUTES = (Route("/name", {"GET": show}),
   ..)`. `request.cluster` is the cluster for this caller: `.rest` is a ConnectClient (None without workers), `.direct`
   a DirectClient (None with a worker). `request.view()` is the shared reading of all connectors, at most two seconds
   old.
   Raise any ConnectError: it becomes a page, with its hint.
2. `templates/NAME.html` extends `layout.html` and fills `block main` (and `block head` for scripts of its own). Values
   are escaped; there is no inline script or style, and no `hx-on`: the content security policy forbids them.
   Times: `<time data-ms="..">`, which console.js shows in the reader's zone. A link to a connector: `name | segment`.
3. Add its `ROUTES`, and a `Tab` if it belongs in the navigation, in `console.py`.
4. What changes something is a POST: from a form, never a link. Show before and after, and ask; then `Redirect(url,
   note)`. To poll: `hx-trigger="every 2s"` with the version that is shown, and `Unchanged()` while that is current.
5. Static files go into `static/`, by `asset('name.js')`; other people's into `static/vendor/`, with a line in its
   README and the hash that a test compares.
"""

from __future__ import annotations

from kconnect.admin.console.cluster import Clusters
from kconnect.admin.console.console import console, worker_console
from kconnect.admin.console.openers import TopicClusters, UrlClusters
from kconnect.admin.console.routing import ConsoleRoute

__all__ = ["Clusters", "ConsoleRoute", "TopicClusters", "UrlClusters", "console", "worker_console"]
