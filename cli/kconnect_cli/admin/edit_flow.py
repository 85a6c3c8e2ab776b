"""Plans of edits on the command line: shown, asked about, carried out, and where their records stand.

With --dry-run the plan is the data on stdout; else it is talk, and stdout has what was written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import NotFoundError
from kconnect_cli.screen.output import Column, Format, Row, is_coloured, painted, write_object, write_rows, write_text

if TYPE_CHECKING:
    from kconnect.direct.access import ClusterAccess
    from kconnect.direct.edit.apply import Applied
    from kconnect.direct.edit.plan import Edit, EditPlan, GroupEdit
    from kconnect.direct.read.reader import ClusterReader
    from kconnect.direct.read.secret_masks import Masks
    from kconnect_cli.session import CliSession

__all__ = ["DryRun", "Force", "carry_out", "plan_text", "plan_to_json"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, write nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Write although live workers own it, or it is malformed.")]

_COLUMNS = (
    Column("TOPIC", lambda row: row["topic"]),
    Column("PARTITION", lambda row: str(row["partition"])),
    Column("OFFSET", lambda row: str(row["offset"])),
    Column("KEY", lambda row: str(row["key"])),
)


def carry_out(
    session: CliSession,
    access: ClusterAccess,
    reader: ClusterReader,
    plan: EditPlan,
    *,
    dry_run: bool = False,
    yes: bool = False,
    force: bool = False,
    reveal: bool = False,
    as_settings: bool = False,
    prepare: Callable[[], None] | None = None,
) -> None:
    """Show, ask, write, tell. `as_settings` shows configs setting by setting, only those that differ.

    `prepare` is done once it is agreed to write.
    """
    from kconnect.direct.edit.apply import apply_plan, check_plan
    from kconnect_cli.admin.direct import tell_dry_run

    masks = _masks(access, reader, plan, reveal=reveal)
    for note in plan.notes:
        session.say(note)
    if plan.is_empty:
        session.say(f"{plan.title}: already up to date.")
        if dry_run or session.output in (Format.JSON, Format.YAML):
            _write_plan(session, plan, masks, as_settings=as_settings)
        return
    if dry_run:
        _write_plan(session, plan, masks, as_settings=as_settings)
        tell_dry_run(session, lambda: check_plan(access, reader, plan, force=force))
        return
    session.say(plan_text(plan, masks, as_settings=as_settings, colour=is_coloured(sys.stderr)).rstrip("\n"))
    checked = check_plan(access, reader, plan, force=force)
    for sentence in checked.overridden:
        session.say(f"Forced: {sentence}")
    for sentence in checked.warnings:
        session.say(f"Warning: {sentence}")
    session.confirm(f"{plan.title}?", yes=yes)
    if prepare is not None:
        prepare()
    _tell(session, plan, apply_plan(access, reader, plan, force=force), masks)


def _masks(access: ClusterAccess, reader: ClusterReader, plan: EditPlan, *, reveal: bool) -> Masks:
    """What of the plan may be shown. Classes of connectors stand in the plan or in the config topic."""
    from kconnect.direct.access import InternalTopic
    from kconnect.direct.read.installed_plugins import masks_of

    masks = masks_of(access, reveal=reveal)
    edits = [edit for edit in plan.edits if edit.which is InternalTopic.CONFIG]
    if reveal or not edits:
        return masks
    with suppress(NotFoundError):  # `import` may be about to create the topic
        masks.learn(reader.configs(any_kind=True).snapshot.configs)
    for edit in edits:
        for value in (edit.old.value if edit.old else None, edit.new):
            masks.value(edit.which, edit.key, value)
    return masks


def _write_plan(session: CliSession, plan: EditPlan, masks: Masks, *, as_settings: bool) -> None:
    if session.output in (Format.JSON, Format.YAML):
        write_object(plan_to_json(plan, masks), session.output)
    elif session.output is Format.NAME:
        write_text("".join(f"{edit.key_text}\n" for edit in plan.edits))
    else:
        write_text(plan_text(plan, masks, as_settings=as_settings, colour=is_coloured(sys.stdout)))


def _tell(session: CliSession, plan: EditPlan, applied: Applied, masks: Masks) -> None:
    from kconnect_cli.admin.direct import tell_meanwhile

    rows: list[Row] = [
        {
            "topic": found.position.topic,
            "partition": found.position.partition,
            "offset": found.position.offset,
            "key": _text(found.edit.key),
            "value": _shown(found.edit, found.edit.new, masks),
        }
        for found in applied.written
    ]
    for group in applied.groups:
        session.say(f"The offsets of consumer group {group} are set.")
    if rows or session.output in (Format.JSON, Format.YAML):
        write_rows(rows, _COLUMNS, session.output, name="key")
    tell_meanwhile(session, applied)
    session.say(f"{plan.title}: written and read back.")


def plan_text(plan: EditPlan, masks: Masks, *, as_settings: bool = False, colour: bool = False) -> str:
    """A plan for people: each key with its old and its new value."""
    lines: list[str] = []
    for group in plan.groups:
        lines += _group_lines(group, colour)
    for edit in plan.edits:
        lines.append(painted(_title(edit), "yellow", on=colour))
        settings = _settings_lines(edit, masks, colour) if as_settings else None
        lines += _value_lines(edit, masks, colour) if settings is None else settings
    return "".join(f"{line}\n" for line in lines)


def plan_to_json(plan: EditPlan, masks: Masks) -> list[dict[str, Any]]:
    """Shape: [{topic, key, old: {partition, offset, value} or null, new}], and {group, old, new} for groups."""
    groups = [
        {
            "group": group.group,
            "old": {str(at): offset for at, offset in group.old.items()},
            "new": {str(at): offset for at, offset in group.new.items()},
        }
        for group in plan.groups
    ]
    return [*groups, *(_edit_to_json(edit, masks) for edit in plan.edits)]


def _edit_to_json(edit: Edit, masks: Masks) -> dict[str, Any]:
    old = edit.old
    return {
        "topic": edit.topic or str(edit.which),
        "key": _text(edit.key),
        "old": None
        if old is None
        else {"partition": old.partition, "offset": old.offset, "value": _shown(edit, old.value, masks)},
        "new": _shown(edit, edit.new, masks),
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


def _value_lines(edit: Edit, masks: Masks, colour: bool) -> list[str]:
    if not edit.is_change:
        return []
    old = None if edit.old is None else _shown(edit, edit.old.value, masks)
    new = _shown(edit, edit.new, masks)
    lines = [] if old is None else [painted(f"  - {_line(old)}", "red", on=colour)]
    lines += [] if new is None else [painted(f"  + {_line(new)}", "green", on=colour)]
    if old is not None and old == new:
        lines.append("  (only secrets differ: --show-secrets shows them)")
    return lines


def _settings_lines(edit: Edit, masks: Masks, colour: bool) -> list[str] | None:
    """The settings that differ; None when it is no record with settings."""
    from kconnect.direct.read.record_json import connector_of

    before, after = _properties(edit.old.value if edit.old else None), _properties(edit.new)
    if before is None and after is None:
        return None
    old, new = before or {}, after or {}
    connector = connector_of(edit.which, edit.key) or ""
    shown_old, shown_new = masks.settings(connector, old), masks.settings(connector, new)
    lines = []
    for key in sorted(name for name in {*old, *new} if old.get(name) != new.get(name)):
        if key in old:
            lines.append(painted(f"  - {key} = {shown_old[key]}", "red", on=colour))
        if key in new:
            same = " (another secret: --show-secrets shows it)" if shown_old.get(key) == shown_new[key] else ""
            lines.append(painted(f"  + {key} = {shown_new[key]}{same}", "green", on=colour))
    return lines


def _properties(value: bytes | None) -> dict[str, str] | None:
    try:
        body = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return None
    found = body.get("properties") if isinstance(body, dict) else None
    return found if isinstance(found, dict) else None


def _group_lines(group: GroupEdit, colour: bool) -> list[str]:
    lines = [painted(f"consumer group {group.group}", "yellow", on=colour)]
    for at, offset in group.new.items():
        lines.append(f"  {at}: {_or_none(group.old, at)} -> {'none' if offset is None else offset}")
    return lines


def _or_none(offsets: Mapping[Any, int], at: object) -> str:
    return str(offsets[at]) if at in offsets else "none"


def _shown(edit: Edit, value: bytes | None, masks: Masks) -> Any:  # as raw.Shown
    from kconnect.direct.read.record_json import shown_bytes

    return shown_bytes(masks.value(edit.which, edit.key, value))


def _line(shown: object) -> str:
    return shown if isinstance(shown, str) else json.dumps(shown)


def _text(key: bytes) -> object:
    """A key as JSON has it, and as the commands take it."""
    from kconnect.direct.read.record_json import shown_bytes

    found = shown_bytes(key)
    return found if isinstance(found, str) or found is None else f"base64:{found['base64']}"
