"""A leader's metrics of automatic restarts; a standalone worker has them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kconnect.model import Mend, Restarts
from kconnect.runtime.metrics.catalogue import BY_NAME
from kconnect.runtime.metrics.readings import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartsView:
    """The automatic restarts of a cluster at one moment."""

    total: int
    waiting: int
    given_up: int
    not_restarted: int
    parts: Mapping[tuple[str, str], Restarts]
    """By connector and number of the task; empty for the connector itself."""


def restart_readings(view: RestartsView) -> Iterator[Reading]:
    """All readings of it. Parts without a restart and without a failure have none."""
    worker, part = "connect-restart-metrics", "part-restart-metrics"
    for name, value in (
        ("automatic-restarts-total", view.total),
        ("waiting", view.waiting),
        ("given-up", view.given_up),
        ("not-restarted", view.not_restarted),
    ):
        yield Reading(BY_NAME[worker, name], (), value)
    for labels, restarts in view.parts.items():
        yield Reading(BY_NAME[part, "automatic-restarts"], labels, restarts.count)
        yield Reading(BY_NAME[part, "is-given-up"], labels, int(restarts.mend is Mend.GIVEN_UP))
