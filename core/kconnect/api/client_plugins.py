"""Plugins about a connector's Kafka clients: interceptors of their records, and policies for settings it overrides.

Interceptors see, and may change, the records on their way to and from Kafka. They are named in `interceptor.classes`:
`producer.interceptor.classes` of the worker or `producer.override.interceptor.classes` of a connector, likewise with
`consumer.`. A policy is named in the worker's `connector.client.config.override.policy`, beside All, None, Principal
and Allowlist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kconnect.api.config_key import ConfigValue
from kconnect.api.configdef import ConfigDef
from kconnect.api.connector import Connector
from kconnect.api.record import TimestampType
from kconnect.api.task import RecordMetadata
from kconnect.model import ConnectorType, TopicPartition

KafkaHeader = tuple[str, bytes | None]


@dataclass(slots=True)
class ProducerRecord:
    """A record on its way to Kafka, as bytes. Source: o.a.k.clients.producer.ProducerRecord."""

    topic: str
    partition: int | None
    """Leaves it to the partitioner if it is None."""
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """In ms; None for the time of sending."""
    headers: list[KafkaHeader] = field(default_factory=list)


@dataclass(slots=True)
class ConsumerRecord:
    """A record from Kafka, as bytes. Source: o.a.k.clients.consumer.ConsumerRecord."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """In ms; None where `timestamp_type` says that there is none."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    headers: list[KafkaHeader] = field(default_factory=list)


class OffsetAndMetadata(NamedTuple):
    """A committed offset: of the record to read next. Source: o.a.k.clients.consumer.OffsetAndMetadata."""

    offset: int
    metadata: str = ""


class _Interceptor(ABC):  # noqa: B024  # what the two have in common; each adds its abstract method
    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings of the client, by Java's names without prefix: its own, and any others beside them.

        Called once, before anything else, when the task starts. May not block. Errors: any fails the task.
        """
        return

    def close(self) -> None:
        """Release resources. Called once, when the task has ended; not if its process dies. Errors are logged."""
        return


class ProducerInterceptor(_Interceptor):
    """Sees each record that a source task, or a dead letter queue, sends. One instance for each producer.

    Lifecycle: constructed without arguments -> configure() -> on_send()s, on_acknowledgement()s -> close().
    Source: o.a.k.clients.producer.ProducerInterceptor (Kafka 4.3).
    """

    @abstractmethod
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record to send in its place: the same one, changed or not, or another.

        Called after the converters, for each record, on the task's thread; the next interceptor gets the result. May
        not block. Errors are logged, and the record goes on as it came. A record cannot be dropped here.
        """

    def on_acknowledgement(  # may be left out
        self, metadata: RecordMetadata, error: Exception | None, headers: Sequence[KafkaHeader]
    ) -> None:
        """A record was written, or refused for good (`error`, then partition and offset may be -1).

        Called once for each record that was sent, on the thread that serves the producer, while others wait: be quick.
        Errors are logged.
        """


class ConsumerInterceptor(_Interceptor):
    """Sees what a sink task's consumer fetched, before the converters. One instance for each consumer.

    Lifecycle: constructed without arguments -> configure() -> on_consume()s, on_commit()s -> close(). All on the
    task's thread. Source: o.a.k.clients.consumer.ConsumerInterceptor (Kafka 4.3).
    """

    @abstractmethod
    def on_consume(self, records: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
        """The records that the task gets: the same, changed, or fewer.

        Called after each fetch that gave some; the next interceptor gets the result. The offset of a record left out
        is committed with that of a later one of its partition. May not block. Errors are logged, and the records go on
        as they came; so they do when the result has records of partitions that were not given, or unordered ones.
        """

    def on_commit(  # may be left out
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """These offsets were committed. Errors are logged."""


class ClientType(StrEnum):
    """The kind of client whose settings are overridden. Source: ConnectorClientConfigRequest.ClientType."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ConnectorClientConfigRequest:
    """A connector's overrides for one client. Source: ConnectorClientConfigRequest (Kafka 4.3)."""

    connector_name: str
    connector_type: ConnectorType
    connector_class: type[Connector]
    client_props: Mapping[str, str] = field(repr=False)
    """By Java's names without prefix, as written, with `${..}` resolved: keep them out of logs."""
    client_type: ClientType


class ConnectorClientConfigOverridePolicy(ABC):
    """Decides whether the overrides of a connector are allowed. One instance lives in the worker.

    Lifecycle: constructed without arguments -> configure() -> validate()s, on any thread -> close().
    Source: o.a.k.connect.connector.policy.ConnectorClientConfigOverridePolicy (Kafka 4.3).
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the worker's settings. Called once. Errors: any keeps the worker from starting."""
        return

    @abstractmethod
    def validate(self, request: ConnectorClientConfigRequest) -> list[ConfigValue]:
        """The overrides, with an error message at each that is refused; those without an error may be left out.

        Called when a connector is validated, created or changed, for each client that it will have. May not block.
        An error refuses all overrides of the request.
        """

    def close(self) -> None:
        """Release resources. Called once; not if the process dies."""
        return

    def version(self) -> str:
        """The version of this plugin."""
        return "undefined"

    def config(self) -> ConfigDef:
        """The settings of this policy."""
        return ConfigDef()
