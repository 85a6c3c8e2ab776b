"""Creates internal topics as a worker of the given settings does."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.errors import ConfigError, NotFoundError, RetriableError, TimedOutError
from kconnect.logs.wording import pluralize
from kconnect.model import TopicPartition
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec, ensure_internal_topic
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs

_PAUSE_S = 0.1
_OF_NO_MATTER = dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter")


def topic_specs(access: ClusterAccess, topics: Collection[InternalTopic]) -> list[InternalTopicSpec]:
    """Topics as a worker of these settings makes them. Errors: ConfigError for a setting that a worker refuses.

    Converters, which a worker cannot do without, have no part in it: they need not be known.
    """
    specs = internal_topic_specs(DistributedConfig.parse({**_OF_NO_MATTER, **access.worker}))
    found: dict[InternalTopic, InternalTopicSpec] = {
        InternalTopic.CONFIG: specs.config,
        InternalTopic.OFFSET: specs.offsets,
        InternalTopic.STATUS: specs.status,
    }
    return [found[which] for which in topics]


def create_topics(access: ClusterAccess, reader: ClusterReader, specs: Collection[InternalTopicSpec]) -> None:
    """Create topics as a worker does, and within the command's deadline, which a worker has not.

    Errors: ConfigError, also for more replicas than there are brokers: no patience makes them; TimedOutError,
    ConnectError.
    """
    brokers = reader.admin.broker_count(access.timeout_s)
    for spec in specs:
        if spec.replication_factor > brokers:
            setting = f"{spec.setting.removesuffix('topic')}replication.factor"
            count = pluralize(spec.replication_factor, "replica")
            raise ConfigError(
                f"Topic {spec.topic} cannot be created with {count} ({setting}): the cluster has "
                f"{pluralize(brokers, 'broker')}",
                hint=f"Lower {setting} (-1 leaves it to the broker), or start more brokers.",
            )
    for spec in specs:
        within_s = min(spec.timeout_s, access.timeout_s)
        request_s = min(spec.request_timeout_s, access.timeout_s)
        ensure_internal_topic(reader.admin, replace(spec, timeout_s=within_s, request_timeout_s=request_s))
        _await_leaders(access, reader, spec.topic)


def _await_leaders(access: ClusterAccess, reader: ClusterReader, topic: str) -> None:
    """Partitions of a topic that was just created may have no leader yet."""
    deadline = time.monotonic() + access.timeout_s
    while True:
        info = reader.admin.describe_topics([topic], access.timeout_s).get(topic)
        partitions = [TopicPartition(topic, number) for number in range(info.partitions if info else 0)]
        why: Exception | None = None
        try:
            if reader.admin.log_offsets(partitions, "end", access.timeout_s):
                return
        except (RetriableError, NotFoundError) as error:
            why = error
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"Topic {topic} was created, but could not be read within {access.timeout_s:g} s (--timeout)"
            ) from why
        time.sleep(_PAUSE_S)
