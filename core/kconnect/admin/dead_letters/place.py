"""Where a connector's letters lie: in the Kafka cluster that its producer writes to, which may be one of its own."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.errors import BadRequestError
from kconnect.runtime.config.addresses import parse_servers
from kconnect.runtime.config.client_config import brokers_of

_OVERRIDES = ("producer.override.", "consumer.override.")


def letters_worker(config: Mapping[str, str], worker: Mapping[str, str]) -> Mapping[str, str]:
    """The worker's settings with the brokers, and the login there, of the connector's producer.

    `worker` itself where these are the same brokers. `config` may have references. Errors: ConfigError for a reference
    that leads nowhere, and for brokers that are none.
    """
    own = brokers_of("producer", worker, _resolved(config, worker))
    return worker if _servers(own) == _servers(worker) else {**worker, **own}


def refuse_two_clusters(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Errors: BadRequestError for a sink that reads from another cluster than the one where its letters lie.

    A letter and the mark that it was sent are one transaction, and there is none across clusters.
    """
    resolved = _resolved(config, worker)
    letters = brokers_of("producer", worker, resolved)
    records = brokers_of("consumer", worker, resolved)
    if _servers(letters) != _servers(records):
        name = config.get("name", "the connector")
        raise BadRequestError(
            f"Dead letters of {name} lie in Kafka at {letters['bootstrap.servers']}, and its records come from "
            f"{records['bootstrap.servers']}: a replay cannot send them there and mark them as sent in one transaction",
            hint="Straight into the sink they can go: --through.",
        )


def _resolved(config: Mapping[str, str], worker: Mapping[str, str]) -> Mapping[str, str]:
    overrides = {key: value for key, value in config.items() if key.startswith(_OVERRIDES)}
    if not any("${" in value for value in overrides.values()):
        return overrides
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        return variables.resolve(overrides, f"connector {config.get('name', '')}").values
    finally:
        variables.close()


def _servers(settings: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    return frozenset(parse_servers(settings.get("bootstrap.servers", "")))
