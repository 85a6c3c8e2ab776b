"""LetterDesk: a connector's dead letters for one visit: who may see them, which are meant, and the plan of a replay.

The same parts as `connect dlq` uses; a worker's console reads them with the worker's login, so that it asks first.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Self

from kconnect.console.visit import Visit
from kconnect.dead_letters import (
    DeadLetter,
    DeadLetterTopic,
    Documents,
    KafkaAccess,
    Marks,
    MarkWriter,
    OffsetRange,
    Outcome,
    Preparation,
    ReplayRules,
    Selection,
    SourceChain,
    Tally,
    dead_letter_settings,
    is_source,
    isolation_level,
    letter_documents,
    prepared_view,
    replay,
    selected,
)
from kconnect.dead_letters.warnings import replay_warnings
from kconnect.direct.access import ClusterAccess
from kconnect.errors import BadRequestError, NotFoundError, TimedOutError
from kconnect.plugins import PluginRegistry

MOST_SEEN: Final = 100_000
"""Records of the topic that a page looks at: that many take two seconds."""
MOST_REPLAYED: Final = 500
"""Letters of one replay: one transaction, which takes well under a second."""
# Letters of one replay are in memory, twice
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_VIEWS: Final = 20
# A page ends within 120 s, and a replay still has to send what it found
_MOST_PLANNING_S: Final = 60.0
_PLACE: Final = re.compile(r"([0-9]{1,9})@([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters a page is about: `at` is one of them, as PARTITION@OFFSET; else those that all filters match."""

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
            raise BadRequestError(f"{self.at} is not the place of a letter, such as 0@17")
        return int(found[1]), int(found[2])

    @property
    def given(self) -> dict[str, str]:
        """As fields of a form or a query."""
        found = {"at": self.at, "stage": self.stage, "exception": self.exception, "topic": self.topic}
        return {name: text for name, text in found.items() if text}


@dataclass(slots=True)
class Plan:
    """What a replay would send: `letters`, the oldest first; `views` of the first of them, before and after."""

    ends: Mapping[int, int]
    tally: Tally = field(default_factory=Tally)
    letters: list[DeadLetter] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    is_cut: bool = False
    """There are more."""
    fingerprint: str = ""
    """The same while the same letters would go to the same topics."""


