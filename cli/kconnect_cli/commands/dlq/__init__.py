"""`connect dlq`: the group of its commands."""

from kconnect_cli.commands.dlq import export, listing, replay, show
from kconnect_cli.options.command_group import command_group

__all__ = ["app"]

app = command_group("List, show, replay, export dead letters: records that a connector could not process.")
for _module in (listing, show, replay, export):
    _module.add_to(app)
