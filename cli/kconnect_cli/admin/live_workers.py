"""With --direct: how current the states are that were read; there may be no worker to update them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.client import DirectClient
    from kconnect.admin.direct.group.live_group import LiveGroup

# Connectors named in one sentence
_MOST_SHOWN = 10


def say_who_lives(session: CliSession, names: Collection[str]) -> None:
    """With --direct, states are the last ones that workers wrote: says so when no worker is running.

    Also target states of these connectors that differ from them.
    """
    client = session.direct
    if client is None:
        return
    for sentence in notes_on_life(client, look_at_group(client), names):
        session.say(sentence)


def look_at_group(client: DirectClient) -> LiveGroup | ConnectError | None:
    """The workers that run, as the broker knows them; why that is not known; None where no group was named."""
    from kconnect.admin.direct.group.live_group import live_group

    if not client.access.has_group:
        return None
    try:
        return live_group(client.access)
    except ConnectError as err:  # what was read stands; only the note is missing
        return err


def notes_on_life(
    client: DirectClient, group: LiveGroup | ConnectError | None, names: Collection[str]
) -> Iterator[str]:
    """What the states are worth that were read from the topics; nothing while workers run and write them."""
    if client.statuses.missing is not None:
        yield f"{client.statuses.missing} States are not known, and shown as UNASSIGNED."
    if group is None:
        yield "States are the last ones that workers wrote; --group-id would show whether one still runs."
    elif isinstance(group, ConnectError):
        yield f"Cannot tell whether workers are running: {group}"
    elif not group.is_live:
        yield f"No worker of group {group.name} is running: states are the last ones that workers wrote."
        changes = [f"{name} {state}" for name, state in client.states_to_come(names).items()]
        more = f" and {len(changes) - _MOST_SHOWN} more" if len(changes) > _MOST_SHOWN else ""
        if changes:
            yield f"The next worker makes {', '.join(changes[:_MOST_SHOWN])}{more}."
