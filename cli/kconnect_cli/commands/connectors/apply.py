"""`connect connectors apply`: make connectors match files, and wait until they run.

`Rollout` decides whether what was written runs, `await_applied` looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kconnect.client.masks import Masks
from kconnect.errors import ConfigError, ConnectError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect.model import TargetState
from kconnect.runtime.config.labels import LABELS, LabelSelector
from kconnect_cli.admin.awaited_states import is_reached, raise_if_hopeless, state_text
from kconnect_cli.admin.reports import not_done
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import FOUND, UsageProblem
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.selection import checked_prefixes, parsed_selector, require_positive
from kconnect_cli.screen.output import Format, write_object
from kconnect_cli.session import CliSession, Yes, session_of
from kconnect_cli.settings.change_display import change_to_json, say_changes
from kconnect_cli.settings.changes import Change, Pruning, plan_changes, split_by_labels
from kconnect_cli.settings.spelling import Strict, check_settings

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, PreparedChange
    from kconnect.model import ConnectorState, ConnectorStatus, TaskState
    from kconnect.runtime.config.dropins import ConnectorFile


_FILES_HELP = ".properties, .json, .toml or .yaml, a folder of these, or - for stdin; may be repeated."


_Paths = Annotated[list[str] | None, typer.Argument(metavar="FILE|DIR", help=_FILES_HELP, show_default=False)]
_More = Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE|DIR", help="The same as FILE.")]
_PRUNE_HELP = "Delete connectors that are in no file, of those that --prefix and --labels choose."
_Prune = Annotated[bool, typer.Option("--prune", help=_PRUNE_HELP)]
_PREFIX_HELP = "With --prune: what the names of your connectors begin with; may be repeated."
_Prefixes = Annotated[
    list[str] | None, typer.Option("--prefix", metavar="PREFIX", help=_PREFIX_HELP, show_default=False)
]
_LABELS_HELP = "Apply only files with these labels, --prune only such connectors: team=x, team!=x, team, !team."
_Labels = Annotated[
    list[str] | None, typer.Option("--labels", "-l", metavar="SELECTOR", help=_LABELS_HELP, show_default=False)
]
_Wait = Annotated[bool, typer.Option("--wait", help="Wait until what was applied runs, with its tasks.")]
_TIMEOUT_HELP = "With --wait: how long. [default: 60s]"
_Timeout = Annotated[str | None, typer.Option("--timeout", metavar="TIME", help=_TIMEOUT_HELP, show_default=False)]


def apply(
    ctx: typer.Context,
    paths: _Paths = None,
    more: _More = None,
    dry_run: DryRun = False,
    prune: _Prune = False,
    prefix: _Prefixes = None,
    labels: _Labels = None,
    wait: _Wait = False,
    timeout: _Timeout = None,
    strict: Strict = False,
    yes: Yes = False,
) -> None:
    """Create and update connectors so that they match the files; those that already match are left unchanged.

    Exit code: 0 when everything matches the files. With --dry-run 7 when something would change. Accepts the output of
    `connectors show -o json`; a masked secret keeps its current value. Reads connectors of Kubernetes too: Strimzi's
    KafkaConnector, Confluent's Connector. --prune deletes connectors that are in no file, but only those whose name
    begins with --prefix and whose labels -l matches, as clusters are shared.

    With --wait also 7 as soon as one that should run is FAILED for good, and 6 on timeout. What is paused or stopped
    does not have to run. One that was updated has to be RUNNING for 3 s, as workers restart it a moment later.
    """
    session = session_of(ctx)
    selector = _selector(prune, prefix, labels)
    timeout_s = _timeout_s(wait, timeout)
    changes = _planned(session, [*(paths or []), *(more or [])], selector, prefix, prune=prune, strict=strict)
    if dry_run:
        say_changes(session, changes)
        if any(change.action != "unchanged" for change in changes):
            raise typer.Exit(FOUND)
        return
    if doomed := [change.name for change in changes if change.action == "delete"]:
        session.confirm(
            f"Delete {pluralize(len(doomed), 'connector')} at {session.url} in no file: {', '.join(doomed)}?", yes=yes
        )
    before = session.reader.connector_statuses() if wait else {}
    done, failures = _carry_out(session, changes)
    problem = None
    if wait:
        try:
            await_applied(session, done, before, timeout_s)
        except ConnectError as err:
            problem = err
    _end(session, done, failures, problem)


def _planned(
    session: CliSession,
    paths: Sequence[str],
    selector: LabelSelector | None,
    prefixes: Sequence[str] | None,
    *,
    prune: bool,
    strict: bool,
) -> list[Change]:
    """What the files come to. Errors: UsageProblem without a file; those of the files, and of settings if `strict`."""
    from kconnect_cli.files.connector_files import read_connector_files, refuse_settings

    if not paths:
        raise UsageProblem("No file given", hint="connect connectors apply -f FILE, or a folder, or - for stdin.")
    refuse_settings(paths)
    files, others = split_by_labels(read_connector_files(paths), selector)
    if not files and not others:
        _say_empty(session, paths, prune=prune)
    else:
        _say_skipped(session, others, selector, is_all=not files)
    live = {name: info.config for name, info in session.reader.connector_infos().items()}
    kept = frozenset(other.name for other in others)
    mine = Pruning(prefixes=checked_prefixes(prefixes), selector=selector, kept=kept) if prune else None
    statuses = session.reader.connector_statuses() if any(file.keeps_state for file in files) else None
    changes = plan_changes(files, live, prune=mine, statuses=statuses)
    _require_classes(files)
    written = {change.name: change.new for change in changes if change.new and change.action in ("create", "update")}
    check_settings(session, written, strict=strict)
    return changes


def _require_classes(files: Sequence[ConnectorFile]) -> None:
    """Any worker refuses a connector without a class, and --dry-run asks none. Errors: ConfigError."""
    for file in files:
        if not file.config.get("connector.class", "").strip():
            raise ConfigError(
                f"{file.path}: connector {file.name} has no connector.class",
                hint="connect plugins list shows the classes that there are.",
            )


def _end(session: CliSession, done: Sequence[Change], failures: Sequence[int], problem: ConnectError | None) -> None:
    """Tell what was done, and fail if something did. `problem`: why what was applied does not run."""
    if session.output in (Format.JSON, Format.YAML):
        mask = Masks(session.reader).masked
        write_object([change_to_json(change, mask) for change in done], session.output)
    if failures:
        if problem is not None:
            session.complain(problem)
        raise typer.Exit(failures[0])
    if problem is not None:
        raise problem


def _selector(prune: bool, prefixes: Sequence[str] | None, labels: Sequence[str] | None) -> LabelSelector | None:
    """Errors: UsageProblem: without a prefix or labels, --prune would delete what others made."""
    selector = parsed_selector(labels)
    if prune and not prefixes:
        if selector is None:
            raise UsageProblem(
                "--prune without --prefix or --labels would also delete connectors that others made",
                hint="--prefix PREFIX says which are yours: those whose name begins with it; -l team=x those with that "
                "label.",
            )
        require_positive(selector)
    if prefixes and not prune:
        raise UsageProblem("--prefix is only valid with --prune", hint="Add --prune, or leave out --prefix.")
    checked_prefixes(prefixes)
    return selector


def _say_empty(session: CliSession, paths: Sequence[str], *, prune: bool) -> None:
    """Errors: UsageProblem with --prune, as the wrong folder would then delete everything."""
    found = f"No connector is in {', '.join(paths)}"
    if prune:
        raise UsageProblem(found, hint="connect connectors delete removes connectors by name, prefix or label.")
    session.say(f"{found}: there is nothing to apply.")


def _say_skipped(
    session: CliSession, skipped: Sequence[ConnectorFile], selector: LabelSelector | None, *, is_all: bool
) -> None:
    """Errors: UsageProblem when nothing is left, as a misspelt label would then delete everything with --prune."""
    if selector is None:
        return
    if is_all:
        raise UsageProblem(
            f"No file has labels that {selector.text} matches",
            hint=f"For example in a config: {LABELS}=team=x,env=prod",
        )
    for file in skipped:
        session.say(f"skipped {file.name}: {selector.text} does not match its labels in {file.path}")


def _timeout_s(wait: bool, timeout: str | None) -> float:
    if timeout is not None and not wait:
        raise UsageProblem("--timeout is only valid with --wait", hint="Add --wait, or leave out --timeout.")
    return seconds_of(timeout or "60s", "--timeout")


def _carry_out(session: CliSession, changes: Sequence[Change]) -> tuple[list[Change], list[int]]:
    """Every change, though some are refused. Gives what was done, and the exit codes of refusals."""
    failures: list[int] = []
    done: list[Change] = []
    for change in changes:
        try:
            _one(session, change)
            done.append(change)
        except (UnreachableError, TimedOutError):
            raise
        except ConnectError as err:
            session.say(not_done(change.name, change.file, _DONE[change.action]))
            failures.append(session.complain(err))
    return done, failures


_DONE = {"create": "created", "update": "updated", "delete": "deleted", "unchanged": "looked at"}


def _one(session: CliSession, change: Change) -> None:
    if change.action == "unchanged":
        session.say(f"unchanged {change.name}")
    for made in _steps(session.reader.changes, change):
        for line in made.make():
            session.say(f"{line}: {', '.join(change.keys)}" if line.startswith("updated ") else line)


def _steps(changes: Changes, change: Change) -> Iterator[PreparedChange]:
    """What makes a change: of one that is there its config, and its state. Nothing new runs in one that shall pause."""
    if change.new is None:
        yield changes.delete(change.name)
        return
    if change.old is None:
        yield changes.create(change.name, change.new, change.file.initial_state if change.file else None)
        return
    state = None if change.states is None else change.states[1]
    if state is TargetState.PAUSED:
        yield changes.pause(change.name)
    elif state is TargetState.STOPPED:
        yield changes.stop(change.name)
    if change.keys:
        yield changes.put_config(change.name, change.new)
    if state is TargetState.STARTED:
        yield changes.resume(change.name)


# A worker answers a new config before it restarts the connector; by then it has, and the tasks too
SETTLES_S: Final = 3.0
_IDLE_STATES: Final = ("PAUSED", "STOPPED")
# As of `connectors wait`
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.05, 0.5


def await_applied(
    session: CliSession, changes: Sequence[Change], before: Mapping[str, ConnectorStatus], timeout_s: float
) -> None:
    """Look until all of them run, are paused or stopped; says each. `before`: statuses ahead of the first change.

    Errors: ConnectError when one is FAILED for good; TimedOutError.
    """
    updated = {change.name for change in changes if change.action == "update"}
    applied = [change.name for change in changes if change.new is not None]
    start = time.monotonic()
    rollout, pause, pause_s = Rollout(applied, updated, before, start), threading.Event(), _FIRST_LOOK_S
    while True:
        for name, state in rollout.look(session.reader.connector_statuses(), time.monotonic()).items():
            session.say(f"{name} is {state}")
        if not rollout.open:
            return
        if time.monotonic() + pause_s > start + timeout_s:
            raise TimedOutError(
                f"Not RUNNING within {timeout_s:g} s: {'; '.join(rollout.open_texts())}",
                hint="--timeout gives them more time; connect connectors status --watch shows what they are doing.",
            )
        pause.wait(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_LOOK_S)


class Rollout:
    """Whether applied connectors have arrived. Pure: times are given.

    A connector has arrived when it and its tasks are RUNNING, or when it is paused or stopped. The status of one that
    was updated is the old config's for a moment: it arrives after SETTLES_S in that state, and a failure it had before
    counts after that only.
    """

    def __init__(
        self, names: Sequence[str], updated: Collection[str], before: Mapping[str, ConnectorStatus], start_s: float
    ) -> None:
        self.open: list[str] = list(names)
        self._updated = frozenset(updated)
        self._before = before
        self._start_s = start_s
        self._since: dict[str, float] = {}
        self._last: Mapping[str, ConnectorStatus] = {}

    def look(self, statuses: Mapping[str, ConnectorStatus], now_s: float) -> dict[str, str]:
        """Connectors that have arrived with this look, with their state.

        Errors: ConnectError for one that is FAILED and no automatic restart follows, or that is gone.
        """
        self._last = statuses
        arrived = {}
        for name in list(self.open):
            found = statuses.get(name)
            if found is None:
                if name in self._before:
                    raise ConnectError(f"{name} was deleted meanwhile")
                continue
            if self._has_failed(name, found, now_s):
                raise_if_hopeless([found], "RUNNING")
            if self._has_arrived(name, found, now_s):
                arrived[name] = str(found.connector.state)
                self.open.remove(name)
        return arrived

    def open_texts(self) -> list[str]:
        """What those that have not arrived are doing, with the cause of a failure."""
        return [state_text(name, self._last.get(name)) for name in self.open]

    def _has_arrived(self, name: str, found: ConnectorStatus, now_s: float) -> bool:
        if not (_is_idle(found) or is_reached(found, "RUNNING")):
            self._since[name] = now_s
            return False
        since_s = self._since.get(name, self._start_s)
        return name not in self._updated or now_s - since_s >= SETTLES_S

    def _has_failed(self, name: str, found: ConnectorStatus, now_s: float) -> bool:
        is_old = name in self._updated and _failures(found) == _failures(self._before.get(name))
        return not (is_old and now_s - self._start_s < SETTLES_S)


def _is_idle(found: ConnectorStatus) -> bool:
    state = str(found.connector.state)
    return state in _IDLE_STATES and all(str(task.state) == state for task in found.tasks)


def _failures(found: ConnectorStatus | None) -> list[tuple[int | None, str | None]]:
    """What is FAILED, with its trace."""
    return [] if found is None else [(getattr(part, "id", None), part.trace) for part in _failed(found)]


def _failed(found: ConnectorStatus) -> list[ConnectorState | TaskState]:
    parts: list[ConnectorState | TaskState] = [found.connector, *found.tasks]
    return [part for part in parts if str(part.state) == "FAILED"]
