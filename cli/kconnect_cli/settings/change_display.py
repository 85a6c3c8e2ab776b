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
    text = shown_change_text(change_to_json(change, mask), colour=colour)
    if change.states is not None:
        before, after = (state.in_statuses for state in change.states)
        text += f"  is {before}, becomes {after}\n"
    return text


def shown_change_text(shown: Mapping[str, Any], *, colour: bool) -> str:
    """`shown`: name, action and settings, as `change_to_json` has them."""
    style = {"create": "green", "update": "yellow", "delete": "red"}.get(shown["action"])
    lines = [painted(f"{shown['action']} {shown['name']}", style, on=colour and style is not None)]
    for setting in shown["settings"]:
        for sign, value, paint in (("-", setting["old"], "red"), ("+", setting["new"], "green")):
            if value is not None:
                lines.append(painted(f"  {sign} {setting['key']} = {value}", paint, on=colour))
    return "\n".join(lines) + "\n"


def change_to_json(change: Change, mask: Mask) -> dict[str, Any]:
    """Shape: name, action, settings: [{key, old, new}]; old is null where there was none, new where none will be.

    Where the state of one that is there changes, `state` has its old and new.
    """
    old, new = mask(change.old or {}), mask(change.new or {})
    settings = [{"key": key, "old": old.get(key), "new": new.get(key)} for key in change.keys]
    shown: dict[str, Any] = {"name": change.name, "action": change.action, "settings": settings}
    if change.states is not None:
        before, after = change.states
        shown["state"] = {"old": before.in_statuses, "new": after.in_statuses}
    return shown
