"""Kafka client settings of workers and connectors: Java's names in, librdkafka's out.

A source task's producer combines Connect's defaults, the worker's `producer.*` and the connector's
`producer.override.*`; later ones win. Likewise for consumers and admin clients. A key that cannot be translated gives
a warning that names it. `librdkafka.X` under any of these prefixes passes X unchanged, for what Java does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.runtime.config.addresses import canonical_servers
from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, HANDLED_ELSEWHERE, PRODUCER, Rule
from kconnect.runtime.config.client_security import SECURITY_KEYS, security_settings
from kconnect.runtime.config.offset_reset import OFFSET_RESET, OffsetReset, parse_offset_reset

ClientSettings = tuple[dict[str, Any], list[str]]
"""librdkafka's settings, and warnings to be logged once each."""


@dataclass(frozen=True, slots=True)
class InternalClients:
    """librdkafka's settings for the clients of one internal topic; may contain secrets."""

    producer: Mapping[str, Any] = field(repr=False)
    consumer: Mapping[str, Any] = field(repr=False)
    admin: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InterceptorSettings:
    """The classes that `interceptor.classes` names for one client, in order; `configs` may contain secrets."""

    names: Sequence[str]
    key: str
    """The setting with its prefix, as it was given."""
    configs: Mapping[str, str] = field(repr=False)
    """All settings of the client, in Java's names."""


_OF_CONNECTORS: Final[tuple[Literal["producer", "consumer"], ...]] = ("producer", "consumer")
_PASSTHROUGH: Final = "librdkafka."
INTERCEPTORS: Final = "interceptor.classes"
_FIXED: Final = frozenset({"enable.auto.commit", "key.deserializer", "value.deserializer"})
_SERIALIZERS: Final = frozenset({"key.serializer", "value.serializer"})
_PARTITIONERS: Final = {
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2_random",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "random",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "random",
}
_ASSIGNORS: Final = {
    "CooperativeStickyAssignor": "cooperative-sticky",
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "roundrobin",  # librdkafka has no eager sticky assignor; both spread partitions evenly
}
# Settings of a distributed worker for its own group, not its clients.
_OF_THE_GROUP: Final = frozenset({"group.id", "session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"})
SESSION_TIMEOUT_MS: Final = 6_000
"""Differs: Java's default is 45 s. A slot that is killed cannot leave its group, and the partitions of its sinks wait
for this time; brokers take 6 s and more (group.min.session.timeout.ms). librdkafka beats in its own thread."""
HEARTBEAT_INTERVAL_MS: Final = 1_500
# Java adds 87 bytes to a value of a megabyte before it compares it with max.request.size, librdkafka 36
_RECORD_OVERHEAD: Final = 87 - 36
MAX_MESSAGE_BYTES: Final = 1_048_576 - _RECORD_OVERHEAD
"""The largest record by Java's default of max.request.size; librdkafka's own is 1,000,000."""
_MOST_IN_FLIGHT: Final = 5  # of an idempotent producer, in Java and in librdkafka
_MAX_POLL_INTERVAL_MS: Final = 300_000  # Java's default, and librdkafka's
# Source: ConsumerConfig.checkUnsupportedConfigsPostProcess (Kafka 4.3, KIP-848)
_CLASSIC_ONLY: Final = frozenset({"heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"})
_CONSUMER_ONLY: Final = frozenset({"group.remote.assignor"})
POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"
_PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


