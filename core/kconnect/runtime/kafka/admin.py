"""KafkaAdmin: requests to the cluster, with deadlines: its id, topics, offsets of consumer groups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal, Self

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported there
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kconnect.errors import (
    AlreadyExistsError,
    ConnectError,
    NotFoundError,
    RetriableError,
    TimedOutError,
)
from kconnect.model import TopicPartition
from kconnect.runtime.config.rights import Right
from kconnect.runtime.kafka.answering_client import AnsweringClient, Witness
from kconnect.runtime.kafka.clients import ClientLog, admin_client, consumer_client, kafka_errors
from kconnect.runtime.kafka.retriable_codes import RETRIABLE_CODES

log = logging.getLogger(__name__)

# The client has its own deadline; ours, slightly later, applies if it misses that.
_SLACK_S = 2.0
# The client's message for partitions without a leader, whose broker is still restarting
_LEADERLESS = RETRIABLE_CODES | {KafkaError._NOENT}
_PLACES = {"begin": OffsetSpec.earliest(), "end": OffsetSpec.latest()}  # type: ignore[no-untyped-call]  # as it is


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Description of a topic."""

    name: str
    partitions: int
    replication_factor: int
    """That of the partition with the fewest."""
    configs: Mapping[str, str] = field(default_factory=dict)
    behind: int = 0
    """How many partitions have replicas that are not in sync."""
    least_in_sync: int = 0
    """How many replicas are in sync of the partition with the fewest of these."""


@dataclass(frozen=True, slots=True)
class ReplicaPlaces:
    """Ids of the brokers that have each partition of a topic; `replicas` in the order in which they are to lead it."""

    replicas: Mapping[int, tuple[int, ...]]
    in_sync: Mapping[int, tuple[int, ...]]


def cluster_id(config: Mapping[str, Any], timeout_s: float) -> str:
    """The id of the cluster behind `bootstrap.servers`. Errors: UnreachableError, TimedOutError."""
    with KafkaAdmin(config, "worker") as admin:
        return admin.cluster_id(timeout_s)


