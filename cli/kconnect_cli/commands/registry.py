"""`connect registry`: start, stop, look at a real schema registry for development."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import ConnectError
from kconnect_cli.options.command_group import command_group
from kconnect_cli.processes.broker_progress import FetchTalk
from kconnect_cli.processes.dev_server import NOT_RUNNING, DataFolder, Detach, run_in_foreground, session_with
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import CliSession, Output, Verbose

if TYPE_CHECKING:
    from kconnect.java.devbroker.dev_registry import RegistryStatus

app = command_group(
    "Start, stop a real schema registry for development; status tells whether it runs. It serves Confluent's API."
)

_COLUMNS = (
    Column("STATE", lambda row: row["state"]),
    Column("URL", lambda row: row["url"] or "-"),
    Column("PID", lambda row: str(row["pid"] or "-")),
    Column("DATA", lambda row: row["data_dir"]),
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
        if detach:
            registry.detach()
            session.say(f"It keeps running; stop it with: connect registry stop{f' --data {data}' if data else ''}")
            return
        run_in_foreground(session, registry)


@app.command()
def stop(ctx: typer.Context, data: DataFolder = None, verbose: Verbose = False) -> None:
    """Stop the schema registry that runs on the data folder."""
    from kconnect.java.devbroker.dev_registry import DevRegistry

    session = session_with(ctx, verbose=verbose)
    registry = DevRegistry(data_dir=data)
    if registry.stop():
        session.say("The schema registry is stopped; its schemas stay.")
    else:
        session.say(f"No schema registry runs on the data folder {registry.folder.path}.")


@app.command()
def status(ctx: typer.Context, data: DataFolder = None, output: Output = None, verbose: Verbose = False) -> None:
    """Show the schema registry of the data folder. Exit code 0 when it runs, 3 when it does not."""
    from kconnect.java.devbroker.dev_registry import DevRegistry

    session = session_with(ctx, output=output, verbose=verbose)
    found = DevRegistry(data_dir=data).status()
    _show(session, found)
    if found.state != "RUNNING":
        raise typer.Exit(NOT_RUNNING)


def _show(session: CliSession, found: RegistryStatus) -> None:
    row = {"state": found.state, "url": found.url, "pid": found.pid, "data_dir": str(found.data_dir)}
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
        return
    if session.output is Format.NAME and found.url is None:
        raise ConnectError(f"No schema registry runs on the data folder {found.data_dir}.")
    write_rows([row], _COLUMNS, session.output, name="url")
