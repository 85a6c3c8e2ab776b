"""How changes to connectors are shown: a coloured diff for people, JSON for programs; secrets are masked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from kconnect.client.masks import Masks
from kconnect_cli.screen.output import Format, is_coloured, painted, write_object, write_text
from kconnect_cli.settings.changes import Change

if TYPE_CHECKING:
    from kconnect_cli.session import CliSession

Mask: TypeAlias = Callable[[Mapping[str, str]], dict[str, str]]


def say_changes(session: CliSession, changes: Sequence[Change]) -> None:
    """The changes as data: a coloured diff, or JSON."""
    mask = Masks(session.reader).masked
    if session.output in (Format.JSON, Format.YAML):
        write_object([change_to_json(change, mask) for change in changes], session.output)
        return
    colour = is_coloured(sys.stdout)
    for change in changes:
        if change.action == "unchanged":
            session.say(f"unchanged {change.name}")
        elif session.output is Format.NAME:
            write_text(f"{change.name}\n")
        else:
            write_text(change_text(change, mask, colour=colour))


def change_text(change: Change, mask: Mask, *, colour: bool) -> str:
    """A change for people: a line for what is done, `-` and `+` for each setting."""
    style = {"create": "green", "update": "yellow", "delete": "red"}.get(change.action)
    lines = [painted(f"{change.action} {change.name}", style, on=colour and style is not None)]
    for key, before, after in _settings(change, mask):
        if before is not None:
            lines.append(painted(f"  - {key} = {before}", "red", on=colour))
        if after is not None:
            lines.append(painted(f"  + {key} = {after}", "green", on=colour))
    if change.states is not None:
        before, after = (state.in_statuses for state in change.states)
        lines.append(f"  is {before}, becomes {after}")
    return "\n".join(lines) + "\n"


def change_to_json(change: Change, mask: Mask) -> dict[str, Any]:
    """Shape: name, action, settings: [{key, old, new}]; old is null where there was none, new where none will be.

    Where the state of one that is there changes, `state` has its old and new.
    """
    settings = [{"key": key, "old": old, "new": new} for key, old, new in _settings(change, mask)]
    shown: dict[str, Any] = {"name": change.name, "action": change.action, "settings": settings}
    if change.states is not None:
        old, new = change.states
        shown["state"] = {"old": old.in_statuses, "new": new.in_statuses}
    return shown


def _settings(change: Change, mask: Mask) -> list[tuple[str, str | None, str | None]]:
    old, new = mask(change.old or {}), mask(change.new or {})
    return [(key, old.get(key), new.get(key)) for key in change.keys]
