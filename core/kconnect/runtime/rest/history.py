"""`GET /admin/history`: rates, errors, lag, latencies of the last hour, of this worker's tasks and slots.

Each worker knows its own; with `cluster=true` it asks the others and adds theirs.
Differs: Java has no such resource.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from kconnect.runtime.metrics.history import SLOT_SERIES, TASK_SERIES
from kconnect.runtime.metrics.history_sum import sum_of_histories, sum_of_overviews
from kconnect.runtime.rest.access.needs import READS, SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, text
from kconnect.runtime.rest.workers import ask_others

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
                {"worker": text, "slot": integer, "series": object_of(dict.fromkeys(SLOT_SERIES, _VALUES))},
                required=("slot", "series"),
            )
        ),
        "left_out": integer,
        "connectors": {"type": "object", "additionalProperties": _LINE},
    },
    required=("worker", "every_ms", "times"),
)


def show_history(call: Call) -> Answer:
    """Of one connector everything, for its readers; without `connector` a line for each, or with `slots` the slots."""
    names, history = call.query_values("connector"), call.herder.history()
    worker, is_overview = call.herder.worker_id, not names and not call.flag("slots")
    if names:
        call.require(READS, names[0])
    own = {"worker": worker, **(history.overview() if is_overview else history.of(names[0] if names else None))}
    if is_overview:
        own["connectors"] = {name: line for name, line in own["connectors"].items() if call.access.may_read(name)}
    if not call.flag("cluster"):
        return Answer(own)
    query = f"connector={quote(names[0], safe='')}" if names else f"slots={str(not is_overview).lower()}"
    others = ask_others(call, f"/admin/history?{query}")
    add_up = sum_of_overviews if is_overview else sum_of_histories
    return Answer({"worker": worker, **add_up([own, *others.values()])})


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
                    Query("slots", "Without a connector: true for the series of the slots instead"),
                    Query("cluster", "true: of all workers, as far as they answer within two seconds", boolean),
                ),
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
)
