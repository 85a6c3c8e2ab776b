"""`connect mirror`: MirrorMaker 2, from the file that connect-mirror-maker.sh takes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.runtime.config.misspelt import misspelt_reported
from kconnect_cli.exits import UsageProblem
from kconnect_cli.processes.worker_log import LogFile, LogFormat, LogLevel, WorkerLog
from kconnect_cli.processes.worker_run import EXIT_WORKER, StopSignals, exit_code
from kconnect_cli.session import Verbose, session_of

if TYPE_CHECKING:
    from kconnect.worker.mirror import Flow, MirrorSettings

log = logging.getLogger(__name__)

_START = "from kconnect_cli.app import main; main()"


def mirror(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="MM2.properties", help="Clusters and flows, as Java's.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="[CLUSTER]..", help="More of --clusters.")] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--clusters", metavar="CLUSTER", help="Only flows to these clusters. [default: all]", show_default=False
        ),
    ] = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    log_config: LogFile = None,
    verbose: Verbose = False,
) -> None:
    """Mirror topics and groups between clusters: MirrorMaker 2 with a worker for each flow, until a signal.

    Takes the file of connect-mirror-maker.sh; workers share the work of a flow with all others of the same file, Java's
    as well. A worker that ends is started again. Log lines begin with their flow.

    The first signal stops all workers cleanly, a second one quits at once. Exit codes: 2 when a flow cannot start, 130
    after Ctrl-C, 143 after SIGTERM.
    """
    session_of(ctx).choose(None, None, verbose)
    log_lines = WorkerLog(log_level, log_format, log_config)
    if more and not clusters:
        raise UsageProblem(
            f"{more[0]} is one argument too many", hint=f"Try: connect mirror {file} --clusters {more[0]}"
        )
    options = [
        *(("--log-level", log_level) if log_level else ()),
        *(("--log-format", log_format) if log_format else ()),
        *(("--log-config", str(log_config)) if log_config else ()),
    ]
    with StopSignals() as signals, exit_code(EXIT_WORKER):
        log_lines.start()
        settings = _settings_of_flows(file, [*(clusters or ()), *(more or ())])
        _run([sys.executable, "-c", _START, "mirror-flow", str(file), *options], settings, signals)
    raise typer.Exit(signals.exit_code())


def _settings_of_flows(file: Path, targets: list[str]) -> dict[Flow, dict[str, Any]]:
    """The settings that each flow's worker is given. Errors: ConfigError, NotFoundError."""
    from kconnect.errors import ConfigError
    from kconnect.runtime.config import read_properties
    from kconnect.worker.mirror import MirrorSettings

    properties = read_properties(file)
    try:
        settings = MirrorSettings.of(properties)
        flows = settings.flows(tuple(target for given in targets for target in given.split(",") if target))
    except ConfigError as err:
        raise ConfigError(f"{file}: {err}", err.problems, hint=err.hint) from err
    for key in settings.strangers():
        log.warning("%s: %s has no effect: it is of a cluster that `clusters` does not name", file, key)
    for key, meant in settings.misspelt().items():
        log.warning("%s: %s", file, misspelt_reported(key, meant))
    for flow in flows:
        log.info("Flow %s%s", flow, "" if settings.is_enabled(flow) else ": heartbeats only")
    if not any(settings.is_enabled(flow) for flow in flows):
        log.warning("%s: no topic is mirrored, for no flow is enabled. Enable one: %s.enabled = true", file, flows[0])
    return {flow: _of_flow(settings, flow) for flow in flows}


def _of_flow(settings: MirrorSettings, flow: Flow) -> dict[str, Any]:
    return {
        "source": flow.source,
        "target": flow.target,
        "worker": settings.our_worker_config(flow),
        "connectors": settings.connector_configs(flow),
    }


def _run(command: list[str], settings: Mapping[Flow, Mapping[str, Any]], signals: StopSignals) -> None:
    from kconnect.worker.mirror.flows import FlowProcesses

    processes = FlowProcesses(command, settings, _print_line)
    signals.stop_on_signal(processes)
    try:
        processes.start()
        processes.wait()
    finally:
        processes.stop()


def _print_line(flow: Flow, line: str) -> None:
    """JSON stays what it is."""
    sys.stderr.write(f"{line}\n" if line.startswith("{") else f"[{flow}] {line}\n")
