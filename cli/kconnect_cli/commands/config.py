"""`connect config`: get, set, unset, edit settings of a connector; history, diff, rollback of earlier configs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.admin.cluster.rest_changes import cause_of_failed_start
from kconnect.client.masks import Masks, unmasked
from kconnect.errors import (
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    NotFoundError,
    PreconditionFailedError,
    did_you_mean,
)
from kconnect_cli.exits import FOUND, UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ClusterArguments, cluster_of
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Column, Format, Row, is_coloured, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, Name, ShowSecrets, Yes, session_of
from kconnect_cli.settings.change_display import change_text, say_changes, shown_change_text
from kconnect_cli.settings.changes import Change, config_change
from kconnect_cli.settings.spelling import Strict, check_settings

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.history.connector_history import ConfigVersion
    from kconnect_cli.admin.asked_worker import AskedWorker


app = command_group("Get, set, unset, edit settings of connectors.")

_Keys = Annotated[list[str], typer.Argument(metavar="KEY", help="Settings.", show_default=False)]
_Pairs = Annotated[list[str], typer.Argument(metavar="KEY=VALUE", help="Settings and values.", show_default=False)]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change; exit code 7 if anything would.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Taken as elsewhere; nothing is asked.")]
_EDITORS = ("VISUAL", "EDITOR")


@app.command(cls=takes())
def get(
    ctx: typer.Context,
    name: Name,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Only these settings.", show_default=False)
    ] = None,
    show_secrets: ShowSecrets = False,
) -> None:
    """Print settings of a connector; one KEY prints only its value. `connectors apply` accepts `-o json`."""
    session = session_of(ctx)
    config = session.on_connector(name, session.client.connector_config)
    shown = Masks(session.reader, reveal=show_secrets).masked(config)
    for key in keys or ():
        _must_be_there(name, key, config)
    chosen = {key: shown[key] for key in keys or sorted(shown)}
    if session.output in (Format.JSON, Format.YAML):
        write_object(chosen, session.output)
    elif keys and len(keys) == 1 and session.output is Format.TABLE:
        write_text(chosen[keys[0]] + "\n")
    else:
        columns = (Column("KEY", lambda row: row["key"]), Column("VALUE", lambda row: row["value"]))
        rows = [{"key": key, "value": value} for key, value in chosen.items()]
        write_rows(rows, columns, session.output, name="key")


@app.command("set", cls=takes())
def set_(
    ctx: typer.Context,
    name: Name,
    pairs: _Pairs,
    dry_run: _DryRun = False,
    strict: Strict = False,
    yes: _Yes = False,
) -> None:
    """Set settings of a connector and keep the others: connect config set NAME topic=lines tasks.max=2."""
    session = session_of(ctx)
    _patch(session, name, dict(_pair(pair) for pair in pairs), dry_run, strict)


@app.command(cls=takes())
def unset(ctx: typer.Context, name: Name, keys: _Keys, dry_run: _DryRun = False, yes: _Yes = False) -> None:
    """Remove settings of a connector, so that their defaults apply."""
    session = session_of(ctx)
    config = session.on_connector(name, session.client.connector_config)
    for key in keys:
        _must_be_there(name, key, config)
    _patch(session, name, dict.fromkeys(keys), dry_run)


@app.command(cls=takes())
def edit(ctx: typer.Context, name: Name, strict: Strict = False, yes: _Yes = False) -> None:
    """Edit the settings of a connector in $VISUAL or $EDITOR, as a properties file.

    Secrets show as [hidden] and keep their values. If the worker refuses the new settings, your text is kept.
    """
    session = session_of(ctx)
    from kconnect.java.compat.properties import dump_properties, strict_properties

    editor = _editor()
    config, etag = session.on_connector(name, session.client.tagged_config)
    head = f"Settings of {name} at {session.url}. Save and exit to apply; exit without changes to keep them."
    before = dump_properties(dict(sorted(Masks(session.reader).masked(config).items())), head)
    path = _scratch(name, before)
    text = _edited(editor, path)
    if text == before:
        path.unlink()
        session.say("Nothing was changed.")
        return
    try:
        wished = unmasked(strict_properties(text, str(path)), config, name, str(path))
        change = Change(name, config, wished)
        check_settings(session, {name: wished}, strict=strict, only=change.keys)
        replace_config(session, change, etag)
    except ConnectError as err:
        err.hint = f"{err.hint or ''} Your text is kept in {path}.".strip()
        raise
    path.unlink()


def _patch(
    session: CliSession, name: str, patch: Mapping[str, str | None], dry_run: bool, strict: bool = False
) -> None:
    config, etag = session.on_connector(name, session.client.tagged_config)
    change = config_change(name, config, patch)
    if change.action == "unchanged":
        session.say(f"unchanged {name}")
        return
    if added := [key for key in change.keys if key in (change.new or {})]:
        check_settings(session, {name: change.new or {}}, strict=strict, only=added)
    if dry_run:
        say_changes(session, [change])
        raise typer.Exit(FOUND)
    with cause_of_failed_start(session.client, name), _lost_update(session, change):
        session.on_connector(name, lambda name: session.client.patch_config(name, patch, if_match=etag))
    session.say(f"updated {name}: {', '.join(change.keys)}")


def replace_config(session: CliSession, change: Change, etag: str | None) -> None:
    """Put a whole config. Errors: ConflictError when somebody else changed the connector meanwhile."""
    if change.action == "unchanged":
        session.say("Nothing was changed.")
        return
    if etag is None and session.client.connector_config(change.name) != dict(change.old or {}):
        raise _changed_meanwhile(session, change)  # a worker of Java's, which does not compare
    with _lost_update(session, change):
        session.reader.changes.put_config(change.name, change.new or {}, etag).make()
    session.say(f"updated {change.name}: {', '.join(change.keys)}")


@contextmanager
def _lost_update(session: CliSession, change: Change) -> Iterator[None]:
    """Inside, a change that would undo somebody else's is refused and reported. Errors: ConflictError."""
    try:
        yield
    except PreconditionFailedError as err:
        raise _changed_meanwhile(session, change) from err


