"""Dead letters and what a replay makes of them, as data of JSON: what `-o json` prints and pages show. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kconnect.admin.dead_letters.document import Documents, text_or_base64
from kconnect.admin.dead_letters.letter import NO_PARTITION, DeadLetter
from kconnect.admin.dead_letters.marks import Marks
from kconnect.admin.dead_letters.planning import Tally
from kconnect.admin.dead_letters.replay import Prepared
from kconnect.admin.dead_letters.selection import Group, Summary
from kconnect.admin.records.decoding import Decoded
from kconnect.clock import moment


def summary_view(connector: str, topic: str, found: Summary) -> dict[str, Any]:
    """connector, topic, count, replayed, broken, others, unknown, groups."""
    skipped = {owner.value: count for owner, count in found.skipped.items()}
    return {
        "connector": connector,
        "topic": topic,
        "count": found.count,
        "replayed": found.replayed,
        "broken": found.broken,
        "others": skipped.get("others", 0),
        "unknown": skipped.get("unknown", 0),
        "groups": [_group_view(group) for group in found.groups],
    }


def _group_view(group: Group) -> dict[str, Any]:
    example = group.example
    return {
        "stage": group.stage,
        "exception": group.exception,
        "topic": group.topic,
        "count": group.count,
        "replayed": group.replayed,
        "first": moment(group.first_ms),
        "last": moment(group.last_ms),
        "example": None if example is None else example.place,
        "message": None if example is None else example.context.message,
        "root_cause": None if example is None else example.context.root_cause,
    }


def letter_view(letter: DeadLetter, documents: Documents, marks: Marks) -> dict[str, Any]:
    """Everything about one dead letter; key, value and headers as the connector's converters read them."""
    context, raw = letter.context, letter.raw
    decoded = documents.decoded(letter.as_read())
    mark = marks.mark_of(letter)
    view: dict[str, Any] = {
        "letter": letter.place,
        "time": moment(raw.timestamp),
        "connector": letter.connector,
        "task": context.task,
        "stage": letter.stage,
        "class": context.class_name,
        "exception": context.exception,
        "message": context.message,
        "root_cause": context.root_cause,
        "trace": context.trace,
        "origin": {"topic": letter.original_topic, "partition": _partition(letter), "offset": context.offset},
        "replays": letter.replays,
        "replayed": None if mark is None else {"state": mark.state, "time": moment(mark.at_ms), "target": mark.target},
        "key": _plain(decoded.key),
        "value": _plain(decoded.value),
        "headers": [{"key": name, "value": _plain(item)} for name, item in decoded.headers],
        "decoded": {"key": decoded.key.how, "value": decoded.value.how},
    }
    if letter.source is not None:
        view["source"] = {
            "partition": letter.source.source_partition,
            "offset": letter.source.source_offset,
            "lossy": list(letter.source.lossy),
        }
    problems = [*letter.problems, *decoded.problems]
    return view | {"problems": problems} if problems else view


def prepared_view(prepared: Prepared, documents: Documents) -> dict[str, Any]:
    """What a dry run says of one dead letter: its outcome, and the record before and after; `after` None: not sent."""
    before = documents.document(prepared.letter.as_read()).body
    after, record, out = None, prepared.record, prepared.outgoing
    if record is not None and out is not None:
        partition = NO_PARTITION if out.partition is None else out.partition
        record = replace(record, topic=out.topic, partition=partition, headers=list(out.headers or ()))
    if record is not None and prepared.letter.source is None:
        after = dict(documents.document(record).body)
    elif record is not None:  # written by the source's own converters
        after = {
            "topic": record.topic,
            "partition": None if record.partition == NO_PARTITION else record.partition,
            "timestamp": record.timestamp,
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
            "headers": [{"key": name, "value": text_or_base64(value)} for name, value in record.headers],
        }
    view = {"letter": prepared.letter.place, "outcome": prepared.outcome.value, "before": dict(before), "after": after}
    return view | {"why": prepared.why} if prepared.why else view


def tally_view(found: Tally) -> dict[str, Any]:
    """How many dead letters came to what, and where they were sent."""
    return {
        "outcomes": {outcome.value: count for outcome, count in sorted(found.counts.items()) if count},
        "targets": dict(sorted(found.topics.items())),
        "why": {outcome.value: why for outcome, why in found.first.items()},
    }


def _plain(found: Decoded) -> Any:
    """Bytes that are text are text here also where the converter leaves them bytes."""
    return text_or_base64(found.value) if isinstance(found.value, bytes) else found.plain


def _partition(letter: DeadLetter) -> int | None:
    number = letter.as_read().partition
    return None if number == NO_PARTITION else number
