"""Pause, resume, stop and delete connectors with --direct: written to the config topic, as a worker would write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kconnect_cli.admin.direct import each_or_nothing, tell_dry_run, tell_plans, tell_warnings, tell_written

if TYPE_CHECKING:
    from kconnect.direct.client import DirectClient
    from kconnect.direct.edit.plan import EditPlan
    from kconnect_cli.session import CliSession

__all__ = ["change_directly"]


def change_directly(
    session: CliSession,
    client: DirectClient,
    names: Sequence[str],
    verb: str,
    *,
    dry_run: bool,
    yes: bool,
    force: bool,
) -> None:
    """Show what will be written, ask, write it, and tell where it stands; one connector after the other.

    `verb` is pause, resume, stop or delete. Nothing is written when one of them may not be; a dry run shows it all the
    same, and says so.
    """
    from kconnect.direct.edit.apply import Checked, apply_plan, check_plan

    if not names:
        return
    plans: dict[str, EditPlan] = {}
    checked: dict[str, Checked] = {}

    def check(name: str) -> Checked:
        return check_plan(client.access, client.reader, plans[name], force=force)

    def prepare(name: str) -> None:
        plans[name] = client.plan(verb, name)
        if not dry_run:
            checked[name] = check(name)

    each_or_nothing(session, names, prepare)
    tell_plans(session, list(plans.values()), client.masks)
    if dry_run:
        tell_dry_run(session, lambda: Checked.all_of(map(check, plans)))
        return
    tell_warnings(session, list(checked.values()))
    session.confirm(f"{verb.capitalize()} {', '.join(names)} in {client.place}?", yes=yes)

    def write(name: str) -> None:
        tell_written(session, [apply_plan(client.access, client.reader, plans[name], force=force)])
        session.say(f"{_DONE[verb]} {name}")

    session.each(names, write)


_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped", "delete": "deleted"}
