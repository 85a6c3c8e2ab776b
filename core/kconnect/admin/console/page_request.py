"""A page's input and output: PageRequest, and what it gives: a Page, a Fragment, a Redirect, Unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kconnect.admin.cluster.port import Cluster, PreparedChange
from kconnect.admin.console.cluster import Caller
from kconnect.admin.console.shared_view import ClusterView, SharedView


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request for a page. Handlers run in a thread of the console's pool, and may wait for the cluster."""

    cluster: Cluster
    caller: Caller = field(repr=False)
    shared: SharedView = field(repr=False)
    path: Mapping[str, str] = field(default_factory=dict)
    """Parts of the path by their names in the route, percent-decoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    form: Sequence[tuple[str, str]] = field(default=(), repr=False)  # may hold secrets
    """Fields of a POST, in the order of the page."""
    method: str = "GET"
    is_fragment: bool = False
    """htmx asks, to put the answer into a page that is open."""
    theme: str = ""
    """light, dark, or empty: as the browser's."""

    def field(self, name: str, default: str = "") -> str:
        """One field of the form."""
        return next((value for key, value in self.form if key == name), default)

    def view(self, *, fresh: bool = False) -> ClusterView:
        """The shared reading of the cluster. Errors: ConnectError while it was never read."""
        return self.shared.get(self.caller, fresh=fresh)


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: `template` extends `layout.html`. `tab`: the entry of the navigation it belongs to."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    tab: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Fragment:
    """A part of a page: a template of its own, or HTML that `render` has already made."""

    template: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    html: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Redirect:
    """To another page, after a change: 303, or for htmx a header. `note` is shown there, once."""

    url: str
    note: str = ""


def shown(change: PreparedChange) -> list[str]:
    """What a change will write, and what to know before it.

    Errors: ConflictError when it may not be made as things are.
    """
    return [*change.description(), *(f"Warning: {warning}" for warning in change.check())]


def note_of(change: PreparedChange) -> str:
    """Make a change, and say what was done; without the positions of its records. Errors: ConnectError."""
    return " ".join(line for line in change.make() if not line.startswith(" "))


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Nothing has changed since the page was made: 204."""


Reply: TypeAlias = Page | Fragment | Redirect | Unchanged
Handler: TypeAlias = Callable[[PageRequest], Reply]


@dataclass(frozen=True, slots=True)
class Route:
    """One path below /ui with its handlers by method: `Route("/connectors/{name}", {"GET": show})`."""

    path: str
    handlers: Mapping[str, Handler]


@dataclass(frozen=True, slots=True)
class Tab:
    """An entry of the navigation. `is_shown`: whether this cluster can fill the page."""

    name: str
    title: str
    path: str
    is_shown: Callable[[ClusterView], bool] = lambda _view: True
