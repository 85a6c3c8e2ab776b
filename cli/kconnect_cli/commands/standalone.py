"""`connect standalone`: one worker in this process, until a signal.

Exit codes are those of Java's connect-standalone: 2 when the worker cannot start (file, port, broker), 3 when a
connector or the offsets file stops it, 130 after Ctrl-C, 143 after SIGTERM.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kconnect.errors import ConnectError, EnvironmentProblemError
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
from kconnect_cli.session import Verbose, session_of

if TYPE_CHECKING:
    from kconnect.runtime.config import ConnectorFile
    from kconnect.worker import StandaloneWorker
    from kconnect.worker.running import MakeLauncher

log = logging.getLogger(__name__)


DROP_INS = Path("connectors.d")
_EXIT_CONNECTORS = 3


def standalone(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[WORKER.properties] [CONNECTOR...]",
            help="The worker's properties, then connector files: .properties, .json, .toml, .yaml.",
            show_default=False,
        ),
    ] = None,
    broker: Annotated[bool, typer.Option("--broker", help="Also start the dev broker, and stop it last.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow connector files: create, update, delete.")] = False,
    no_live: Annotated[bool, typer.Option("--no-live", help="Plain log lines, even on a terminal.")] = False,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    log_config: LogFile = None,
    timings: TimingsFlag = False,
    verbose: Verbose = False,
) -> None:
    """Run a worker in this process, its REST server, and its tasks in Spark, until Ctrl-C or SIGTERM.

    Without connector files it uses those in connectors.d of the current folder. Without a worker file it uses
    localhost:9092, REST on port 8083, and an offsets file in the user's data folder.
    """
    log_lines = WorkerLog(log_level, log_format, log_config)
    session_of(ctx).choose(None, None, verbose)
    timed = StartTimings(timings)
    named = list(files or [])
    with timed.collected(), StopSignals() as signals, ExitStack() as stack:
        with exit_code(EXIT_WORKER):
            log_lines.start()
            properties = worker_properties(named[0] if named else None)
            log_lines.follow(properties)
        with exit_code(_EXIT_CONNECTORS):
            connectors = connector_files(named[1:])
        if broker:
            with exit_code(EXIT_WORKER):
                start_broker(stack, properties, ctx)
        plan = _Plan(named[0] if named else None, properties, connectors)
        _run(plan, signals, watched=named[1:] if watch else None, live=log_lines.live_handler(no_live), timed=timed)
    raise typer.Exit(signals.exit_code())


class _Plan(NamedTuple):
    """The connectors and settings to run."""

    file: Path | None
    properties: Mapping[str, str]
    connectors: Sequence[ConnectorFile]


def _run(
    plan: _Plan,
    signals: StopSignals,
    *,
    watched: Sequence[Path] | None,
    live: logging.Handler | None,
    timed: StartTimings,
) -> None:
    """`watched`: files to follow, none for connectors.d, None to follow nothing."""
    from kconnect.runtime.config.worker_config import StandaloneConfig
    from kconnect.spark.early_jvm import jvm_launched_early

    def make(launcher: MakeLauncher) -> StandaloneWorker:
        from kconnect.worker import StandaloneWorker

        return StandaloneWorker(plan.properties, plan.connectors, file=plan.file, launcher=launcher)

    with jvm_launched_early(plan.properties, StandaloneConfig.parse) as launcher:
        run_worker(
            lambda: make(launcher),
            signals,
            live_view(plan.properties, live),
            exit_code=EXIT_WORKER,
            timings=timed,
            beside=lambda worker: _beside(worker, plan, watched),
        )


def _beside(worker: StandaloneWorker, plan: _Plan, watched: Sequence[Path] | None) -> AbstractContextManager[object]:
    """Follows the files, if any; a worker without connectors prints suggestions."""
    if not plan.connectors:
        log.info("No connectors yet: connect connectors create FILE, or put files into %s/", DROP_INS)
    if watched is None:
        return nullcontext()
    from kconnect_cli.files.connector_files import ConnectorFileWatch

    folder = None if watched else DROP_INS
    log.info("Connectors follow %s", f"the files in {DROP_INS}/" if folder else ", ".join(map(str, watched)))
    return ConnectorFileWatch(worker.herder, plan.connectors, named=watched, folder=folder)


def worker_properties(file: Path | None) -> dict[str, str]:
    """Properties of the worker's file, or the defaults. Errors: ConnectError, also when it is a connector's file."""
    from kconnect.runtime.config import default_standalone_properties, read_properties

    if file is None:
        properties = default_standalone_properties()
        _make_folder(Path(properties["offset.storage.file.filename"]).parent)
        return properties
    properties = read_properties(file)
    if "connector.class" in properties and "bootstrap.servers" not in properties:
        raise ConnectError(
            f"{file} is a connector's file (it has connector.class), and the first file must be the worker's",
            hint=f"Try: connect standalone WORKER.properties {file}; or put it into {DROP_INS}/ and name no file.",
        )
    return properties


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise EnvironmentProblemError(
            f"There is nowhere to keep offsets: folder {folder} cannot be created: {err.strerror}",
            hint="Set HOME to a folder of yours, or name a worker file that sets offset.storage.file.filename.",
        ) from err


def connector_files(named: Sequence[Path]) -> list[ConnectorFile]:
    """The connectors of the named files, else of connectors.d in the current folder, else none."""
    from kconnect.runtime.config import load_connector_file, load_folder

    if not named:
        return load_folder(DROP_INS) if DROP_INS.is_dir() else []
    found: dict[str, ConnectorFile] = {}
    for path in named:
        loaded = load_connector_file(path)
        earlier = found.setdefault(loaded.name, loaded)
        if earlier is not loaded:
            raise ConnectError(
                f"Failed to create connector for {path}: Connector {loaded.name} already exists, from {earlier.path}",
                hint=f"Give one of them another name; name={loaded.name} is in both.",
            )
    return list(found.values())
