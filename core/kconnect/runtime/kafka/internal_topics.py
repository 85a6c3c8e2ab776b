"""Internal topics of a cluster: created with Java's settings, or checked and refused with Java's messages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from kconnect.errors import AlreadyExistsError, ConfigError, ConfigProblem, ConnectError, NotFoundError, TimedOutError
from kconnect.runtime.kafka.admin import KafkaAdmin, TopicInfo

log = logging.getLogger(__name__)

# A broker that cannot place replicas is logged at once and then at this interval; Java logs ten times a second.
_LOG_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicSpec:
    """One of the three topics as the worker's settings define it. Source: TopicAdmin.NewTopicBuilder."""

    topic: str
    setting: str
    """The worker's setting that names the topic."""
    purpose: str
    """Its content, in Java's words."""
    partitions: int
    """-1 uses the broker's default; likewise for the replication factor."""
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    """Topic settings besides cleanup.policy."""
    must_have_one_partition: bool = False
    ignored: tuple[str, ...] = ()
    """Warnings about settings without effect, logged when the topic is ensured."""
    timeout_s: float = 60.0
    """How long creation is tried: default.api.timeout.ms."""
    request_timeout_s: float = 30.0
    """How long one request for it may take: request.timeout.ms."""
    backoff_s: float = 0.1
    """The pause between two attempts: retry.backoff.ms."""

    @property
    def all_configs(self) -> dict[str, str]:
        """The settings the topic is created with."""
        return {**self.configs, "cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class TopicWait:
    """What who waits for a topic needs."""

    stop: threading.Event = field(default_factory=threading.Event)
    """Set, it ends the wait."""
    telling: Callable[[str], AbstractContextManager[object]] = nullcontext
    """Inside, this sentence says what is waited for."""


def ensure_internal_topic(admin: KafkaAdmin, spec: InternalTopicSpec, wait: TopicWait | None = None) -> bool:
    """Create the topic or check the existing one; return whether it was created.

    Errors: ConfigError if the existing topic does not fit; TimedOutError when it could not be created within
    default.api.timeout.ms; ConnectError with the broker's words when it refuses a setting, for a topic that nobody made
    in that time where this worker may not, and when it was stopped.
    Source: KafkaTopicBasedBackingStore.topicInitializer, TopicAdmin.createTopicsWithRetry (Kafka 4.3).
    Differs: the partitions of the config topic are checked before it is read; a check that is not allowed is a WARNING,
    in Java an INFO; retries are logged every 10 s, not each; a new topic is waited for, where Java assumes that one it
    cannot describe yet fits. For a topic that it may not create, Java says only that partitions cannot be looked up.
    """
    for sentence in spec.ignored:
        log.warning("%s", sentence)
    wait = wait or TopicWait()
    deadline = time.monotonic() + spec.timeout_s
    refused = None
    try:
        if _create(admin, spec, deadline, wait):
            return True
    except ConnectError as error:
        if _code(error) not in _NOT_ALLOWED:
            raise
        log.info("No right to create topic %s: assuming that it exists or somebody creates it", spec.topic)
        refused = error
    if not _check(admin, spec):
        _await(admin, spec, deadline, wait, refused)
    return False


def _await(
    admin: KafkaAdmin, spec: InternalTopicSpec, deadline: float, wait: TopicWait, refused: ConnectError | None
) -> None:
    """Wait until a topic can be described. `refused`: why this worker does not create it."""
    missing = f"The topic of {spec.setting} does not exist yet"
    if refused is not None:
        missing = f"{missing}: {refused} {refused.hint or ''}".rstrip(" .")
        log.warning("%s", missing)
    with wait.telling(missing):
        while not _check(admin, spec):
            if time.monotonic() > deadline:
                if refused is None or _code(refused) == KafkaError.UNSUPPORTED_VERSION:
                    log.warning("Topic %s cannot be created by this worker, and does not exist yet", spec.topic)
                    return
                raise ConnectError(f"{spec.setting}: {refused}", hint=refused.hint)
            _pause(spec, wait)


def _pause(spec: InternalTopicSpec, wait: TopicWait) -> None:
    if wait.stop.wait(spec.backoff_s):
        raise ConnectError(f"The worker was stopped while it waited for topic {spec.topic}")


def cleanup_refusal(spec: InternalTopicSpec, policy: str) -> str | None:
    """Why a topic with this cleanup.policy cannot be used; None if it can. It must be exactly `compact`.

    Source: TopicAdmin.verifyTopicCleanupPolicyOnlyCompact.
    """
    found = {part.strip().lower() for part in policy.split(",") if part.strip()}
    if not found or found == {"compact"}:
        return None
    return (
        f"Topic '{spec.topic}' supplied via the '{spec.setting}' property is required to have 'cleanup.policy=compact' "
        f"to guarantee consistency and durability of {spec.purpose}, but found the topic currently has "
        f"'cleanup.policy={','.join(sorted(found))}'. Continuing would likely result in eventually losing "
        f"{spec.purpose} and problems restarting this Connect cluster in the future. Change the '{spec.setting}' "
        "property in the Connect worker configurations to use a topic with 'cleanup.policy=compact'."
    )


def partitions_refusal(spec: InternalTopicSpec, partitions: int) -> str | None:
    """Why a topic with this many partitions cannot be used; None if it can. Source: KafkaConfigBackingStore.start."""
    if not spec.must_have_one_partition or partitions <= 1:
        return None
    return (
        f"Topic '{spec.topic}' supplied via the '{spec.setting}' property is required to have a single partition in "
        f"order to guarantee consistency of {spec.purpose}, but found {partitions} partitions."
    )


def _create(admin: KafkaAdmin, spec: InternalTopicSpec, deadline: float, wait: TopicWait) -> bool:
    """Create it and return whether that was needed; retries while the broker cannot place the replicas."""
    topic = TopicInfo(spec.topic, spec.partitions, spec.replication_factor, spec.all_configs)
    logged_at, refused = float("-inf"), None
    while True:
        left_s = deadline - time.monotonic()
        try:
            admin.create_topic(topic, min(max(left_s, spec.backoff_s), spec.request_timeout_s))
        except AlreadyExistsError:
            return False
        except ConnectError as error:
            code = _code(error)
            if code == KafkaError.INVALID_CONFIG:
                raise ConnectError(
                    f"Unable to create topic(s) '{spec.topic}': {_words(error)}",
                    hint=f"Correct the worker's settings that begin with {_prefix(spec)}",
                ) from error
            if code != KafkaError.INVALID_REPLICATION_FACTOR and not isinstance(error, TimedOutError):
                raise
            if not isinstance(error, TimedOutError):
                refused = error
            if time.monotonic() + spec.backoff_s > deadline:
                # The last try may have had no time for an answer; an earlier one says more
                raise _too_late(spec, refused or error) from error
            if time.monotonic() - logged_at > _LOG_EVERY_S:
                logged_at = time.monotonic()
                log.info(
                    "Topic %s cannot be created yet (%s); trying every %.1f s for %.0f s more",
                    spec.topic,
                    _words(error),
                    spec.backoff_s,
                    deadline - logged_at,
                )
        else:
            log.info("Created topic %s: %s", spec.topic, _shape(spec))
            return True
        _pause(spec, wait)


def _check(admin: KafkaAdmin, spec: InternalTopicSpec) -> bool:
    """Check it and return whether it could be described; a new topic may not be known everywhere yet."""
    try:
        policy = admin.topic_configs(spec.topic, spec.request_timeout_s).get("cleanup.policy", "")
        found = admin.describe_topics([spec.topic], spec.request_timeout_s).get(spec.topic)
    except NotFoundError:
        return False
    except TimedOutError as error:
        raise TimedOutError(f"{error} (request.timeout.ms)") from error
    except ConnectError as error:
        if _code(error) not in _NOT_ALLOWED:
            raise
        log.warning(
            "The settings of topic %s (%s) cannot be checked, but its cleanup.policy must be compact: %s %s",
            spec.topic,
            spec.setting,
            error,
            error.hint or "",
        )
        return True
    if found is None:
        return False
    _refuse(spec, partitions_refusal(spec, found.partitions))
    repair = _REPAIRS.get(spec.setting)
    _refuse(spec, cleanup_refusal(spec, policy), repair and f"`{repair} --worker FILE` sets it on the topic.")
    return True


def _refuse(spec: InternalTopicSpec, refusal: str | None, hint: str | None = None) -> None:
    if refusal is not None:
        raise ConfigError(refusal, [ConfigProblem(spec.setting, spec.topic, refusal)], hint=hint)


_REPAIRS: Final = {
    "config.storage.topic": "connect topics config repair",
    "offset.storage.topic": "connect topics offsets repair",
    "status.storage.topic": "connect topics status repair",
}


def _too_late(spec: InternalTopicSpec, error: ConnectError) -> TimedOutError:
    return TimedOutError(
        f"Topic '{spec.topic}' ({spec.setting}) could not be created within {spec.timeout_s:g} s "
        f"(default.api.timeout.ms): {_words(error)}",
        hint=f"Start more brokers, or lower {_prefix(spec)}replication.factor (-1 leaves it to the broker)."
        if _code(error) == KafkaError.INVALID_REPLICATION_FACTOR
        else "Check that the brokers are up.",
    )


def _prefix(spec: InternalTopicSpec) -> str:
    return spec.setting.removesuffix("topic")


def _shape(spec: InternalTopicSpec) -> str:
    def count(number: int) -> str:
        return "the broker's default of" if number == -1 else str(number)

    return f"{count(spec.partitions)} partitions, {count(spec.replication_factor)} replicas, {spec.all_configs}"


def _kafka_error(error: ConnectError) -> KafkaError | None:
    cause = error.__cause__
    found = cause.args[0] if isinstance(cause, KafkaException) else None
    return found if isinstance(found, KafkaError) else None


def _code(error: ConnectError) -> int | None:
    found = _kafka_error(error)
    return None if found is None else found.code()


def _words(error: ConnectError) -> str:
    found = _kafka_error(error)
    return str(error) if found is None else found.str()


_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.UNSUPPORTED_VERSION}
)
