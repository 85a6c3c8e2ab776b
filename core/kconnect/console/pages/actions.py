"""Pause, resume, stop, restart, delete: what will change, and the question; then the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kconnect.console.changes import Change
from kconnect.console.html import segment
from kconnect.console.visit import Fragment, Page, Redirect, Reply, Route, Visit
from kconnect.errors import BadRequestError, ConflictError, NotFoundError
from kconnect.model import ConnectorStatus, RunState, TaskId
from kconnect.wording import counted


@dataclass(frozen=True, slots=True)
class Action:
    """`after`: the state that the connector will be in. `told`: what that means, in a sentence."""

    title: str
    after: str
    told: str
    is_dangerous: bool = False


_ACTIONS: Final = {
    "pause": Action("Pause", "PAUSED", "Its tasks keep their slots and process no records until it is resumed."),
    "resume": Action("Resume", "RUNNING", "Its tasks continue from their committed offsets."),
    "stop": Action(
        "Stop", "STOPPED", "Its tasks end and give up their slots. The config and the offsets are kept.", True
    ),
    "restart": Action("Restart", "RUNNING", "The connector and all of its tasks stop and start again."),
    "restart-failed": Action(
        "Restart what failed of", "RUNNING", "What is FAILED starts again; the rest keeps running."
    ),
    "delete": Action(
        "Delete", "gone", "Its tasks end and its config is forgotten. Its offsets stay, for one of the same name.", True
    ),
}


def ask(visit: Visit) -> Reply:
    """The question, with the state before and after."""
    verb, name = visit.path["verb"], visit.path["name"]
    action = _action(verb)
    status = visit.cluster.connector_status(name)
    values = {
        "heading": f"{action.title} {name}?",
        "told": action.told,
        "rows": _before_and_after(status, action, verb),
        "records": _change(visit, verb, name).records,
        "url": f"/ui/connectors/{segment(name)}/do/{verb}",
        "back": f"/ui/connectors/{segment(name)}",
        "seen": str(status.connector.state),
        "button": f"{action.title.removesuffix(' of')}",
        "is_dangerous": action.is_dangerous,
    }
    if visit.is_fragment:
        return Fragment("confirm_body.html", values)
    return Page("confirm.html", f"{action.title} {name}", values, tab="connectors")


def carry_out(visit: Visit) -> Reply:
    """The change, unless the connector is no longer as the question said."""
    verb, name = visit.path["verb"], visit.path["name"]
    _action(verb)
    now = str(visit.cluster.connector_status(name).connector.state)
    if visit.field("seen") and visit.field("seen") != now:
        raise ConflictError(
            f"{name} is {now} now, and was {visit.field('seen')} when you were asked", hint="Look again."
        )
    done = _change(visit, verb, name).make()
    return Redirect("/ui" if verb == "delete" else f"/ui/connectors/{segment(name)}", done)


def restart_task(visit: Visit) -> Reply:
    """One task, at once: nothing is lost by it."""
    name, number = visit.path["name"], visit.path["task"]
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise NotFoundError("There is no such task")
    done = visit.cluster.changes.restart_task(TaskId(name, int(number))).make()
    return Redirect(f"/ui/connectors/{segment(name)}", done)


def _action(verb: str) -> Action:
    if verb not in _ACTIONS:
        raise NotFoundError("There is no such page")
    return _ACTIONS[verb]


def _change(visit: Visit, verb: str, name: str) -> Change:
    changes = visit.cluster.changes
    if verb in ("restart", "restart-failed"):
        return changes.restart(name, only_failed=verb == "restart-failed")
    return changes.state(verb, name)


def _before_and_after(status: ConnectorStatus, action: Action, verb: str) -> Sequence[tuple[str, str, str]]:
    """What, before, after."""
    if verb == "delete" and status.connector.state is RunState.DESTROYED:
        raise BadRequestError(f"{status.name} is being deleted already")
    states = [str(task.state) for task in status.tasks]
    before = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "none"
    after = {
        "pause": f"{len(states)} PAUSED",
        "stop": "none",
        "delete": "none",
        "resume": f"{len(states)} RUNNING" if states else "as the connector asks for",
        "restart": f"{len(states)} RUNNING",
        "restart-failed": f"{counted(states.count('FAILED'), 'task')} started again",
    }[verb]
    return [("Connector", str(status.connector.state), action.after), ("Tasks", before, after)]


ROUTES: Final = (
    Route("/connectors/{name}/do/{verb}", {"GET": ask, "POST": carry_out}),
    Route("/connectors/{name}/tasks/{task}/restart", {"POST": restart_task}),
)
