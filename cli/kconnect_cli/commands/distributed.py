"""`connect distributed`: one worker of a cluster in this process, until a signal.

Exit codes are those of Java's connect-distributed: 1 when the worker cannot continue (internal topics, group), 2 when
it cannot start (file, port, broker), 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError
from kconnect_cli.processes.worker_run import (
    EXIT_WORKER,
    StopSignals,
    checked_level,
    exit_code,
    live_view,
    run_worker,
    shows_live,
    start_broker,
)
from kconnect_cli.session import Verbose, session_of

if TYPE_CHECKING:
    from kconnect.worker import DistributedWorker

_EXIT_HERDER = 1


def distributed(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="WORKER.properties", help="The worker's properties.", show_default=False),
    ],
    broker: Annotated[bool, typer.Option("--broker", help="Also start the dev broker, and stop it last.")] = False,
    no_live: Annotated[bool, typer.Option("--no-live", help="Plain log lines, even on a terminal.")] = False,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = "INFO",
    verbose: Verbose = False,
) -> None:
    """Run a worker of the cluster that group.id names, its REST server, and its tasks in Spark, until a signal.

    The first signal stops it cleanly: it hands over its work to the others. A second one quits at once.
    """
    from kconnect import logs

    level = checked_level(log_level)
    session_of(ctx).choose(None, None, verbose)
    handler = logs.configure(level, sys.stderr)
    with StopSignals() as signals, ExitStack() as stack:
        with exit_code(EXIT_WORKER):
            properties = worker_properties(file)
        if broker:
            with exit_code(EXIT_WORKER):
                start_broker(stack, properties, ctx)
        _run(file, properties, signals, handler if shows_live(no_live) else None)
    raise typer.Exit(signals.exit_code())


def worker_properties(file: Path) -> dict[str, str]:
    """Properties of the worker's file. Errors: ConnectError, also when it is that of another kind."""
    from kconnect.config import read_properties

    properties = read_properties(file)
    if "offset.storage.file.filename" in properties and "group.id" not in properties:
        raise ConnectError(
            f"{file} is the file of a standalone worker (it has offset.storage.file.filename, and no group.id)",
            hint=f"Try: connect standalone {file}; or set group.id and the three storage topics.",
        )
    return properties


def _run(file: Path, properties: Mapping[str, str], signals: StopSignals, live: logging.Handler | None) -> None:
    def make() -> DistributedWorker:
        from kconnect.worker import DistributedWorker

        return DistributedWorker(properties, file=file)

    run_worker(make, signals, live_view(properties, live), exit_code=_EXIT_HERDER)
