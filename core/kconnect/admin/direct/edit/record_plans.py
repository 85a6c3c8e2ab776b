"""Single records as a user writes them: the key as in the topic, the value checked for its kind. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.edit.plan import Edit, EditPlan, requirements_for_keys
from kconnect.admin.direct.read.reader import Latest
from kconnect.admin.direct.read.record_json import bytes_of
from kconnect.client.masks import unmasked
from kconnect.errors import BadRequestError, DataError, NotFoundError, did_you_mean
from kconnect.java.compat.jackson import jackson_text
from kconnect.model import LogRecord
from kconnect.runtime.storage.config_topic import CONNECTOR, TASK, Malformed, Unknown, decode, read_key
from kconnect.runtime.storage.offset_topic import canonical_key, check_format, decode_key
from kconnect.runtime.storage.status_topic import Ignored, decode_record

_FORCE_HINT = "--force writes it as it is."


def put_plan(which: InternalTopic, latest: Latest, key: str, value: bytes, *, is_forced: bool = False) -> EditPlan:
    """Write one record. JSON becomes compact, as Java spells it; a mask in settings stands for the value in force.

    Errors: BadRequestError when the value is not what its kind of record holds, unless `is_forced`: what is no JSON is
    then written byte for byte.
    """
    key_ = key_bytes(which, latest, key)
    old = latest.get(key_)
    new = _value(which, key_, value, old, is_forced=is_forced)
    edit = Edit(which, key_, new, old)
    return EditPlan(f"Put {edit.key_text}", ((edit,),), requirements_for_keys([(which, key_)]))


def delete_plan(which: InternalTopic, latest: Latest, keys: Sequence[str], *, is_forced: bool = False) -> EditPlan:
    """Tombstones, in the order of the keys, each a step of its own.

    Errors: NotFoundError for a key without a value, unless `is_forced`.
    """
    edits: dict[bytes, Edit] = {}
    for text in keys:
        key = key_bytes(which, latest, text)
        old = latest.get(key)
        if old is None and not is_forced:
            raise NotFoundError(f"No record has the key {text}", hint=_near_hint(latest, text))
        edits[key] = Edit(which, key, None, old)
    title = f"Delete {next(iter(edits.values())).key_text}" if len(edits) == 1 else f"Delete {len(edits)} keys"
    needs = requirements_for_keys((which, key) for key in edits)
    return EditPlan(title, tuple((edit,) for edit in edits.values()), needs)


def key_bytes(which: InternalTopic, latest: Latest, text: str) -> bytes:
    """The key that is meant: as it is in the topic, also where a source partition is spelled in another way there.

    A new one is spelled as Java does. Errors: BadRequestError when it is not Base64 after `base64:`.
    """
    try:
        key = bytes_of(text)
    except ValueError as error:
        raise BadRequestError(f"{text} is not Base64: {error}") from error
    decoded = decode_key(key) if which is InternalTopic.OFFSET else None
    if decoded is None or latest.get(key) is not None:
        return key
    form = canonical_key(key)
    for record in latest.all():
        if record.key is not None and canonical_key(record.key) == form:
            return record.key
    return jackson_text(list(decoded)).encode()


def _value(which: InternalTopic, key: bytes, value: bytes, old: LogRecord | None, *, is_forced: bool) -> bytes:
    try:
        parsed: Any = json.loads(value, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if is_forced:
            return value
        raise BadRequestError(f"The value is not JSON: {error}", hint=_FORCE_HINT) from error
    if parsed is None and not is_forced:
        raise BadRequestError("A null value deletes the record", hint="`delete` does that.")
    parsed = _unmasked(which, key, parsed, old)
    spelled = jackson_text(parsed).encode()
    problem = None if is_forced else _problem(which, key, spelled, parsed)
    if problem is not None:
        shown = key.decode(errors="backslashreplace")
        raise BadRequestError(f"This is not a record that Connect understands, {shown}: {problem}", hint=_FORCE_HINT)
    return spelled


def _problem(which: InternalTopic, key: bytes, value: bytes, parsed: object) -> str | None:
    """Why Connect would skip the record; None when it reads it."""
    if which is InternalTopic.CONFIG:
        match decode(LogRecord("", 0, 0, key, value)):
            case Malformed() as found:
                return found.why
            case Unknown():
                return "its key does not belong in a config topic"
    elif which is InternalTopic.STATUS:
        found_ = decode_record(key, value)
        if isinstance(found_, Ignored):
            return found_.reason
    else:
        if decode_key(key) is None:
            return 'its key is not ["connector",{partition}]'
        if not isinstance(parsed, dict):
            return "its value is not a JSON object"
        try:
            check_format(parsed)
        except DataError as error:
            return str(error)
    return None


def _unmasked(which: InternalTopic, key: bytes, parsed: Any, old: LogRecord | None) -> Any:  # JSON
    """Settings in which every mask stands for the value in force. Errors: BadRequestError where there is none."""
    kind = read_key(key.decode(errors="replace")) if which is InternalTopic.CONFIG else None
    settings = parsed.get("properties") if isinstance(parsed, dict) else None
    if kind is None or kind[0] not in (CONNECTOR, TASK) or not isinstance(settings, dict):
        return parsed
    return {**parsed, "properties": unmasked(settings, _settings(old), key.decode(errors="replace"))}


def _settings(record: LogRecord | None) -> Mapping[str, Any]:
    try:
        body = json.loads(record.value or b"null") if record is not None else None
    except (ValueError, RecursionError):
        return {}
    settings = body.get("properties") if isinstance(body, dict) else None
    return settings if isinstance(settings, dict) else {}


def _near_hint(latest: Latest, text: str) -> str | None:
    keys = [record.key.decode(errors="backslashreplace") for record in latest.all() if record.key is not None]
    return did_you_mean(text, keys)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
