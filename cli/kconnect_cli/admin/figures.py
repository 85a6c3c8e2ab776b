"""What tasks move, as their workers' `/metrics` tell it: rates, records, errors, and how far sinks are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import TaskId
from kconnect.runtime.standing.figures import Figures, Rates, most, summed

if TYPE_CHECKING:
    from kconnect.client import ConnectClient

_RECORDS = (
    "kafka_connect_source_task_metrics_source_record_write_total",
    "kafka_connect_sink_task_metrics_sink_record_send_total",
)
_MINUTE_RATES = (
    "kafka_connect_source_task_metrics_source_record_write_rate",
    "kafka_connect_sink_task_metrics_sink_record_send_rate",
)
_ERRORS = (
    "kafka_connect_task_error_metrics_total_record_errors",
    "kafka_connect_task_error_metrics_total_record_failures",
)
_LAG = "kafka_connect_sink_topic_metrics_lag_records"


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Of the tasks that one worker runs, and the lag of sinks, or of all workers together."""

    tasks: Mapping[TaskId, Figures] = field(default_factory=dict)
    lags: Mapping[str, int] = field(default_factory=dict)
    """By connector: records behind the ends of its topics."""
    problem: str = ""
    """Why the worker did not answer."""
    is_silent: bool = False
    """It answers, and has no metrics: it is Java's."""

    def of(self, connector: str) -> Figures:
        """Of all tasks of a connector together."""
        return summed([figures for task, figures in self.tasks.items() if task.connector == connector])


def worker_figures(client: ConnectClient, rates: Rates[TaskId] | None = None) -> WorkerFigures:
    """Of one worker. `rates`: kept from look to look, for rates of the last seconds; without it they are of a minute.

    Errors: NotFoundError from a worker without metrics, such as Java's; ConnectError.
    """
    found: dict[TaskId, dict[str, float]] = {}
    lags: dict[str, int] = {}
    for name, labels, value in client.metrics((*_RECORDS, *_MINUTE_RATES, *_ERRORS, _LAG)):
        connector, task = labels.get("connector"), labels.get("task", "")
        if connector is None or value != value:  # NaN: nothing yet
            continue
        if name == _LAG:
            lags[connector] = lags.get(connector, 0) + int(value)
        elif task.isdecimal():
            found.setdefault(TaskId(connector, int(task)), {})[name] = value
    totals = {task: int(sum(values.get(name, 0) for name in _RECORDS)) for task, values in found.items()}
    measured = {} if rates is None else rates.add(time.monotonic(), totals)
    tasks = {
        task: Figures(
            rate=measured.get(task, next((values[name] for name in _MINUTE_RATES if name in values), None)),
            records=totals[task],
            errors=max((int(values[name]) for name in _ERRORS if name in values), default=None),
        )
        for task, values in found.items()
    }
    return WorkerFigures(tasks, lags)


def figures_by_worker(urls: Sequence[str], connect: Callable[[str], ConnectClient]) -> dict[str, WorkerFigures]:
    """Of each worker by its URL, asked side by side; a problem of one is in its figures, and never an error."""
    found: dict[str, WorkerFigures] = {}  # each thread sets its own key

    def ask(url: str) -> None:
        try:
            with connect(url) as client:
                found[url] = worker_figures(client)
        except NotFoundError:
            found[url] = WorkerFigures(is_silent=True)
        except ConnectError as err:
            found[url] = WorkerFigures(problem=str(err))

    threads = [threading.Thread(target=ask, args=(url,), name="figures", daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {url: found[url] for url in urls}


def together(workers: Iterable[WorkerFigures]) -> WorkerFigures:
    """Of all workers that told any."""
    parts = list(workers)
    tasks = {task: figures for part in parts for task, figures in part.tasks.items()}
    return WorkerFigures(tasks, most([part.lags for part in parts]))
