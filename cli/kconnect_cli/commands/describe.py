"""`connect describe`: everything about one connector, on one screen."""

from __future__ import annotations

import typer

from kconnect.client.masks import Masks
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import Name, ShowSecrets, session_of

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def describe(ctx: typer.Context, name: Name, show_secrets: ShowSecrets = False) -> None:
    """Describe one connector: state, root causes, tasks, rates, MBeans, config, topics, offsets, and last changes.

    The last changes are read from the config topic, so they need --worker or --bootstrap-servers, also without
    --direct. What cannot be read is named on stderr and is null in JSON; with Java's workers that is rates and errors.

    JSON: an object with name, type, state, worker_id, records_per_s, lag, errors, tasks, mbeans, config, topics,
    offsets, changes, notes; trace and cause where something failed.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.description import description_of
    from kconnect_cli.screen.description_text import description_text

    found = description_of(session, name, Masks(session.reader, reveal=show_secrets).masked)
    if session.output is Format.NAME:
        write_text(f"{found['name']}\n")
    elif session.output is Format.TABLE:
        write_text(description_text(found))
        for note in found["notes"]:
            session.say(note)
    else:
        write_object(found, session.output)
