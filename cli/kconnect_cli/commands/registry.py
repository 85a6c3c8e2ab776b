"""`connect registry`: start, stop, look at a real schema registry for development."""

from __future__ import annotations

from typing import Annotated

import typer

from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk
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
    "Start, stop a real schema registry for development; status tells whether it runs. It serves Confluent's API."
)


@app.command()
def start(
    ctx: typer.Context,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port on 127.0.0.1.")] = 8081,
    data: DataFolder = None,
    detach: Detach = False,
    verbose: Verbose = False,
) -> None:
    """Start a schema registry and run until Ctrl-C, or with --detach until `connect registry stop`."""
    from kconnect.java.devbroker.dev_registry import DevRegistry

    session = session_with(ctx, verbose=verbose)
    registry = DevRegistry(port, data, progress=FetchTalk(session, "the schema registry"))
    with signals_raise():
        registry.start()
        session.say(f"The schema registry is ready: schema.registry.url={registry.url}")
        run_until_stopped(session, registry, data, detach=detach)


@app.command()
def stop(ctx: typer.Context, data: DataFolder = None, verbose: Verbose = False) -> None:
    """Stop the schema registry that runs on the data folder."""
    from kconnect.java.devbroker.dev_registry import DevRegistry

    session = session_with(ctx, verbose=verbose)
    stop_server(session, DevRegistry(data_dir=data), "its schemas stay")


@app.command()
def status(ctx: typer.Context, data: DataFolder = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the schema registry of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.java.devbroker.dev_registry import DevRegistry

    session = session_with(ctx, output=output, verbose=verbose)
    registry = DevRegistry(data_dir=data)
    show_status(session, registry, registry.status(), "url")
