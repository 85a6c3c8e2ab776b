"""`/ui`: all connectors, what is wrong first; kept current by polling, which gets only the rows that have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from kconnect.admin.console.connector_filter import Filter, label_chips
from kconnect.admin.console.connector_rows import ConnectorRow
from kconnect.admin.console.html import render
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Reply, Route, Unchanged
from kconnect.admin.console.pages.bulk import bulk_verbs
from kconnect.admin.console.shared_view import ClusterView
from kconnect.runtime.health.views import ConnectorHealth

# Readings whose answers are kept, one of 5,000 connectors takes ten megabytes: those of a few callers and filters
_READINGS_KEPT: Final = 8
# Rendered rows that are kept: all of a cluster of ten thousand connectors
_ROWS_KEPT: Final = 10_000
# Rows of a page as it is first sent, a few screens of them; the others follow at once, behind the first paint
_FIRST_ROWS: Final = 120
# Up to so many changed rows are put in one by one; a browser replaces the whole table sooner than more of them
_MOST_SINGLE_ROWS: Final = 60


def show(request: PageRequest) -> Reply:
    """The page."""
    view, wanted = request.view(), Filter.of(request.query)
    chosen = _chosen(view, wanted)
    values = {**_values(view, wanted, chosen[:_FIRST_ROWS]), "shown": len(chosen), "is_part": len(chosen) > _FIRST_ROWS}
    values["verbs"] = bulk_verbs(has_workers=view.capabilities.has_workers)
    return Page("overview.html", "Connectors", values, tab="connectors")


def rows(request: PageRequest) -> Reply:
    """What has changed since the version of the page: some rows, the whole table, or nothing."""
    view, wanted = request.view(), Filter.of(request.query)
    series, _, number = request.query.get("v", "").partition("-")
    # A page of another process, or of another worker behind the same address, has nothing that could be compared
    version = _number(number) if series == view.series else 0
    if version == view.version:
        return Unchanged()
    return _update(view, wanted, version, request.query.get("order", ""))


@lru_cache(maxsize=_READINGS_KEPT)
def _update(view: ClusterView, wanted: Filter, version: int, order: str) -> Fragment:
    """The same for all browsers with the same filter, so made once."""
    chosen = _chosen(view, wanted)
    values = _values(view, wanted, chosen)
    if order == values["order"] and version > 0:
        newer = [row for row in chosen if view.changed.get(row.name, 0) > version]
        if len(newer) <= _MOST_SINGLE_ROWS:
            changed = _rendered(newer, out_of_band=True)
            html = render("overview_update.html", {**values, "changed": changed, "outage": view.outage})
            # Rows find their own places; there is nothing to put in place of the table
            return Fragment(html=html, headers={"hx-reswap": "none"})
    # The banners go along: what re-sorts the table is often what they tell
    return Fragment(html=render("overview_whole.html", {**values, "outage": view.outage}))


@lru_cache(maxsize=_READINGS_KEPT)
def _chosen(view: ClusterView, wanted: Filter) -> tuple[ConnectorRow, ...]:
    return tuple(row for row in view.rows if wanted.admits(row))


def _values(view: ClusterView, wanted: Filter, chosen: Sequence[ConnectorRow]) -> Mapping[str, Any]:
    has_rates = any(row.per_s or row.lag for row in view.rows)
    chips, more_labels = label_chips(view.rows, wanted)
    return {
        "view": view,
        "filter": wanted,
        "counts": _counts(view),
        "labels": chips,
        "more_labels": more_labels,
        "rows": _rendered(chosen),
        "shown": len(chosen),
        "order": _order(chosen, has_rates),
        "is_part": False,
        "has_rates": has_rates,
    }


def _counts(view: ClusterView) -> list[tuple[str, int]]:
    found = dict.fromkeys(ConnectorHealth, 0)
    for row in view.rows:
        found[row.health] += 1
    return [(str(health), count) for health, count in found.items()]


def _rendered(chosen: Iterable[ConnectorRow], *, out_of_band: bool = False) -> Markup:
    """Rows of HTML; each was escaped as it was rendered."""
    return Markup("").join(_row(row, out_of_band) for row in chosen)


@lru_cache(maxsize=_ROWS_KEPT)
def _row(row: ConnectorRow, out_of_band: bool) -> Markup:
    return Markup(render("overview_row.html", {"row": row, "key": row_key(row.name), "out_of_band": out_of_band}))


def row_key(name: str) -> str:
    """The id of a connector's row: names may have any character, ids may not."""
    return "c" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]


def _order(chosen: Sequence[ConnectorRow], has_rates: bool) -> str:
    """The same while the same connectors are shown in the same order, below the same columns."""
    shown = "\0".join([str(has_rates), *(row.name for row in chosen)])
    return hashlib.sha256(shown.encode("utf-8", "replace")).hexdigest()[:12]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0


ROUTES: Final = (Route("", {"GET": show}), Route("/rows", {"GET": rows}))
