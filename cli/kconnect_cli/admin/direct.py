"""--direct: commands on connectors that work on the cluster's topics, with no worker."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ClusterOptions, with_cluster
from kconnect_cli.options.signatures import as_command, keyword, parameters_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.direct.client import DirectClient

_DIRECT_HELP = "Work on the cluster's topics, with no worker; --worker or --bootstrap-servers say which cluster."
Direct = Annotated[bool, typer.Option("--direct", help=_DIRECT_HELP)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --direct: print what would be written, write nothing.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="With --direct: write although live workers have the connector, or none is known."),
]


def with_direct(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the session as its first argument, --direct, and the options that say which cluster is meant.

    One with a parameter `cluster` gets these options, and they count without --direct as well.
    Takes the place of @with_session. With --direct `session.direct` is set before the command, and what chooses
    connectors for it, runs.
    """

    def call(session: CliSession, cluster: ClusterOptions, *, direct: bool, **given: Any) -> None:
        if direct:
            session.direct = direct_client(session, cluster)
        elif cluster.is_on_line and not wants_cluster:
            raise UsageProblem(
                "Options that name the cluster's topics work only with --direct",
                hint="Add --direct to work on the topics; without it the command asks a worker, see --url.",
            )
        if wants_cluster:
            given["cluster"] = cluster
        command(session, **given)

    first, *own = parameters_of(command)
    wants_cluster = any(parameter.name == "cluster" for parameter in own)
    own = [parameter for parameter in own if parameter.name != "cluster"]
    cluster = inspect.Parameter("cluster", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ClusterOptions)
    return with_cluster(as_command(call, command, [first, cluster, *own, keyword("direct", Direct, False)]))


def direct_client(session: CliSession, cluster: ClusterOptions) -> DirectClient:
    """Opens nothing yet. Errors: UsageProblem with --url; ConfigError, FileNotFoundError of the files."""
    from kconnect.direct.client import DirectClient

    if session.given_url is not None:
        raise UsageProblem("--url names a worker, and --direct asks none", hint="Give one of them.")
    return DirectClient(cluster.access())


def refuse_without_direct(session: CliSession, *, dry_run: bool = False, force: bool = False) -> None:
    """Errors: UsageProblem for options that a worker's REST API does not have."""
    if session.direct is None and (dry_run or force):
        raise UsageProblem(f"{'--dry-run' if dry_run else '--force'} is only valid with --direct")
