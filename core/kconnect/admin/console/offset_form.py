"""Offsets in a form: a field for each partition, and where a person wants them moved to. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kconnect.admin.direct.offsets.sink_targets import ShiftBy, SinkTarget
from kconnect.client.offset_history import offset_text
from kconnect.errors import BadRequestError
from kconnect.model import AtTime, ConnectorOffset, Edge

PREFIX: Final = "o:"
"""Before the partition in a field's name."""
_MOST_SHIFTED: Final = 10**15
# As many digits as an offset of Kafka can have
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Row:
    """One partition in the form: `value` is the offset as it is written there."""

    partition: str
    shown: str
    value: str


def row_of(item: ConnectorOffset) -> Row:
    value, at = "" if item.offset is None else offset_text(item.offset), item.partition
    if _is_number(item):
        value = str(item.offset["kafka_offset"]) if item.offset is not None else ""
    is_topics = at.keys() == {"kafka_topic", "kafka_partition"}
    shown = f"{at['kafka_topic']}-{at['kafka_partition']}" if is_topics else offset_text(at)
    return Row(offset_text(at), shown, value)


def typed_offsets(form: Sequence[tuple[str, str]], base: Sequence[ConnectorOffset]) -> list[ConnectorOffset]:
    """What the form changes of `base`, from which it was made; an empty field resets its partition.

    Errors: BadRequestError for what is no offset.
    """
    known = {offset_text(item.partition): item for item in base}
    found = []
    for name, text in form:
        key = name.removeprefix(PREFIX)
        if key == name or key not in known or (text := text.strip()) == row_of(known[key]).value:
            continue
        found.append(ConnectorOffset(known[key].partition, _offset(key, text, known[key])))
    return found


def target_of(to: str, text: str) -> SinkTarget:
    """Errors: BadRequestError."""
    text = text.strip()
    if to in ("earliest", "latest"):
        return Edge(to)
    if to == "time":
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise BadRequestError(f"{text or 'Nothing'} is not a time; write it as 2026-11-22T03:00, in UTC") from None
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return AtTime(round(at.timestamp() * 1000))
    if to == "shift" and _NUMBER.fullmatch(text) and abs(int(text)) < _MOST_SHIFTED:
        return ShiftBy(int(text))
    raise BadRequestError("Say how many records on, or back with a minus: -1000")


def _offset(key: str, text: str, old: ConnectorOffset) -> Any:  # data of JSON
    if not text:
        return None
    if _NUMBER.fullmatch(text) and _is_number(old):
        return {"kafka_offset": int(text)}
    try:
        offset = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise BadRequestError(f"{key}: {text} is not JSON: {err}") from None
    if not isinstance(offset, dict):
        raise BadRequestError(f"The offset of {key} must be a JSON object, such as {offset_text(old.offset)}")
    return offset


def _is_number(item: ConnectorOffset) -> bool:
    """A sink's: the number alone is enough."""
    return item.offset is not None and item.offset.keys() == {"kafka_offset"}
