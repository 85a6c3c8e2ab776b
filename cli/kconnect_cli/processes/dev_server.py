"""What `connect broker` and `connect registry` have in common: their options, and a server in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import typer

from kconnect.errors import EnvironmentProblemError
from kconnect_cli.screen.output import Format
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.java.devbroker.server_folder import ServerFolder

NOT_RUNNING: Final = 3
"""The exit code of `status` when no server runs."""
# A JVM that ends on SIGTERM: `connect broker stop` from elsewhere
_STOPPED_BY_SIGTERM: Final = 143

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data folder. [default: in the user's data folder]", show_default=False),
]
Detach = Annotated[bool, typer.Option("--detach", help="Return when it is ready, and leave it running.")]


class DevServer(Protocol):
    """A server that was started by this process."""

    @property
    def folder(self) -> ServerFolder: ...

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def stop(self) -> bool: ...


def session_with(ctx: typer.Context, *, output: Format | None = None, verbose: bool) -> CliSession:
    """The session of a command that needs no worker."""
    session = session_of(ctx)
    session.choose(None, output, verbose)
    return session


def run_in_foreground(session: CliSession, server: DevServer) -> None:
    """Until a signal, or the server's own end. It always stops with this process."""
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
