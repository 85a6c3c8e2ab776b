"""Pause, resume, stop, restart, delete: what will change, and the question; then the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kconnect.admin.cluster.port import Changes, PreparedChange
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route, note_of, shown
from kconnect.admin.console.seen import SeenConfig
from kconnect.client.exchange import segment
from kconnect.client.masks import Masks
from kconnect.errors import BadRequestError, NotFoundError, PreconditionFailedError
from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorStatus, RunState, TaskId


@dataclass(frozen=True, slots=True)
class Action:
    """`after`: the state that the connector will be in. `reported`: what that means, in a sentence."""

    title: str
    after: str
    reported: str
    is_dangerous: bool = False


ACTIONS: Final = {
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


def ask(request: PageRequest) -> Reply:
    """The question, with the state before and after."""
    return _question(request, "", None)


def carry_out(request: PageRequest) -> Reply:
    """The change; or the question again, if the connector is no longer as that said."""
    verb, name = request.path["verb"], request.path["name"]
    action_of(verb)
    now = str(request.cluster.connector_status(name).connector.state)
    if request.field("seen") and request.field("seen") != now:
        return _question(request, f"{name} is {now} now, and was {request.field('seen')} when you were asked", None)
    seen = SeenConfig.of_form(request.field) if verb == "delete" else None
    try:
        if seen is not None and request.cluster.tagged_connector(name)[1] != seen.tag:
            raise PreconditionFailedError(f"The config of {name} was changed")
        done = note_of(change_of(request.cluster.changes, verb, name, None if seen is None else seen.tag))
    except PreconditionFailedError:
        return _question(request, "", seen)
    if request.cluster.rest is None:
        done += ". A worker carries it out when it starts"
    return Redirect("/ui" if verb == "delete" else f"/ui/connectors/{segment(name)}", done)


def _question(request: PageRequest, problem: str, then: SeenConfig | None) -> Reply:
    """`then`: the config that an earlier question was about, and that is another one now."""
    verb, name = request.path["verb"], request.path["name"]
    action = action_of(verb)
    status = request.cluster.connector_status(name)
    seen = _seen(request, name) if verb == "delete" else None
    values = {
        "heading": f"{action.title} {name}?",
        "reported": action.reported,
        "rows": before_and_after(status, action, verb),
        "records": shown(change_of(request.cluster.changes, verb, name)),
        "url": f"/ui/connectors/{segment(name)}/do/{verb}",
        "back": f"/ui/connectors/{segment(name)}",
        "fields": {"seen": str(status.connector.state), **({} if seen is None else seen.fields)},
        "button": f"{action.title.removesuffix(' of')}",
        "is_dangerous": action.is_dangerous,
        "problem_text": problem,
        "is_stale": then is not None,
        "meanwhile": then.changed_to(seen) if then is not None and seen is not None else [],
        "both": (),
    }
    if request.is_fragment:
        return Fragment("confirm_body.html", values)
    status_code = 412 if then is not None else 409 if problem else 200
    return Page("confirm.html", f"{action.title} {name}", values, tab="connectors", status=status_code)


def _seen(request: PageRequest, name: str) -> SeenConfig:
    info, tag = request.cluster.tagged_connector(name)
    return SeenConfig.of(info.config, tag, Masks(request.cluster).password_keys(info.config))


def restart_task(request: PageRequest) -> Reply:
    """One task, at once: nothing is lost by it."""
    name, number = request.path["name"], request.path["task"]
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise NotFoundError("The task does not exist")
    done = note_of(request.cluster.changes.restart_task(TaskId(name, int(number))))
    return Redirect(f"/ui/connectors/{segment(name)}", done)


def action_of(verb: str) -> Action:
    if verb not in ACTIONS:
        raise NotFoundError("The page does not exist")
    return ACTIONS[verb]


def change_of(changes: Changes, verb: str, name: str, tag: str | None = None) -> PreparedChange:
    match verb:
        case "pause":
            return changes.pause(name)
        case "resume":
            return changes.resume(name)
        case "stop":
            return changes.stop(name)
        case "delete":
            return changes.delete(name, tag)
    return changes.restart(name, include_tasks=True, only_failed=verb == "restart-failed")


def before_and_after(status: ConnectorStatus, action: Action, verb: str) -> Sequence[tuple[str, str, str]]:
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
        "restart-failed": f"{pluralize(states.count('FAILED'), 'task')} started again",
    }[verb]
    return [("Connector", str(status.connector.state), action.after), ("Tasks", before, after)]


ROUTES: Final = (
    Route("/connectors/{name}/do/{verb}", {"GET": ask, "POST": carry_out}),
    Route("/connectors/{name}/tasks/{task}/restart", {"POST": restart_task}),
)
