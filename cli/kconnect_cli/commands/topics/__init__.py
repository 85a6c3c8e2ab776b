"""`connect topics`: a cluster's internal topics, read and repaired without any worker."""

from __future__ import annotations

from kconnect_cli.commands.topics import archive, doctor, edit, history, show
from kconnect_cli.options.command_group import command_group
from kconnect_cli.options.topic_groups import TopicGroups

app = command_group("Inspect and repair a cluster's internal topics, with no worker running.")
_groups = TopicGroups(
    app,
    command_group("The topic of configs: connectors, tasks, target states, session key, logger levels."),
    command_group("The topic of statuses: connectors, tasks, topics they use."),
    command_group("The topic of source offsets."),
)
for _word, _below in _groups.each:
    app.add_typer(_below, name=_word)
# In the order in which `connect topics --help` names them
for _module in (show, history, edit, doctor, archive):
    _module.mount(_groups)
