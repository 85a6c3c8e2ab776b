"""--direct: commands on connectors that work on the cluster's topics, with no worker; how edits are shown."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import ConnectError
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.cluster import ClusterOptions, with_cluster
from kconnect_cli.options.signatures import as_command, keyword, parameters_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.direct.client import DirectClient
    from kconnect.direct.edit.apply import Applied, Checked
    from kconnect.direct.edit.plan import EditPlan
    from kconnect.direct.read.secret_masks import Masks

__all__ = [
    "DryRun",
    "Force",
    "direct_client",
    "each_or_nothing",
    "refuse_without_direct",
    "tell_dry_run",
    "tell_meanwhile",
    "tell_plans",
    "tell_warnings",
    "tell_who_lives",
    "tell_written",
    "with_direct",
]

# Connectors named in one sentence
_MOST_TOLD = 10
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


def refuse_without_direct(*, dry_run: bool, force: bool) -> None:
    """Errors: UsageProblem: a worker would do it, whatever they say."""
    if dry_run or force:
        raise UsageProblem(f"{'--dry-run' if dry_run else '--force'} works only with --direct")


def each_or_nothing(session: CliSession, names: Sequence[str], action: Callable[[str], None]) -> None:
    """As `session.each`, for what is looked at before anything is written."""
    try:
        session.each(names, action)
    except typer.Exit:
        session.say("Nothing was changed.")
        raise


def tell_who_lives(session: CliSession, names: Collection[str]) -> None:
    """With --direct states are those that workers wrote last: says so when none of them is there to write others.

    And what is wanted of these connectors, where it is something else.
    """
    client = session.direct
    if client is None:
        return
    from kconnect.direct.group.live_group import live_group

    if not client.access.has_group:
        session.say("States are those that workers wrote last; --group-id would tell whether one still runs.")
        return
    try:
        live = live_group(client.access)
    except ConnectError as err:  # what was read stands; only the note is missing
        session.say(f"Cannot tell whether workers are running: {err}")
        return
    if not live.is_live:
        session.say(f"No worker of group {live.name} runs: states are those that workers wrote last.")
        told = [f"{name} {state}" for name, state in client.states_to_come(names).items()]
        more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        if told:
            session.say(f"The next worker makes {', '.join(told[:_MOST_TOLD])}{more}.")


def tell_plans(session: CliSession, plans: Sequence[EditPlan], masks: Masks | None = None) -> None:
    """Key, old and new value of every record, old and new offset of every partition of a group."""
    from kconnect.direct.read.secret_masks import Masks
    from kconnect_cli.admin.edit_flow import plan_text

    masks = masks or Masks()
    for plan in plans:
        session.say(f"{plan.title}\n{plan_text(plan, masks)}".rstrip("\n"))
        for note in plan.notes:
            session.say(note)


def tell_warnings(session: CliSession, checked: Sequence[Checked]) -> None:
    """What is to be known before anything is written, each sentence once."""
    for sentence in dict.fromkeys(sentence for found in checked for sentence in found.warnings):
        session.say(f"Warning: {sentence}")


def tell_dry_run(session: CliSession, check: Callable[[], Checked]) -> None:
    """The end of a dry run: what stands against the writing as things are now."""
    try:
        tell_warnings(session, [check()])
    except ConnectError as err:
        session.say(f"As things are: {err}")
        if err.hint:
            session.say(f"Hint: {err.hint}")
    session.say("Dry run: nothing was changed.")


def tell_written(session: CliSession, done: Sequence[Applied]) -> None:
    """Where each record stands, as it was read back."""
    for applied in done:
        for why in applied.overridden:
            session.say(f"Forced: {why}.")
        for written in applied.written:
            at = written.position
            session.say(f"  {at.topic}-{at.partition}@{at.offset} {written.edit.key_text}")
        for group in applied.groups:
            session.say(f"  consumer group {group}")
        tell_meanwhile(session, applied)


def tell_meanwhile(session: CliSession, applied: Applied) -> None:
    """What somebody else wrote to the same keys."""
    for sentence in applied.meanwhile:
        session.say(f"Warning: {sentence}.")
