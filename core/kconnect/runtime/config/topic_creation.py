"""The topic.creation.* settings of a source connector: groups of topics, and how to create their topics.

Source: SourceConnectorConfig, TopicCreationConfig, TopicCreationGroup (Kafka 4.3, KIP-158).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.java.compat.regex import compile_java
from kconnect.runtime.config.connector_keys import topic_creation_table

log = logging.getLogger(__name__)

_PREFIX = "topic.creation."
_GROUPS = f"{_PREFIX}groups"
_DEFAULT = "default"
_OWN = frozenset(topic_creation_table(_DEFAULT).config_keys)


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics created alike; -1 uses the broker's default."""

    name: str
    include: str
    exclude: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """Settings of the topic, such as cleanup.policy."""

    def matches(self, topic: str) -> bool:
        return compile_java(self.include).fullmatch(topic) is not None and not compile_java(self.exclude).fullmatch(
            topic
        )


def topic_groups(props: Mapping[str, str]) -> tuple[TopicGroup, ...]:
    """The groups in matching order, `default` last; empty if the connector has no such setting.

    Errors: ConfigError with Java's message for the first missing or invalid setting.
    """
    if not any(key.startswith(_PREFIX) for key in props):
        return ()
    names = _names(props)
    own = _without_default_patterns(props)
    default = _table((), {}).parse(own)
    values = _table(names, default).parse(own)
    return tuple(_group(name, values, props) for name in (*names, _DEFAULT))


def _names(props: Mapping[str, str]) -> list[str]:
    """Aliases of the groups except `default`, which always exists."""
    given = parse_type(_GROUPS, props.get(_GROUPS, ""), ConfigDef.Type.LIST)
    if _DEFAULT in given:
        log.warning("'%s' topic creation group always exists and does not need to be listed explicitly", _DEFAULT)
    return [name for name in dict.fromkeys(given) if name != _DEFAULT]


def _without_default_patterns(props: Mapping[str, str]) -> dict[str, str]:
    """The default group matches all remaining topics: its own patterns are ignored."""
    ignored = (f"{_PREFIX}{_DEFAULT}.include", f"{_PREFIX}{_DEFAULT}.exclude")
    return {key: value for key, value in props.items() if key not in ignored}


def _table(names: list[str] | tuple[str, ...], default: Mapping[str, Any]) -> ConfigDef:
    table = ConfigDef()
    table.embed(f"{_PREFIX}{_DEFAULT}.", _DEFAULT, 0, topic_creation_table(_DEFAULT))
    replicas = default.get(f"{_PREFIX}{_DEFAULT}.replication.factor", -1)
    partitions = default.get(f"{_PREFIX}{_DEFAULT}.partitions", -1)
    for name in names:
        table.embed(f"{_PREFIX}{name}.", name, 0, topic_creation_table(name, replicas, partitions))
    return table


def _group(name: str, values: Mapping[str, Any], props: Mapping[str, str]) -> TopicGroup:
    prefix = f"{_PREFIX}{name}."
    given = {key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)}
    return TopicGroup(
        name,
        "|".join(values[f"{prefix}include"]),
        "|".join(values[f"{prefix}exclude"]),
        values[f"{prefix}partitions"],
        values[f"{prefix}replication.factor"],
        {key: value for key, value in given.items() if key not in _OWN},
    )
