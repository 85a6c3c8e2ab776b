"""DeadLetterReader: a connector's dead letters for one request: who may see them, which are meant, and what reads them.

The same parts as `connect dlq` uses; a worker's console reads them with the worker's login, so that it asks first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from kconnect.admin.cluster.port import Announced
from kconnect.admin.console.page_request import PageRequest
from kconnect.admin.dead_letters import DeadLetter, DeadLetterTopic, OffsetRange, Selection
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.runtime.plugins import PluginRegistry

MOST_SEEN: Final = 100_000
"""Records of the topic that a page looks at, the last ones: that many take two seconds."""
_PLACE: Final = re.compile(r"([0-9]{1,9})@([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead letters a page is about: `at` is one, as PARTITION@OFFSET; else those that all filters match."""

    at: str = ""
    stage: str = ""
    exception: str = ""
    topic: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Wanted:
        return cls(*(given.get(name, "").strip() for name in ("at", "stage", "exception", "topic")))

    @property
    def place(self) -> tuple[int, int] | None:
        """Partition and offset. Errors: BadRequestError."""
        if not self.at:
            return None
        found = _PLACE.fullmatch(self.at)
        if found is None:
            raise BadRequestError(f"{self.at} is not the place of a dead letter, such as 0@17")
        return int(found[1]), int(found[2])

    @property
    def given(self) -> dict[str, str]:
        """The choice as fields of a form or a query."""
        found = {"at": self.at, "stage": self.stage, "exception": self.exception, "topic": self.topic}
        return {name: text for name, text in found.items() if text}


class DeadLetterReader(ConnectorLetters):
    """A context manager. Threads: one. Errors: ForbiddenError, NotFoundError, BadRequestError; those of Kafka."""

    def __init__(self, request: PageRequest) -> None:
        self.open_sink = request.cluster.open_sink
        self._cluster = request.cluster
        self.notes: list[str] = []
        """Sentences on what was not shown, or not as it should be."""
        # Asked first: who may not see the connector over REST does not see its dead letters either
        info, access = request.cluster.connector(request.path["name"]), _brokers(request)
        super().__init__(info, access, self.notes.append, lambda: kept_registry(access.worker.get("plugin.path")))

    def allow(self, replay: Announced | None = None) -> None:
        """`replay`: to be carried out. Errors: ForbiddenError for who may see the connector, and not its records."""
        self._cluster.allow_letters(self.name, replay)

    @property
    def topic(self) -> DeadLetterTopic:
        if not self.is_open:
            self.brokers.raise_if_refused()
        return super().topic

    def selection(self, wanted: Wanted | None = None) -> Selection:
        """Selects, of a shared topic, this connector's dead-letter records only."""
        wanted = wanted or Wanted()
        place = wanted.place
        return Selection(
            connector=self.name,
            takes_unknown=not self.settings.context_headers,
            stages=frozenset({wanted.stage.upper()} if wanted.stage else ()),
            exceptions=(wanted.exception,) if wanted.exception else (),
            topics=frozenset({wanted.topic} if wanted.topic else ()),
            offsets=() if place is None else (OffsetRange(place[0], place[1], place[1]),),
        )

    def letter(self, wanted: Wanted) -> DeadLetter:
        """The one at `wanted.at`. Errors: NotFoundError, also for another connector's."""
        place = wanted.place
        if place is None:
            raise BadRequestError("Which dead letter? Its place is missing")
        found = self.topic.letter(*place)
        if found is None or not self.selection().owns(found):
            raise NotFoundError(f"{self.settings.topic} has no dead letter of {self.name} at {wanted.at}")
        return found


@lru_cache(maxsize=4)
def kept_registry(plugin_path: str | None) -> PluginRegistry:
    """The plugins that are installed here. Reading the folders takes a while, and a registry is for any thread."""
    return PluginRegistry.load(plugin_path, tells_skipped=False)


def _brokers(request: PageRequest) -> ClusterAccess:
    access = request.cluster.brokers
    if access is None:
        raise BadRequestError(
            "This console does not know the brokers",
            hint="Start it with `connect ui --worker FILE`, with the worker's file: its brokers and login are used.",
        )
    return access
