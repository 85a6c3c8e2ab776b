"""A connector's dead letters: how many, of which stage, exception and topic, and what they failed with.

The records are on pages of their own (`letters.py`), for those who may see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.console.letter_desk import MOST_SEEN, LetterDesk
from kconnect.console.pages.connector import header
from kconnect.console.visit import Page, Reply, Route, Visit
from kconnect.dead_letters import DeadLetter, summary, summary_view
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.redaction import redact


def show(visit: Visit) -> Reply:
    """The groups, the largest first."""
    name = visit.path["name"]
    info, status = visit.cluster.connector(name), visit.cluster.connector_status(name)
    values = {**header(visit, status, info.config, "dead-letters"), "found": None, "problem_text": "", "is_cut": False}
    try:
        counted: list[int] = []
        with LetterDesk(visit) as desk:
            letters = _counted(islice(desk.topic.letters(), MOST_SEEN), counted)
            view = summary_view(name, desk.settings.topic, summary(letters, desk.selection(), desk.topic.marks()))
        values |= {"found": _shown(view), "is_cut": len(counted) == MOST_SEEN}
    except (NotFoundError, BadRequestError) as err:
        hint = f" {err.hint}" if err.hint else ""
        values["problem_text"] = redact(f"{err}.{hint}")
    return Page("dead_letters.html", f"Dead letters of {name}", values, tab="connectors")


def _counted(letters: Iterable[DeadLetter], counted: list[int]) -> Iterator[DeadLetter]:
    for letter in letters:
        counted.append(1)
        yield letter


def _shown(view: dict[str, Any]) -> dict[str, Any]:
    """With the query that finds the letters of each group. Messages of exceptions may quote settings."""
    groups = []
    for group in view["groups"]:
        filters = {key: group[key] for key in ("stage", "exception", "topic") if group[key]}
        told = {key: redact(value) if isinstance(value, str) else value for key, value in group.items()}
        groups.append({**told, "query": urlencode(filters)})
    return {**view, "groups": groups}


ROUTES: Final = (Route("/connectors/{name}/dead-letters", {"GET": show}),)