def producer_config(
    worker: Mapping[str, str],
    connector: Mapping[str, str] | None = None,
    *,
    client_id: str,
    keeps_order: bool = True,
) -> ClientSettings:
    """Settings of a source task's producer; `client_id` is `connector-producer-NAME-TASK` in Java.

    `keeps_order`: False for dead letters, as in Java. An idempotent client asks for an id, which takes the right to
    write to a topic, before there is a record.

    Throughput settings (linger.ms, batch.size, buffer.memory) are included only if the user gave them.
    Differs: enable.idempotence is on, unless acks, retries or max.in.flight.requests.per.connection rule it out (as in
    Java's producer outside of Connect). With one request in flight Java keeps the order through retries; librdkafka has
    made the next request by then, and keeps it by idempotence alone.
    Errors: ConfigError with Java's message for an invalid number.
    Source: Worker.baseProducerConfigs, ProducerConfig.postProcessAndValidateIdempotenceConfigs (Kafka 4.3).
    """
    given = _layers(worker, "producer.", connector, "producer.override.")
    settings, warnings = _translate(
        _producer_defaults(worker, client_id, keeps_order and _can_keep_order(given)),
        given,
        PRODUCER,
        ignored=_SERIALIZERS,
    )
    effective = {key: value for key, (value, _) in given.items()}
    settings["partitioner"] = _partitioner(effective, warnings)
    if "message.max.bytes" in settings:
        settings["message.max.bytes"] = max(1000, settings["message.max.bytes"] - _RECORD_OVERHEAD)
    level = effective.get(f"compression.{effective.get('compression.type', 'none').strip().lower()}.level")
    if level is not None:
        settings["compression.level"] = parse_type("compression.level", level, ConfigDef.Type.INT)
    return settings, warnings + _forgotten_security(worker, "producer.", given)


def consumer_config(
    worker: Mapping[str, str], connector: Mapping[str, str], *, client_id: str, group_id: str
) -> ClientSettings:
    """Settings of a sink task's consumer; the ids are Java's `connector-consumer-NAME-TASK` and `connect-NAME`.

    Errors: ConfigError with Java's message for an invalid number.
    Source: Worker.baseConsumerConfigs (Kafka 4.3).
    """
    given = _layers(worker, "consumer.", connector, "consumer.override.")
    given, unused = _of_protocol(given)
    defaults = _consumer_defaults(worker, client_id, group_id)
    settings, warnings = _translate(defaults, given, CONSUMER, ignored=_FIXED)
    warnings += unused + _fitting_session(settings)
    settings["enable.auto.commit"] = "false"
    settings.setdefault("isolation.level", "read_uncommitted")  # Java's default; librdkafka's is read_committed
    settings["auto.offset.reset"] = parse_offset_reset(str(settings["auto.offset.reset"])).of_client
    if "group.protocol" in settings:
        settings["group.protocol"] = settings["group.protocol"].lower()
    if "partition.assignment.strategy" in given:
        settings |= _assignment(*given["partition.assignment.strategy"], warnings)
    if "fetch.max.bytes" in settings:  # librdkafka requires the two others to fit around it
        settings["receive.message.max.bytes"] = max(1000, settings["fetch.max.bytes"] + 512)
        settings["message.max.bytes"] = min(1_000_000, settings["fetch.max.bytes"])
    max_poll_records(worker, connector)  # an invalid one is reported here, with the other settings
    return settings, warnings + _forgotten_security(worker, "consumer.", given)


