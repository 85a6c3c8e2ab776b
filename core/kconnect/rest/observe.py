"""`/metrics` for Prometheus and `/admin/slots`.

Differs: Java shows its metrics over JMX only, and has no slots.
"""

from __future__ import annotations

from kconnect.metrics import CONTENT_TYPE, prometheus_text
from kconnect.rest.exchange import Answer, Call, Endpoint
from kconnect.rest.operation import Operation, array_of, boolean, integer, object_of, text

__all__ = ["ENDPOINTS"]

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


def show_metrics(call: Call) -> Answer:
    return Answer(text=prometheus_text(call.herder.metrics()))


def list_slots(call: Call) -> Answer:
    return Answer([slot.to_json() for slot in call.herder.slots()])


ENDPOINTS = (
    Endpoint(
        "/metrics",
        {"GET": Operation(show_metrics, "All metrics as text for Prometheus", {200: text})},
        deadline_s=10,
        media_type=CONTENT_TYPE,
    ),
    Endpoint("/admin/slots", {"GET": Operation(list_slots, "Where tasks run", {200: array_of(_SLOT)})}),
)
