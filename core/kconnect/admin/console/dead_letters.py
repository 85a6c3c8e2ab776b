"""DeadLetterReader: a connector's dead letters for one request: who may see them, which are meant, and what reads them.

The same parts as `connect dlq` uses; a worker's console reads them with the worker's login, so that it asks first.

LetterReplay is a replay of them as a form asks for it: its plan, to be shown, and then its run.

What is run is what was shown: the same dead letters to the same places with the same patch, or nothing.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from kconnect.admin.cluster.port import Announced
from kconnect.admin.console.page_request import PageRequest
from kconnect.admin.dead_letters import (
    DeadLetter,
    DeadLetterTopic,
    OffsetRange,
    Outcome,
    Prepared,
    ReplayRules,
    Selection,
    Tally,
    prepared_view,
    selected,
)
from kconnect.admin.dead_letters.edits import JsonPatchEdit
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.admin.served.replaying import Replaying, Round, in_time
from kconnect.errors import BadRequestError, ConfigError, ConnectError, DataError, NotFoundError, TimedOutError
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


MOST_REPLAYED: Final = 500
"""Letters of one replay: one transaction, which takes well under a second."""
_MOST_VIEWS: Final = 20
# A page ends within 120 s, and a replay still has to send what it found
_MOST_PLANNING_S: Final = 60.0
_MOST_PUTTING_S: Final = 50.0
# What is typed into a form: a record of Kafka is a megabyte at most, unless somebody raised that
_MOST_TYPED: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class How:
    """How dead letters are replayed. `patch`: a JSON patch of each record, as it was typed; empty for none."""

    patch: str = field(default="", repr=False)
    through: bool = False
    """Straight into the sink's chain in this process, not to the topic."""
    again: bool = False
    """Also dead letters that an earlier one of these may have put."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> How:
        """Reads the fields of a form."""
        return cls(typed(given.get("patch", "")), bool(given.get("through")), bool(given.get("again")))

    @property
    def given(self) -> dict[str, str]:
        """The choice as fields of a form."""
        found = {"patch": self.patch, "through": "1" if self.through else "", "again": "1" if self.again else ""}
        return {name: text for name, text in found.items() if text}


@dataclass(slots=True)
class Plan:
    """What a replay would send, and `views` of the first letters, before and after. `ends`: up to where it looked."""

    ends: Mapping[int, int]
    round: Round
    views: list[dict[str, Any]] = field(default_factory=list)


class LetterReplay:
    """Threads: one. Errors of the constructor: ConfigError for what is no patch; BadRequestError."""

    def __init__(self, reader: DeadLetterReader, wanted: Wanted, how: How) -> None:
        self._reader = reader
        self._wanted = wanted
        self._how = how
        if how.through and (why := why_not_through(reader)) is not None:
            raise BadRequestError(f"These dead letters cannot go straight into the sink: {why}")
        self._edit = _edit(reader, how.patch) if how.patch else None
        rules = ReplayRules(again=how.again, is_edited=self._edit is not None)
        self._replaying = Replaying(reader, rules, self._edit, open_sink=reader.open_sink if how.through else None)

    def record(self) -> str:
        """The one dead letter that is meant as JSON, with the patch where that fits; empty for several dead letters."""
        if not self._wanted.at:
            return ""
        body: Any = dict(self._reader.documents.document(self._reader.letter(self._wanted).as_read()).body)
        if self._edit is not None:
            with suppress(DataError):  # the plan says so
                body = self._edit.body(body)
        return json.dumps(body, ensure_ascii=False, indent=2)

    def plan(self, ends: Mapping[int, int] | None = None) -> Plan:
        """A dry run. `ends`: those of an earlier plan; what came after it is left out."""
        reader, how, views = self._reader, self._how, list[dict[str, Any]]()
        ends = reader.topic.ends() if ends is None else ends
        letters: Iterable[DeadLetter]
        if self._wanted.at:
            letters = [reader.letter(self._wanted)]
        else:
            letters = selected(
                in_time(reader.topic.letters(ends), _MOST_PLANNING_S, "`connect dlq replay NAME` takes its time."),
                reader.selection(self._wanted),
            )

        def show(prepared: Prepared) -> None:
            if len(views) < _MOST_VIEWS and prepared.outcome is not Outcome.ALREADY:
                views.append(prepared_view(prepared, reader.documents))

        found = self._replaying.round(letters, MOST_REPLAYED, show, (how.patch, how.through))
        return Plan(ends, found, views)

    def run(self, plan: Plan) -> Tally:
        """Send the dead letters of the plan, with their marks: those, and no others.

        Errors: those of MarkWriter; of a sink also what its start and flush() raise, and TimedOutError.
        """

        def run() -> Tally:
            return self._replaying.run(lambda: plan.round.letters, plan.round.tally)

        return _within(_MOST_PUTTING_S, run, self._reader.name) if self._how.through else run()

    def warnings(self, plan: Plan) -> list[str]:
        return self._replaying.warnings(plan.round.tally)


def why_not_through(reader: DeadLetterReader) -> str | None:
    """Why dead letters can go to their topics only; None where they can go straight into the sink."""
    if reader.is_source:
        return f"{reader.name} is a source, whose dead letters pass its transformations and converters anyway"
    if reader.open_sink is None:
        return "a worker runs no sink's code beside its tasks. connect ui and connect dlq replay --through do"
    try:
        reader.plugins.connector_class(reader.config.get("connector.class", ""))
    except ConnectError as err:
        return f"its class is not installed here: {err}"
    return None


def typed(text: str) -> str:
    """What was typed into a field, however a browser ends its lines."""
    return text.replace("\r\n", "\n").strip()


def parsed_json(text: str, what: str) -> Any:  # any JSON value
    """Errors: ConfigError for what is no JSON, with line and column."""
    if len(text) > _MOST_TYPED:
        raise ConfigError(f"{what} is longer than {_MOST_TYPED:,} characters")
    try:
        return json.loads(text)
    except json.JSONDecodeError as err:
        raise ConfigError(f"{what} is not JSON: line {err.lineno}, column {err.colno}: {err.msg}") from None
    except (ValueError, RecursionError) as err:
        raise ConfigError(f"{what} is not JSON: {err}") from None


def ends_text(ends: Mapping[int, int]) -> str:
    """For a field of a form."""
    return json.dumps({str(number): end for number, end in sorted(ends.items())})


def parsed_ends(text: str) -> dict[int, int]:
    """Errors: BadRequestError."""
    try:
        return {int(number): int(end) for number, end in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise BadRequestError("The form does not say up to where the dead letters were looked at") from None


def _edit(reader: DeadLetterReader, patch: str) -> JsonPatchEdit:
    return JsonPatchEdit(parsed_json(patch, "The patch"), reader.documents, "This")


def _within(limit_s: float, run: Callable[[], Tally], name: str) -> Tally:
    """What `run` gives, in a thread that nobody waits for longer: put() may never return. Errors: TimedOutError."""
    found: list[Tally] = []
    failed: list[Exception] = []

    def work() -> None:
        try:
            found.append(run())
        except Exception as err:  # raised again below, where it is waited for
            failed.append(err)

    # A daemon: one that hangs in a plugin must not keep `connect ui` from ending
    thread = threading.Thread(target=work, name=f"put-letters-{name}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimedOutError(
            f"The sink of {name} has not taken the dead letters within {limit_s:g} s",
            hint="It goes on in `connect ui`. Dead letters that it has now are in doubt until put() returns: look at "
            "the list again before you replay any.",
        )
    if failed:
        raise failed[0]
    return found[0]
