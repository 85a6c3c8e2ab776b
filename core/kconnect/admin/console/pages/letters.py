"""A connector's dead letters counted, and one by one: the list, each with its record, and the replay.

A replay is shown first, then asked. Records may be private: who may read the connector over REST need not be
allowed to read these. `DeadLetterReader.allow` asks.

The summary is for all: how many, of which stage, exception and topic, and what they failed with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from kconnect.admin.cluster.port import Announced
from kconnect.admin.console.dead_letters import (
    MOST_REPLAYED,
    MOST_SEEN,
    DeadLetterReader,
    How,
    LetterReplay,
    Plan,
    Wanted,
    ends_text,
    parsed_ends,
    parsed_json,
    typed,
    why_not_through,
)
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route
from kconnect.admin.console.pages.connector import header
from kconnect.admin.dead_letters import DeadLetter, Marks, Outcome, Tally, letter_view, summary, summary_view
from kconnect.admin.dead_letters.edits import PATCH_EXAMPLE, patch_between
from kconnect.client.exchange import segment
from kconnect.errors import BadRequestError, ConfigError, ConflictError, NotFoundError
from kconnect.logs.redaction import redact
from kconnect.logs.wording import pluralize

_PAGE: Final = 50
_MOST_PAGES: Final = 40
# What is shown of a key, a value or a header before one asks for all of it
_MOST_SHOWN: Final = 4_000
_MOST_IN_LIST: Final = 300


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a record, or its beginning. `length`: of all of it."""

    text: str
    length: int

    @property
    def is_cut(self) -> bool:
        return len(self.text) < self.length


@dataclass(frozen=True, slots=True)
class Row:
    """A dead letter in the list; nothing of the record itself."""

    at: str
    time_ms: int | None
    stage: str
    cause: str
    origin: str
    is_replayed: bool


def show_list(request: PageRequest) -> Reply:
    """The newest first, as far as the filters match."""
    wanted, number = Wanted.of({**request.query, "at": ""}), _page_number(request.query.get("page", "1"))
    with DeadLetterReader(request) as reader:
        reader.allow()
        marks, selection = reader.topic.marks(), reader.selection(wanted)

        def accept(letter: DeadLetter) -> Row | None:
            return row_of(letter, marks) if letter in selection else None

        with reader.topic.latest(MOST_SEEN) as latest:
            rows = latest.newest(number * _PAGE + 1, accept)
        values = {
            **_head(request, reader),
            "topic": reader.settings.topic,
            "wanted": wanted,
            "rows": rows[(number - 1) * _PAGE : number * _PAGE],
            "page": number,
            "newer": _query(wanted, page=number - 1) if number > 1 else None,
            "older": _query(wanted, page=number + 1) if len(rows) > number * _PAGE and number < _MOST_PAGES else None,
            "query": _query(wanted),
            "most_seen": MOST_SEEN,
            "earlier": latest.earlier,
            "notes": reader.notes,
        }
    return Page("letters.html", f"Dead letters of {reader.name}", values, tab="connectors")


def show_letter(request: PageRequest) -> Reply:
    """What it failed with, the root cause first; where it came from; the record as its converters read it."""
    wanted = Wanted(at=request.path["at"])
    with DeadLetterReader(request) as reader:
        reader.allow()
        letter = reader.letter(wanted)
        view = letter_view(letter, reader.documents, reader.topic.marks())
        values = {
            **_head(request, reader),
            **letter_values(letter, view, is_whole=request.query.get("whole") == "1"),
            "at": wanted.at,
            "query": _query(wanted),
            "notes": [redact(note) for note in reader.notes],
        }
    return Page("letter.html", f"Dead letter {wanted.at} of {reader.name}", values, tab="connectors")


