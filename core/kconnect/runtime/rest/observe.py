"""`/metrics` for Prometheus, `/admin/slots`, `/admin/rebalances`, `/admin/herder-trace` and `/admin/webhooks`.

Differs: Java shows its metrics over JMX only, has no slots and no webhooks, and keeps no list of its rebalances or
decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kconnect.errors import BadRequestError
from kconnect.runtime.herder.interface import SlotInfo, Work, WorkHistory
from kconnect.runtime.metrics import CONTENT_TYPE, Reading, prometheus_text
from kconnect.runtime.rest.access.needs import ADMINISTERS, SEES_SOME
from kconnect.runtime.rest.exchange import Answer, Call, Endpoint
from kconnect.runtime.rest.operation import Operation, Query, Schema, array_of, boolean, integer, object_of, text

_CONNECTOR_TAG: Final = "connector"
_NUMBER = {"type": ["number", "null"]}
SLOT = object_of(
    {
        "slot": {"type": ["integer", "null"]},
        "attached": boolean,
        "job_group": {"type": ["string", "null"]},
        "executor": {"type": ["string", "null"]},
        "host": {"type": ["string", "null"]},
        "pid": {"type": ["integer", "null"]},
        "tasks": array_of(object_of({"connector": text, "task": integer})),
        "cpu_seconds": _NUMBER,
        "cpu_percent": _NUMBER,
        "memory_bytes": _NUMBER,
        "java_ports": array_of(integer),
        "connector": {"type": ["string", "null"]},
        "memory_limit_bytes": _NUMBER,
        "cores_limit": _NUMBER,
        "shared_least": _NUMBER,
        "shared_most": _NUMBER,
    }
)
RUNTIME = object_of(
    {
        **dict.fromkeys(("master", "version", "application_id"), text),
        "ui_url": {"type": ["string", "null"]},
        "executors": array_of(object_of({"id": text, "host": text, "slots": integer, "excluded": boolean})),
    }
)
REBALANCE = object_of(
    {
        **dict.fromkeys(("generation", "began_ms", "ended_ms"), integer),
        "worker": text,
        "why": text,
        "is_leader": boolean,
        "leader_url": text,
        **dict.fromkeys(
            ("connectors_added", "connectors_revoked", "tasks_added", "tasks_revoked", "delay_ms"), integer
        ),
        **dict.fromkeys(("members", "joined", "left"), array_of(text)),
    }
)

_TRACE = object_of(
    {
        "format": integer,
        "last": integer,
        "settings": {"type": "object"},
        "checkpoint": {"type": "object"},
        "entries": array_of(
            object_of(
                {
                    "number": integer,
                    "now_ms": integer,
                    "event": {"type": "object"},
                    "snapshot": {"type": "object"},
                    "instructions": array_of({"type": "object"}),
                    "error": text,
                },
                required=("number", "now_ms", "event", "instructions"),
            )
        ),
    },
    required=("format", "last", "entries"),
)


def show_metrics(call: Call[Work]) -> Answer:
    """Answer with the metrics of connectors that the caller may see, and of the worker."""
    readings = [*call.herder.metrics(), *(call.server.readings() if call.server is not None else ())]
    if call.access.is_guarded:
        readings = [reading for reading in readings if _may_see(call, reading)]
    return Answer(text=prometheus_text(readings))


def _may_see(call: Call[object], reading: Reading) -> bool:
    labels = dict(zip(reading.metric.tags, reading.labels, strict=True))
    return _CONNECTOR_TAG not in labels or call.access.may_read(labels[_CONNECTOR_TAG])


def list_slots(call: Call[Work]) -> Answer:
    return Answer(visible_slots(call))


def visible_slots(call: Call[Work]) -> list[dict[str, Any]]:
    """Gives the slots of this worker, with the tasks of connectors that the caller may see."""
    slots = call.herder.slots()
    if call.access.is_guarded:
        slots = [_as_seen(call, slot) for slot in slots]
    return [slot.to_json() for slot in slots]


def _as_seen(call: Call[Work], slot: SlotInfo) -> SlotInfo:
    tasks = tuple(task for task in slot.tasks if call.access.may_read(task.connector))
    if slot.connector is None or call.access.may_read(slot.connector):
        return replace(slot, tasks=tasks)
    return replace(slot, tasks=tasks, connector=None, memory_limit_bytes=None, cores_limit=None)


def show_spark(call: Call[Work]) -> Answer:
    """Null while it starts, and where there is none."""
    runtime = call.herder.runtime()
    return Answer(None if runtime is None else runtime.to_json())


def list_rebalances(call: Call[WorkHistory]) -> Answer:
    return Answer(own_rebalances(call))


def own_rebalances(call: Call[WorkHistory]) -> list[dict[str, Any]]:
    """Gives the rebalances as this worker saw them, with its id: whoever reached it by another name finds it among the
    members so.
    """
    worker = call.herder.worker_id
    return [{"worker": worker, **rebalance.to_json()} for rebalance in call.herder.rebalances()]


def show_trace(call: Call[WorkHistory]) -> Answer:
    """The entire trace, which can be replayed; with `since` only later entries."""
    since = call.query_values("since")
    return Answer(call.herder.trace(_entry_number(since[0]) if since else None))


def _entry_number(text: str) -> int:
    """Errors: BadRequestError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadRequestError(f"since must be the number of an entry of the trace, not {text!r}")
    return int(text)


