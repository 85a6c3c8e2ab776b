"""With --direct: how current the states are that were read; there may be no worker to update them."""

from __future__ import annotations

from collections.abc import Collection

from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession

# Connectors named in one sentence
_MOST_SHOWN = 10


def say_who_lives(session: CliSession, names: Collection[str]) -> None:
    """With --direct, states are the last ones that workers wrote: says so when no worker is running.

    Also target states of these connectors that differ from them.
    """
    client = session.direct
    if client is None:
        return
    from kconnect.direct.group.live_group import live_group

    if not client.access.has_group:
        session.say("States are the last ones that workers wrote; --group-id would show whether one still runs.")
        return
    try:
        live = live_group(client.access)
    except ConnectError as err:  # what was read stands; only the note is missing
        session.say(f"Cannot tell whether workers are running: {err}")
        return
    if not live.is_live:
        session.say(f"No worker of group {live.name} is running: states are the last ones that workers wrote.")
        changes = [f"{name} {state}" for name, state in client.states_to_come(names).items()]
        more = f" and {len(changes) - _MOST_SHOWN} more" if len(changes) > _MOST_SHOWN else ""
        if changes:
            session.say(f"The next worker makes {', '.join(changes[:_MOST_SHOWN])}{more}.")