def letter_values(letter: DeadLetter, view: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """What the page says of the dead letter itself; texts of the record are cut unless `is_whole`."""
    parts = [(part, text_of(view[part], is_whole), view["decoded"][part]) for part in ("key", "value")]
    headers = [(each["key"], text_of(each["value"], is_whole)) for each in view["headers"]]
    reported = {key: redact(view[key] or "") for key in ("message", "root_cause", "trace")}
    return {
        "letter": {**view, **reported, "message": reported["message"].strip().rstrip(":")},
        "source": view.get("source"),
        "time_ms": letter.raw.timestamp,
        "origin": letter.context.place or letter.original_topic or "",
        "parts": parts,
        "headers": headers,
        "is_cut": any(text.is_cut for text in (*(part[1] for part in parts), *(each[1] for each in headers))),
        "problems": [redact(problem).rstrip(": ") for problem in view.get("problems", ())],
    }


def preview(request: PageRequest) -> Reply:
    """What a replay would send, record by record; and the question."""
    return _preview(request, Wanted.of(request.query), How())


def preview_again(request: PageRequest) -> Reply:
    """The same with a patch, or straight into the sink. A form: a patch quotes records, which belong in no URL."""
    given = dict(request.form)
    return _preview(request, Wanted.of(given), How.of(given))


def _preview(request: PageRequest, wanted: Wanted, how: How) -> Reply:
    with DeadLetterReader(request) as reader:
        reader.allow()
        values = {
            **_head(request, reader),
            "wanted": wanted,
            "how": how,
            "example": PATCH_EXAMPLE,
            "why_not_through": why_not_through(reader),
            "record": request.field("record"),
            "problem_text": "",
            "plan": None,
        }
        try:
            how = _with_record(reader, wanted, how, request)
            asked = LetterReplay(reader, wanted, how)
        except ConfigError as err:
            values["problem_text"] = redact(f"{err}.{f' {err.hint}' if err.hint else ''}")
        else:
            plan = asked.plan()
            values |= {"how": how, "plan": plan, "record": asked.record(), **_plan_values(plan, asked.warnings(plan))}
        values["notes"] = [redact(note) for note in reader.notes]
    if request.is_fragment:
        return Fragment("letter_plan.html", values)
    status = 400 if values["problem_text"] else 200
    title = f"Replay dead letters of {reader.name}"
    return Page("letter_replay.html", title, values, tab="connectors", status=status)


def _plan_values(plan: Plan, warnings: Sequence[str]) -> dict[str, Any]:
    count = len(plan.round.letters)
    return {
        "count": count,
        "targets": plan.round.tally.topics.most_common(),
        "others": _others(plan.round.tally),
        "in_doubt": plan.round.tally.counts[Outcome.IN_DOUBT],
        "changes": [change_of(view) for view in plan.views],
        "more": max(0, count - len(plan.views)),
        "most": MOST_REPLAYED if plan.round.is_cut else None,
        "warnings": warnings,
        "fingerprint": plan.round.fingerprint,
        "ends": ends_text(plan.ends),
    }


def _with_record(reader: DeadLetterReader, wanted: Wanted, how: How, request: PageRequest) -> How:
    """With the patch that an edit of the one record comes to, unless the patch itself was edited.

    Errors: ConfigError for what is no JSON.
    """
    edited = request.field("record")
    if not wanted.at or not edited.strip() or how.patch != typed(request.field("was")):
        return how
    before, after = reader.documents.document(reader.letter(wanted).as_read()).body, parsed_json(edited, "The record")
    return replace(how, patch="" if after == before else patch_between(before, after))


def replay(request: PageRequest) -> Reply:
    """Send them, if they are still what was shown. Errors: ConflictError, ForbiddenError; those of the sending."""
    given = dict(request.form)
    wanted, how = Wanted.of(given), How.of(given)
    with DeadLetterReader(request) as reader:
        reader.allow()
        asked = LetterReplay(reader, wanted, how)
        plan = asked.plan(parsed_ends(request.field("ends")))
        if not plan.round.letters or plan.round.fingerprint != request.field("fingerprint"):
            raise ConflictError(
                f"Other dead letters of {reader.name} would be replayed now than were shown",
                hint="Somebody else may have replayed them. Look again.",
            )
        reader.allow(Announced(plan.round.tally.topics, edited=bool(how.patch)))
        done = asked.run(plan)
        others = _others(done)
        if any(why for _, _, why in others):
            values = {**_head(request, reader), "sent": done.counts[Outcome.REPLAY], "how": how, "others": others}
            return Page("letter_done.html", f"Replay of dead letters of {reader.name}", values, tab="connectors")
    message = f"{pluralize(done.counts[Outcome.REPLAY], 'dead letter')} of {reader.name} "
    message += "put into the sink." if how.through else "sent again."
    message += "".join(f" {pluralize(count, 'dead letter')} {title}." for title, count, _ in others)
    return Redirect(f"{_own(reader.name)}/letters", message)


def _head(request: PageRequest, reader: DeadLetterReader) -> dict[str, Any]:
    status = request.cluster.connector_status(reader.name)
    return {**header(request, status, reader.config, "dead-letters"), "letters": _own(reader.name)}


def _own(name: str) -> str:
    return f"/ui/connectors/{segment(name)}/dead-letters"


def _page_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 4 and 1 <= int(text) <= _MOST_PAGES):
        raise BadRequestError(
            f"Page {text} does not exist: the last one is {_MOST_PAGES}", hint="Filters find older dead letters."
        )
    return int(text)


