"""`connect broker`: start, stop, look at a real Kafka broker for development."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk, tell_preparation
from kconnect_cli.processes.dev_server import (
    DataFolder,
    Detach,
    run_until_stopped,
    session_with,
    show_status,
    stop_server,
)
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.session import Output, Verbose

app = command_group(
    "Start, stop a real Kafka broker for development; status tells whether it runs. One node, of Kafka's jars."
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
        run_until_stopped(session, broker, data, detach=detach)


@app.command()
def stop(ctx: typer.Context, data: DataFolder = None, verbose: Verbose = False) -> None:
    """Stop the broker that runs on the data folder."""
    from kconnect.java.devbroker import DevBroker

    session = session_with(ctx, verbose=verbose)
    stop_server(session, DevBroker(data_dir=data), "its data stays")


@app.command()
def status(ctx: typer.Context, data: DataFolder = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the broker of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.java.devbroker import DevBroker

    session = session_with(ctx, output=output, verbose=verbose)
    broker = DevBroker(data_dir=data)
    found = broker.status()
    cluster_id = broker.folder.cluster_id() if found.state == "RUNNING" else None
    show_status(session, broker, found, "bootstrap", cluster_id=cluster_id)