_TIME: Final[Schema] = {"type": ["integer", "null"]}
_WEBHOOK: Final[Schema] = object_of(
    {
        "target": text,
        "events": array_of(text),
        "is_signed": boolean,
        **dict.fromkeys(("waiting", "delivered", "failed_attempts", "dropped"), integer),
        "last_delivered_ms": _TIME,
        "failing_since_ms": _TIME,
        "problem": {"type": ["string", "null"]},
    },
    required=("target", "events", "waiting", "delivered", "failed_attempts", "dropped"),
)


def show_webhooks(call: Call[Work]) -> Answer:
    """Counters, and what is wrong; of a URL only scheme, host and port."""
    return Answer([dict(each) for each in call.herder.webhooks()])


ENDPOINTS = (
    Endpoint(
        "/metrics",
        {"GET": Operation(show_metrics, "All metrics as text for Prometheus", {200: text}, needs=SEES_SOME)},
        deadline_s=10,
        media_type=CONTENT_TYPE,
        awaits_start=False,
    ),
    Endpoint(
        "/admin/slots",
        {"GET": Operation(list_slots, "Where tasks run", {200: array_of(SLOT)}, needs=SEES_SOME)},
        awaits_start=False,
    ),
    Endpoint(
        "/admin/spark",
        {
            "GET": Operation(
                show_spark,
                "The Spark application that runs the slots, and its executors; null while it starts",
                {200: {"anyOf": [RUNTIME, {"type": "null"}]}},
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
    Endpoint(
        "/admin/rebalances",
        {
            "GET": Operation(
                list_rebalances, "The last rebalances, and why", {200: array_of(REBALANCE)}, needs=SEES_SOME
            )
        },
        awaits_start=False,
    ),
    Endpoint(
        "/admin/herder-trace",
        {
            "GET": Operation(
                show_trace,
                "What the herder saw and decided last, without values of configs",
                {200: _TRACE},
                query=(Query("since", "Only what came after this entry, without a checkpoint", integer),),
                needs=ADMINISTERS,
            )
        },
        awaits_start=False,
    ),
    Endpoint(
        "/admin/webhooks",
        {
            "GET": Operation(
                show_webhooks,
                "Whether the webhooks of this worker are delivered",
                {200: array_of(_WEBHOOK)},
                needs=SEES_SOME,
            )
        },
        deadline_s=10,
        awaits_start=False,
    ),
)
