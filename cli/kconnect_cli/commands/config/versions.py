"""`connect config history|diff|rollback`: earlier configs of a connector, from the config topic; rollback over REST."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import BadRequestError, ConflictError, NotFoundError, did_you_mean
from kconnect_cli.commands.config.settings import replace_config
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

    Read from the config topic, which --worker or --bootstrap-servers and --config-topic name; a worker need not run.
    What compaction has removed is not listed. `connect topics config history` has states and tasks, too.
    """
    session = session_of(ctx)
    access = cluster_of(session).access()
    versions = _versions(access, name)
    masks = _masks(access, name, versions, reveal=show_secrets)
    rows = [_row(name, version, masks) for version in reversed(versions)]
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

    access = cluster_of(session).access()
    versions = _versions(access, name)
    old = the_previous(name, versions) if version is None else the_version(name, versions, version)
    new = versions[-1] if other is None else the_version(name, versions, other)
    change = Change(name, old.config, new.config)
    _write_change(session, change, old, new, _masks(access, name, versions, reveal=show_secrets))


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

    access = cluster_of(session).access()
    versions = _versions(access, name)
    target = the_previous(name, versions) if version is None else the_version(name, versions, version)
    wanted = dict(restorable(name, target))
    if session.direct is not None:
        _direct(session, access, name, wanted, dry_run=dry_run, yes=yes, force=force)
        return
    config, etag = session.on_connector(name, session.client.tagged_config)
    _check_same_cluster(session, name, config, versions[-1])
    change = Change(name, config, wanted)
    masks = _masks(access, name, versions, reveal=False)
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


def _versions(access: ClusterAccess, name: str) -> list[ConfigVersion]:
    """Errors: NotFoundError for a connector without any."""
    from kconnect.admin.direct.access import InternalTopic
    from kconnect.admin.direct.history.config_history import config_history, config_versions
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.admin.direct.read.record_json import connector_of

    with ClusterReader(access) as reader:
        records = list(reader.records(InternalTopic.CONFIG))
    found = config_versions(config_history(records, name))
    if not found:
        seen = {one for record in records if (one := connector_of(InternalTopic.CONFIG, record.key))}
        hint = did_you_mean(name, seen) or f"It has records of: {', '.join(sorted(seen)[:10]) or 'none'}"
        raise NotFoundError(f"The config topic has no config of a connector {name}", hint=hint)
    return found


def _masks(access: ClusterAccess, name: str, versions: Sequence[ConfigVersion], *, reveal: bool) -> SecretMasks:
    """What of the versions may be shown: a secret of one class may outlast the change to another."""
    from kconnect.admin.direct.read.installed_plugins import secret_masks

    masks = secret_masks(access, reveal=reveal)
    for version in versions:
        masks.learn({name: version.config or {}})
    return masks


def _row(name: str, version: ConfigVersion, masks: SecretMasks) -> Row:
    from kconnect.admin.direct.history.config_history import setting_changes
    from kconnect.clock import moment

    return {
        "version": version.version,
        "timestamp": moment(version.timestamp_ms),
        "kind": version.kind,
        "is_current": version.is_current,
        "changed": [key for key, _, _ in setting_changes(version.before, version.config)],
        "config": None if version.config is None else masks.settings(name, version.config),
    }


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
    answer = session.client.validate(wanted.get("connector.class", ""), wanted)
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
    Column("VERSION", lambda row: f"{row['version']}{' (current)' if row['is_current'] else ''}"),
    Column("TIME", lambda row: row["timestamp"] or "-"),
    Column("CHANGED", _changed),
)
