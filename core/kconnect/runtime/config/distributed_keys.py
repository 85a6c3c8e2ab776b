"""Settings that only a distributed worker has, as rows. Source: DistributedConfig (Kafka 4.3).

Differs: algorithms are those of Python's `hmac`, not of a JVM, so the message for an unknown one lists others.
"""

from __future__ import annotations

from typing import Any, Final

from kconnect.api.config_key import NO_DEFAULT
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.runtime.config.key_table import Rows

STRING: Final = ConfigDef.Type.STRING
INT: Final = ConfigDef.Type.INT
SHORT: Final = ConfigDef.Type.SHORT
LONG: Final = ConfigDef.Type.LONG
LIST: Final = ConfigDef.Type.LIST
HIGH: Final = ConfigDef.Importance.HIGH
MEDIUM: Final = ConfigDef.Importance.MEDIUM
LOW: Final = ConfigDef.Importance.LOW
Range: Final = ConfigDef.Range
CaseInsensitiveValidString: Final = ConfigDef.CaseInsensitiveValidString

MAC_NAMES: Final = {
    "HmacMD5": "md5",
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
    "HmacSHA3-224": "sha3_224",
    "HmacSHA3-256": "sha3_256",
    "HmacSHA3-384": "sha3_384",
    "HmacSHA3-512": "sha3_512",
}
"""Java's names of MAC algorithms, and Python's."""


def _check_protocol(name: str, value: Any) -> None:
    if value is None or value.lower() not in ("eager", "compatible", "sessioned"):
        raise ConfigError.invalid(name, value, "Invalid Connect protocol compatibility")


def _check_mac(name: str, value: Any) -> None:
    if value not in MAC_NAMES:
        supported = ", ".join(MAC_NAMES)
        raise ConfigError.invalid(
            name, value, f"the algorithm is not supported by this worker; the supported algorithms are: [{supported}]"
        )


def _check_macs(name: str, value: Any) -> None:
    if not value:
        raise ConfigError.invalid(name, value, "At least one signature verification algorithm must be provided")
    for algorithm in value:
        _check_mac(name, algorithm)


def _positive_or_broker_default(what: str) -> Any:  # a validator's function: takes name and value
    def check(name: str, value: Any) -> None:
        if value is not None and value != -1 and value < 1:
            raise ConfigError.invalid(name, value, f"{what}, or -1 to use the broker's default")

    return check


CONNECT_PROTOCOL: Final = ConfigDef.LambdaValidator(_check_protocol, "[eager, compatible, sessioned]")
KEY_ALGORITHM: Final = ConfigDef.LambdaValidator(_check_mac, "Any KeyGenerator algorithm supported by the worker JVM")
MAC_ALGORITHM: Final = ConfigDef.LambdaValidator(_check_mac, "Any MAC algorithm supported by the worker JVM")
MAC_ALGORITHMS: Final = ConfigDef.LambdaValidator(
    _check_macs, "A list of one or more MAC algorithms, each supported by the worker JVM"
)
PARTITIONS: Final = ConfigDef.LambdaValidator(
    _positive_or_broker_default("Number of partitions must be positive"),
    "Positive number, or -1 to use the broker's default",
)
REPLICATION_FACTOR: Final = ConfigDef.LambdaValidator(
    _positive_or_broker_default(
        "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"
    ),
    "Positive number not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default",
)

