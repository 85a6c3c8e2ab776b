"""Progress: what Spark says of each batch, as counters and metrics of the task."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from kconnect.model import ConnectorType
from kconnect.runtime.pipeline.ports import TaskControl

_METRICS: Final = {
    "query-batch-id": "The number of the query's last batch.",
    "query-input-rows-per-second": "Records read, of the last batch.",
    "query-processed-rows-per-second": "Records written, of the last batch.",
    "query-batch-ms": "How long the last batch took in all.",
    "query-plan-ms": "Of this, finding new records and planning.",
    "query-write-ms": "Of this, reading, computing and writing.",
    "query-state-rows": "Rows in the state of aggregations.",
    "query-state-bytes": "Memory that this state takes.",
}


class Progress:
    """Threads: the task's; metrics are read by others."""

    def __init__(self, control: TaskControl) -> None:
        self._control = control
        self._counters = control.counters
        self._is_sink = control.spec.type is ConnectorType.SINK
        self._run = ""
        self._last = -1
        self._newest: tuple[int, str] | None = None
        self._values: dict[str, float] = dict.fromkeys(_METRICS, 0.0)
        own = control.monitor.of_task
        for name, text in _METRICS.items():
            own.add_metric(own.metric_name(name, text), partial(self._values.__getitem__, name))

    def look(self, running: Any) -> bool:
        """Take in what is new; whether there was any batch. `running` is a StreamingQuery.

        Only the newest is asked for each time: all that Spark keeps are up to a hundred texts, fetched one by one.
        """
        run = str(running.runId)
        if run != self._run:
            self._run, self._last, self._newest = run, -1, None
        newest = running.lastProgress
        if newest is None or (newest.batchId, newest.timestamp) == self._newest:
            return False
        self._newest = (newest.batchId, newest.timestamp)
        found = False
        for progress in [newest] if newest.batchId <= self._last + 1 else running.recentProgress:
            body = json.loads(progress.json)
            if body["batchId"] <= self._last or "addBatch" not in body["durationMs"]:
                continue  # told before, or an idle trigger
            self._last, found = body["batchId"], True
            self._take(body)
        return found

    def _take(self, body: dict[str, Any]) -> None:
        rows, took = int(body["numInputRows"]), body["durationMs"]
        if self._is_sink:
            self._counters.records_read += rows
            self._counters.records_put += rows
            self._counters.put_ms.note(took["addBatch"])
        else:
            self._counters.records_polled += rows
            self._counters.records_written += rows
            self._counters.poll_ms.note(took["addBatch"])
        self._counters.batch_size.note(rows)
        state = body.get("stateOperators") or []
        self._values.update(
            {
                "query-batch-id": body["batchId"],
                "query-input-rows-per-second": _number(body.get("inputRowsPerSecond")),
                "query-processed-rows-per-second": _number(body.get("processedRowsPerSecond")),
                "query-batch-ms": took.get("triggerExecution", 0),
                "query-plan-ms": sum(took.get(part, 0) for part in ("latestOffset", "getBatch", "queryPlanning")),
                "query-write-ms": took["addBatch"],
                "query-state-rows": sum(operator.get("numRowsTotal", 0) for operator in state),
                "query-state-bytes": sum(operator.get("memoryUsedBytes", 0) for operator in state),
            }
        )


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
