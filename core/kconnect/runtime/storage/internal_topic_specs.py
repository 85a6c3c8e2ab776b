"""The three internal topics as the settings of a distributed worker define them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec

# The worker's settings under a prefix that are not topic settings.
_OWN: Final = frozenset({"topic", "replication.factor", "partitions", "cleanup.policy"})


class InternalTopics(NamedTuple):
    """The three topics; a connector's own offsets topic is like `offsets` with another name."""

    config: InternalTopicSpec
    offsets: InternalTopicSpec
    status: InternalTopicSpec


def internal_topic_specs(config: DistributedConfig) -> InternalTopics:
    """The topics as the worker creates and checks them.

    Errors: ConfigError with Java's message if default.api.timeout.ms or retry.backoff.ms is not a number.
    Source: DistributedConfig.topicSettings, and setup of the three stores (Kafka 4.3).
    """
    return InternalTopics(
        _spec(config, "config.storage.", "connector configurations", partitions=1),
        _spec(config, "offset.storage.", "source connector offsets"),
        _spec(config, "status.storage.", "connector and task statuses"),
    )


def _spec(config: DistributedConfig, prefix: str, purpose: str, partitions: int | None = None) -> InternalTopicSpec:
    given = config.with_prefix(prefix)
    return InternalTopicSpec(
        topic=config.values[f"{prefix}topic"],
        setting=f"{prefix}topic",
        purpose=purpose,
        partitions=config.values[f"{prefix}partitions"] if partitions is None else partitions,
        replication_factor=config.values[f"{prefix}replication.factor"],
        configs={key: value for key, value in given.items() if key not in _OWN},
        must_have_one_partition=partitions == 1,
        ignored=tuple(_ignored(prefix, given, is_single=partitions == 1)),
        timeout_s=_ms(config.originals, "default.api.timeout.ms", 60_000) / 1000,
        request_timeout_s=_ms(config.originals, "request.timeout.ms", 30_000) / 1000,  # of Java's admin client
        backoff_s=_ms(config.originals, "retry.backoff.ms", 100) / 1000,
    )


def _ignored(prefix: str, given: Mapping[str, str], *, is_single: bool) -> list[str]:
    found = []
    if is_single and "partitions" in given:
        found.append(
            f"Ignoring '{prefix}partitions={given['partitions']}' setting, since config topic partitions is always 1"
        )
    if "cleanup.policy" in given:
        found.append(
            f"Ignoring '{prefix}cleanup.policy={given['cleanup.policy']}' setting, since compaction is always used"
        )
    return found


def _ms(props: Mapping[str, str], key: str, default: int) -> int:
    number: int = parse_type(key, props[key], ConfigDef.Type.LONG) if key in props else default
    return number