GROUP: Final[Rows] = (
    (
        "group.id",
        STRING,
        NO_DEFAULT,
        None,
        HIGH,
        "Name of the worker cluster: workers with the same name share connectors.",
    ),
    (
        "session.timeout.ms",
        INT,
        10000,
        None,
        HIGH,
        "How long the group waits for a sign of life before it takes a worker for dead.",
    ),
    (
        "rebalance.timeout.ms",
        INT,
        60000,
        None,
        HIGH,
        "How long a worker may take to join again once a rebalance has begun.",
    ),
    (
        "heartbeat.interval.ms",
        INT,
        3000,
        None,
        HIGH,
        "How often a worker shows the group that it lives; at most a third of the session timeout.",
    ),
    (
        "exactly.once.source.support",
        STRING,
        "disabled",
        CaseInsensitiveValidString.in_("disabled", "enabled", "preparing"),
        HIGH,
        "Exactly-once for source connectors: set preparing on all workers first, then enabled on all.",
    ),
    (
        "metadata.max.age.ms",
        LONG,
        300000,
        Range.at_least(0),
        LOW,
        "The maximum age of cluster metadata before it is refreshed.",
    ),
    ("client.id", STRING, "", None, LOW, "Name of this worker in the broker's logs, metrics and quotas."),
    (
        "send.buffer.bytes",
        INT,
        131072,
        Range.at_least(-1),
        MEDIUM,
        "Size of the TCP send buffer; -1 leaves it to the system.",
    ),
    (
        "receive.buffer.bytes",
        INT,
        32768,
        Range.at_least(-1),
        MEDIUM,
        "Size of the TCP receive buffer; -1 leaves it to the system.",
    ),
    (
        "reconnect.backoff.ms",
        LONG,
        50,
        Range.at_least(0),
        LOW,
        "How long to wait before a lost broker is tried again; doubles each time.",
    ),
    (
        "reconnect.backoff.max.ms",
        LONG,
        1000,
        Range.at_least(0),
        LOW,
        "The longest wait before a lost broker is tried again.",
    ),
    (
        "socket.connection.setup.timeout.ms",
        LONG,
        10000,
        Range.at_least(0),
        LOW,
        "How long one attempt to connect may take; doubles each time.",
    ),
    (
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30000,
        Range.at_least(0),
        LOW,
        "The longest that one attempt to connect may take.",
    ),
    (
        "retry.backoff.ms",
        LONG,
        100,
        Range.at_least(0),
        LOW,
        "How long to wait before a failed request is sent again; doubles each time.",
    ),
    (
        "retry.backoff.max.ms",
        LONG,
        1000,
        Range.at_least(0),
        LOW,
        "The longest wait before a failed request is sent again.",
    ),
    ("request.timeout.ms", INT, 40000, Range.at_least(0), MEDIUM, "How long to wait for a broker's response."),
    ("connections.max.idle.ms", LONG, 540000, None, MEDIUM, "An idle connection is closed after this time."),
    (
        "security.protocol",
        STRING,
        "PLAINTEXT",
        CaseInsensitiveValidString.in_("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
        MEDIUM,
        "How brokers are spoken to: with or without TLS, with or without SASL.",
    ),
)

CLUSTER: Final[Rows] = (
    (
        "worker.sync.timeout.ms",
        INT,
        3000,
        None,
        MEDIUM,
        "How long a worker that lags behind may take to read the config topic during a rebalance.",
    ),
    (
        "worker.unsync.backoff.ms",
        INT,
        300000,
        None,
        MEDIUM,
        "How long a worker that could not catch up stays out of the group.",
    ),
    ("offset.storage.topic", STRING, NO_DEFAULT, None, HIGH, "Topic that source offsets are kept in."),
    ("offset.storage.partitions", INT, 25, PARTITIONS, LOW, "Partitions of the offsets topic when it is created."),
    (
        "offset.storage.replication.factor",
        SHORT,
        3,
        REPLICATION_FACTOR,
        LOW,
        "Replicas of the offsets topic when it is created.",
    ),
    ("config.storage.topic", STRING, NO_DEFAULT, None, HIGH, "Topic that connector configs are kept in."),
    (
        "config.storage.replication.factor",
        SHORT,
        3,
        REPLICATION_FACTOR,
        LOW,
        "Replicas of the config topic when it is created.",
    ),
    ("status.storage.topic", STRING, NO_DEFAULT, None, HIGH, "Topic that states of connectors and tasks are kept in."),
    ("status.storage.partitions", INT, 5, PARTITIONS, LOW, "Partitions of the status topic when it is created."),
    (
        "status.storage.replication.factor",
        SHORT,
        3,
        REPLICATION_FACTOR,
        LOW,
        "Replicas of the status topic when it is created.",
    ),
    (
        "connect.protocol",
        STRING,
        "sessioned",
        CONNECT_PROTOCOL,
        LOW,
        "How workers share work: eager stops all for a rebalance, compatible and sessioned only what moves.",
    ),
    (
        "scheduled.rebalance.max.delay.ms",
        INT,
        300000,
        Range.between(0, 2147483647),
        LOW,
        "How long the work of a vanished worker is kept for its return.",
    ),
    (
        "inter.worker.key.ttl.ms",
        INT,
        3600000,
        Range.between(0, 2147483647),
        LOW,
        "How often the key that signs requests between workers is replaced; 0 means never.",
    ),
    (
        "inter.worker.key.generation.algorithm",
        STRING,
        "HmacSHA256",
        KEY_ALGORITHM,
        LOW,
        "Algorithm that makes that key.",
    ),
    ("inter.worker.key.size", INT, None, None, LOW, "Size of that key in bits; the algorithm's own if not given."),
    (
        "inter.worker.signature.algorithm",
        STRING,
        "HmacSHA256",
        MAC_ALGORITHM,
        LOW,
        "Algorithm that signs requests between workers.",
    ),
    (
        "inter.worker.verification.algorithms",
        LIST,
        ["HmacSHA256"],
        MAC_ALGORITHMS,
        LOW,
        "Algorithms that are accepted in requests of other workers.",
    ),
    (
        "metadata.recovery.strategy",
        STRING,
        "rebootstrap",
        CaseInsensitiveValidString.in_("rebootstrap", "none"),
        LOW,
        "What a client does when no known broker answers: begin again from bootstrap.servers, or give up.",
    ),
    (
        "metadata.recovery.rebootstrap.trigger.ms",
        LONG,
        300000,
        Range.at_least(0),
        LOW,
        "How long without an answer until it begins again.",
    ),
)
