"""`connect config history|diff|rollback`: earlier configs of a connector, and who made them; rollback over REST."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import BadRequestError, ConflictError
from kconnect_cli.commands.config.settings import replace_config
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ClusterArguments, cluster_of
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, Row, is_coloured, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, Name, ShowSecrets, Yes, session_of
from kconnect_cli.settings.change_display import change_text, change_to_json
from kconnect_cli.settings.changes import Change
from kconnect_cli.settings.spelling import check_settings

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.history.config_history import ConfigVersion
    from kconnect.admin.direct.read.secret_masks import SecretMasks

_VERSION_HELP = "A version of connect config history: its offset in the config topic."
_Version = Annotated[int | None, typer.Argument(metavar="[VERSION]", help=_VERSION_HELP, show_default=False)]
_Force = Annotated[bool, typer.Option("--force", help="With --direct: write even if live workers have it.")]


def mount(app: typer.Typer) -> None:
    """Add the commands to their group."""
    for command in (history, diff, rollback):
        app.command(cls=takes(DirectOrChecked, ClusterArguments))(command)


def history(ctx: typer.Context, name: Name, show_secrets: ShowSecrets = False) -> None:
    """List the configs that a connector has had: version, time, and the settings that changed.

    The worker reads them, and who made the changes over REST or with --direct, as far as that is known. --worker, or
    --bootstrap-servers and --config-topic, reads them here; a worker need not run. A version that compaction has
    removed has no number. `connect topics config history` has states and tasks, too.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        if show_secrets:
            raise UsageProblem("--show-secrets needs the brokers", hint="A worker shows none: give --worker FILE.")
        with AskedWorker(session) as worker:
            rows = worker.config_versions(name)
    else:
        from kconnect.admin.direct.history.config_rows import config_rows

        rows = config_rows(cluster_of(session).access(), name, reveal=show_secrets)
    if session.output in (Format.JSON, Format.YAML):
        write_object(rows, session.output)
    else:
        write_rows(rows, _COLUMNS, session.output, "version")


def diff(
    ctx: typer.Context,
    name: Name,
    version: _Version = None,
    other: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="Compare with this one, not with the current.")
    ] = None,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show what changed from one version to another, or to the current one; by default since the previous."""
    session = session_of(ctx)
    from kconnect.admin.direct.history.config_history import the_previous, the_version
    from kconnect.admin.direct.history.config_rows import masks_of, versions_of

    access = cluster_of(session).access()
    versions = versions_of(access, name)
    old = the_previous(name, versions) if version is None else the_version(name, versions, version)
    new = versions[-1] if other is None else the_version(name, versions, other)
    change = Change(name, old.config, new.config)
    _write_change(session, change, old, new, masks_of(access, name, versions, reveal=show_secrets))


def rollback(
    ctx: typer.Context,
    name: Name,
    version: _Version = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: _Force = False,
) -> None:
    """Give a connector an earlier config again: that of a version, by default the previous one.

    The worker checks it first; the difference is shown, and you are asked. Target state and offsets stay as they are.
    Refused if somebody changed the connector meanwhile. With --direct it is written to the config topic.
    """
    session = session_of(ctx)
    from kconnect.admin.direct.history.config_history import restorable, the_previous, the_version
    from kconnect.admin.direct.history.config_rows import masks_of, versions_of

    access = cluster_of(session).access()
    versions = versions_of(access, name)
    target = the_previous(name, versions) if version is None else the_version(name, versions, version)
    wanted = dict(restorable(name, target))
    if session.direct is not None:
        _direct(session, access, name, wanted, dry_run=dry_run, yes=yes, force=force)
        return
    config, etag = session.on_connector(name, session.client.tagged_config)
    _check_same_cluster(session, name, config, versions[-1])
    change = Change(name, config, wanted)
    masks = masks_of(access, name, versions, reveal=False)
    if change.action == "unchanged":
        session.say(f"unchanged {name}: version {target.version} has the settings that it has now")
        return
    _refuse_invalid(session, name, wanted)
    check_settings(session, {name: wanted}, strict=False, only=change.keys)
    if dry_run:
        _write_change(session, change, versions[-1], target, masks)
        return
    session.say(change_text(change, lambda one: masks.settings(name, one), colour=is_coloured(sys.stderr)).rstrip())
    session.confirm(f"Roll back {name} to version {target.version} {session.place}?", yes=yes)
    replace_config(session, change, etag)


def _write_change(
    session: CliSession, change: Change, old: ConfigVersion, new: ConfigVersion, masks: SecretMasks
) -> None:
    def mask(config: Any) -> dict[str, str]:  # a mapping of settings, or an empty one
        return masks.settings(change.name, config)

    if session.output in (Format.JSON, Format.YAML):
        write_object({**change_to_json(change, mask), "from": old.version, "to": new.version}, session.output)
    elif change.action == "unchanged":
        session.say(f"Versions {old.version} and {new.version} of {change.name} have the same settings.")
    elif session.output is Format.NAME:
        write_text("".join(f"{key}\n" for key in change.keys))
    else:
        write_text(change_text(change, mask, colour=is_coloured(sys.stdout)))


def _check_same_cluster(session: CliSession, name: str, config: Any, newest: ConfigVersion) -> None:
    """Errors: ConflictError when the worker does not have what the topic ends with."""
    if newest.config is not None and dict(config) == dict(newest.config):
        return
    raise ConflictError(
        f"The worker at {session.url} has another config of {name} than the config topic ends with",
        hint="Does --worker name the cluster of that worker? If it was changed just now, try again.",
    )


def _refuse_invalid(session: CliSession, name: str, wanted: dict[str, str]) -> None:
    """Errors: BadRequestError with what the worker finds wrong in it today: a plugin may have changed since."""
    answer = session.reader.validate(wanted.get("connector.class", ""), wanted)
    errors = [
        f"{item['value']['name']}: {message}"
        for item in answer.get("configs", ())
        for message in item["value"]["errors"]
    ]
    if errors:
        raise BadRequestError(
            f"The worker does not accept that config of {name} any more: {'; '.join(errors)}",
            hint=f"Correct it by hand: connect config edit {name}",
        )


def _direct(
    session: CliSession,
    access: ClusterAccess,
    name: str,
    wanted: dict[str, str],
    *,
    dry_run: bool,
    yes: bool,
    force: bool,
) -> None:
    from kconnect.admin.direct.edit.connector_plans import config_plan
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect_cli.admin.edit_flow import carry_out

    with ClusterReader(access) as reader:
        plan = config_plan(reader.configs(), name, wanted)
        carry_out(session, access, reader, plan, dry_run=dry_run, yes=yes, force=force, as_settings=True)


def _changed(row: Row) -> str:
    if row["kind"] != "reconfigured":
        return str(row["kind"])
    keys: Sequence[str] = row["changed"]
    return ", ".join(keys)


_COLUMNS = (
    Column("VERSION", lambda row: f"{row['version'] or '-'}{' (current)' if row['is_current'] else ''}"),
    Column("TIME", lambda row: row["timestamp"] or "-"),
    Column("WHO", lambda row: row["user"] or "-"),
    Column("FROM", lambda row: row["from"] or "-"),
    Column("CHANGED", _changed),
)
