"""The page of one connector: its tasks, traces with the root cause first, config, offsets, log. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kconnect.admin.cluster.activity import NO_ACTIVITY
from kconnect.clock import now_ms
from kconnect.runtime.health.flow_metrics import NO_METRICS
from kconnect.runtime.health.views import ConnectorHealth, PartView, connector_view
from kconnect_cli.top.events import Part
from kconnect_cli.top.lines import Line, line, padded, wrapped
from kconnect_cli.top.rows import whole
from kconnect_cli.top.screen_state import Detail, TopState

STATE_STYLES = {
    "RUNNING": "good",
    "FAILED": "bad",
    "UNASSIGNED": "warn",
    "PAUSED": "warn",
    "STOPPED": "warn",
    "RESTARTING": "warn",
    "unreachable": "bad",
    "starting": "warn",
}


def page_lines(state: TopState, detail: Detail) -> list[Line]:
    """All lines of the part that is looked at, as wide as the screen; the view shows as many as there is room for."""
    if detail.part is not Part.TASKS and detail.connector not in state.facts.statuses and state.facts.answered_s:
        return [line((f"{detail.connector} does not exist any more.", "warn"))]
    match detail.part:
        case Part.TASKS:
            return list(_tasks(state, detail))
        case Part.TRACE:
            return list(_traces(state, detail))
    body = detail.bodies.get(detail.part)
    if body is None:
        return [line(("..", "dim"))]
    if body.problem:
        return [line((text, "warn")) for text in wrapped(body.problem, state.columns - 2)]
    return [line(text) for each in body.lines for text in wrapped(each, state.columns - 1, "    ")]


def _tasks(state: TopState, detail: Detail) -> Iterator[Line]:
    """A line for each task; the first line is the head."""
    status = state.facts.statuses.get(detail.connector)
    if status is None:
        yield line((f"{detail.connector} does not exist (any more).", "warn"))
        return
    if not status.tasks:
        why = connector_view(status).own.why(now_ms())
        yield line((f"It has no tasks: {why}", "warn") if why else ("It has no tasks.", "dim"))
        return
    metrics = state.facts.moves.get(detail.connector, NO_ACTIVITY).tasks
    for part, task in zip(connector_view(status).tasks, status.tasks, strict=True):
        found = metrics.get(task.id, NO_METRICS)
        rate = "-" if found.rate is None else whole(found.rate)
        errors = "-" if found.errors is None else whole(found.errors)
        word = "" if task.condition is None else str(task.condition.condition)
        yield line(
            padded(str(task.id), 5, to_right=True) + "  ",
            (padded(str(task.state), 11), STATE_STYLES.get(str(task.state), "plain")),
            padded(word, 10),
            padded(rate, 11, to_right=True),
            padded(errors, 9, to_right=True) + "  ",
            (padded(task.worker_id, min(24, max(12, len(task.worker_id)))), "dim"),
            ("  " + part.why(now_ms(), named=False), "bad" if part.health is ConnectorHealth.FAILED else "warn"),
        )


TASK_HEAD = f"{'TASK':>5}  {'STATE':<11}{'CONDITION':<10}{'RECORDS/S':>11}{'ERRORS':>9}  WORKER"


def _traces(state: TopState, detail: Detail) -> Iterator[Line]:
    """The root causes first, then whole traces and stacks of calls that hang."""
    status = state.facts.statuses.get(detail.connector)
    if status is None:
        return
    width = state.columns - 1
    chosen = status.tasks[detail.task].id if detail.task < len(status.tasks) else None
    tasks = sorted(status.tasks, key=lambda task: task.id != chosen)
    parts = [PartView(None, status.connector), *(PartView(task.id, task) for task in tasks)]
    found = [(part.words, part.why(now_ms()), text) for part in parts if (text := _trace_of(part))]
    if not found:
        yield line(("Nothing has failed: there is no trace.", "good"))
        return
    by_cause: dict[str, list[str]] = {}
    for what, cause, _ in found:
        by_cause.setdefault(cause, []).append(what)
    for cause, whats in by_cause.items():
        for text in wrapped(f"{', '.join(whats)}: {cause}", width, "  "):
            yield line((text, "bad"))
    shown: set[str] = set()
    for what, _, trace in found:
        if trace in shown:
            continue
        shown.add(trace)
        yield line("")
        yield line((f"Trace of {what}", "head"))
        for each in trace.rstrip().splitlines():
            for text in wrapped(each, width, "      "):
                yield line((text, "bad" if each.lstrip().startswith("Caused by: ") else "plain"))


def _trace_of(part: PartView) -> str:
    """Gives the trace of what failed, or the stack of the call of what hangs."""
    if part.seen.trace or part.trouble is None:
        return part.seen.trace or ""
    return f"{part.why(now_ms())}\n{part.trouble.stack or ''}".rstrip()
