"""What a topic is to one principal: its shape, its replicas, its settings, and what that principal may do with it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported there
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kconnect.errors import TimedOutError
from kconnect.runtime.kafka.clients import ClientLog, admin_client
from kconnect.runtime.kafka.internal_topics import InternalTopicSpec

log = logging.getLogger(__name__)

_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_DENIED: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as one principal sees it."""

    topic: str
    exists: bool = True
    is_denied: bool = False
    """The principal may not even describe it: nothing else is known."""
    partitions: int = 0
    replicas: int = 0
    """The replicas of the partition that has the fewest; likewise for those in sync."""
    in_sync: int = 0
    leaderless: tuple[int, ...] = ()
    operations: frozenset[str] | None = None
    """READ, WRITE ..: what the principal may do; None if the broker does not say."""
    settings: Mapping[str, str] | None = field(default=None)
    """It is None without the right to read them."""


class TopicLook:
    """Looks at topics with the settings of one client of librdkafka. Changes nothing. Threads: one."""

    def __init__(self, config: Mapping[str, Any], timeout_s: float) -> None:
        """Errors: ConnectError when librdkafka refuses a setting."""
        self._log = ClientLog(log, "Admin client of the check")
        self._client: AdminClient = admin_client(config, self._log)
        self._timeout_s = timeout_s

    def broker_count(self) -> int:
        """How many brokers are up. Errors: ConnectError."""
        return len(self._result(self._client.describe_cluster(request_timeout=self._timeout_s)).nodes)

    def facts(self, topics: Collection[str]) -> dict[str, TopicFacts]:
        """Errors: ConnectError for whatever is neither a missing topic nor a missing right."""
        wanted = self._client.describe_topics(
            TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        found = {}
        for name, future in wanted.items():
            try:
                described = self._result(future)
            except KafkaException as error:
                code = error.args[0].code()
                if code not in _MISSING | _DENIED:
                    raise self._log.error(f"Topic {name} cannot be described", error.args[0]) from error
                found[name] = TopicFacts(topic=name, exists=code in _DENIED, is_denied=code in _DENIED)
            else:
                found[name] = self._described(name, described)
        return found

    def creation_error(self, spec: InternalTopicSpec) -> KafkaError | None:
        """Why the topic could not be created as the worker would; the broker checks it, and creates none."""
        new = NewTopic(spec.topic, spec.partitions, spec.replication_factor, config=spec.all_configs)
        futures = self._client.create_topics([new], validate_only=True, request_timeout=self._timeout_s)
        try:
            self._result(futures[spec.topic])
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            return reason
        return None

    def _described(self, name: str, described: Any) -> TopicFacts:  # the client's own description
        partitions = described.partitions
        operations = described.authorized_operations
        return TopicFacts(
            topic=name,
            partitions=len(partitions),
            replicas=min((len(one.replicas) for one in partitions), default=0),
            in_sync=min((len(one.isr) for one in partitions), default=0),
            leaderless=tuple(one.id for one in partitions if one.leader is None or one.leader.id < 0),
            operations=None if operations is None else frozenset(one.name for one in operations),
            settings=self._settings(name),
        )

    def _settings(self, name: str) -> Mapping[str, str] | None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self._client.describe_configs([resource], request_timeout=self._timeout_s)
        try:
            entries = self._result(futures[resource])
        except KafkaException as error:
            if error.args[0].code() in _DENIED:
                return None
            raise self._log.error(f"The settings of topic {name} cannot be read", error.args[0]) from error
        return {entry.name: entry.value for entry in entries.values() if entry.value is not None}

    def _result(self, future: Future[Any]) -> Any:  # what the client's futures hold
        try:
            return future.result(self._timeout_s)
        except FutureTimeoutError as error:
            self._client.poll(0)  # serves the client's own errors, which say more
            why = f": {self._log.last_error}" if self._log.last_error else ""
            raise TimedOutError(f"The brokers gave no answer within {self._timeout_s:.1f} s{why}") from error
