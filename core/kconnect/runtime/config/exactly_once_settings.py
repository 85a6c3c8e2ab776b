"""Settings of exactly-once sources: whether it is enabled, transactional ids, clients, offsets topic (KIP-618).

Source: DistributedConfig#exactlyOnceSourceEnabled, Worker#exactlyOnceSourceTaskProducerConfigs, #taskTransactionalId,
#sameOffsetTopicAsWorker (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.runtime.config.client_config import ClientSettings, admin_config, producer_config

SUPPORT: Final = "exactly.once.source.support"
_BOOTSTRAP: Final = "bootstrap.servers"
_TIMEOUT: Final = "transaction.timeout.ms"
_DEFAULT_TIMEOUT_MS: Final = 60_000  # Java's, and librdkafka's
# Idempotent producers keep the order with up to five requests in flight; Java Connect uses one.
_IN_FLIGHT: Final = 5


def is_exactly_once(worker: Mapping[str, str]) -> bool:
    """Whether source tasks of this worker write in transactions. Standalone workers do not support it, as in Java."""
    return is_distributed(worker) and worker.get(SUPPORT, "disabled").strip().lower() == "enabled"


def is_distributed(worker: Mapping[str, str]) -> bool:
    """Whether these are the settings of a distributed worker."""
    return "group.id" in worker and "offset.storage.topic" in worker


def task_transactional_id(worker: Mapping[str, str], connector: str, task: int) -> str:
    """The transactional id shared by all producers of one task, on any worker."""
    return f"{worker.get('group.id', '')}-{connector}-{task}"


def transaction_timeout_ms(worker: Mapping[str, str], connector: Mapping[str, str]) -> int:
    """The time after which the broker aborts a task's transaction. Errors: ConfigError."""
    given = _given(worker, connector, _TIMEOUT)
    if given is None:
        return _DEFAULT_TIMEOUT_MS
    number: int = parse_type(_TIMEOUT, given, ConfigDef.Type.INT)
    return number


def exactly_once_producer(
    worker: Mapping[str, str], connector: Mapping[str, str], *, name: str, task: int
) -> ClientSettings:
    """Settings of a task's transactional producer. Errors: ConfigError.

    Differs: in Java a connector's producer may write to another cluster, which then keeps its offsets.
    """
    servers = _given(worker, connector, _BOOTSTRAP)
    if servers is not None and _servers(servers) != _servers(worker.get(_BOOTSTRAP, "")):
        message = f"Connector {name} cannot deliver exactly once to other brokers ({servers}) than the worker's"
        hint = "Leave out producer.override.bootstrap.servers, or run it on a worker of its own for those brokers."
        raise ConfigError(message, [ConfigProblem(f"producer.override.{_BOOTSTRAP}", servers, message)], hint=hint)
    settings, warnings = producer_config(worker, connector, client_id=f"connector-producer-{name}-{task}")
    fixed = {"enable.idempotence": "true", "transactional.id": task_transactional_id(worker, name, task)}
    for key, value in fixed.items():
        given = _given(worker, connector, key)
        if given is not None and given.strip().lower() != value.lower():
            warnings.append(
                f"The value '{given}' of '{key}' for the producer of {name} is ignored: it has to be '{value}' for "
                "connectors when exactly-once source support is enabled"
            )
    if _given(worker, connector, "max.in.flight.requests.per.connection") is None:
        settings["max.in.flight.requests.per.connection"] = _IN_FLIGHT
    return {**settings, **fixed}, warnings


def fencing_producer(worker: Mapping[str, str], connector: Mapping[str, str], name: str, task: int) -> ClientSettings:
    """Settings for fencing off the producer of a former task: with the rights of the connector's admin client."""
    settings, warnings = admin_config(worker, connector, client_id=f"connector-worker-adminclient-{name}-{task}")
    fixed = {
        "enable.idempotence": "true",
        "transactional.id": task_transactional_id(worker, name, task),
        "transaction.timeout.ms": transaction_timeout_ms(worker, connector),
    }
    return {**settings, **fixed}, warnings


def offsets_topic(worker: Mapping[str, str], connector: Mapping[str, str]) -> str:
    """The offsets topic of a source's tasks: the connector's own, or the worker's."""
    return connector.get("offsets.storage.topic", "").strip() or worker.get("offset.storage.topic", "").strip()


def owns_offsets_topic(worker: Mapping[str, str], connector: Mapping[str, str]) -> bool:
    """Whether that is not the worker's topic."""
    return offsets_topic(worker, connector) != worker.get("offset.storage.topic", "").strip()


def _given(worker: Mapping[str, str], connector: Mapping[str, str], key: str) -> str | None:
    return connector.get(f"producer.override.{key}", worker.get(f"producer.{key}"))


def _servers(text: str) -> set[str]:
    return {server.strip() for server in text.split(",") if server.strip()}