def _query(wanted: Wanted, **more: int) -> str:
    return urlencode({**wanted.given, **more})


def row_of(letter: DeadLetter, marks: Marks) -> Row:
    """Its line in the list."""
    return Row(
        f"{letter.raw.partition}@{letter.raw.offset}",
        letter.raw.timestamp,
        _line(letter.stage),
        _line(redact(letter.context.root_cause or "")),
        _line(letter.context.place or letter.original_topic),
        marks.is_replayed(letter),
    )


def _line(text: str | None) -> str:
    """In one line, and not a long one: whoever writes to the topic says what is in it."""
    line = " ".join((text or "").split())
    return line if len(line) <= _MOST_IN_LIST else f"{line[:_MOST_IN_LIST]}.."


def text_of(value: Any, is_whole: bool = False) -> Text:  # data of JSON
    """A part of a record, or its beginning."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return Text(text if is_whole else text[:_MOST_SHOWN], len(text))


def change_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """A dry run of one dead letter: each part before and after."""
    before, after = view["before"], view["after"]
    parts = []
    for part, old in before.items():
        new = None if after is None else after[part]
        is_changed = after is not None and new != old
        parts.append((part, _part_text(part, old), None if after is None else _part_text(part, new), is_changed))
    return {
        "at": view["letter"].rpartition("-")[2],
        "outcome": view["outcome"],
        "why": redact(view.get("why", "")),
        "parts": parts,
        "is_sent": view["outcome"] == Outcome.REPLAY.value,
    }


def _part_text(part: str, value: Any) -> Text:  # data of JSON
    """Shows a part of a document; headers one a line."""
    if part != "headers":
        return text_of(value)
    return text_of("\n".join(f"{each['key']}: {text_of(each['value'], is_whole=True).text}" for each in value))


def _others(found: Tally) -> list[tuple[str, int, str]]:
    """What is not sent: outcome, how many, and why the first is not."""
    return [
        (outcome.value, count, redact(found.first.get(outcome, "")))
        for outcome, count in sorted(found.counts.items())
        if count and outcome is not Outcome.REPLAY
    ]


def show_summary(request: PageRequest) -> Reply:
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


ROUTES: Final = (
    Route("/connectors/{name}/dead-letters/letters", {"GET": show_list}),
    Route("/connectors/{name}/dead-letters/letters/{at}", {"GET": show_letter}),
    Route("/connectors/{name}/dead-letters/replay", {"GET": preview, "POST": replay}),
    Route("/connectors/{name}/dead-letters/replay/preview", {"POST": preview_again}),
    Route("/connectors/{name}/dead-letters", {"GET": show_summary}),
)
