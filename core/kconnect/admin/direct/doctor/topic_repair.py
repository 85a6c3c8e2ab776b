"""What is changed of an internal topic itself, so that workers start on it: it is made, or some of its settings are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.doctor.diagnosis import better_settings
from kconnect.admin.direct.doctor.facts import TopicFacts
from kconnect.admin.direct.edit.topic_creation import create_topics, topic_specs
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.logs.wording import pluralize
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec


@dataclass(frozen=True, slots=True)
class TopicRepair:
    """What to do to a topic; nothing where it is well."""

    topic: str
    make: InternalTopicSpec | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, str] = field(default_factory=dict)
    """What these settings are now."""

    @property
    def is_empty(self) -> bool:
        return self.make is None and not self.settings

    def lines(self) -> Iterator[str]:
        """Each change as a sentence's words."""
        if (spec := self.make) is not None:
            shape = [pluralize(count, word) for count, word in _shape(spec) if count > 0]
            yield f"create topic {self.topic}, as a worker would: {', '.join([*shape, 'cleanup.policy=compact'])}"
        for key, value in self.settings.items():
            yield f"set {key}={value} on topic {self.topic} (now {self.before[key]})"

    def carry_out(self, access: ClusterAccess, reader: ClusterReader) -> None:
        """Errors: ConfigError for what a worker refuses; TimedOutError; ConnectError of the brokers."""
        if self.make is not None:
            create_topics(access, reader, [self.make])
        if self.settings:
            reader.admin.set_topic_configs(self.topic, self.settings, access.timeout_s)


def topic_repair(access: ClusterAccess, reader: ClusterReader, which: InternalTopic) -> TopicRepair:
    """What the topic lacks, by the doctor's rules. Errors: ConfigError of settings; ConnectError of the brokers."""
    name = access.topic(which)
    found = reader.admin.describe_topics([name], access.timeout_s).get(name)
    if found is None:
        return TopicRepair(name, make=topic_specs(access, [which])[0])
    configs = reader.admin.topic_configs(name, access.timeout_s)
    better = better_settings(TopicFacts(name, True, found.partitions, found.replication_factor, configs))
    return TopicRepair(name, settings=better, before={key: configs[key] for key in better})


def _shape(spec: InternalTopicSpec) -> tuple[tuple[int, str], tuple[int, str]]:
    return (spec.partitions, "partition"), (spec.replication_factor, "replica")
