"""Kafka's headers of some records in the head of a block: [row, key, bytes, key, bytes ..] (Java: RowHeaders)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

KafkaHeaders = list[tuple[str, bytes | None]]


def written_headers(rows: Iterable[Sequence[tuple[str, bytes | None]] | None]) -> list[list[Any]]:
    """The form of the rows that have headers."""
    return [
        [row, *(part for key, value in given for part in (key, text_of_bytes(value)))]
        for row, given in enumerate(rows)
        if given
    ]


def read_headers(reported: Iterable[Sequence[Any]]) -> dict[int, KafkaHeaders]:
    """The headers of each row that is reported."""
    return {
        row: [(pairs[at], bytes_of_text(pairs[at + 1])) for at in range(0, len(pairs), 2)] for row, *pairs in reported
    }


def text_of_bytes(value: bytes | None) -> str | None:
    """Bytes in JSON."""
    return None if value is None else base64.b64encode(value).decode()


def bytes_of_text(text: str | None) -> bytes | None:
    """The bytes of such a text."""
    return None if text is None else base64.b64decode(text)
