"""TopicEnds: the partitions of a sink's topics, and how far they go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from kconnect.model import TaskSpec, TopicPartition
from kconnect.runtime.config.client_config import admin_config, consumer_config, offset_reset
from kconnect.runtime.config.connector_config import SinkConnectorConfig
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import KafkaAdmin

if TYPE_CHECKING:
    from kconnect.spark.query.topic_order import TopicOrder

# As often as clients look for new partitions while they are idle would be minutes; a request takes a millisecond
_TOPICS_EVERY_S: Final = 5.0
_TIMEOUT_S: Final = 30.0


class TopicEnds:
    """Asks the brokers. Threads: one. Errors: ConnectError."""

    def __init__(self, spec: TaskSpec) -> None:
        """`spec` with its references resolved."""
        name = spec.id.connector
        self._config = SinkConnectorConfig.parse(spec.connector_config)
        self._pattern = TopicPattern.of_sink(spec.worker_config, spec.connector_config)
        settings, _ = admin_config(
            spec.worker_config, spec.connector_config, client_id=f"connector-adminclient-{spec.id}"
        )
        ids = {"client_id": f"connector-consumer-{spec.id}", "group_id": f"connect-{name}"}
        consumer, _ = consumer_config(spec.worker_config, spec.connector_config, **ids)
        self._is_stable = consumer["isolation.level"] == "read_committed"
        self._reset = offset_reset(spec.worker_config, spec.connector_config)
        self._admin = KafkaAdmin(settings, f"the topics of {spec.id}")
        self._partitions: list[TopicPartition] = []
        self._looked_at_s = float("-inf")

    @classmethod
    def of_order(cls, order: TopicOrder) -> TopicEnds:
        """For the planning process. Errors: ConfigError for a reference that cannot be resolved."""
        from kconnect.runtime.pipeline.lifecycle import resolved_spec
        from kconnect.spark.query.topic_reader import plugins_of

        return cls(resolved_spec(TaskSpec.from_json(order.spec), plugins_of(order)))

    def look(self) -> dict[TopicPartition, int]:
        """The end of each partition: that of committed records if only these are read."""
        return self._admin.log_offsets(self.partitions(), "end", _TIMEOUT_S, is_stable=self._is_stable)

    def first(self) -> dict[TopicPartition, int]:
        """Where a query without offsets begins, by auto.offset.reset: the first record, the end, or some time back."""
        if self._reset.to == "end":
            return self.look()
        if self._reset.to == "time":
            since_ms = max(int(time.time() * 1000) - self._reset.back_ms, 0)
            found = self._admin.log_offsets(self.partitions(), since_ms, _TIMEOUT_S)
            ends = self.look()
            return {at: ends[at] if offset < 0 else offset for at, offset in found.items()}
        return self._admin.log_offsets(self.partitions(), "begin", _TIMEOUT_S)

    def partitions(self) -> list[TopicPartition]:
        """Gives the partitions of the topics that exist; they are looked up again every few seconds."""
        now_s = time.monotonic()
        if now_s - self._looked_at_s < _TOPICS_EVERY_S:
            return self._partitions
        self._looked_at_s = now_s
        if self._pattern is None:
            found = self._admin.describe_topics(self._config.topics, _TIMEOUT_S)
            counts = {name: topic.partitions for name, topic in found.items()}
        else:
            every = self._admin.topic_names(_TIMEOUT_S)
            counts = {name: every[name] for name in self._pattern.of(every)}
        self._partitions = [
            TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])
        ]
        return self._partitions

    def close(self) -> None:
        """Idempotent."""
        self._admin.close()
