"""`connect logs`: the last lines of the logs of all workers of a cluster, over REST."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from kconnect.errors import ConnectError, NotFoundError
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.log_text import log_text
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import CliSession, session_of

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="A connector: its lines, and those of workers that name it.", show_default=False
    ),
]
_Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Keep showing new lines, until Ctrl-C.", show_default=False)
]
_Level = Annotated[
    str | None, typer.Option("--level", metavar="LEVEL", help=f"At least: {', '.join(_LEVELS)}.", show_default=False)
]
_Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Lines of the last 10m, 2h, ..", show_default=False)
]
_Lines = Annotated[int, typer.Option("--lines", "-n", min=0, max=2000, help="How many of the last lines to show.")]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes())
def logs(
    ctx: typer.Context,
    name: _Name = None,
    follow: _Follow = False,
    level: _Level = None,
    since: _Since = None,
    lines: _Lines = 50,
) -> None:
    """Show the last lines of the logs of all workers, and of their slots, merged by time.

    Each worker keeps its last 10,000 lines in memory. Workers that do not answer, and Java's, are named on stderr.

    JSON: a list of objects with worker, number, time_ms, level, logger, connector, task, stage, slot, thread, text;
    with --follow one object a line.
    """
    session = session_of(ctx)
    if level is not None and level.upper() not in _LEVELS:
        raise UsageProblem(f"Unknown log level: {level}", hint=f"Valid values: {', '.join(_LEVELS)}.")
    if follow and session.output is Format.YAML:
        raise UsageProblem("--follow prints text or, with -o json, an object a line; not YAML")
    since_ms = None if since is None else int((time.time() - seconds_of(since, "--since")) * 1000)
    query = {"connector": name, "level": level and level.upper(), "since": since_ms, "limit": lines}
    from kconnect_cli.admin.worker_logs import WorkerLogs

    found = WorkerLogs(_workers(session), session.access_to(session.url), query, session.say)
    shown = found.last()
    if follow:
        for line in shown:
            _write(line, session.output, found.workers)
        sys.stdout.flush()
        for line in found.follow():
            _write(line, session.output, found.workers)
            sys.stdout.flush()
    elif session.output in (Format.JSON, Format.YAML):
        write_object(shown, session.output)
    else:
        for line in shown:
            _write(line, session.output, found.workers)
        if not shown:
            session.say(_none_found(session, name))


def _none_found(session: CliSession, name: str | None) -> str:
    """Why there is nothing to show. Errors: NotFoundError for a name that may be misspelt."""
    kept = "a worker keeps its last 10,000 lines"
    if name is None:
        return f"No such lines: {kept}."
    try:
        exists = name in session.reader.connectors()
    except ConnectError:  # a listener for /admin alone
        exists = True
    if exists:
        return f"No lines about {name}: {kept}."
    raise NotFoundError(
        f"There are no lines about {name}, and no connector of that name", hint=session.other_names(name)
    )


def _workers(session: CliSession) -> list[str]:
    from kconnect.client.workers import worker_urls

    return worker_urls(session.client)


def _write(line: dict[str, Any], form: Format, workers: int) -> None:
    if form is Format.JSON:
        import orjson

        write_text(orjson.dumps(line).decode() + "\n")
    elif form is Format.NAME:
        write_text(f"{line['text']}\n")
    else:
        write_text(log_text(line, with_worker=workers > 1))
