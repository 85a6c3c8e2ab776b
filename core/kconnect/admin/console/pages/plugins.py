"""`/ui/plugins`: the plugins of a worker, and the settings of each with their documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kconnect.admin.console.page_request import Page, PageRequest, Reply, Route

_UNREACHED: Final = "Plugins are listed by a worker, and this console reads the topics: no worker is asked."
_ORDER: Final = ("source", "sink", "transformation", "predicate", "converter", "header_converter")


def show(request: PageRequest) -> Reply:
    """All plugins, or those of a type, or whose class has the text."""
    found = [] if request.cluster.rest is None else list(request.cluster.plugins())
    kind, text = request.query.get("type", ""), request.query.get("q", "").strip()
    rows = [plugin for plugin in found if _admits(plugin, kind, text.casefold())]
    kinds: dict[str, int] = {}
    for plugin in found:
        kinds[plugin["type"]] = kinds.get(plugin["type"], 0) + 1
    return Page(
        "plugins.html",
        "Plugins",
        {
            "plugins": sorted(rows, key=lambda plugin: (_rank(plugin["type"]), plugin["class"].rpartition(".")[2])),
            "kinds": sorted(kinds.items(), key=lambda item: _rank(item[0])),
            "kind": kind,
            "text": text,
            "all": len(found),
            "why": _UNREACHED if request.cluster.rest is None else "",
        },
        tab="plugins",
    )


def show_one(request: PageRequest) -> Reply:
    """One plugin's settings, by importance as Connect orders them. Errors: NotFoundError."""
    name = request.path["plugin"]
    keys = [_setting(key) for key in request.cluster.plugin_config(name)]
    return Page("plugin.html", name.rpartition(".")[2], {"class_name": name, "settings": keys}, tab="plugins")


def _admits(plugin: Mapping[str, Any], kind: str, text: str) -> bool:
    return kind in ("", plugin["type"]) and text in plugin["class"].casefold()


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _setting(key: Mapping[str, Any]) -> dict[str, str]:
    """Workers of Connect before 3.2, and topics, know less of a setting."""
    default = key.get("default_value")
    return {
        "name": str(key["name"]),
        "type": str(key.get("type", "")).lower(),
        "default": "required" if key.get("required") else "" if default is None else str(default),
        "importance": str(key.get("importance", "")).lower(),
        "documentation": str(key.get("documentation") or ""),
    }


ROUTES: Final = (Route("/plugins", {"GET": show}), Route("/plugins/{plugin}", {"GET": show_one}))
