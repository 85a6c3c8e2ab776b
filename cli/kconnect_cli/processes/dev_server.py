"""What `connect broker` and `connect registry` have in common: their options, and what they do with a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kconnect.errors import ConnectError, EnvironmentProblemError
from kconnect_cli.screen.output import Column, Format, write_object, write_rows
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.java.devbroker.dev_server import DevServer, ServerStatus

NOT_RUNNING: Final = 3
"""The exit code of `status` when no server runs."""
# A JVM that ends on SIGTERM: `connect broker stop` from elsewhere
_STOPPED_BY_SIGTERM: Final = 143

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data folder. [default: in the user's data folder]", show_default=False),
]
Detach = Annotated[bool, typer.Option("--detach", help="Return when it is ready, and leave it running.")]


def session_with(ctx: typer.Context, *, output: Format | None = None, verbose: bool) -> CliSession:
    """The session of a command that needs no worker."""
    session = session_of(ctx)
    session.choose(None, output, verbose)
    return session


def run_until_stopped(session: CliSession, server: DevServer, data: Path | None, *, detach: bool) -> None:
    """A server that has started: left running, or run until a signal or its own end."""
    if detach:
        server.detach()
        stop = f"connect {server.folder.name} stop{f' --data {data}' if data else ''}"
        session.say(f"It keeps running; stop it with: {stop}")
        return
    session.say("Ctrl-C stops it.")
    try:
        while (code := server.wait(1.0)) is None:
            pass
    finally:
        server.stop()
    if code not in (0, _STOPPED_BY_SIGTERM):
        tail = "\n".join(f"  {line}" for line in server.folder.log_tail())
        raise EnvironmentProblemError(
            f"The {server.folder.title} exited unexpectedly (exit code {code}); its last lines of output:\n{tail}",
            hint=f"The whole log is in {server.folder.log}.",
        )
    session.say(f"The {server.folder.title} was stopped by another command.")


def stop_server(session: CliSession, server: DevServer, stays: str) -> None:
    """`stays`: what outlives it, as `its data stays`."""
    if server.stop():
        session.say(f"The {server.folder.title} is stopped; {stays}.")
    else:
        session.say(_none(server))


def show_status(session: CliSession, server: DevServer, found: ServerStatus, address: str, **more: Any) -> None:
    """Ends with NOT_RUNNING unless it runs. `address`: the name of its address; `more`: what else a row has."""
    row = {"state": found.state, address: found.address, "pid": found.pid, **more, "data_dir": str(found.data_dir)}
    if session.output in (Format.JSON, Format.YAML):
        write_object(row, session.output)
    elif session.output is Format.NAME and found.address is None:
        raise ConnectError(_none(server))
    else:
        write_rows([row], [_column(name) for name in row], session.output, name=address)
    if found.state != "RUNNING":
        raise typer.Exit(NOT_RUNNING)


def _none(server: DevServer) -> str:
    return f"No {server.folder.title} runs on the data folder {server.folder.path}."


def _column(name: str) -> Column:
    return Column(_TITLES.get(name, name.upper()), lambda row: str(row[name] or "-"))


_TITLES: Final = {"cluster_id": "CLUSTER", "data_dir": "DATA"}
