"""A connector's dead letters: how many, of which stage, exception and topic, and what they failed with.

Records themselves are not shown: who may read a connector over REST need not be allowed to read its topics, and the
worker's own login could. `connect dlq` shows, decodes and replays them with the login of who calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from kconnect.console.pages.connector import header
from kconnect.console.visit import Page, Reply, Route, Visit
from kconnect.dead_letters import (
    DeadLetterTopic,
    KafkaAccess,
    Selection,
    dead_letter_settings,
    summary,
    summary_view,
)
from kconnect.direct.access import ClusterAccess
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.redaction import redact

# A page is made within seconds: 100,000 letters take two
_MOST_COUNTED: Final = 100_000


def show(visit: Visit) -> Reply:
    """The groups, the largest first."""
    name = visit.path["name"]
    # Asked first: who may not see the connector over REST does not see its dead letters either
    info, status = visit.cluster.connector(name), visit.cluster.connector_status(name)
    values = {**header(visit, status, info.config, "dead-letters"), "found": None, "problem_text": "", "is_cut": False}
    try:
        settings = dead_letter_settings(name, dict(info.config))
        access = _brokers(visit)
        counted: list[int] = []
        with DeadLetterTopic(settings.topic, access) as topic:
            letters = _counted(islice(topic.letters(), _MOST_COUNTED), counted)
            selection = Selection(connector=name, takes_unknown=not settings.context_headers)
            view = summary_view(name, settings.topic, summary(letters, selection, topic.marks()))
        values |= {"found": _redacted(view), "is_cut": len(counted) == _MOST_COUNTED}
    except (NotFoundError, BadRequestError) as err:
        hint = f" {err.hint}" if err.hint else ""
        values["problem_text"] = redact(f"{err}.{hint}")
    return Page("dead_letters.html", f"Dead letters of {name}", values, tab="connectors")


def _brokers(visit: Visit) -> KafkaAccess:
    access: ClusterAccess | None = visit.cluster.brokers
    if access is None:
        raise BadRequestError(
            "This console does not know the brokers", hint="`connect dlq list NAME --worker FILE` counts them."
        )
    access.raise_if_refused()
    clients = access.clients()
    return KafkaAccess(
        producer=clients.producer, consumer=clients.consumer, admin=clients.admin, timeout_s=access.timeout_s
    )


def _counted(letters: Iterable[Any], counted: list[int]) -> Iterator[Any]:  # letters, as they are
    for letter in letters:
        counted.append(1)
        yield letter


def _redacted(view: dict[str, Any]) -> dict[str, Any]:
    """Messages of exceptions may quote settings."""
    groups = [
        {key: redact(value) if isinstance(value, str) else value for key, value in group.items()}
        for group in view["groups"]
    ]
    return {**view, "groups": groups}


ROUTES: Final = (Route("/connectors/{name}/dead-letters", {"GET": show}),)
