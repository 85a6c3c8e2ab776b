"""Plans of edits as people and programs see them: each key with its old and its new value, secrets masked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from kconnect.admin.direct.edit.apply import Applied
    from kconnect.admin.direct.edit.plan import Edit, EditPlan, GroupEdit
    from kconnect.admin.direct.read.secret_masks import SecretMasks

Paint: TypeAlias = Callable[[str, str], str]
"""A text in a colour: on a terminal."""


def _unpainted(text: str, _colour: str) -> str:
    return text


def plan_lines(plan: EditPlan, masks: SecretMasks | None = None) -> list[str]:
    """Key, old and new value of every record, old and new offset of every partition of a group."""
    from kconnect.admin.direct.read.secret_masks import SecretMasks

    return [f"{plan.title}\n{plan_text(plan, masks or SecretMasks())}".rstrip("\n"), *plan.notes]


def written_lines(applied: Applied) -> list[str]:
    """Where each record is, as read back, and what others wrote to the same keys."""
    places = [(written.position, written.edit.key_text) for written in applied.written]
    return [
        *(f"Forced: {why}." for why in applied.overridden),
        *(f"  {at.topic}-{at.partition}@{at.offset} {key}" for at, key in places),
        *(f"  consumer group {group}" for group in applied.groups),
        *(f"Warning: {sentence}." for sentence in applied.meanwhile),
    ]


def plan_text(plan: EditPlan, masks: SecretMasks, *, as_settings: bool = False, paint: Paint = _unpainted) -> str:
    """A plan for people: each key with its old and its new value."""
    lines: list[str] = []
    for group in plan.groups:
        lines += _group_lines(group, paint)
    for edit in plan.edits:
        lines.append(paint(_title(edit), "yellow"))
        settings = _settings_lines(edit, masks, paint) if as_settings else None
        lines += _value_lines(edit, masks, paint) if settings is None else settings
    return "".join(f"{line}\n" for line in lines)


def plan_to_json(plan: EditPlan, masks: SecretMasks) -> list[dict[str, Any]]:
    """Shape: [{topic, key, old: {partition, offset, value} or null, new}], and {group, old, new} for groups."""
    groups = [
        {
            "group": group.group,
            "old": {str(at): offset for at, offset in (group.old or {}).items()},
            "new": {str(at): offset for at, offset in group.new.items()},
        }
        for group in plan.groups
    ]
    return [*groups, *(_edit_to_json(edit, masks) for edit in plan.edits)]


def _edit_to_json(edit: Edit, masks: SecretMasks) -> dict[str, Any]:
    old = edit.old
    return {
        "topic": edit.topic or str(edit.which),
        "key": shown_key(edit.key),
        "old": None
        if old is None
        else {"partition": old.partition, "offset": old.offset, "value": shown_value(edit, old.value, masks)},
        "new": shown_value(edit, edit.new, masks),
    }


def _title(edit: Edit) -> str:
    if edit.old is not None and not edit.is_change:
        return (
            f"write {edit.key_text} again{f' in {edit.topic}' if edit.topic else ''} (as at offset {edit.old.offset})"
        )
    verb = "delete" if edit.new is None else "create" if edit.old is None else "update"
    place = "" if edit.old is None else f" (at offset {edit.old.offset})"
    topic = f" in {edit.topic}" if edit.topic else ""
    return f"{verb} {edit.key_text}{topic}{place}"


def _value_lines(edit: Edit, masks: SecretMasks, paint: Paint) -> list[str]:
    if not edit.is_change:
        return []
    old = None if edit.old is None else shown_value(edit, edit.old.value, masks)
    new = shown_value(edit, edit.new, masks)
    lines = [] if old is None else [paint(f"  - {_line(old)}", "red")]
    lines += [] if new is None else [paint(f"  + {_line(new)}", "green")]
    if old is not None and old == new:
        lines.append("  (only secrets differ: --show-secrets shows them)")
    return lines


def _settings_lines(edit: Edit, masks: SecretMasks, paint: Paint) -> list[str] | None:
    """The settings that differ; None when it is no record with settings."""
    from kconnect.admin.direct.read.record_json import connector_of

    before, after = _properties(edit.old.value if edit.old else None), _properties(edit.new)
    if before is None and after is None:
        return None
    old, new = before or {}, after or {}
    connector = connector_of(edit.which, edit.key) or ""
    shown_old, shown_new = masks.settings(connector, old), masks.settings(connector, new)
    lines = []
    for key in sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
        if key in old:
            lines.append(paint(f"  - {key} = {shown_old[key]}", "red"))
        if key in new:
            same = " (another secret: --show-secrets shows it)" if shown_old.get(key) == shown_new[key] else ""
            lines.append(paint(f"  + {key} = {shown_new[key]}{same}", "green"))
    return lines


def _properties(value: bytes | None) -> dict[str, str] | None:
    try:
        body = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None
    found = body.get("properties") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else None


def _group_lines(group: GroupEdit, paint: Paint) -> list[str]:
    lines = [paint(f"consumer group {group.group}", "yellow")]
    for at, offset in group.new.items():
        lines.append(f"  {at}: {_or_none(group.old or {}, at)} -> {'none' if offset is None else offset}")
    return lines


def _or_none(offsets: Mapping[Any, int], at: object) -> str:
    return str(offsets[at]) if at in offsets else "none"


def shown_value(edit: Edit, value: bytes | None, masks: SecretMasks) -> Any:  # as `shown_bytes`
    from kconnect.admin.direct.read.record_json import shown_bytes

    return shown_bytes(masks.value(edit.which, edit.key, value))


def _line(shown: object) -> str:
    return shown if isinstance(shown, str) else json.dumps(shown)


def shown_key(key: bytes) -> object:
    """A key as JSON has it, and as the commands take it."""
    from kconnect.admin.direct.read.record_json import shown_bytes

    found = shown_bytes(key)
    return found if isinstance(found, str) or found is None else f"base64:{found['base64']}"
