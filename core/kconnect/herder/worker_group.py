"""A sink whose consumer group is the workers' own group would break both: its config is refused.

Source: DistributedHerder#validateSinkConnectorGroupId (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.api.configdef import ConfigValue

__all__ = ["check_worker_group"]

_OVERRIDE = "consumer.override.group.id"


def check_worker_group(props: Mapping[str, str], values: dict[str, ConfigValue], worker_group: str) -> None:
    """Add an error, in Java's words, to the setting that gives the sink its group."""
    group = props.get(_OVERRIDE)
    if group:
        value, whose = values.setdefault(_OVERRIDE, ConfigValue(_OVERRIDE, group)), group
    else:
        name = props.get("name", "")
        group, value, whose = f"connect-{name}", values["name"], f"for sink connector named {name}"
    if group == worker_group:
        value.add_error_message(f"Consumer group {whose} conflicts with Connect worker group {worker_group}")
