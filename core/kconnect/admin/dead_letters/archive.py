"""Exported dead letters: a JSON object each, which people may edit and `connect dlq replay --file` takes back. Pure.

`record` is that of `document.py`; `letter` is the dead letter as it is in Kafka, so that a file
is complete without the topic, and an edit is known by what differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kconnect.admin.dead_letters.document import raw_bytes, text_or_base64
from kconnect.admin.dead_letters.letter import DeadLetter, dead_letter
from kconnect.api import ConsumerRecord, TimestampType
from kconnect.clock import moment
from kconnect.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class ArchivedLetter:
    """A line of a file: the dead letter, and its document as it stands there."""

    letter: DeadLetter
    body: Any


def archived(letter: DeadLetter, body: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a dead letter, whose document is `body`."""
    raw, context = letter.raw, letter.context
    return {
        "record": dict(body),
        "failure": {
            "connector": letter.connector,
            "stage": letter.stage,
            "exception": context.exception,
            "message": context.message,
            "root_cause": context.root_cause,
            "origin": context.place,
            "time": moment(raw.timestamp),
            "replays": letter.replays,
        },
        "letter": {
            "topic": raw.topic,
            "partition": raw.partition,
            "offset": raw.offset,
            "timestamp": raw.timestamp,
            "timestamp_type": raw.timestamp_type.value,
            "key": text_or_base64(raw.key),
            "value": text_or_base64(raw.value),
            "headers": [{"key": name, "value": text_or_base64(value)} for name, value in raw.headers],
        },
    }


def read_archive(lines: Iterable[str], where: str) -> Iterator[ArchivedLetter]:
    """The dead letters of a file, each once. Errors: ConfigError that names the line."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            given, body = found["letter"], found["record"]
            raw = ConsumerRecord(
                given["topic"],
                int(given["partition"]),
                int(given["offset"]),
                raw_bytes(given["key"], "key"),
                raw_bytes(given["value"], "value"),
                given["timestamp"],
                TimestampType(given["timestamp_type"]),
                [(each["key"], raw_bytes(each["value"], "header")) for each in given["headers"]],
            )
        except (ValueError, KeyError, TypeError, DataError, RecursionError) as error:
            raise ConfigError(
                f"Line {number} of {where} is not an exported dead letter: {type(error).__name__}: {error}",
                hint="connect dlq export CONNECTOR writes such files; edit only what is below record.",
            ) from error
        letter = dead_letter(raw)
        if letter.place in seen:  # it would be sent twice
            raise ConfigError(
                f"Line {number} of {where} is the dead letter {letter.place} again, as line {seen[letter.place]}",
                hint="Keep one of the two: a dead letter is replayed once.",
            )
        seen[letter.place] = number
        yield ArchivedLetter(letter, body)
