"""`connect dlq`: the group of its commands."""

from kconnect_cli.commands.dlq import letters
from kconnect_cli.commands.dlq.replay import replay
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes

__all__ = ["app"]

app = command_group("List, show, replay, export dead letters: records that a connector could not process.")
for _name, _command in (
    ("list", letters.list_),
    ("show", letters.show),
    ("replay", replay),
    ("export", letters.export),
):
    app.command(_name, cls=takes(LetterOptions, DirectOrChecked, ClusterArguments))(_command)
