"""`connect broker`: start, stop, look at a real Kafka broker for development."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError
from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk, tell_preparation
from kconnect_cli.processes.dev_server import NOT_RUNNING, DataFolder, Detach, run_in_foreground, session_with
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import CliSession, Output, Verbose

if TYPE_CHECKING:
    from kconnect.java.devbroker import BrokerStatus

app = command_group(
    "Start, stop a real Kafka broker for development; status tells whether it runs. One node, of Kafka's jars."
)

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
    data: DataFolder = None,
    detach: Detach = False,
    verbose: Verbose = False,
) -> None:
    """Start a broker and run until Ctrl-C, or with --detach until `connect broker stop`."""
    from kconnect.java.devbroker import DevBroker

    session = session_with(ctx, verbose=verbose)
    broker = DevBroker(port, data, progress=FetchTalk(session))
    with signals_raise():
        broker.start()
        session.say(f"Kafka is ready: bootstrap.servers={broker.bootstrap} (data in {broker.folder.path})")
        tell_preparation(session, broker)
        if detach:
            broker.detach()
            session.say(f"It keeps running; stop it with: connect broker stop{f' --data {data}' if data else ''}")
            return
        run_in_foreground(session, broker)


@app.command()
def stop(ctx: typer.Context, data: DataFolder = None, verbose: Verbose = False) -> None:
    """Stop the broker that runs on the data folder."""
    from kconnect.java.devbroker import DevBroker

    session = session_with(ctx, verbose=verbose)
    broker = DevBroker(data_dir=data)
    if broker.stop():
        session.say("The broker is stopped; its data stays.")
    else:
        session.say(f"No broker runs on the data folder {broker.folder.path}.")


@app.command()
def status(ctx: typer.Context, data: DataFolder = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the broker of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.java.devbroker import DevBroker

    session = session_with(ctx, output=output, verbose=verbose)
    found = DevBroker(data_dir=data).status()
    _show(session, found)
    if found.state != "RUNNING":
        raise typer.Exit(NOT_RUNNING)


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
