"""`connect plugins install`: a Java plugin with its dependencies into a folder of plugin.path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kconnect.logs.wording import counted
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Verbose, session_of


def install(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN", help="group:artifact:version of Maven, a zip, or a folder.", show_default=False
        ),
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="The worker's plugin.path, or a folder of it.", show_default=False),
    ],
    verbose: Verbose = False,
) -> None:
    """Install a Java plugin with its dependencies; from Maven it leaves a lock with the checksum of each jar."""
    from kconnect.java.plugins.install import install as put

    session = session_of(ctx)
    session.choose(None, None, verbose)
    done = put(source, to)
    write_text(f"{done.folder}\n")
    session.say(f"{counted(len(done.jars), 'jar')}. Workers whose plugin.path is {to} find it when they start.")