def _changed_meanwhile(session: CliSession, change: Change) -> ConflictError:
    """What somebody else did is shown as a diff; nothing of ours was done."""
    now = Change(change.name, change.old, session.client.connector_config(change.name))
    session.say(f"What someone else changed in {change.name} meanwhile:")
    session.say(change_text(now, Masks(session.reader).masked, colour=False).rstrip())
    return ConflictError(
        f"{change.name} was changed by someone else in the meantime; nothing was changed now",
        hint="Look at their change above, and repeat yours if it still makes sense.",
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageProblem(f"{text} is not KEY=VALUE", hint="To remove a setting: connect config unset NAME KEY")
    return key.strip(), value


def _must_be_there(name: str, key: str, config: Mapping[str, str]) -> None:
    if key not in config:
        raise NotFoundError(f"{name} has no setting {key}", hint=did_you_mean(key, config))


def _editor() -> list[str]:
    """The user's editor as program and arguments; never run by a shell. Errors: UsageProblem."""
    chosen = next((os.environ[name] for name in _EDITORS if os.environ.get(name, "").strip()), None)
    if chosen is None:
        raise UsageProblem("Neither VISUAL nor EDITOR names an editor", hint="export EDITOR=nano, for example.")
    try:
        return shlex.split(chosen)
    except ValueError as err:
        raise UsageProblem(f"EDITOR={chosen} cannot be read as a program and its arguments: {err}") from err


def _scratch(name: str, text: str) -> Path:
    """A file only its owner may read; named after the connector, as editors show names."""
    import tempfile

    safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:40]
    number, path = tempfile.mkstemp(prefix=f"kconnect-{safe}-", suffix=".properties")
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
    return Path(path)


def _edited(editor: Sequence[str], path: Path) -> str:
    """The text after editing. Errors: ConnectError if the editor does not exist or failed."""
    try:
        code = subprocess.run([*editor, str(path)], check=False).returncode
    except OSError as err:
        path.unlink()
        raise UsageProblem(f"{editor[0]} cannot be started: {err.strerror}", hint="Set EDITOR to your editor.") from err
    if code != 0:
        path.unlink(missing_ok=True)
        raise ConnectError(f"{editor[0]} ended with {code}; nothing was changed")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{path} cannot be read: {err}") from err


