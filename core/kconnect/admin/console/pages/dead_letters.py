"""A connector's dead letters: how many, of which stage, exception and topic, and what they failed with.

The records are on pages of their own (`letters.py`), for those who may see them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.admin.console.dead_letter_reader import MOST_SEEN, DeadLetterReader
from kconnect.admin.console.page_request import Page, PageRequest, Reply, Route
from kconnect.admin.console.pages.connector import header
from kconnect.admin.dead_letters import summary, summary_view
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.logs.redaction import redact


def show(request: PageRequest) -> Reply:
    """The groups, the largest first."""
    name = request.path["name"]
    info, status = request.cluster.connector(name), request.cluster.connector_status(name)
    values = {**header(request, status, info.config, "dead-letters"), "found": None, "problem_text": ""}
    try:
        with DeadLetterReader(request) as reader:
            marks = reader.topic.marks()
            with reader.topic.latest(MOST_SEEN) as latest:
                view = summary_view(name, reader.settings.topic, summary(latest, reader.selection(), marks))
        values |= {"found": _shown(view), "earlier": latest.earlier, "most_seen": MOST_SEEN}
    except (NotFoundError, BadRequestError) as err:
        hint = f" {err.hint}" if err.hint else ""
        values["problem_text"] = redact(f"{err}.{hint}")
    return Page("dead_letters.html", f"Dead letters of {name}", values, tab="connectors")


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    """With the query that finds the dead letters of each group. Messages of exceptions may quote settings."""
    groups = []
    for group in view["groups"]:
        filters = {key: group[key] for key in ("stage", "exception", "topic") if group[key]}
        reported = {key: redact(value) if isinstance(value, str) else value for key, value in group.items()}
        last_ms = None if group["last"] is None else round(datetime.fromisoformat(group["last"]).timestamp() * 1000)
        groups.append({**reported, "query": urlencode(filters), "last_ms": last_ms})
    return {**view, "groups": groups}


ROUTES: Final = (Route("/connectors/{name}/dead-letters", {"GET": show}),)
