"""TopicCreation: creates a source's topics from its topic.creation.* groups, before their first records.

MissingTopics, for sources without such groups, only logs those that the broker has to create.

Source: AbstractWorkerSourceTask.maybeCreateTopic, TopicCreation, TopicAdmin (Kafka 4.3, KIP-158).
Differs: a creation that times out is retried, as the check for the topic is; in Java it fails the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from kconnect.errors import AlreadyExistsError, ConnectError, RetriableError, TimedOutError, UnreachableError
from kconnect.runtime.config.topic_creation import TopicGroup
from kconnect.runtime.kafka import TopicInfo
from kconnect.runtime.pipeline.ports import TaskControl

log = logging.getLogger(__name__)

# One question to the broker; between two of them the stop is looked at.
_ASK_S = 5.0
# To look for a topic only to report it: a broker that is away must not hold the task up much longer than it does.
_LOOK_S = 1.0
# Java's SEND_FAILED_BACKOFF_MS: between two questions to a broker that does not answer.
_RETRY_S = 0.1


class TopicAdmin(Protocol):
    """What is needed from the cluster; implemented by KafkaAdmin."""

    def has_topic(self, topic: TopicInfo, timeout_s: float) -> bool:
        """Whether a topic exists that the task writes to, and creates if it does not."""
        ...

    def create_topic(self, topic: TopicInfo, timeout_s: float) -> None:
        """Create a topic. Errors: AlreadyExistsError."""
        ...

    def close(self) -> None: ...


class SourceTopics(Protocol):
    """Creates missing topics, rejects some, or logs those that are left to the broker."""

    def ensure(self, topics: Collection[str]) -> bool:
        """Whether records may be sent there; False when the task is stopped first. Errors: ConnectError."""
        ...

    def close(self) -> None: ...


class TopicCreation:
    """Creates the missing topics that one task writes to; each is checked once. Threads: the task's.

    The admin client is opened for the first topic and kept: sources with a topic per key need it often.
    """

    def __init__(
        self, groups: Sequence[TopicGroup], control: TaskControl, open_admin: Callable[[], TopicAdmin]
    ) -> None:
        self._groups = tuple(groups)
        self._control = control
        self._open_admin = open_admin
        self._admin: TopicAdmin | None = None
        self._known: set[str] = set()

    def ensure(self, topics: Collection[str]) -> bool:
        """Whether all these topics exist now; False when the task is stopped before the broker answers.

        Errors: ConnectError when one is missing and cannot be created.
        """
        return all(topic in self._known or self._ensure(topic) for topic in topics)

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()

    def _ensure(self, topic: str) -> bool:
        """Make sure that one topic exists. A broker that does not answer is asked again until the task is stopped."""
        log.info("The task will send records to topic '%s' for the first time. Checking whether topic exists", topic)
        is_logged = False
        while not self._control.is_stopping:
            try:
                self._find_or_create(topic)
            except (TimedOutError, UnreachableError, RetriableError) as error:
                if not is_logged:
                    with self._control.in_stage("topics"):
                        log.warning("Cannot check yet whether topic '%s' exists; will be retried: %s", topic, error)
                is_logged = True
                self._control.wait(_RETRY_S)
            else:
                self._known.add(topic)
                return True
        return False

    def _find_or_create(self, topic: str) -> None:
        admin = self._client()
        group = next((group for group in self._groups if group.matches(topic)), self._groups[-1])
        wanted = new_topic(topic, group)
        if admin.has_topic(wanted, _ASK_S):
            log.info("Topic '%s' already exists.", topic)
            return
        try:
            admin.create_topic(wanted, _ASK_S)
            log.info("Created topic %s using creation group '%s'", wanted, group.name)
        except AlreadyExistsError:
            log.info("Found existing topic '%s'", topic)  # another task was quicker
        except (TimedOutError, UnreachableError, RetriableError):
            raise
        except ConnectError as error:
            failure = ConnectError(
                f"Task {self._control.spec.id} failed to create topic {topic!r} with the settings of "
                f"topic.creation.{group.name}.*: {error}",
                hint=error.hint
                or "Correct these settings, grant the task the right to create topics, or create the topic yourself; "
                "then restart the task.",
            )
            failure.log_stage = "topics"
            raise failure from error

    def _client(self) -> TopicAdmin:
        if self._admin is None:
            self._admin = self._open_admin()
        return self._admin


class OtherTopics:
    """Topics of a source, but for some that no source of this worker may write to, and why. Implements SourceTopics."""

    def __init__(self, topics: SourceTopics, refused: Mapping[str, str]) -> None:
        self._topics = topics
        self._refused = refused

    def ensure(self, topics: Collection[str]) -> bool:
        """Works as for the other topics. Errors: ConnectError for a refused one, with the reason."""
        for topic in topics:
            if topic in self._refused:
                raise ConnectError(self._refused[topic])
        return self._topics.ensure(topics)

    def close(self) -> None:
        self._topics.close()


_ADVICE = (
    "; to choose them yourself, set topic.creation.default.replication.factor and topic.creation.default.partitions in "
    "the connector's config"
)


class MissingTopics:
    """Logs missing topics of a task when only the broker can create them. Threads: the task's.

    `names` returns all topics of the cluster within a timeout: called for the first topic, and again for one not among
    them. Each is checked once, and logged when missing. `may_be_made`: connector settings could create it.
    Source: NetworkClient.DefaultMetadataUpdater, whose producers warn of UNKNOWN_TOPIC_OR_PARTITION with each answer.
    """

    def __init__(self, control: TaskControl, names: Callable[[float], Collection[str]], *, may_be_made: bool) -> None:
        self._control = control
        self._names = names
        self._advice = _ADVICE if may_be_made else ""
        self._there: Collection[str] = ()
        self._known: set[str] = set()

    def ensure(self, topics: Collection[str]) -> bool:
        """Always True: the broker decides what happens with a missing topic."""
        for topic in topics:
            if topic not in self._known:
                self._known.add(topic)
                if topic not in self._there:
                    self._look_for(topic)
        return True

    def close(self) -> None:
        """Nothing to close: the producer answers."""

    def _look_for(self, topic: str) -> None:
        try:
            self._there = self._names(_LOOK_S)
        except ConnectError as error:  # the producer logs an unreachable broker
            log.debug("Whether topic '%s' exists is not known: %s", topic, error)
            return
        if topic not in self._there:
            with self._control.in_stage("topics"):
                log.warning(
                    "Topic '%s' does not exist: the broker creates it with its own defaults, or the task fails "
                    "(auto.create.topics.enable of the broker)%s",
                    topic,
                    self._advice,
                )


def new_topic(topic: str, group: TopicGroup) -> TopicInfo:
    """The topic as its group defines it."""
    return TopicInfo(topic, group.partitions, group.replication_factor, group.configs)
