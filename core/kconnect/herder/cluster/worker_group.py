"""A sink whose consumer group is the workers' own group would break both: it is refused.

Source: DistributedHerder#validateSinkConnectorGroupId (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.errors import ConfigProblem
from kconnect.herder.offsets_admin import consumer_group_of
from kconnect.herder.validation import InvalidConnectorError

__all__ = ["refuse_worker_group"]

_OVERRIDE = "consumer.override.group.id"


def refuse_worker_group(name: str, config: Mapping[str, str], worker_group: str) -> None:
    """Errors: InvalidConnectorError in Java's words. `config` is a sink's.

    Differs: the report of `validate` does not list it.
    """
    group = consumer_group_of(name, config)
    if group != worker_group:
        return
    key, whose = (_OVERRIDE, group) if config.get(_OVERRIDE) else ("name", f"for sink connector named {name}")
    told = f"Consumer group {whose} conflicts with Connect worker group {worker_group}"
    raise InvalidConnectorError(
        f"Connector configuration is invalid and contains the following 1 error(s):\n{told}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
        (ConfigProblem(key, config.get(key), told),),
        hint=f"Give the sink another {key}, or the workers another group.id.",
    )
