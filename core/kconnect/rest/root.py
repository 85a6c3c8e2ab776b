"""`/` and `/health`. Source: RootResource (KIP-1017)."""

from __future__ import annotations

from kconnect.rest.exchange import Answer, Call, Endpoint

__all__ = ["ENDPOINTS"]


def server_info(call: Call) -> Answer:
    info = call.herder.server_info()
    return Answer({"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})


def health(call: Call) -> Answer:
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
    Endpoint("/", {"GET": server_info}),
    # Java waits 10 s for its herder's thread (DEFAULT_HEALTH_CHECK_TIMEOUT_MS)
    Endpoint("/health", {"GET": health}, deadline_s=10, when_late=unhealthy),
)
