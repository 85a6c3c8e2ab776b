"""Builds librdkafka clients: throughput defaults, rate-limited logs, and our own errors."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient

from kconnect.errors import ConnectError, NotAllowedError, RetriableError, TimedOutError, UnreachableError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import HEARTBEAT_INTERVAL_MS, MAX_MESSAGE_BYTES, SESSION_TIMEOUT_MS
from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, PRODUCER, Rule
from kconnect.runtime.config.kerberos import OTHER_MECHANISMS, missing_mechanism
from kconnect.runtime.config.rights import Client, Right, client_of
from kconnect.runtime.kafka.auth_errors import is_refusal, refusal_error
from kconnect.runtime.kafka.client_statistics import Throttled
from kconnect.runtime.kafka.retriable_codes import COORDINATOR_CODES

# Measured on 2 cores, broker beside, 98 B values, one task: 1.45 M records/s at 0.67 us CPU with these; with
# batch.size 16384 (Java's default) 0.63 M/s at 0.92 us; more than 1 MB gives nothing and brokers refuse it.
PRODUCER_DEFAULTS: Mapping[str, Any] = {
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "message.timeout.ms": 0,  # retry endlessly, as Java Connect's delivery.timeout.ms=MAX
    "acks": "all",
    "max.in.flight.requests.per.connection": 1,  # as in Java; through retries only idempotence keeps the order
    "partitioner": "murmur2_random",  # the same key goes to the same partition as with Java
    # 32 MB is Java's buffer.memory and as fast as 1 GB; the count bounds librdkafka's overhead of 250 B a record.
    "queue.buffering.max.kbytes": 32_768,
    "queue.buffering.max.messages": 500_000,
    "message.max.bytes": MAX_MESSAGE_BYTES,
}

# Measured on 2 cores, broker beside, 98 B values, values, keys and offsets taken out: 2.0 M records/s at 0.64 us CPU.
# With librdkafka's fetch.queue.backoff.ms of 1000 it is 0.4 M/s: a full queue puts the fetcher to sleep for that long.
CONSUMER_DEFAULTS: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "fetch.queue.backoff.ms": 10,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 65_536,
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
}
# Of KIP-848 brokers say these: group.consumer.session.timeout.ms and the like
_OF_CLASSIC_GROUPS: Final = frozenset({"session.timeout.ms", "heartbeat.interval.ms"})

# Whoever does not say which client an error is of
_UNKNOWN: Final = Client()

# Each kind of log line appears once in this time; an outage of the broker is then two lines a minute.
_LOG_EVERY_S = 30.0
# librdkafka reports a broker that is away three times: log facility FAIL, ERROR or an error for the connection, and
# again if it was the last broker. For the reader they are one kind.
_AWAY = "broker away"
_AWAY_FACILITIES = frozenset({"FAIL", "ERROR"})
# What librdkafka says of a partition that the broker does not take into a transaction
_NOT_ADDED: Final = re.compile(r'add partition "([^"]+)".*authorization failed')
_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def producer_client(config: Mapping[str, Any], log: ClientLog, **callbacks: Any) -> Producer:
    """A producer: our defaults under the caller's settings. Errors: ConnectError when librdkafka refuses a setting."""
    with _building("producer", PRODUCER_NAMES):
        return Producer({**producer_settings(config), **log.settings(config), **callbacks})


def consumer_client(config: Mapping[str, Any], log: ClientLog, **callbacks: Any) -> Consumer:
    """A consumer: our defaults under the caller's settings. Errors: ConnectError when librdkafka refuses a setting."""
    with _building("consumer", CONSUMER_NAMES):
        return Consumer({**consumer_settings(config), **log.settings(config), **callbacks})


def fetched(client: Consumer, most: int, timeout_s: float) -> list[Message]:
    """The messages that are there, else the first to come with what came with it. Errors: KafkaException.

    consume() would wait for the full number or the full time; poll() returns the first message at once.
    """
    if messages := client.consume(most, 0):
        return messages
    first = client.poll(timeout_s)
    return [] if first is None else [first, *(client.consume(most - 1, 0) if most > 1 else ())]


def admin_client(config: Mapping[str, Any], log: ClientLog) -> AdminClient:
    """An admin client. Errors: ConnectError when librdkafka refuses a setting."""
    with _building("admin client", ADMIN_NAMES):
        return AdminClient({**config, **log.settings(config)})


def producer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's settings over our defaults, which give way where they would contradict them."""
    delivery_ms = config.get("message.timeout.ms") or 0
    if delivery_ms and "linger.ms" not in config:  # librdkafka has a record delivered later than it lingers
        return {**PRODUCER_DEFAULTS, "linger.ms": min(PRODUCER_DEFAULTS["linger.ms"], int(delivery_ms) - 1), **config}
    return {**PRODUCER_DEFAULTS, **config}


