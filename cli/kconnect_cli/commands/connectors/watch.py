"""`connect connectors watch`: a line for each change of a state; failures also go to a command or a URL.

Nothing goes through a shell.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from kconnect.errors import ConnectError
from kconnect.logs.traces import root_cause
from kconnect.logs.wording import pluralize
from kconnect_cli.exits import FoundError, UsageProblem, refused_as_usage
from kconnect_cli.options.looks import Interval, Regexp, interval_s
from kconnect_cli.options.selection import LabelOption, Selection, find_names
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.screen.status_rows import GONE, status_rows, why
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus

Row = Mapping[str, Any]
# Events that --on-failure gets
_REPORTED = frozenset({"failed", "recovered"})


def watch(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these connectors; else all.", show_default=False)
    ] = None,
    on_failure: Annotated[
        str | None,
        typer.Option(
            "--on-failure",
            metavar="COMMAND|URL",
            help="Run it, or post JSON there, when something is FAILED and when it runs again.",
        ),
    ] = None,
    interval: Interval = "2s",
    once: Annotated[bool, typer.Option("--once", help="Look once; exit code 7 if something is FAILED.")] = False,
    regexp: Regexp = False,
    labels: LabelOption = None,
) -> None:
    """Print a line for each change of a connector's or task's state, until Ctrl-C.

    What is FAILED at the first look counts as a change. The command of --on-failure runs without a shell; it gets the
    event as JSON on its input, and as KCONNECT_EVENT (failed, recovered), KCONNECT_CONNECTOR, KCONNECT_TASK,
    KCONNECT_STATE, KCONNECT_WORKER and KCONNECT_CAUSE. A worker that does not answer is reported, and asked again.
    With -o json each line is an event.
    """
    session = session_of(ctx)
    selection = Selection.of(names, regexp, False, False, None, labels=labels)
    pause_s = interval_s(interval)
    watcher = _Watcher(session, selection, None if on_failure is None else failure_hook(on_failure))
    with signals_raise():
        if once:
            watcher.look()
            watcher.raise_if_failed()
            return
        watcher.run(pause_s)


class StateChanges:
    """Compares each look at statuses with the one before; gives what has changed as events. Pure."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int | None], Row] | None = None
        self._failed: set[tuple[str, int | None]] = set()  # failed, and not seen RUNNING since

    def look(self, statuses: Sequence[ConnectorStatus]) -> list[dict[str, Any]]:
        """Events in the order of the rows.

        Shape: event (failed, recovered, changed, new, gone), name, task, state, was, worker_id, cause, and what else a
        row of `connectors status` has. The first look gives only what is FAILED.
        """
        rows: dict[tuple[str, int | None], Row] = {(row["name"], row["task"]): row for row in status_rows(statuses)}
        before, self._last = self._last, rows
        found: list[dict[str, Any]] = []
        for key, row in rows.items():
            was = None if before is None or key not in before else before[key]["state"]
            if row["state"] != was and (event := self._event(key, row["state"], is_first=before is None, was=was)):
                found.append(_event_of(event, row, was))
        for key, last in (before or {}).items():
            if key not in rows:
                self._failed.discard(key)
                found.append(_event_of("gone", {**last, "state": GONE, "trace": None}, last["state"]))
        return found

    def failed(self) -> list[Row]:
        """Rows that were FAILED at the last look."""
        return [row for row in (self._last or {}).values() if row["state"] == "FAILED"]

    def _event(self, key: tuple[str, int | None], state: str, *, is_first: bool, was: str | None) -> str | None:
        if state == "FAILED":
            self._failed.add(key)
            return "failed"
        if state == "RUNNING" and key in self._failed:
            self._failed.discard(key)
            return "recovered"
        if is_first:
            return None
        return "new" if was is None else "changed"


