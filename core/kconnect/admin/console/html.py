"""Templates: everything is escaped unless a template says otherwise, and none does. The only importer of Jinja2."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kconnect.admin.console.assets import asset_url
from kconnect.client.exchange import segment
from kconnect.logs.wording import pluralize


def render(template: str, context: Mapping[str, Any]) -> str:
    """A template with its values. Threads: any."""
    return environment().get_template(template).render(context)


@cache
def environment() -> Environment:
    """Templates of this room; a name that a page forgot to give is an error and not an empty place."""
    found = Environment(
        loader=PackageLoader("kconnect.admin.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.globals["asset"] = asset_url
    found.filters["segment"] = segment
    found.filters["pluralize"] = pluralize
    found.filters["breakable"] = breakable
    return found


def breakable(key: str) -> Markup:
    """The key of a setting, escaped; a narrow column breaks it behind a dot, and not within a word."""
    return Markup(".<wbr>").join(key.split("."))