def _of_protocol(given: Mapping[str, tuple[str, str]]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """The settings that the group protocol has, and warnings of the worker's that a connector's protocol lacks.

    Errors: ConfigError with Java's message for one that is set beside the protocol that lacks it.
    """
    protocol, chosen_by = given.get("group.protocol", ("classic", ""))
    name = protocol.strip().upper()
    lacks = {"CONSUMER": _CLASSIC_ONLY, "CLASSIC": _CONSUMER_ONLY}.get(name)
    if lacks is None:
        raise ConfigError.invalid(
            "group.protocol", protocol, "(case insensitive) String must be one of: CLASSIC, CONSUMER"
        )
    unused = []
    for key in sorted(lacks & given.keys()):
        full_key = given[key][1]
        if not chosen_by.startswith("consumer.override.") or full_key.startswith("consumer.override."):
            raise ConfigError(
                f"{full_key} cannot be set when group.protocol={name}",
                [ConfigProblem(full_key, given[key][0], f"{key} cannot be set when group.protocol={name}")],
                hint=f"Leave out {full_key}: the brokers say it for this protocol." if name == "CONSUMER" else None,
            )
        unused.append(f"{full_key} has no effect: {chosen_by}={protocol} has no such setting")
    return {key: value for key, value in given.items() if key not in lacks}, unused


def _fitting_session(settings: dict[str, Any]) -> list[str]:
    """Give the times of a session what they need of each other, where only some are set; warnings of what is changed.

    librdkafka takes no poll interval below the session's time. Differs: Java does, and brokers refuse a session below
    6 s.
    """
    if settings.get("group.protocol") == "consumer":
        return []
    session_ms, beat_ms = settings.get("session.timeout.ms"), settings.get("heartbeat.interval.ms")
    if session_ms is None and beat_ms is not None:
        settings["session.timeout.ms"] = session_ms = min(max(SESSION_TIMEOUT_MS, 3 * beat_ms), 3_600_000)
    elif session_ms is not None and beat_ms is None:
        settings["heartbeat.interval.ms"] = max(1, min(HEARTBEAT_INTERVAL_MS, session_ms // 4))
    least_ms = SESSION_TIMEOUT_MS if session_ms is None else session_ms
    poll_ms = settings.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS)
    if poll_ms >= least_ms:
        return []
    is_given = "max.poll.interval.ms" in settings
    settings["max.poll.interval.ms"] = least_ms
    return [f"max.poll.interval.ms={poll_ms} is less than session.timeout.ms: {least_ms} is used"] if is_given else []


def producer_interceptors(
    worker: Mapping[str, str], connector: Mapping[str, str], *, client_id: str, keeps_order: bool = True
) -> InterceptorSettings:
    """The interceptors of a producer that `producer_config` describes."""
    given = _layers(worker, "producer.", connector, "producer.override.")
    return _interceptors(_producer_defaults(worker, client_id, keeps_order and _can_keep_order(given)), given)


def consumer_interceptors(
    worker: Mapping[str, str], connector: Mapping[str, str], *, client_id: str, group_id: str
) -> InterceptorSettings:
    """The interceptors of a consumer that `consumer_config` describes."""
    given = _layers(worker, "consumer.", connector, "consumer.override.")
    return _interceptors(_consumer_defaults(worker, client_id, group_id), given)


def brokers_of(
    client: Literal["producer", "consumer"], worker: Mapping[str, str], connector: Mapping[str, str]
) -> dict[str, str]:
    """In Java's names, the brokers of a connector's producer or consumer and the login there: for other clients."""
    given = _layers(worker, f"{client}.", connector, f"{client}.override.")
    own = {key: value for key, (value, _) in given.items() if key in SECURITY_KEYS or key == "security.protocol"}
    servers = given["bootstrap.servers"][0] if "bootstrap.servers" in given else worker.get("bootstrap.servers", "")
    return {**own, "bootstrap.servers": servers}


def admin_config(
    worker: Mapping[str, str], connector: Mapping[str, str] | None = None, *, client_id: str
) -> ClientSettings:
    """Settings of an admin client: the worker's without prefix, its `admin.*`, then `admin.override.*`.

    Source: Worker.adminConfigs (Kafka 4.3).
    """
    own, given = _of_admin(worker, connector)
    return _translate({**own, "client.id": client_id}, given, ADMIN, ignored=frozenset())


def admin_settings(worker: Mapping[str, str], connector: Mapping[str, str], *, client_id: str) -> dict[str, str]:
    """What `admin_config` translates, in Java's names: for requests over our own connections."""
    own, given = _of_admin(worker, connector)
    return {**own, "client.id": client_id} | {key: value for key, (value, _) in given.items()}


def _of_admin(
    worker: Mapping[str, str], connector: Mapping[str, str] | None
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """With and without the prefix; admin.listeners belongs to REST."""
    own = {key: worker[key] for key in worker if key in ADMIN or key in SECURITY_KEYS}
    given = _layers(worker, "admin.", connector, "admin.override.")
    return own, {key: value for key, value in given.items() if not key.startswith("listeners")}


def check_security(worker: Mapping[str, str], connector: Mapping[str, str]) -> None:
    """Errors: ConfigError if what a connector's clients show and trust cannot be read: it may be half written."""
    for client in _OF_CONNECTORS:
        security_settings(brokers_of(client, worker, connector))
    security_settings(admin_settings(worker, connector, client_id=""))


def internal_clients(worker: Mapping[str, str], *, client_id: str) -> InternalClients:
    """Clients of the config, status and offsets topics: they use the worker's settings without prefix.

    `client_id` is per topic: `GROUP-configs`, `GROUP-statuses`, `GROUP-offsets` in Java. Settings meant for the worker
    itself (group.id, session.timeout.ms ..) are excluded.
    Errors: ConfigError with Java's message for an invalid number.
    Source: KafkaConfigBackingStore#setupAndCreateKafkaBasedLog, ConnectUtils#clientIdBase (Kafka 4.3).
    """

    def own(rules: Mapping[str, Rule], defaults: Mapping[str, str]) -> dict[str, Any]:
        given = {
            key: value
            for key, value in worker.items()
            if (key in rules and key not in _OF_THE_GROUP) or key in SECURITY_KEYS or key == "security.protocol"
        }
        return _translate({**given, **defaults, "client.id": client_id}, {}, rules, ignored=frozenset())[0]

    reliable = {"acks": "all", "max.in.flight.requests.per.connection": "1", "delivery.timeout.ms": "2147483647"}
    return InternalClients(
        producer=own(PRODUCER, reliable),
        consumer=own(CONSUMER, {"auto.offset.reset": "earliest"}) | {"enable.auto.commit": "false"},
        admin=own(ADMIN, {}),
    )


def client_value(
    client: Literal["producer", "consumer"], name: str, worker: Mapping[str, str], connector: Mapping[str, str]
) -> str | None:
    """One setting of a connector's producer or consumer by Java's name, as it was given; None if it was not."""
    return (_layers(worker, f"{client}.", connector, f"{client}.override.").get(name) or (None, ""))[0]


def offset_reset(worker: Mapping[str, str], connector: Mapping[str, str]) -> OffsetReset:
    """Where a sink begins in a partition without a committed offset. Errors: ConfigError with Java's message."""
    return parse_offset_reset(client_value("consumer", OFFSET_RESET, worker, connector) or "earliest")


def max_poll_records(worker: Mapping[str, str], connector: Mapping[str, str]) -> int:
    """The most records a sink task gets at once; enforced by the loop, as librdkafka has no such setting."""
    given = client_value("consumer", "max.poll.records", worker, connector)
    if given is None:
        return 500  # Java's default
    number: int = parse_type("max.poll.records", given, ConfigDef.Type.INT)
    ConfigDef.Range.at_least(1).ensure_valid("max.poll.records", number)
    return number


def override_error(policy: str, key: str, allowlist: Sequence[str] = ()) -> str | None:
    """Why a worker's `connector.client.config.override.policy` forbids a connector to override `key`; None if not.

    `allowlist` is `connector.client.config.override.allowlist`, for the policy Allowlist (KIP-1188).
    Source: o.a.k.connect.connector.policy.*ConnectorClientConfigOverridePolicy (Kafka 4.3).
    Errors: ConfigError for another name; a Python class of the worker's is `herder.validation.override_policies`.
    """
    match _included(policy):
        case "All":
            return None
        case "Principal" if key in _PRINCIPAL_KEYS:
            return None
        case "Allowlist" if key in allowlist:
            return None
        case str(name):
            return f"The '{name}' policy does not allow '{key}' to be overridden in the connector configuration."
        case _:
            raise ConfigError.invalid(
                POLICY,
                policy,
                "String must be one of: All, Allowlist, None, Principal, or name a Python class",
            )


def refuse_overrides(worker: Mapping[str, str], connector: Mapping[str, str], clients: Collection[str]) -> None:
    """Refuse overrides of these clients that an included policy of the worker forbids, as one made stricter may.

    Differs: Java asks a policy of one's own here, too; ours is asked when the connector is created or changed.
    Errors: ConfigError. Source: Worker.connectorClientConfigOverrides (Kafka 4.3).
    """
    policy = worker.get(POLICY, "All")
    if _included(policy) is None:
        return
    allowed = parse_type(ALLOWLIST, worker.get(ALLOWLIST, ""), ConfigDef.Type.LIST)
    split = {key: key.partition(".override.") for key in connector}
    given = {key: name for key, (client, _, name) in sorted(split.items()) if client in clients and name}
    errors = {key: override_error(policy, name, allowed) for key, name in given.items()}
    refused = {key: why for key, why in errors.items() if why is not None}
    if refused:
        raise ConfigError(
            f"Client Config Overrides not allowed: {', '.join(refused)}. {' '.join(refused.values())}",
            hint=f"Remove them from the connector's config, or have {POLICY} of the worker allow them.",
        )


def _included(policy: str) -> str | None:
    """The short name of one of Connect's own policies; None for another."""
    name = policy.strip().rsplit(".", 1)[-1].removesuffix("ConnectorClientConfigOverridePolicy")
    return name if name in ("All", "Allowlist", "None", "Principal") else None


def _producer_defaults(worker: Mapping[str, str], client_id: str, is_idempotent: bool) -> dict[str, str]:
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", ""),
        "client.id": client_id,
        "acks": "all",
        "enable.idempotence": "true" if is_idempotent else "false",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
    }


def _consumer_defaults(worker: Mapping[str, str], client_id: str, group_id: str) -> dict[str, str]:
    return {
        "bootstrap.servers": worker.get("bootstrap.servers", ""),
        "client.id": client_id,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
    }


def _interceptors(defaults: Mapping[str, str], given: Mapping[str, tuple[str, str]]) -> InterceptorSettings:
    names, key = given.get(INTERCEPTORS, ("", INTERCEPTORS))
    configs = {**defaults, **{name: value for name, (value, _) in given.items()}}
    return InterceptorSettings(parse_type(key, names, ConfigDef.Type.LIST), key, configs)


def _layers(
    worker: Mapping[str, str], prefix: str, connector: Mapping[str, str] | None, override: str
) -> dict[str, tuple[str, str]]:
    """Settings by Java's name, with the full key they were given under; the connector's win."""
    found = {key[len(prefix) :]: (value, key) for key, value in worker.items() if key.startswith(prefix)}
    for key, value in (connector or {}).items():
        if key.startswith(override):
            found[key[len(override) :]] = (value, key)
    return found


def _translate(
    defaults: Mapping[str, str],
    given: Mapping[str, tuple[str, str]],
    rules: Mapping[str, Rule],
    ignored: frozenset[str],
) -> ClientSettings:
    settings: dict[str, Any] = {}
    warnings: list[str] = []
    passed: dict[str, str] = {}
    merged = {key: (value, key) for key, value in defaults.items()} | dict(given)
    for key, (value, full_key) in merged.items():
        if key == "bootstrap.servers" and value:
            settings[key] = canonical_servers(value, full_key)
        elif key in rules:
            settings[rules[key].target] = _value(rules[key], key, value, full_key, warnings)
        elif key.startswith(_PASSTHROUGH):
            passed[key.removeprefix(_PASSTHROUGH)] = value
        elif key in ignored:
            warnings.append(f"{full_key} has no effect: Connect sets {key} itself")
        elif key not in SECURITY_KEYS and key not in HANDLED_ELSEWHERE:
            warnings.append(f"{full_key} has no effect: librdkafka has no equivalent of {key}")
    settings |= _reconnects(settings)
    if "metadata.max.age.ms" in settings:  # One setting in Java: metadata age, and how soon new topics are noticed
        settings["topic.metadata.refresh.interval.ms"] = min(settings["metadata.max.age.ms"], 3_600_000)
    wanted = {*SECURITY_KEYS, "security.protocol", "bootstrap.servers"}
    secured = {key: value for key, (value, _) in merged.items() if key in wanted}
    security, problems = security_settings(secured)
    warnings += [f"{merged[key][1]} has no effect: {why}" for key, why in problems]
    return {**settings, **security, **passed}, warnings


def _reconnects(settings: Mapping[str, Any]) -> dict[str, int]:
    """Both bounds of the reconnect back-off, with Java's defaults; librdkafka requires them in order."""
    low, high = settings.get("reconnect.backoff.ms"), settings.get("reconnect.backoff.max.ms")
    if low is None and high is None:
        return {}
    low = 50 if low is None else low
    return {"reconnect.backoff.ms": low, "reconnect.backoff.max.ms": max(low, 1000 if high is None else high)}


def _value(rule: Rule, key: str, value: str, full_key: str, warnings: list[str]) -> Any:
    if not rule.is_number:
        return value.strip()
    number: int = parse_type(key, value, ConfigDef.Type.LONG)
    if rule.zero_if is not None and number == rule.zero_if:
        return 0
    scaled = number // rule.divisor
    low, high = rule.low or 0, rule.high or 0
    clamped = min(max(scaled, low), high)
    if clamped != scaled:
        warnings.append(f"{full_key}={value} is beyond what librdkafka accepts: {clamped * rule.divisor} is used")
    return clamped


def _can_keep_order(given: Mapping[str, tuple[str, str]]) -> bool:
    """Whether enable.idempotence may be on beside what was given."""

    def given_as(name: str, *names_of_client: str) -> str | None:
        keys = (name, *(f"{_PASSTHROUGH}{each}" for each in (name, *names_of_client)))
        return next((given[key][0].strip().lower() for key in keys if key in given), None)

    in_flight = given_as("max.in.flight.requests.per.connection", "max.in.flight") or "1"
    retries = given_as("retries", "message.send.max.retries") or "1"
    return (
        given_as("transactional.id") is None  # who commits its transactions?
        and given_as("acks", "request.required.acks") in (None, "all", "-1")
        and (retries.isdecimal() and int(retries) > 0)
        and (in_flight.isdecimal() and 1 <= int(in_flight) <= _MOST_IN_FLIGHT)
    )


def _partitioner(given: Mapping[str, str], warnings: list[str]) -> str:
    """Java's default partitions keys by murmur2; records without a key go to any partition."""
    if given.get("partitioner.ignore.keys", "false").strip().lower() == "true":
        return "random"
    name = given.get("partitioner.class")
    if name is None or not name.strip():
        return "murmur2_random"
    known = _PARTITIONERS.get(name.strip())
    if known is None:
        warnings.append(f"partitioner.class={name} is not known here: records are spread as by Java's default")
    return known or "murmur2_random"


def _assignment(value: str, full_key: str, warnings: list[str]) -> dict[str, str]:
    """Assignors by librdkafka's names; it cannot mix eager and cooperative ones, so it keeps the eager ones."""
    names = [name.rsplit(".", 1)[-1] for name in parse_type(full_key, value, ConfigDef.Type.LIST)]
    unknown = [name for name in names if name not in _ASSIGNORS]
    warnings += [f"{full_key}: {name} is not known here and left out" for name in unknown]
    known = list(dict.fromkeys(_ASSIGNORS[name] for name in names if name in _ASSIGNORS))
    if not known:
        return {}
    eager = [name for name in known if name != "cooperative-sticky"]
    return {"partition.assignment.strategy": ",".join(eager or known)}


def _forgotten_security(worker: Mapping[str, str], prefix: str, given: Mapping[str, tuple[str, str]]) -> list[str]:
    """Java applies the worker's own security settings to its admin clients only, which is easily overlooked."""
    if "security.protocol" not in worker or "security.protocol" in given:
        return []
    return [
        f"security.protocol is set for the worker, but not {prefix}security.protocol: as in Java, {prefix}* "
        "must be given for the clients of tasks"
    ]