class _Watcher:
    """Looks, prints, tells."""

    def __init__(self, session: CliSession, selection: Selection, hook: FailureHook | None) -> None:
        self._session = session
        self._selection = selection
        self._hook = hook
        self._changes = StateChanges()

    def run(self, pause_s: float) -> None:
        """Until Ctrl-C. A place that does not answer is reported once, and its return too."""
        pause, is_away, is_first = threading.Event(), False, True
        while True:
            try:
                seen = self.look()
                if is_away:
                    self._session.say(f"{time.strftime('%H:%M:%S')} {self._session.url} answers again.")
                elif is_first:
                    self._session.say(f"Watching {pluralize(seen, 'connector')} at {self._session.url}; Ctrl-C ends.")
                is_away = is_first = False
            except UsageProblem:
                raise
            except ConnectError as err:
                if not is_away:
                    self._session.complain(err)
                is_away = True
            pause.wait(pause_s)

    def look(self) -> int:
        """One look; the number of connectors. Errors: ConnectError when there is no answer."""
        statuses = self._session.reader.connector_statuses()
        chosen = [statuses[name] for name in self._names(statuses)]
        for event in self._changes.look(chosen):
            self._print(event)
            if self._hook is not None and event["event"] in _REPORTED:
                self._tell(self._hook, event)
        sys.stdout.flush()
        return len(chosen)

    def raise_if_failed(self) -> None:
        """Errors: FoundError when something was FAILED."""
        failed = self._changes.failed()
        if not failed:
            return
        first = failed[0]
        what = first["name"] if first["task"] is None else f"{first['name']} task {first['task']}"
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        raise FoundError(f"FAILED: {what}{more}", hint="connect connectors status shows why.")

    def _names(self, statuses: Mapping[str, ConnectorStatus]) -> list[str]:
        """The connectors that are there: one that is deleted while it is watched may come back."""
        if self._selection.regexp and not statuses:
            return []
        return [name for name in sorted(find_names(self._session, self._selection, statuses)) if name in statuses]

    def _print(self, event: Mapping[str, Any]) -> None:
        output = self._session.output
        if output is Format.JSON:
            import orjson

            write_text(orjson.dumps(event).decode() + "\n")
        elif output is Format.YAML:
            write_object([dict(event)], Format.YAML)
        elif output is Format.NAME:
            write_text(f"{event['name']}\n")
        else:
            task = "" if event["task"] is None else f" task {event['task']}"
            state = "RUNNING again" if event["event"] == "recovered" else event["state"]
            because = f": {text}" if event["state"] == "FAILED" and (text := why(event)) else ""
            write_text(f"{time.strftime('%H:%M:%S')} {event['name']}{task} {state}{because}\n")

    def _tell(self, hook: FailureHook, event: Mapping[str, Any]) -> None:
        try:
            hook.tell(event)
        except ConnectError as err:  # what is watched goes on
            self._session.complain(err)


def _event_of(event: str, row: Row, was: str | None) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"time": now, "event": event, **row, "was": was, "cause": root_cause(row.get("trace"))}


# A command that sends a message takes seconds; one that waits for input would hold up what is watched
_COMMAND_S = 60.0
# Linux takes 128 KiB of one variable; the whole cause is in the JSON
_MOST_CHARS = 10_000
# What it prints is talk, not data
_STDERR = 2
_CONNECT_S, _POST_S, _POST_TRIES = 2.0, 10.0, 3


class FailureHook(Protocol):
    """Gets each event of a failure."""

    def tell(self, event: Mapping[str, Any]) -> None:
        """Errors: ConnectError, when it did not get it."""
        ...


def failure_hook(given: str) -> FailureHook:
    """The hook of a command line or a URL. Errors: UsageProblem for one that cannot work."""
    if given.startswith(("http://", "https://")):
        return _Post(given)
    try:
        argv = shlex.split(given)
    except ValueError as err:
        raise UsageProblem(f"--on-failure is not a command: {err}", hint="Quote it as a shell would.") from err
    if not argv:
        raise UsageProblem(
            "--on-failure is empty", hint="Give a command, or a URL that begins with http:// or https://."
        )
    if shutil.which(argv[0]) is None:
        raise UsageProblem(
            f"--on-failure: {argv[0]} is not a command on this machine",
            hint="It runs without a shell: for pipes and the like, give sh -c '...'.",
        )
    return _Command(argv)


class _Command:
    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def tell(self, event: Mapping[str, Any]) -> None:
        """The event is in its environment as KCONNECT_*, and on its input as JSON. What it prints goes to stderr."""
        reported = {
            "KCONNECT_EVENT": event["event"],
            "KCONNECT_CONNECTOR": event["name"],
            "KCONNECT_TASK": "" if event["task"] is None else str(event["task"]),
            "KCONNECT_STATE": event["state"],
            "KCONNECT_WORKER": event["worker_id"],
            "KCONNECT_CAUSE": event["cause"],
        }
        clean = {key: str(value).replace("\0", "")[:_MOST_CHARS] for key, value in reported.items()}
        try:
            done = subprocess.run(
                self._argv,
                input=json.dumps(event).encode(),
                env={**os.environ, **clean},
                stdout=_STDERR,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise ConnectError(f"{self._argv[0]} did not end within {_COMMAND_S:g} s and was killed") from err
        except OSError as err:
            raise ConnectError(f"{self._argv[0]} cannot be run: {err.strerror}") from err
        if done.returncode:
            raise ConnectError(f"{self._argv[0]} ended with exit code {done.returncode}")


class _Post:
    def __init__(self, url: str) -> None:
        from kconnect.client.json_post import JsonPost

        with refused_as_usage("--on-failure: "):
            self._post = JsonPost(url, connect_timeout_s=_CONNECT_S, timeout_s=_POST_S)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Tried again where that may help."""
        body = json.dumps(event).encode()
        for attempt in range(_POST_TRIES):
            try:
                answer = self._post.send(body, {"X-Kconnect-Event": str(event["event"])})
            except ConnectError:
                if attempt == _POST_TRIES - 1:
                    raise
                continue
            if 200 <= answer.status < 300:
                return
            if not answer.may_pass:
                break
        raise ConnectError(f"{self._post.host} answered {answer.status}")