def consumer_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Works as `producer_settings`."""
    own = CONSUMER_DEFAULTS
    if config.get("group.protocol") == "consumer":
        own = {key: value for key, value in own.items() if key not in _OF_CLASSIC_GROUPS}
    return {**own, **config}


def build_and_end(kind: Literal["producer", "consumer", "admin"], config: Mapping[str, Any]) -> None:
    """Have librdkafka look at the settings: a client is built that knows no broker. Errors: as of those above."""
    settings = {key: value for key, value in config.items() if key != "bootstrap.servers"} | {"log_level": 0}
    client_log = ClientLog(logging.getLogger(f"{__name__}.check"), f"Check of a {kind}")
    if kind == "consumer":
        consumer_client(settings, client_log).close()
    elif kind == "producer":
        producer_client(settings, client_log)
    else:
        admin_client(settings, client_log)


@contextmanager
def _building(client: str, names: Mapping[str, str]) -> Iterator[None]:
    """Convert a refusal; settings in it have Java's `names`, not librdkafka's."""
    try:
        yield
    except KafkaException as error:
        refusal: KafkaError = error.args[0]
        named = KafkaError(refusal.code(), with_java_names(refusal.str(), names))
        raise connect_error(f"The {client} cannot be built", named) from error


@cache
def has_kerberos() -> bool:
    """Whether the installed librdkafka has GSSAPI; it says so of a feature that it is asked to have."""
    try:
        Producer({"builtin.features": "sasl_gssapi", "log_level": 0})
    except KafkaException:
        return False
    return True


class ClientLog:
    """Forwards the log lines and errors of one client to Python logging, each kind once in 30 s.

    librdkafka reports a missing broker for every attempt and connection: the first line of a kind is passed on, later
    ones are counted, and the count goes with the first line after the pause.
    Threads: any.
    """

    def __init__(self, log: logging.Logger, name: str, throttled: Throttled | None = None) -> None:
        """`throttled` hears of quotas, from a client that is polled: none of an admin client."""
        self._log = log
        self._name = name
        self._throttled = throttled
        self._client_id = ""
        self._lock = threading.Lock()  # guards the two below
        self._last_logged: dict[str, tuple[float, int]] = {}
        self._refusal: KafkaError | None = None
        self.client = Client()
        """Who it is for its brokers, once it was built; for errors about rights."""
        self._ca_pem: str | None = None
        self._not_added: str | None = (
            None  # the topic that a transaction could not write to: its error does not name it
        )
        self.last_error: str | None = None
        """The newest error the client reported by itself, such as a broker that is away; for error messages."""
        self.misses_topic = False
        """A broker said that a topic or partition of the client does not exist; whoever looks for it sets this back."""

    def settings(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The client settings that make it log here."""
        self._ca_pem = config.get("ssl.ca.pem")
        self.client = client_of(config)
        self._client_id = str(config.get("client.id", ""))
        settings = {"logger": self, "error_cb": self.on_error}
        return settings if self._throttled is None else {**settings, "throttle_cb": self.on_throttle}

    def log(self, level: int, message: str, *args: Any) -> None:
        """Called by the client with `%s [%s] %s`, facility, client name, text."""
        facility = str(args[0]) if args else message
        if facility in ("FAIL", "GETPID"):  # a broker that hangs up, or gives no producer an id, is reported only here
            self.last_error = str(args[-1]).rpartition("]: ")[2]
        if facility == "GETPID":  # as any that has just started: it is asked again
            level = logging.DEBUG
        if facility == "ADDPARTS" and (topic := _NOT_ADDED.search(str(args[-1]))):
            self._not_added = topic[1]
        kind = _AWAY if facility in _AWAY_FACILITIES else facility
        self._tell(min(level, logging.WARNING), kind, message % args if args else message)

    def on_throttle(self, event: ThrottleEvent) -> None:
        """Called by the client for an answer that says how long its next request waits; 0 once it does not."""
        if self._throttled is not None:
            self._throttled(self._client_id, event.throttle_time)

    def on_error(self, error: KafkaError) -> None:
        """Called by the client for errors that belong to no request."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN or self.last_error is None:  # this one does not say why
            self.last_error = error.str()
        if is_refusal(error):
            self._refusal = error
        self.misses_topic |= error.code() in _NOT_THERE
        self._tell(logging.WARNING, _AWAY if error.code() in _UNREACHABLE else error.name(), error.str())

    def error(self, doing: str, error: KafkaError, *needs: Right) -> ConnectError:
        """Works as `connect_error`, for this client."""
        not_added = () if self._not_added is None else (Right("WRITE", "topic", self._not_added),)
        return connect_error(doing, error, (*needs, *not_added), self.client)

    def raise_if_refused(self) -> None:
        """Errors: ConnectError if a password or certificate is refused."""
        refusal = self._refusal
        if refusal is not None:
            raise refusal_error(self._name, refusal, self._ca_pem)

    def _tell(self, level: int, kind: str, text: str) -> None:
        if not self._log.isEnabledFor(level):
            return  # a suppressed line must not hold back later ones
        now = time.monotonic()
        with self._lock:
            logged_at, held_back = self._last_logged.get(kind, (float("-inf"), 0))
            if level > logging.DEBUG and now - logged_at < _LOG_EVERY_S:
                self._last_logged[kind] = (logged_at, held_back + 1)
                return
            self._last_logged[kind] = (now, 0)
        more = f" (repeated {pluralize(held_back, 'time')})" if held_back else ""
        self._log.log(level, "%s: %s%s", self._name, text, more)


@contextmanager
def kafka_errors(doing: str) -> Iterator[None]:
    """Convert a KafkaException raised inside into our error, prefixed with `doing`."""
    try:
        yield
    except KafkaException as error:
        raise connect_error(doing, error.args[0]) from error


def connect_error(
    doing: str, error: KafkaError, needs: Sequence[Right] = (), client: Client = _UNKNOWN
) -> ConnectError:
    """Our error for a KafkaError: TimedOutError, UnreachableError, RetriableError or plain ConnectError.

    `needs`: the rights without which a broker refuses what was done; those of the kind that it refused are named.
    """
    if is_refusal(error):
        return refusal_error(doing, error, None)
    if (kind := _DENIED.get(error.code())) is not None:
        lacking = [right for right in needs if right.kind == kind]
        said = error.str().replace("Broker: ", "").rstrip(".").rpartition(": ")[2]  # before it which request it was
        said = said.partition(" (after ")[0]
        if lacking:
            lacks = f"{doing}: {said}: {client.lacks(lacking)}."
            return NotAllowedError(lacks, hint=f"Grant it: {client.grant(lacking)}")
        who = client.principal or "its principal"
        return NotAllowedError(f"{doing}: {said}.", hint=f"Grant {who} the rights on it.")
    text = f"{doing}: {error.str().removeprefix('Message failed: ').removeprefix('Unable to produce message: ')}"
    if "No provider for SASL mechanism" in text:
        mechanism = text.split("SASL mechanism ", 1)[1].split(":", 1)[0]
        return ConnectError(f"{doing}: {missing_mechanism(mechanism)}", hint=OTHER_MECHANISMS)
    if error.code() in _TIMED_OUT:
        return TimedOutError(text)
    if error.code() in _UNREACHABLE:
        return UnreachableError(text, hint="Check bootstrap.servers and security.protocol, and that the broker runs.")
    if error.retriable() or error.code() in COORDINATOR_CODES:
        return RetriableError(text)
    return ConnectError(text, hint=_HINTS.get(error.code()))


_DENIED: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
_TIMED_OUT = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError.REQUEST_TIMED_OUT})
_UNREACHABLE = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE})
_NO_TOPIC = (
    "The topic was deleted or never created. Create the topic, or let the broker create it (auto.create.topics.enable)."
)
_HINTS = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic and producer.override.max.request.size.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: _NO_TOPIC,
    KafkaError._UNKNOWN_TOPIC: _NO_TOPIC,
    KafkaError._UNKNOWN_PARTITION: "The topic was deleted, or the record names a partition that it does not have.",
}


# Settings that librdkafka takes by Java's name, and calls by its own
_OWN_NAMES: Final = {
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
}
# As librdkafka quotes a setting: "acks", `acks`, `enable.idempotence=true`
_QUOTED: Final = re.compile(r'(?<=["`])[a-z]+(?:\.[a-z]+)+(?=["`=])')


def _names(rules: Mapping[str, Rule]) -> Mapping[str, str]:
    """A setting in another unit keeps librdkafka's name, as the message has librdkafka's value."""
    found = {rule.target: name for name, rule in rules.items() if rule.divisor == 1 and rule.target != name}
    return MappingProxyType(_OWN_NAMES | found)


PRODUCER_NAMES: Final = _names(PRODUCER)
CONSUMER_NAMES: Final = _names(CONSUMER)
ADMIN_NAMES: Final = _names(ADMIN)


def with_java_names(message: str, names: Mapping[str, str]) -> str:
    """The message with settings as users know them: `compression.type`, not `compression.codec`."""
    return _QUOTED.sub(lambda found: names.get(found[0], found[0]), message).strip()
