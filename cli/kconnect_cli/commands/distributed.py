"""`connect distributed`: one worker of a cluster in this process, until a signal.

Exit codes are those of Java's connect-distributed: 1 when the worker cannot continue (internal topics, group), 2 when
it cannot start (file, port, broker), 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.processes.start_timings import StartTimings, TimingsFlag
from kconnect_cli.processes.worker_log import LogFile, LogFormat, LogLevel, WorkerLog
from kconnect_cli.processes.worker_run import (
    EXIT_WORKER,
    StopSignals,
    exit_code,
    live_view,
    run_worker,
    start_broker,
)
from kconnect_cli.processes.worker_settings import FromEnvironmentFlag, worker_settings
from kconnect_cli.session import Verbose, session_of

if TYPE_CHECKING:
    from kconnect.worker import DistributedWorker
    from kconnect.worker.running import MakeLauncher

_EXIT_HERDER = 1


def distributed(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[WORKER.properties]", help="The worker's properties.", show_default=False),
    ] = None,
    from_environment: FromEnvironmentFlag = False,
    broker: Annotated[bool, typer.Option("--broker", help="Also start the dev broker, and stop it last.")] = False,
    no_live: Annotated[bool, typer.Option("--no-live", help="Plain log lines, even on a terminal.")] = False,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    log_config: LogFile = None,
    timings: TimingsFlag = False,
    verbose: Verbose = False,
) -> None:
    """Run a worker of the cluster that group.id names, its REST server, and its tasks in Spark, until a signal.

    Without a file its settings come from the environment, as in the images of Confluent (CONNECT_GROUP_ID) and Debezium
    (GROUP_ID); with a file and --from-environment, CONNECT_* variables win over the file.

    The first signal stops it cleanly: it hands over its work to the others. A second one quits at once.
    """
    log_lines = WorkerLog(log_level, log_format, log_config)
    session_of(ctx).choose(None, None, verbose)
    timed = StartTimings(timings)
    with timed.collected(), StopSignals() as signals, ExitStack() as stack:
        with exit_code(EXIT_WORKER):
            log_lines.start()
            properties = worker_settings(file, from_environment, os.environ)
            log_lines.follow(properties)
        if broker:
            with exit_code(EXIT_WORKER):
                start_broker(stack, properties, ctx)
        _run(file, properties, signals, log_lines.live_handler(no_live), timed)
    raise typer.Exit(signals.exit_code())


def _run(
    file: Path | None,
    properties: Mapping[str, str],
    signals: StopSignals,
    live: logging.Handler | None,
    timed: StartTimings,
) -> None:
    from kconnect.runtime.config.worker_config import DistributedConfig
    from kconnect.spark.early_jvm import jvm_launched_early

    def make(launcher: MakeLauncher) -> DistributedWorker:
        from kconnect.worker import DistributedWorker

        return DistributedWorker(properties, file=file, launcher=launcher)

    with jvm_launched_early(properties, DistributedConfig.parse) as launcher:
        view = live_view(properties, live)
        run_worker(lambda: make(launcher), signals, view, exit_code=_EXIT_HERDER, timings=timed)
