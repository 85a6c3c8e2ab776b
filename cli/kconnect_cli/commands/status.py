"""`connect status`: the health of a cluster, on one screen."""

from __future__ import annotations

import typer

from kconnect_cli.exits import FAILED
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.screen.output import Format, write_object, write_text
from kconnect_cli.session import session_of

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def status(ctx: typer.Context) -> None:
    """Show the health of a cluster: workers, connectors, what failed and why, what is late, an outage of Kafka.

    The doctor looks at the topics, too: that of the worker, or here with --worker or --bootstrap-servers, as Java's
    workers have none. With --direct only the topics are read.

    Exit code: 0 if all is well; 1 if something failed, is UNASSIGNED, stuck, retrying or not committing, a worker does
    not answer or is starting, Kafka is away, or the doctor finds an error or a warning; 5 if no worker answers; 6 if it
    does not answer in time. PAUSED, STOPPED and lagging are not faults. `-o name` prints the problems.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.cluster_health import cluster_health
    from kconnect_cli.screen.health_text import health_text

    found = cluster_health(session)
    if session.output is Format.NAME:
        write_text("".join(f"{problem}\n" for problem in found["problems"]))
    elif session.output is Format.TABLE:
        write_text(health_text(found))
        for note in found["notes"]:
            session.say(note)
    else:
        write_object(found, session.output)
    if not found["healthy"]:
        raise typer.Exit(FAILED)
