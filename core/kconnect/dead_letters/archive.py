"""Exported dead letters: a JSON object each, which people may edit and `connect dlq replay --file` takes back. Pure.

`record` is the document of kconnect.dead_letters.document; `letter` is the letter as it is in Kafka, so that a file
is complete without the topic, and an edit is known by what differs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kconnect.api import ConsumerRecord, TimestampType
from kconnect.dead_letters.letter import DeadLetter, dead_letter
from kconnect.errors import ConfigError
from kconnect.records.decoding import moment


@dataclass(frozen=True, slots=True)
class ArchivedLetter:
    """A line of a file: the letter, and its document as it stands there."""

    letter: DeadLetter
    body: Any


def archived(letter: DeadLetter, body: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a letter, whose document is `body`."""
    raw, context = letter.raw, letter.context
    return {
        "letter": {
            "topic": raw.topic,
            "partition": raw.partition,
            "offset": raw.offset,
            "timestamp": raw.timestamp,
            "timestamp_type": raw.timestamp_type.value,
            "key": _base64(raw.key),
            "value": _base64(raw.value),
            "headers": [[name, _base64(value)] for name, value in raw.headers],
        },
        "failure": {
            "connector": letter.connector,
            "stage": letter.stage,
            "exception": context.exception,
            "message": context.message,
            "origin": context.place,
            "time": moment(raw.timestamp),
            "replays": letter.replays,
        },
        "record": dict(body),
    }


def read_archive(lines: Iterable[str], where: str) -> Iterator[ArchivedLetter]:
    """The letters of a file. Errors: ConfigError that names the line."""
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
                _bytes(given["key"]),
                _bytes(given["value"]),
                given["timestamp"],
                TimestampType(given["timestamp_type"]),
                [(name, _bytes(value)) for name, value in given["headers"]],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"Line {number} of {where} is not an exported dead letter: {type(error).__name__}: {error}",
                hint="connect dlq export CONNECTOR writes such files; edit only what is below record.",
            ) from error
        yield ArchivedLetter(dead_letter(raw), body)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
