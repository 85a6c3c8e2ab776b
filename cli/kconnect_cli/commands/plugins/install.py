"""`connect plugins install`: a Java plugin with its dependencies into a folder of plugin.path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kconnect.logs.wording import pluralize
from kconnect_cli.exits import UsageProblem
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Verbose, session_of


def install(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="group:artifact:version[:classifier:packaging] of Maven, a .zip, .tar.gz or .jar, or a folder.",
            show_default=False,
        ),
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="The worker's plugin.path, or a folder of it.", show_default=False),
    ],
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Name of its folder, so that several versions live side by side."),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="FOLDER", help="Installed plugin to add it to, such as a driver to JDBC."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Install a Java plugin with its dependencies; from Maven it leaves a lock with the checksum of each jar.

    The version may be LATEST, RELEASE or a range: the lock has the one that was found.
    """
    from kconnect.java.plugins.install import install as put

    session = session_of(ctx)
    session.choose(None, None, verbose)
    if as_ is not None and into is not None:
        raise UsageProblem("--as and --into exclude each other.", hint="--into takes the name of an installed plugin.")
    done = put(source, to, name=as_, into=into)
    write_text(f"{done.folder}\n")
    for note in done.notes:
        session.say(f"{note}.")
    jars = pluralize(len(done.jars), "jar")
    if into is not None:
        session.say(f"{jars} added: {', '.join(done.jars)}. Workers that run have to be restarted.")
    else:
        session.say(f"{jars}. Workers whose plugin.path is {to} find it when they start.")
