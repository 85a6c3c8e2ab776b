"""`/metrics` for Prometheus, `/admin/slots` and `/admin/rebalances`.

Differs: Java shows its metrics over JMX only, has no slots, and keeps no list of its rebalances.
"""

from __future__ import annotations

from kconnect.metrics import CONTENT_TYPE, prometheus_text
from kconnect.rest.exchange import Answer, Call, Endpoint
from kconnect.rest.operation import Operation, array_of, boolean, integer, object_of, text

_NUMBER = {"type": ["number", "null"]}
_SLOT = object_of(
    {
        "slot": integer,
        "attached": boolean,
        "job_group": text,
        "executor": {"type": ["string", "null"]},
        "host": {"type": ["string", "null"]},
        "pid": {"type": ["integer", "null"]},
        "tasks": array_of(object_of({"connector": text, "task": integer})),
        "cpu_seconds": _NUMBER,
        "cpu_percent": _NUMBER,
        "memory_bytes": _NUMBER,
    }
)
_REBALANCE = object_of(
    {
        **dict.fromkeys(("generation", "began_ms", "ended_ms"), integer),
        "why": text,
        "is_leader": boolean,
        "leader_url": text,
        **dict.fromkeys(
            ("connectors_added", "connectors_revoked", "tasks_added", "tasks_revoked", "delay_ms"), integer
        ),
        **dict.fromkeys(("members", "joined", "left"), array_of(text)),
    }
)


def show_metrics(call: Call) -> Answer:
    return Answer(text=prometheus_text(call.herder.metrics()))


def list_slots(call: Call) -> Answer:
    return Answer([slot.to_json() for slot in call.herder.slots()])


def list_rebalances(call: Call) -> Answer:
    return Answer([rebalance.to_json() for rebalance in call.herder.rebalances()])


ENDPOINTS = (
    Endpoint(
        "/metrics",
        {"GET": Operation(show_metrics, "All metrics as text for Prometheus", {200: text})},
        deadline_s=10,
        media_type=CONTENT_TYPE,
        awaits_start=False,
    ),
    Endpoint(
        "/admin/slots", {"GET": Operation(list_slots, "Where tasks run", {200: array_of(_SLOT)})}, awaits_start=False
    ),
    Endpoint(
        "/admin/rebalances",
        {"GET": Operation(list_rebalances, "The last rebalances, and why", {200: array_of(_REBALANCE)})},
        awaits_start=False,
    ),
)
