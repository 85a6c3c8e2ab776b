"""`connect ui`: the web console on this machine, for any Connect cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.options.cluster import ClusterArguments, cluster_of
from kconnect_cli.options.direct import DirectOrChecked
from kconnect_cli.options.shared import takes
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.session import CliSession, session_of

if TYPE_CHECKING:
    from kconnect.admin.console import Clusters
    from kconnect.testing.sink_chain import SinkChain

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=takes(DirectOrChecked, ClusterArguments))
def ui(
    ctx: typer.Context,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve it at; 0: any.")] = 8090,
    host: Annotated[str, typer.Option("--host", help="Address to serve it at.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")] = True,
) -> None:
    """Serve the web console here until Ctrl-C: for kconnect or Java clusters; with --direct, without any worker.

    With --worker FILE and without --direct it also reads what only brokers have: config history, dead letters, the lag
    of sinks on Java's workers.
    """
    from kconnect.admin.console.serving import serve

    session = session_of(ctx)

    def ready(url: str) -> None:
        session.say(f"The console of {session.url}: {url}\nCtrl-C stops it.")
        if browser:
            typer.launch(url)

    with signals_raise():
        serve(_clusters(session), host, port, ready)


def _clusters(session: CliSession) -> Clusters:
    from kconnect.admin.console import TopicClusters, UrlClusters

    if session.direct is not None:
        return TopicClusters(session.direct.access, _sink)
    session.access_to(session.url)  # asks for a password before anything is served
    cluster = cluster_of(session)
    return UrlClusters(
        session.url,
        lambda: session.client_of(session.target.urls),
        cluster.access() if cluster.is_given else None,
        _sink,
    )


def _sink(config: Mapping[str, str], worker: Mapping[str, str]) -> SinkChain:
    from kconnect.testing.sink_chain import SinkChain

    return SinkChain(config, worker)
