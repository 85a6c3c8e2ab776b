"""`connect plugins`: what connectors, converters and transforms there are, and a project for new ones."""

from __future__ import annotations

import typer

from kconnect_cli.commands.plugin_project import new

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Make a project for connectors of your own.",
)


@app.callback()
def _plugins() -> None:
    """Make a project for connectors of your own."""


app.command("new")(new)