class KafkaAdmin:
    """An admin client. Threads: any. Errors: ConnectError and its subclasses; each call ends within its `timeout_s`."""

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        *,
        timeout_setting: str = "",
        witness: Witness | None = None,
        make_client: Callable[[Mapping[str, Any], ClientLog], AdminClient] = admin_client,
        renewed: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        """`timeout_setting`: the setting that gives `timeout_s`, for messages. `witness`: as of `AnsweringClient`.

        `renewed`: what `config` is now, where that may change: the next request then has another client.
        """
        self._config = config
        now = renewed or (lambda: self._config)

        def made() -> AdminClient:
            self._config = now()
            return make_client(self._config, self._log)

        self._in_setting = f" ({timeout_setting})" if timeout_setting else ""
        self._log = ClientLog(log, f"Admin client of {name}")
        self._client = AnsweringClient(name, made, witness, is_outdated=lambda: now() is not self._config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the client; there is nothing to flush."""
        self._client.close()

    @property
    def is_unanswered(self) -> bool:
        """Whether the last request had no answer."""
        return self._client.is_unanswered

    def silent_s(self) -> float | None:
        """For how long requests have had no answer though Kafka answers others; None while all is well."""
        return self._client.silent_s()

    def cluster_id(self, timeout_s: float) -> str:
        found: str | None = self._cluster(timeout_s).cluster_id
        if not found:
            servers = self._config.get("bootstrap.servers")
            raise TimedOutError(f"The Kafka cluster at {servers} did not return its id within {timeout_s:.0f} s")
        return found

    def broker_count(self, timeout_s: float) -> int:
        """The number of brokers in the cluster. Errors: UnreachableError, TimedOutError, which name the servers."""
        return len(self._cluster(timeout_s).brokers)

    def broker_ids(self, timeout_s: float) -> frozenset[int]:
        """The brokers that are up. Errors: as `broker_count`."""
        return frozenset(self._cluster(timeout_s).brokers)

    def controller(self, timeout_s: float) -> tuple[str, int]:
        """Host and port of the broker that takes requests for the controller. Errors: as `broker_count`."""
        found = self._cluster(timeout_s)
        broker = found.brokers.get(found.controller_id) or next(iter(found.brokers.values()))
        return str(broker.host), int(broker.port)

    def _cluster(self, timeout_s: float) -> ClusterMetadata:
        servers = self._config.get("bootstrap.servers")
        with self._client.asking() as client:
            try:
                with kafka_errors(f"The Kafka cluster at {servers} does not answer"):
                    return client.list_topics(timeout=timeout_s)
            except ConnectError:
                client.poll(0)  # serves the client's own errors, which say more than a timeout
                self._log.raise_if_refused()
                raise

    # --- topics ---

    def has_topic(self, topic: TopicInfo, timeout_s: float) -> bool:
        """Whether a topic exists that the caller writes to, and creates if it does not. Creates none.

        Errors: ConnectError that names both rights where both lack: only who sees the topic knows if it is there.
        """
        try:
            return topic.name in self._described([topic.name], timeout_s, "WRITE")
        except ConnectError as error:
            hidden = _denied(error)
            if hidden is None:
                raise
            try:
                self.create_topic(topic, timeout_s, is_trial=True)
            except ConnectError as refused:
                if _denied(refused) is not None:
                    needs = (Right(operation, "topic", topic.name) for operation in ("WRITE", "CREATE"))
                    doing = f"Topic {topic.name!r} cannot be described, nor created if it does not exist"
                    raise self._log.error(doing, hidden, *needs) from error.__cause__
            raise

    def describe_topics(
        self, names: Collection[str], timeout_s: float, *, right: str = "DESCRIBE"
    ) -> dict[str, TopicInfo]:
        """The named topics that exist, without their configs. Does not make the broker create any.

        `right`: what the caller needs on them, which includes DESCRIBE: the one to grant where they may not be seen.
        Errors: ConnectError that names all that may not be seen.
        """
        found = {}
        for name, topic in self._described(names, timeout_s, right).items():
            found[name] = TopicInfo(
                name,
                len(topic.partitions),
                min((len(each.replicas) for each in topic.partitions), default=0),
                behind=sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
                least_in_sync=min((len(each.isr) for each in topic.partitions), default=0),
            )
        return found

    def replica_places(self, name: str, timeout_s: float) -> ReplicaPlaces:
        """Where a topic is. Errors: NotFoundError if it does not exist."""
        found = self._described([name], timeout_s).get(name)
        if found is None:
            raise NotFoundError(f"Topic {name!r} does not exist")
        return ReplicaPlaces(
            {each.id: tuple(node.id for node in each.replicas) for each in found.partitions},
            {each.id: tuple(node.id for node in each.isr) for each in found.partitions},
        )

    def _described(  # the client's own descriptions
        self, names: Collection[str], timeout_s: float, right: str = "DESCRIBE"
    ) -> dict[str, Any]:
        found, hidden = {}, {}
        with self._client.asking() as client:
            futures = client.describe_topics(TopicCollection(list(dict.fromkeys(names))), request_timeout=timeout_s)
            for name, future in futures.items():
                try:
                    doing = f"Topic {name!r} cannot be described"
                    found[name] = self._result(future, doing, timeout_s, Right(right, "topic", name))
                except NotFoundError:
                    continue
                except ConnectError as error:
                    if _denied(error) is None:
                        raise
                    hidden[name] = error
        if not hidden:
            return found
        first, *others = hidden.values()
        reason = _denied(first)
        if not others or reason is None:
            raise first
        doing = f"Topics {', '.join(hidden)} cannot be described"
        raise self._log.error(doing, reason, *(Right(right, "topic", name) for name in hidden)) from first.__cause__

    def topic_names(self, timeout_s: float) -> dict[str, int]:
        """All visible topics with their partition counts."""
        with self._client.asking() as client, kafka_errors("The topics cannot be listed"):
            found = client.list_topics(timeout=timeout_s).topics
        return {name: len(topic.partitions) for name, topic in sorted(found.items())}

    def group_members(self, group: str, timeout_s: float) -> frozenset[str]:
        """The ids of the members that a consumer group has now; none if there is no such group."""
        doing, need = f"The members of group {group} cannot be read", Right("DESCRIBE", "group", group)
        with self._client.asking() as client:
            futures = client.describe_consumer_groups([group], request_timeout=timeout_s)
            found = self._result(futures[group], doing, timeout_s, need)
        return frozenset(member.member_id for member in found.members)

    def topic_configs(self, name: str, timeout_s: float) -> dict[str, str]:
        """The settings of a topic. Errors: NotFoundError if it does not exist."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        doing, need = f"The settings of topic {name!r} cannot be read", Right("DESCRIBE_CONFIGS", "topic", name)
        with self._client.asking() as client:
            futures = client.describe_configs([resource], request_timeout=timeout_s)
            entries = self._result(futures[resource], doing, timeout_s, need)
        return {entry.name: entry.value for entry in entries.values() if entry.value is not None}

    def set_topic_configs(self, name: str, configs: Mapping[str, str], timeout_s: float) -> None:
        """Set these settings of a topic; its others stay. Errors: NotFoundError if it does not exist; ConnectError."""
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        doing, need = f"The settings of topic {name!r} cannot be changed", Right("ALTER_CONFIGS", "topic", name)
        with self._client.asking() as client:
            futures = client.incremental_alter_configs([resource], request_timeout=timeout_s)
            self._result(futures[resource], doing, timeout_s, need)

    def create_topic(self, topic: TopicInfo, timeout_s: float, *, is_trial: bool = False) -> None:
        """Create a topic; a replication factor or partition count of -1 leaves it to the broker.

        `is_trial`: the broker says whether it would, and creates none.
        Errors: AlreadyExistsError if the name is taken.
        """
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, config=dict(topic.configs))
        need = Right("CREATE", "topic", topic.name)
        with self._client.asking() as client:
            futures = client.create_topics([new], validate_only=is_trial, request_timeout=timeout_s)
            self._result(futures[topic.name], f"Topic {topic.name!r} cannot be created", timeout_s, need)

    def delete_topic(self, name: str, timeout_s: float) -> None:
        """Delete a topic. Errors: NotFoundError if it does not exist."""
        with self._client.asking() as client:
            futures = client.delete_topics([name], request_timeout=timeout_s)
            self._result(futures[name], f"Topic {name!r} cannot be deleted", timeout_s, Right("DELETE", "topic", name))

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """The offset the next record of each partition will get."""
        reader = consumer_client({**self._config, "group.id": "kconnect-offsets-reader"}, self._log)
        try:
            found = {}
            for tp in partitions:
                with kafka_errors(f"The end of {tp} cannot be read"):
                    found[tp] = reader.get_watermark_offsets(
                        ClientPartition(tp.topic, tp.partition), timeout=timeout_s, cached=False
                    )[1]
            return found
        finally:
            reader.close()

    def log_offsets(
        self,
        partitions: Collection[TopicPartition],
        at: Literal["begin", "end"] | int,
        timeout_s: float,
        *,
        is_stable: bool = False,
    ) -> dict[TopicPartition, int]:
        """Offsets of partitions: the begin, the end, or the first record at or after a time in ms (-1 if none).

        All in one request and without another client, unlike `end_offsets`. `is_stable` gives the end that
        read_committed readers see: that before the first open transaction.
        Errors: RetriableError while a partition has no leader; ConnectError.
        """
        if not partitions:
            return {}
        level = IsolationLevel.READ_COMMITTED if is_stable else IsolationLevel.READ_UNCOMMITTED
        spec = OffsetSpec.for_timestamp(at) if isinstance(at, int) else _PLACES[at]
        asked = {ClientPartition(tp.topic, tp.partition): spec for tp in partitions}
        with self._client.asking() as client:
            return self._listed(client, asked, level, timeout_s)

    def _listed(
        self, client: AdminClient, asked: Any, level: IsolationLevel, timeout_s: float
    ) -> dict[TopicPartition, int]:
        with kafka_errors("Offsets cannot be asked for"):
            futures = client.list_offsets(asked, isolation_level=level, request_timeout=timeout_s)
        found = {}
        for part, future in futures.items():
            doing = f"The offsets of {part.topic}-{part.partition} cannot be read"
            try:
                answer = self._result(future, doing, timeout_s, Right("DESCRIBE", "topic", part.topic))
                found[TopicPartition(part.topic, part.partition)] = known_offset(answer.offset, doing)
            except ConnectError as error:
                cause = error.__cause__
                is_leaderless = isinstance(cause, KafkaException) and cause.args[0].code() in _LEADERLESS
                if is_leaderless or isinstance(error, RetriableError):
                    # Its leader changed. The client would keep its old metadata for minutes and be
                    # refused each time (librdkafka 2.16); listing all topics refreshes it, and creates none.
                    with kafka_errors(doing):
                        client.list_topics(timeout=timeout_s)
                    raise RetriableError(str(error)) from cause
                raise
        return found

    # what the client's futures hold
    def _result(self, future: Future[Any], doing: str, timeout_s: float, need: Right) -> Any:
        with self._explained(doing, timeout_s, need):
            return future.result(timeout_s + _SLACK_S)

    @contextmanager
    def _explained(self, doing: str, timeout_s: float, need: Right) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            if reason.code() == KafkaError._TIMED_OUT:  # of the client; a broker's REQUEST_TIMED_OUT is an answer
                raise self._late(doing, timeout_s, reason.str()) from error
            raise self._sorted_error(doing, reason, need) from error
        except FutureTimeoutError as error:
            raise self._late(doing, timeout_s, "the client did not end the request") from error

    def _sorted_error(self, doing: str, error: KafkaError, *needs: Right) -> ConnectError:
        if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return NotFoundError(f"{doing}: {error.str()}")
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return AlreadyExistsError(f"{doing}: it already exists")
        return self._log.error(doing, error, *needs)

    def _late(self, doing: str, timeout_s: float, why: str) -> TimedOutError:
        return TimedOutError(
            f"{doing}: no answer within {timeout_s:g} s{self._in_setting}: {self._log.last_error or why}"
        )


def _denied(error: ConnectError) -> KafkaError | None:
    """The broker's answer where it refuses a topic for want of a right; None for another error."""
    cause = error.__cause__
    reason = cause.args[0] if isinstance(cause, KafkaException) else None
    return reason if reason is not None and reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else None


def known_offset(offset: int, doing: str) -> int:
    """The offset of a list-offsets result. Errors: RetriableError if the client gives neither an offset nor an error,
    as it does for a partition of a new topic. A consumer starting there would use its group's offset.
    """
    if offset == OFFSET_INVALID:
        raise RetriableError(f"{doing}: there is none yet")
    return offset
