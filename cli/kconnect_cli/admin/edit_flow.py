"""Plans of edits on the command line: shown, confirmed, carried out; then where their records are.

With --dry-run the plan is the data on stdout; else it is talk, and stdout has what was written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.admin.cluster.plan_text import plan_text, plan_to_json, shown_key, shown_value
from kconnect.errors import NotFoundError
from kconnect_cli.admin.reports import say_dry_run
from kconnect_cli.screen.output import Column, Format, Row, painter, write_object, write_rows, write_text

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.edit.apply import Applied
    from kconnect.admin.direct.edit.plan import EditPlan
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.admin.direct.read.secret_masks import SecretMasks
    from kconnect_cli.session import CliSession

Force = Annotated[bool, typer.Option("--force", help="Write even if live workers own it, or it is malformed.")]

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
    """Show, ask, write, report. `as_settings` shows configs setting by setting, only those that differ.

    `prepare` is done once it is agreed to write.
    """
    from kconnect.admin.direct.edit.apply import apply_plan, check_plan

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
        say_dry_run(session, lambda: check_plan(access, reader, plan, force=force).warnings)
        return
    session.say(plan_text(plan, masks, as_settings=as_settings, paint=painter(sys.stderr)).rstrip("\n"))
    checked = check_plan(access, reader, plan, force=force)
    for sentence in checked.overridden:
        session.say(f"Forced: {sentence}")
    for sentence in checked.warnings:
        session.say(f"Warning: {sentence}")
    session.confirm(f"{plan.title}?", yes=yes)
    if prepare is not None:
        prepare()
    _tell(session, plan, apply_plan(access, reader, plan, force=force), masks)


def _masks(access: ClusterAccess, reader: ClusterReader, plan: EditPlan, *, reveal: bool) -> SecretMasks:
    """What of the plan may be shown. Connector classes are in the plan or in the config topic."""
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.read.installed_plugins import secret_masks

    masks = secret_masks(access, reveal=reveal)
    edits = [edit for edit in plan.edits if edit.which is InternalTopic.CONFIG]
    if reveal or not edits:
        return masks
    with suppress(NotFoundError):  # `import` may be about to create the topic
        masks.learn(reader.configs(any_kind=True).snapshot.configs)
    for edit in edits:
        for value in (edit.old.value if edit.old else None, edit.new):
            masks.value(edit.which, edit.key, value)
    return masks


def _write_plan(session: CliSession, plan: EditPlan, masks: SecretMasks, *, as_settings: bool) -> None:
    if session.output in (Format.JSON, Format.YAML):
        write_object(plan_to_json(plan, masks), session.output)
    elif session.output is Format.NAME:
        write_text("".join(f"{edit.key_text}\n" for edit in plan.edits))
    else:
        write_text(plan_text(plan, masks, as_settings=as_settings, paint=painter(sys.stdout)))


def _tell(session: CliSession, plan: EditPlan, applied: Applied, masks: SecretMasks) -> None:
    rows: list[Row] = [
        {
            "topic": found.position.topic,
            "partition": found.position.partition,
            "offset": found.position.offset,
            "key": shown_key(found.edit.key),
            "value": shown_value(found.edit, found.edit.new, masks),
        }
        for found in applied.written
    ]
    for group in applied.groups:
        session.say(f"The offsets of consumer group {group} are set.")
    if rows or session.output in (Format.JSON, Format.YAML):
        write_rows(rows, _COLUMNS, session.output, name="key")
    for sentence in applied.meanwhile:
        session.say(f"Warning: {sentence}.")
    session.say(f"{plan.title}: written and read back.")
