"""--direct: commands on connectors that work on the cluster's topics, with no worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ClusterArguments, ClusterOptions, cluster_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.client import DirectClient

_DIRECT_HELP = "Work on the cluster's topics, with no worker; --worker or --bootstrap-servers say which cluster."
Direct = Annotated[bool, typer.Option("--direct", help=_DIRECT_HELP)]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="With --direct: print what would be written, and write nothing.")
]
Force = Annotated[
    bool,
    typer.Option("--force", help="With --direct: write even if live workers have it, or the group is not known."),
]


@dataclass(frozen=True, slots=True)
class DirectOptions:
    """--direct. Goes before `ClusterArguments`, which say on which cluster's topics."""

    direct: Direct = False

    def apply(self, session: CliSession) -> None:
        """Sets `session.direct`. Errors: UsageProblem for options of a cluster that nobody would read."""
        if self.direct:
            session.direct = direct_client(session, cluster_of(session))
        else:
            refuse_cluster_without_direct(session)


@dataclass(frozen=True, slots=True)
class DirectOrChecked:
    """Works as `DirectOptions`; without --direct the cluster's brokers are only asked beforehand."""

    direct: Direct = False

    def apply(self, session: CliSession) -> None:
        if self.direct:
            session.direct = direct_client(session, cluster_of(session))


DIRECT = (DirectOptions, ClusterArguments)


def direct_client(session: CliSession, cluster: ClusterOptions) -> DirectClient:
    """Opens nothing yet. Errors: UsageProblem with --url; ConfigError, FileNotFoundError of the files."""
    from kconnect.admin.direct.client import DirectClient

    if session.given_url is not None:
        raise UsageProblem("--url names a worker, but --direct does not use one", hint="Give one of them.")
    return DirectClient(cluster.access())


def refuse_cluster_without_direct(session: CliSession) -> None:
    """Errors: UsageProblem for options of a cluster whose topics the command does not use."""
    if session.direct is None and cluster_of(session).is_on_line:
        raise UsageProblem(
            "Options that name the cluster's topics are only valid with --direct",
            hint="Add --direct to work on the topics; without it the command asks a worker, see --url.",
        )


def refuse_without_direct(
    session: CliSession, *, dry_run: bool = False, force: bool = False, instead: str | None = None
) -> None:
    """Errors: UsageProblem for options that a worker's REST API does not have; `instead` is its hint."""
    if session.direct is None and (dry_run or force):
        raise UsageProblem(f"{'--dry-run' if dry_run else '--force'} is only valid with --direct", hint=instead)
