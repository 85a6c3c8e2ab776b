"""`GET /admin/history`: rates, errors, lag, latencies of the last hour, of this worker's tasks and slots.

Each worker knows its own; their samples have the same times, so that whoever asks several can add them up
(`client/history.py`).
Differs: Java has no such resource.
"""

from __future__ import annotations

from typing import Final

from kconnect.metrics.history import SLOT_SERIES, TASK_SERIES
from kconnect.rest.exchange import Answer, Call, Endpoint
from kconnect.rest.operation import Operation, Query, Schema, array_of, integer, object_of, text

_VALUES: Final[Schema] = array_of({"type": ["number", "null"]})
_LINE: Final[Schema] = object_of(
    {
        "records_per_s": array_of({"type": "number"}),
        **{name: {"type": "number"} for name in ("now_per_s", "lag", "errors", "restarts")},
    }
)
_HISTORY: Final[Schema] = object_of(
    {
        "worker": text,
        "every_ms": integer,
        "times": array_of(integer),
        "tasks": array_of(
            object_of(
                {"connector": text, "task": integer, "series": object_of(dict.fromkeys(TASK_SERIES, _VALUES))},
                required=("connector", "task", "series"),
            )
        ),
        "slots": array_of(
            object_of(
                {"slot": integer, "series": object_of(dict.fromkeys(SLOT_SERIES, _VALUES))}, required=("slot", "series")
            )
        ),
        "left_out": integer,
        "connectors": {"type": "object", "additionalProperties": _LINE},
    },
    required=("worker", "every_ms", "times"),
)


def show_history(call: Call) -> Answer:
    """Of one connector everything; without `connector` a line for each, and the slots."""
    names, history = call.query_values("connector"), call.herder.history()
    worker = {"worker": call.herder.worker_id}
    if names:
        return Answer({**worker, **history.of(names[0])})
    slots = history.of()["slots"] if call.flag("slots") else []
    return Answer({**worker, **history.overview(), "slots": slots})


ENDPOINTS = (
    Endpoint(
        "/admin/history",
        {
            "GET": Operation(
                show_history,
                "What the tasks and slots of this worker did over the last hour",
                {200: _HISTORY},
                query=(
                    Query("connector", "All series of its tasks, and of the slots; without it a line per connector"),
                    Query("slots", "Without a connector: true for the series of the slots too"),
                ),
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
)
