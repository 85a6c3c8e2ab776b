"""`connect broker`: start, stop, look at a real Kafka broker for development."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError, EnvironmentProblemError
from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk, tell_preparation
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import CliSession, Output, Verbose, session_of

if TYPE_CHECKING:
    from kconnect.devbroker import BrokerStatus, DevBroker

NOT_RUNNING = 3
# A JVM that ends on SIGTERM: `connect broker stop` from elsewhere
_STOPPED_BY_SIGTERM = 143

app = command_group(
    "Start, stop a real Kafka broker for development; status tells whether it runs. One node, of Kafka's jars."
)

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data folder. [default: in the user's data folder]", show_default=False),
]

_COLUMNS = (
    Column("STATE", lambda row: row["state"]),
    Column("BOOTSTRAP", lambda row: row["bootstrap"] or "-"),
    Column("PID", lambda row: str(row["pid"] or "-")),
    Column("CLUSTER", lambda row: row["cluster_id"] or "-"),
    Column("DATA", lambda row: row["data_dir"]),
)


@app.command()
def start(
    ctx: typer.Context,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port on 127.0.0.1.")] = 9092,
    data: Data = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when it is ready, and leave it running.")] = False,
    verbose: Verbose = False,
) -> None:
    """Start a broker and run until Ctrl-C, or with --detach until `connect broker stop`."""
    from kconnect.devbroker import DevBroker

    session = _session(ctx, verbose=verbose)
    broker = DevBroker(port, data, progress=FetchTalk(session))
    with signals_raise():
        broker.start()
        session.say(f"Kafka is ready: bootstrap.servers={broker.bootstrap} (data in {broker.folder.path})")
        tell_preparation(session, broker)
        if detach:
            broker.detach()
            session.say(f"It keeps running; stop it with: connect broker stop{f' --data {data}' if data else ''}")
            return
        session.say("Ctrl-C stops it.")
        _run(session, broker)


@app.command()
def stop(ctx: typer.Context, data: Data = None, verbose: Verbose = False) -> None:
    """Stop the broker that runs on the data folder."""
    from kconnect.devbroker import DevBroker

    session = _session(ctx, verbose=verbose)
    broker = DevBroker(data_dir=data)
    if broker.stop():
        session.say("The broker is stopped; its data stays.")
    else:
        session.say(f"No broker runs on the data folder {broker.folder.path}.")


@app.command()
def status(ctx: typer.Context, data: Data = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the broker of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.devbroker import DevBroker

    session = _session(ctx, output=output, verbose=verbose)
    found = DevBroker(data_dir=data).status()
    _show(session, found)
    if found.state != "RUNNING":
        raise typer.Exit(NOT_RUNNING)


def _session(ctx: typer.Context, *, output: Format | None = None, verbose: bool) -> CliSession:
    session = session_of(ctx)
    session.choose(None, output, verbose)
    return session


def _run(session: CliSession, broker: DevBroker) -> None:
    """Runs until a signal or the broker's own end. The broker always stops with this process."""
    try:
        while (code := broker.wait(1.0)) is None:
            pass
    finally:
        broker.stop()
    if code not in (0, _STOPPED_BY_SIGTERM):
        tail = "\n".join(f"  {line}" for line in broker.folder.log_tail())
        raise EnvironmentProblemError(
            f"The broker exited unexpectedly (exit code {code}); its last lines of output:\n{tail}",
            hint=f"The whole log is in {broker.folder.log}.",
        )
    session.say("The broker was stopped by another command.")


def _show(session: CliSession, found: BrokerStatus) -> None:
    row = {
        "state": found.state,
        "bootstrap": found.bootstrap,
        "pid": found.pid,
        "cluster_id": found.cluster_id,
        "data_dir": str(found.data_dir),
    }
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
        return
    if session.output is Format.NAME and found.bootstrap is None:
        raise ConnectError(f"No broker runs on the data folder {found.data_dir}.")
    write_rows([row], _COLUMNS, session.output, name="bootstrap")
