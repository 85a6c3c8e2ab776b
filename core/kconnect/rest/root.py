"""`/` and `/health`. Source: RootResource (KIP-1017)."""

from __future__ import annotations

from kconnect.rest.exchange import Answer, Call, Endpoint
from kconnect.rest.operation import Operation, object_of, text

__all__ = ["ENDPOINTS"]

_INFO = object_of({"version": text, "commit": text, "kafka_cluster_id": {"type": ["string", "null"]}})
_HEALTH = object_of({"status": {"enum": ["healthy", "starting", "unhealthy"]}, "message": text})


def server_info(call: Call) -> Answer:
    info = call.herder.server_info()
    return Answer({"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})


def health(call: Call) -> Answer:
    if trouble := call.herder.trouble():
        return _health(500, "unhealthy", f"{trouble}.")
    if call.herder.is_ready():
        return _health(200, "healthy", "Worker has completed startup and is ready to handle requests.")
    return _health(503, "starting", "Worker is still starting up.")


def unhealthy(_call: Call) -> Answer:
    return _health(
        500, "unhealthy", "Worker was unable to handle this request and may be unable to handle other requests."
    )


def _health(status: int, word: str, message: str) -> Answer:
    return Answer({"status": word, "message": message}, status)


ENDPOINTS = (
    Endpoint("/", {"GET": Operation(server_info, "Version of the worker and id of its Kafka cluster", {200: _INFO})}),
    # Java waits 10 s for its herder's thread (DEFAULT_HEALTH_CHECK_TIMEOUT_MS)
    Endpoint(
        "/health",
        {"GET": Operation(health, "Whether the worker is ready", {200: _HEALTH, 503: _HEALTH, 500: _HEALTH})},
        deadline_s=10,
        when_late=unhealthy,
    ),
)
