"""`connect plugins`: what connectors, converters and transforms there are, and a project for new ones."""

from __future__ import annotations

from kconnect_cli.command_group import command_group
from kconnect_cli.commands.plugin_project import new
from kconnect_cli.commands.plugins_admin import list_, show, validate

__all__ = ["app"]

app = command_group("List, show, validate what a worker can run; make a new project for connectors of your own.")


@app.callback()
def _plugins() -> None:
    """List, show, validate what a worker can run; make a new project for connectors of your own."""


app.command("list")(list_)
app.command("show")(show)
app.command("validate")(validate)
app.command("new")(new)
