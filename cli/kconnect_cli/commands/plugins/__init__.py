"""`connect plugins`: what connectors, converters and transforms there are, and a project for new ones."""

from __future__ import annotations

from kconnect_cli.commands.plugins.catalogue import list_, show, validate
from kconnect_cli.commands.plugins.java import app as path
from kconnect_cli.commands.plugins.java import install
from kconnect_cli.commands.plugins.new import new
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.shared import takes

__all__ = ["app"]

_HELP = "List, show, validate plugins of a worker; new creates a project for your own, install and path are for Java's."
app = command_group(_HELP)


@app.callback()
def _plugins() -> None:
    """List, show, validate plugins of a worker; new creates a project for your own, install and path are for Java's."""


app.command("list", cls=takes())(list_)
app.command("show", cls=takes())(show)
app.command("validate", cls=takes())(validate)
app.command("new")(new)
app.command("install")(install)
app.add_typer(path, name="path")
