"""`connect mirror-flow`: the worker of one flow; started by `connect mirror`, and shown nowhere.

Reads its settings from standard input, one line of JSON; stops when that input ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.processes.worker_log import LogFile, LogFormat, LogLevel, WorkerLog
from kconnect_cli.processes.worker_run import EXIT_WORKER, StopSignals, exit_code, run_worker

if TYPE_CHECKING:
    from kconnect.worker import DistributedWorker
    from kconnect.worker.mirror import Flow

_EXIT_HERDER = 1


def mirror_flow(
    file: Annotated[Path, typer.Argument(help="Where the settings came from, for messages.")],
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    log_config: LogFile = None,
) -> None:
    """Run the worker of one flow."""
    reported = json.loads(sys.stdin.buffer.readline())
    log_lines = WorkerLog(log_level, log_format, log_config)
    with StopSignals() as signals:
        threading.Thread(target=_end_with_input, name="parent", daemon=True).start()
        from kconnect.worker.mirror import Flow

        flow = Flow(reported["source"], reported["target"])
        with exit_code(EXIT_WORKER):
            log_lines.start()
            log_lines.follow(reported["worker"])

        def make() -> DistributedWorker:
            from kconnect.worker import DistributedWorker

            java = {"kconnect.java.command": f"org.apache.kafka.connect.mirror.MirrorMaker {file.resolve()}"}
            return DistributedWorker({**java, **reported["worker"]}, file=file)

        @contextmanager
        def beside(worker: DistributedWorker) -> Iterator[None]:
            with _connectors(flow, reported["connectors"], worker):
                print(worker.rest_url, flush=True)  # noqa: T201  # to `connect mirror`: it runs
                yield

        run_worker(make, signals, nullcontext(None), exit_code=_EXIT_HERDER, beside=beside)
    raise typer.Exit(signals.exit_code())


@contextmanager
def _connectors(flow: Flow, configs: dict[str, dict[str, str]], worker: DistributedWorker) -> Iterator[None]:
    from kconnect.worker.mirror.flows import FlowConnectors

    with FlowConnectors(flow, configs, worker.herder):
        yield


def _end_with_input() -> None:
    """Nothing else comes on it: its end is that of `connect mirror`, however that ended.

    Without the buffer of `sys.stdin`: whoever reads holds its lock, and Python ends itself by SIGABRT when it cannot
    have that at its end.
    """
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
