"""What the routes of a replay do: loaded with the first request for one of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kconnect.admin.dead_letters import (
    DeadLetter,
    Outcome,
    Prepared,
    ReplayRules,
    Tally,
    prepared_view,
    selected,
    tally_view,
)
from kconnect.admin.dead_letters.archive import read_archive
from kconnect.admin.dead_letters.edits import Edit, JsonPatchEdit
from kconnect.admin.dead_letters.planning import MAX_REPLAYS
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.admin.served.replaying import Replaying, in_time, of_file
from kconnect.admin.served.requests import MOST_BYTES, MOST_S, REPLAY_FIELDS, letter_selection
from kconnect.errors import BadRequestError
from kconnect.runtime.herder.interface import Connectors
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.dead_letters import require_targets
from kconnect.runtime.rest.exchange import Answer, Call

# A transaction of 500 dead letters takes some 30 ms: a request ends within a second or two
_MOST_LETTERS: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The body of a request. `ends`: what came behind it is left out; `show`: the records before and after."""

    patch: Any = None
    letters: Any = None
    to_topic: str | None = None
    max_replays: int = MAX_REPLAYS
    again: bool = False
    limit: int | None = None
    ends: Mapping[int, int] | None = None
    show: bool = False

    @classmethod
    def of(cls, call: Call[Any]) -> _Wanted:
        """Errors: BadRequestError that names the field."""
        body = call.json_object('a JSON object such as {"max_replays": 3}', known=tuple(REPLAY_FIELDS))
        kinds = {"to_topic": str, "max_replays": int, "again": bool, "limit": int, "show": bool, "letters": list}
        for name, kind in kinds.items():
            if name in body and type(body[name]) is not kind:
                raise BadRequestError(f'"{name}" must be {_KINDS[kind]}')
        if "ends" in body:
            try:
                body["ends"] = {int(number): int(end) for number, end in body["ends"].items()}
            except (ValueError, TypeError, AttributeError):
                raise BadRequestError('"ends" must be those of an earlier answer, such as {"0": 17}') from None
        return cls(**body)

    def rules(self) -> ReplayRules:
        return ReplayRules(
            max_replays=self.max_replays,
            to_topic=self.to_topic,
            again=self.again,
            is_edited=self.patch is not None or self.letters is not None,
            limit=self.limit,
        )


_KINDS: Final = {str: "a text", int: "a whole number", bool: "true or false", list: "a list"}


@dataclass(frozen=True, slots=True)
class _Open:
    """A replay that a request asks for: `letters` are those that it means."""

    wanted: _Wanted
    reader: ConnectorLetters
    letters: Callable[[], Iterator[DeadLetter]]
    replaying: Replaying
    ends: Mapping[int, int]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class ServedReplay:
    """The handlers of one worker. Threads: those of the REST server's pool, each with clients of its own."""

    access: ClusterAccess
    plugins: Callable[[], PluginRegistry]

    def plan(self, call: Call[Connectors]) -> Answer:
        """What a replay would do; changes nothing."""
        shown, size = list[dict[str, Any]](), 0
        with self._open(call) as job:

            def show(prepared: Prepared) -> None:
                nonlocal size
                if job.wanted.show and size < MOST_BYTES:
                    shown.append(prepared_view(prepared, job.reader.documents))
                    size += 2 * len(prepared.letter.raw.value or b"")

            found = job.replaying.round(job.letters(), _MOST_LETTERS, show)
            return Answer(
                {
                    **tally_view(found.tally),
                    "ends": {str(number): end for number, end in job.ends.items()},
                    "warnings": job.replaying.warnings(found.tally),
                    "shown": shown,
                    "more": found.is_cut,
                    "notes": job.notes,
                }
            )

    def run(self, call: Call[Connectors]) -> Answer:
        """Sends dead letters, each in one transaction with the mark that it was sent."""
        with self._open(call) as job:
            found = job.replaying.round(job.letters(), _MOST_LETTERS)
            require_targets(call, job.reader.name, found.tally.topics)
            done = job.replaying.run(lambda: found.letters, found.tally) if found.letters else Tally()
            done.counts += Counter({kind: n for kind, n in found.tally.counts.items() if kind is not Outcome.REPLAY})
            done.first = {**found.tally.first, **done.first}
            return Answer({**tally_view(done), "more": found.is_cut, "notes": job.notes})

    @contextmanager
    def _open(self, call: Call[Connectors]) -> Iterator[_Open]:
        wanted, notes, name = _Wanted.of(call), list[str](), call.path["name"]
        with ConnectorLetters(call.herder.connector_info(name), self.access, notes.append, self.plugins) as reader:
            reader.brokers.raise_if_refused()
            chosen = letter_selection(call, name, takes_unknown=not reader.settings.context_headers)
            edit: Edit | None = None
            if wanted.patch is not None:
                edit = JsonPatchEdit(wanted.patch, reader.documents, "The patch")
            ends = reader.topic.ends() if wanted.ends is None else wanted.ends
            if wanted.letters is None:

                def letters() -> Iterator[DeadLetter]:
                    hint = "--worker FILE or --bootstrap-servers reads them in the command, which takes its time."
                    return selected(in_time(reader.topic.letters(ends), MOST_S, hint), chosen)

            else:
                lines = read_archive(map(json.dumps, wanted.letters), "the dead letters")
                given, edit = of_file(reader, lines, "The file", edit)

                def letters() -> Iterator[DeadLetter]:
                    return selected(given, chosen)

            yield _Open(wanted, reader, letters, Replaying(reader, wanted.rules(), edit), ends, notes)
