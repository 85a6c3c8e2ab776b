"""`connect topics`: a cluster's internal topics, read and repaired without any worker. Commands are in topics_*.py."""

from __future__ import annotations

import typer

from kconnect_cli.commands import topics_archive, topics_doctor, topics_edit, topics_get, topics_history, topics_show
from kconnect_cli.topic_groups import TopicGroups


def _group(help_: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=help_)


app = _group("Look into a cluster's internal topics and repair them, with no worker running.")
_groups = TopicGroups(
    app,
    _group("The topic of configs: connectors, tasks, target states, session key, logger levels."),
    _group("The topic of statuses: connectors, tasks, topics they use."),
    _group("The topic of source offsets."),
)
for _word, _below in _groups.each:
    app.add_typer(_below, name=_word)
# In the order in which `connect topics --help` names them
for _module in (topics_show, topics_get, topics_history, topics_edit, topics_doctor, topics_archive):
    _module.mount(_groups)