class LetterDesk:
    """A context manager. Threads: one. Errors: ForbiddenError, NotFoundError, BadRequestError; those of Kafka."""

    def __init__(self, visit: Visit) -> None:
        self.name = visit.path["name"]
        self._cluster = visit.cluster
        # Asked first: who may not see the connector over REST does not see its letters either
        self.info = visit.cluster.connector(self.name)
        self.config = dict(self.info.config)
        self.settings = dead_letter_settings(self.name, self.config)
        self._access = _brokers(visit)
        self.notes: list[str] = []
        """Sentences on what was not shown, or not as it should be."""
        self._topic: DeadLetterTopic | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._topic is not None:
            self._topic.close()

    def allow(self, plan: Plan | None = None) -> None:
        """`plan`: to be carried out. Errors: ForbiddenError for who may see the connector, and not its records."""
        self._cluster.allow_letters(self.name, replay_to=None if plan is None else plan.tally.topics)

    @property
    def topic(self) -> DeadLetterTopic:
        if self._topic is None:
            self._access.raise_if_refused()
            clients = self._access.clients()
            access = KafkaAccess(
                producer=clients.producer,
                consumer=clients.consumer,
                admin=clients.admin,
                timeout_s=self._access.timeout_s,
            )
            self._topic = DeadLetterTopic(self.settings.topic, access, self.notes.append)
        return self._topic

    def selection(self, wanted: Wanted | None = None) -> Selection:
        """Of a shared topic this connector's letters only."""
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
            raise BadRequestError("Which letter? Its place is missing")
        found = self.topic.letter(*place)
        if found is None or not self.selection().owns(found):
            raise NotFoundError(f"{self.settings.topic} has no dead letter of {self.name} at {wanted.at}")
        return found

    @cached_property
    def documents(self) -> Documents:
        """What reads its letters; a note tells of converters that are not installed here."""
        return letter_documents(
            self.config, self._access.worker, self._plugins, is_source=self._is_source, note=self.notes.append
        )

    def plan(self, wanted: Wanted, ends: Mapping[int, int] | None = None) -> Plan:
        """A dry run. `ends`: those of an earlier plan; what came after it is left out."""
        plan = Plan(self.topic.ends() if ends is None else ends)
        letters: Iterable[DeadLetter]
        if wanted.at:
            letters = [self.letter(wanted)]
        else:
            letters = selected(_in_time(self.topic.letters(plan.ends)), self.selection(wanted))
        seen, size = hashlib.sha256(), 0
        for prepared in self._prepare()(self.topic.marks(), ()).prepared(letters):
            letter, out = prepared.letter, prepared.outgoing
            plan.tally.add(prepared.outcome, prepared.why)
            if len(plan.views) < _MOST_VIEWS and prepared.outcome is not Outcome.ALREADY:
                plan.views.append(prepared_view(prepared, self.documents))
            if prepared.outcome is not Outcome.REPLAY or out is None:
                continue
            plan.tally.add_target(out)
            plan.letters.append(letter)
            seen.update(repr((letter.place, letter.fingerprint, out.topic, out.partition)).encode())
            size += len(letter.raw.key or b"") + len(letter.raw.value or b"")
            if len(plan.letters) == MOST_REPLAYED or size > _MOST_BYTES:
                plan.is_cut = True
                break
        plan.fingerprint = seen.hexdigest()[:32]
        return plan

    def replay(self, plan: Plan) -> Tally:
        """Send the letters of the plan, with their marks: those, and no others. Errors: those of MarkWriter."""
        with MarkWriter(self.topic, self.name) as writer:
            level = isolation_level(self.config, self._access.worker)
            targets = list(plan.tally.topics)
            return replay(writer, self.name, lambda: plan.letters, self._prepare(), isolation=level, targets=targets)

    def warnings(self, plan: Plan) -> list[str]:
        found = replay_warnings(
            self.name,
            self.config,
            plan.tally,
            self.topic.topic_settings,
            is_source=self._is_source,
            now_ms=time.time_ns() // 1_000_000,
        )
        return list(found)

    def _prepare(self) -> Callable[[Marks, Collection[str]], Preparation]:
        chain = SourceChain(self.config, self._access.worker, self._plugins) if self._is_source else None

        def prepare(marks: Marks, arrived: Collection[str]) -> Preparation:
            return Preparation(ReplayRules(), marks, self.topic.partitions, None, chain, arrived)

        return prepare

    @cached_property
    def _plugins(self) -> PluginRegistry:
        return _registry(self._access.worker.get("plugin.path"))

    @cached_property
    def _is_source(self) -> bool:
        return is_source(self.info.type, self.config, self._plugins)


def ends_text(ends: Mapping[int, int]) -> str:
    """For a field of a form."""
    return json.dumps({str(number): end for number, end in sorted(ends.items())})


def parsed_ends(text: str) -> dict[int, int]:
    """Errors: BadRequestError."""
    try:
        return {int(number): int(end) for number, end in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise BadRequestError("The form does not say up to where the letters were looked at") from None


@lru_cache(maxsize=4)
def _registry(plugin_path: str | None) -> PluginRegistry:
    """Reading the folders takes a while, and a registry is for any thread."""
    return PluginRegistry.load(plugin_path, tells_skipped=False)


def _brokers(visit: Visit) -> ClusterAccess:
    access = visit.cluster.brokers
    if access is None:
        raise BadRequestError(
            "This console does not know the brokers",
            hint="Start it with `connect ui --worker FILE`, with the worker's file: its brokers and login are used.",
        )
    return access


def _in_time(letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
    """Errors: TimedOutError when there are too many to be looked through for a page."""
    began = time.monotonic()
    for letter in letters:
        if time.monotonic() - began > _MOST_PLANNING_S:
            raise TimedOutError(
                f"The letters were not all read within {_MOST_PLANNING_S:g} s",
                hint="`connect dlq replay NAME` takes its time.",
            )
        yield letter