_VERSION_HELP = "A version of connect config history: its offset in the config topic."
_Version = Annotated[int | None, typer.Argument(metavar="[VERSION]", help=_VERSION_HELP, show_default=False)]
_Force = Annotated[bool, typer.Option("--force", help="With --direct: write even if live workers have it.")]


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def history(ctx: typer.Context, name: Name, show_secrets: ShowSecrets = False) -> None:
    """List the configs that a connector has had: version, time, and the settings that changed.

    The worker reads them, and who made the changes over REST or with --direct, as far as that is known. --worker, or
    --bootstrap-servers and --config-topic, reads them here; a worker need not run. A version that compaction has
    removed has no number. `connect topics config history` has states and tasks, too.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        _refuse_secrets(show_secrets)
        with AskedWorker(session) as worker:
            rows = worker.config_versions(name)
    else:
        from kconnect.admin.direct.history.config_rows import config_rows

        rows = config_rows(cluster_of(session).access(), name, reveal=show_secrets)
    if session.output in (Format.JSON, Format.YAML):
        write_object(rows, session.output)
    else:
        write_rows(rows, _COLUMNS, session.output, "version")


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def diff(
    ctx: typer.Context,
    name: Name,
    version: _Version = None,
    other: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", help="Compare with this one, not with the current.")
    ] = None,
    show_secrets: ShowSecrets = False,
) -> None:
    """Show what changed from one version to another, or to the current one; by default since the previous.

    The worker compares them, and hides secrets; --worker, or --bootstrap-servers and --config-topic, reads them here.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        _refuse_secrets(show_secrets)
        with AskedWorker(session) as worker:
            _write_difference(session, worker.config_difference(name, version, other))
        return
    from kconnect.admin.direct.history.config_rows import config_difference

    access = cluster_of(session).access()
    _write_difference(session, config_difference(access, name, version, other, reveal=show_secrets))


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
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
    Refused if somebody changed the connector meanwhile. A worker of Java's needs --worker FILE. With --direct the
    config topic is written.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        with AskedWorker(session) as worker:
            _by_worker(session, worker, name, version, dry_run=dry_run, yes=yes)
        return
    from kconnect.admin.direct.history.config_rows import difference, masks_of, versions_of
    from kconnect.admin.direct.history.connector_history import restorable, the_previous, the_version

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
    shown = difference(name, versions[-1], target, masks_of(access, name, versions, reveal=False))
    if change.action != "unchanged":
        _refuse_invalid(session, name, wanted)
        check_settings(session, {name: wanted}, strict=False, only=change.keys)
    if _is_wanted(session, shown, dry_run=dry_run, yes=yes):
        replace_config(session, change, etag)


def _by_worker(
    session: CliSession, worker: AskedWorker, name: str, version: int | None, *, dry_run: bool, yes: bool
) -> None:
    """A rollback by a worker, which has the secrets of the earlier config."""
    config, etag = session.on_connector(name, session.client.tagged_config)
    shown = worker.planned_rollback(name, version)
    if not _is_wanted(session, shown, dry_run=dry_run, yes=yes):
        return
    with cause_of_failed_start(session.client, name), _lost_update(session, Change(name, config, config)):
        worker.roll_back(name, shown["to"], etag)
    session.say(f"updated {name}: {', '.join(one['key'] for one in shown['settings'])}")


def _is_wanted(session: CliSession, shown: Mapping[str, Any], *, dry_run: bool, yes: bool) -> bool:
    """Whether a rollback shall be done, once it was shown; not with --dry-run, nor where nothing changes."""
    name, target = shown["name"], shown["to"]
    if shown["action"] == "unchanged":
        session.say(f"unchanged {name}: version {target} has the settings that it has now")
        return False
    if dry_run:
        _write_difference(session, shown)
        return False
    session.say(shown_change_text(shown, colour=is_coloured(sys.stderr)).rstrip())
    session.confirm(f"Roll back {name} to version {target} {session.place}?", yes=yes)
    return True


def _refuse_secrets(show_secrets: bool) -> None:
    """Errors: UsageProblem."""
    if show_secrets:
        raise UsageProblem("--show-secrets needs the brokers", hint="A worker shows none: give --worker FILE.")


def _write_difference(session: CliSession, shown: Mapping[str, Any]) -> None:
    if session.output in (Format.JSON, Format.YAML):
        write_object(shown, session.output)
    elif shown["action"] == "unchanged":
        session.say(f"Versions {shown['from']} and {shown['to']} of {shown['name']} have the same settings.")
    elif session.output is Format.NAME:
        write_text("".join(f"{setting['key']}\n" for setting in shown["settings"]))
    else:
        write_text(shown_change_text(shown, colour=is_coloured(sys.stdout)))


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
