"""`connect top`: a live screen of the cluster, for people."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ClusterArguments, cluster_of
from kconnect_cli.options.direct import DirectOrChecked, direct_client
from kconnect_cli.options.looks import Interval, Regexp, interval_s
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Format
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect_cli.top.watches import Keeps

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_Patterns = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATTERN", help="Only these connectors: names, which may have * and ?.", show_default=False),
]


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def top(
    ctx: typer.Context,
    patterns: _Patterns = None,
    interval: Interval = "2s",
    regexp: Regexp = False,
) -> None:
    """Watch connectors, tasks, slots and workers live, full screen: the worst first; ? shows the keys.

    Enter opens a connector: its tasks, traces, config, offsets and log. p, r, s and R pause, resume, stop and restart,
    each after a question. With --direct it reads the cluster's topics, and there need be no worker. With --worker FILE
    and without --direct it also asks the brokers how far sinks of Java's workers are behind.
    """
    session = session_of(ctx)
    pause_s = interval_s(interval)
    keeps = _keeps(patterns or (), regexp)
    _refuse_without_terminal(session)
    from kconnect_cli.top.run import run_screen

    raise typer.Exit(run_screen(session, keeps, pause_s, lambda: direct_client(session, cluster_of(session))))


def _refuse_without_terminal(session: CliSession) -> None:
    """Errors: UsageProblem."""
    hint = "connect connectors status -o json gives the states to a program, and with --watch each change."
    if session.output is not Format.TABLE:
        raise UsageProblem(f"connect top draws a screen and has no output {session.output}", hint=hint)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or os.environ.get("TERM") == "dumb":
        raise UsageProblem("connect top draws a screen, and this is not a terminal", hint=hint)


def _keeps(patterns: Sequence[str], regexp: bool) -> Keeps:
    """Errors: UsageProblem for a bad regular expression."""
    if not patterns:
        return lambda _name: True
    if not regexp:
        return lambda name: any(fnmatchcase(name, pattern) for pattern in patterns)
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as err:
        raise UsageProblem(f"{err.pattern!r} is not a regular expression: {err}") from err
    return lambda name: any(pattern.fullmatch(name) for pattern in compiled)
