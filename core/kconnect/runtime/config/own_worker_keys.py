"""Settings of a worker that only we have, as rows: `kconnect.*`, automatic restarts, webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.api.config_key import Importance
from kconnect.api.configdef import ConfigDef
from kconnect.builtin.types.declarations import VALUE_SCHEMA
from kconnect.errors import ConfigError
from kconnect.java.compat.mbean_names import DEFAULT_MBEANS, object_name_patterns
from kconnect.runtime.config.key_table import Rows
from kconnect.runtime.config.labels import LABELS
from kconnect.runtime.config.restart_keys import OF_WORKER, RESTART_KEYS
from kconnect.runtime.config.slot_keys import SLOT_KEYS, check_slots
from kconnect.runtime.config.webhook_keys import LAG_ABOVE
from kconnect.runtime.config.webhook_keys import OF_WORKER as WEBHOOKS
from kconnect.runtime.config.worker_keys import (
    BOOLEAN,
    INT,
    LONG,
    LOW,
    MEDIUM,
    OPTIONAL_NOT_NEGATIVE,
    OPTIONAL_POSITIVE,
    STRING,
    CaseInsensitiveValidString,
    Range,
)

_T, _LOW = ConfigDef.Type, Importance.LOW


def _check_mbeans(name: str, value: object) -> None:
    try:
        object_name_patterns(str(value or ""))
    except ConfigError as err:
        raise ConfigError.invalid(name, value, f"{err}. {err.hint}") from err


_JAVA: Final[Rows] = (
    (
        "kconnect.java.home",
        _T.STRING,
        None,
        None,
        _LOW,
        "Home of the Java that runs Java's plugins, 17 or newer; JAVA_HOME, or java on the PATH, if it is not set.",
    ),
    (
        "kconnect.java.opts",
        _T.STRING,
        None,
        None,
        _LOW,
        "Options of the JVMs that run Java's plugins, as on a command line.",
    ),
    (
        "kconnect.java.host",
        _T.STRING,
        "slot",
        ConfigDef.ValidString.in_("worker", "slot", "connector"),
        _LOW,
        "How many of these JVMs there are: slot, one beside the worker and beside each slot as soon as it has a Java "
        "plugin; connector, there one for each connector, so that one which runs out of memory, or ends its JVM, "
        "takes no other along; or worker, one for the worker and the slots on its machine that are no connector's own. "
        "A JVM takes 45 MB and more.",
    ),
    (
        "kconnect.java.mbeans",
        _T.STRING,
        DEFAULT_MBEANS,
        ConfigDef.LambdaValidator(_check_mbeans, "patterns of MBeans with commas between them"),
        _LOW,
        "MBeans of Java's plugins whose numbers are in /metrics: domains such as debezium.*, or patterns such as "
        "kafka.producer:type=producer-metrics,*. Empty: none.",
    ),
    (
        "kconnect.java.timeout.ms",
        _T.LONG,
        30_000,
        ConfigDef.Range.at_least(1000),
        _LOW,
        "A JVM of Java's plugins that has not answered for so long is killed; its tasks fail and are restarted. One "
        "that starts has twice as long.",
    ),
    (
        "kconnect.java.command",
        _T.STRING,
        None,
        None,
        _LOW,
        "What Java's plugins find in the system property sun.java.command, in which some look for the worker's file: "
        "by default the class of Java's worker and the file that this one was started with.",
    ),
    (
        "kconnect.java.heap",
        _T.STRING,
        "512m",
        ConfigDef.NonEmptyString(),
        _LOW,
        "Largest heap of each of these JVMs: what follows -Xmx.",
    ),
)

ONLY_ON_WORKERS: Final = (
    "kconnect.task.stuck.after.ms",
    "kconnect.task.lagging.after.ms",
    *RESTART_KEYS,
    *SLOT_KEYS,
    LAG_ABOVE,
)
"""Settings of a connector that say how a worker runs and watches it; without a worker they have no effect."""

OWN_OF_CONNECTORS: Final = (*ONLY_ON_WORKERS, LABELS, VALUE_SCHEMA)
"""Settings of ours that a connector may have; those with kconnect. override the worker's of the same name."""

READ_AS_WRITTEN: Final = (*RESTART_KEYS, *SLOT_KEYS, LABELS)
"""Names the ones that are read where no reference is resolved: by the leader, the launcher, commands."""

KCONNECT: Final[Rows] = (
    (
        "kconnect.slots",
        STRING,
        None,
        ConfigDef.LambdaValidator(check_slots, "4, or 2..8"),
        MEDIUM,
        "Slots (Spark tasks that run Connect tasks) to start; by default one per core of Spark. Bounds such as 2..8: "
        "the worker starts and ends slots by what their tasks want of a core and by their lag, and moves tasks.",
    ),
    (
        "kconnect.query.cores",
        INT,
        None,
        OPTIONAL_NOT_NEGATIVE,
        MEDIUM,
        "Cores of Spark that slots leave to SparkSink and SparkSource; by default 1 on this machine, beside the slots, "
        "and 0 with spark.master=local[N] or a cluster, where they are cores less for slots.",
    ),
    (
        "kconnect.slot.heartbeat.interval.ms",
        LONG,
        1000,
        Range.at_least(50),
        LOW,
        "How often a slot sends a heartbeat to the worker.",
    ),
    (
        "kconnect.slot.heartbeat.timeout.ms",
        LONG,
        10000,
        Range.at_least(100),
        LOW,
        "How long a slot may be silent before it is considered lost and its tasks start elsewhere.",
    ),
    (
        "kconnect.slot.start.timeout.ms",
        LONG,
        60000,
        Range.at_least(1),
        LOW,
        "How long Spark's master and its JVM may take to answer, and a slot to reach the worker.",
    ),
    (
        "kconnect.link.bind.host",
        STRING,
        None,
        None,
        LOW,
        "Address on which the worker listens for its slots; loopback if Spark runs locally, else all.",
    ),
    (
        "kconnect.link.advertised.host",
        STRING,
        None,
        None,
        LOW,
        "Address that slots use to reach the worker, if it differs from the one it listens on.",
    ),
    (
        "kconnect.link.port",
        INT,
        0,
        Range.between(0, 65535),
        LOW,
        "Port on which the worker listens for its slots; any free one if 0.",
    ),
    (
        "kconnect.request.timeout.ms",
        LONG,
        90000,
        Range.at_least(1),
        LOW,
        "How long a REST request may take before it is answered with an error.",
    ),
    (
        "kconnect.offsets.request.timeout.ms",
        LONG,
        # Longer than what a killed task left open: transaction.timeout.ms, 60 s, and the 10 s within which brokers look
        90000,
        Range.at_least(1),
        LOW,
        "How long a task waits for the worker to read or store source offsets. With exactly-once support a read waits "
        "for all open transactions, so raise it with transaction.timeout.ms.",
    ),
    (
        "kconnect.bootstrap.timeout.ms",
        LONG,
        60000,
        Range.at_least(1),
        LOW,
        "How long the worker waits for the brokers when it starts.",
    ),
    (
        "kconnect.kafka.heartbeat.interval.ms",
        LONG,
        3000,
        Range.at_least(100),
        LOW,
        "How often a standalone worker checks that Kafka answers; a cluster's worker uses heartbeat.interval.ms.",
    ),
    (
        "kconnect.sink.lag.interval.ms",
        LONG,
        30_000,
        Range.at_least(0),
        LOW,
        "How often the worker looks up the lag of its sinks for /metrics, and the leader that of all for webhooks; 0: "
        "never.",
    ),
    (
        "kconnect.connector.start.timeout.ms",
        LONG,
        60000,
        Range.at_least(1),
        LOW,
        "How long a connector may take to start or stop before it is reported as failed.",
    ),
    (
        "kconnect.task.stuck.after.ms",
        LONG,
        60000,
        Range.at_least(0),
        LOW,
        "After how long a call of a task's plugin that has not returned (poll, put, start, stop ..) is reported "
        "with its stack, and the task's condition becomes stuck; 0: never. A connector may override it. Raise it for "
        "sources whose poll may wait longer than this for data.",
    ),
    (
        "kconnect.task.lagging.after.ms",
        LONG,
        60000,
        Range.at_least(0),
        LOW,
        "How long a sink must fall further behind the ends of its partitions, or a source must wait for room in its "
        "producer's queue most of the time, until the task's condition becomes lagging; 0: never. A connector may have "
        "its own.",
    ),
    (
        "kconnect.log.format",
        STRING,
        "line",
        CaseInsensitiveValidString.in_("line", "json"),
        LOW,
        "How lines of the worker's log look, its slots' too: line, as Connect's log4j writes them, or json, one object "
        "a line. --log-format takes precedence.",
    ),
    (
        "kconnect.jaas.file",
        STRING,
        None,
        None,
        LOW,
        "JAAS file with the entry KafkaConnect for basic auth of REST; else -Djava.security.auth.login.config of "
        "KAFKA_OPTS names it.",
    ),
    (
        "kconnect.rest.roles.file",
        STRING,
        None,
        None,
        LOW,
        "TOML file of who may do what over REST, by role and name of connector; read again when it changes. Without "
        "it, every authenticated user may do everything.",
    ),
    (
        "kconnect.rest.max.body.bytes",
        INT,
        8 * 1024 * 1024,
        Range.at_least(1024),
        LOW,
        "The largest body of a REST request.",
    ),
    (
        "kconnect.rest.records.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether REST gives records of topics, dead letters and the state of the group, read with the worker's login. "
        "With roles a grant names the topics.",
    ),
    (
        "kconnect.rest.max.header.bytes",
        INT,
        65_536,
        Range.at_least(1024),
        LOW,
        "The largest URL and headers of a REST request together.",
    ),
    (
        "kconnect.rest.max.connections",
        INT,
        1000,
        Range.at_least(1),
        LOW,
        "How many connections REST has at a time, for http and https each; more are refused with 503.",
    ),
    (
        "kconnect.rest.request.read.timeout.ms",
        LONG,
        30_000,
        Range.at_least(100),
        LOW,
        "How long a REST request may take to arrive, from the connection or its first byte to its last.",
    ),
    (
        "kconnect.rest.idle.timeout.ms",
        LONG,
        5000,
        Range.at_least(1000),
        LOW,
        "How long a connection to REST stays open between two requests.",
    ),
    (
        "kconnect.rest.requests.per.second",
        INT,
        None,
        OPTIONAL_POSITIVE,
        LOW,
        "How often a user, or an address without one, may ask REST in the long run; more is 429. No limit by default.",
    ),
    (
        "kconnect.rest.requests.burst",
        INT,
        100,
        Range.at_least(1),
        LOW,
        "How many requests at once kconnect.rest.requests.per.second allows who was quiet before.",
    ),
    (
        "kconnect.rest.namespace",
        STRING,
        None,
        None,
        LOW,
        "For a flow of `connect mirror`, which sets it: the path below which other workers of the flow ask this one, "
        "such as /east/west. Whoever asks anything else must do so from this machine.",
    ),
    (
        "kconnect.audit.log.file",
        STRING,
        None,
        None,
        LOW,
        "File that gets a line of JSON for each change over REST and each refused attempt; only its owner may read it.",
    ),
    (
        "kconnect.audit.log.max.bytes",
        LONG,
        10 * 1024 * 1024,
        Range.at_least(1024),
        LOW,
        "How large kconnect.audit.log.file becomes before it is renamed to .1 and begun again.",
    ),
    (
        "kconnect.audit.log.max.files",
        INT,
        5,
        Range.at_least(0),
        LOW,
        "How many older files of the audit log are kept.",
    ),
    (
        "kconnect.audit.log.topic",
        STRING,
        None,
        None,
        LOW,
        "Topic that gets the same lines as records, with the connector as key; instead of a file, or beside it.",
    ),
    (
        "kconnect.audit.log.required",
        BOOLEAN,
        False,
        None,
        LOW,
        "Whether changes over REST are refused while the audit log cannot be written; else they are carried out.",
    ),
    (
        "kconnect.history.topic",
        STRING,
        None,
        None,
        LOW,
        "Topic that keeps who changed configs and offsets, made at need; by default that of the configs with -history "
        "behind it. Empty: none.",
    ),
    (
        "kconnect.schemas.topic",
        STRING,
        None,
        None,
        LOW,
        "Topic that keeps the schemas that converters with schemas.infer.enable inferred, made at need; by default "
        "that of the configs with -schemas behind it. Empty: tasks forget them when they end.",
    ),
    *OF_WORKER,
    *WEBHOOKS,
    *_JAVA,
    (
        "kconnect.kafka.answer.timeout.ms",
        LONG,
        3_000,
        Range.at_least(1),
        LOW,
        "How long a request to REST waits for what only Kafka knows (offsets, lag); then it says what it has, and "
        "why not the rest. A change waits longer only while Kafka answers, and then says whether it may still be "
        "done. While Kafka is known to be away neither waits, and nothing is changed.",
    ),
    (
        "kconnect.forward.answer.timeout.ms",
        LONG,
        3_000,
        Range.at_least(1),
        LOW,
        "How long the worker that a request is forwarded to may be silent: it answers neither that nor GET /. What it "
        "has not taken by then is not sent. Where it has taken it, the answer says that the outcome is not known.",
    ),
    (
        "kconnect.ui.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether the worker serves the web console at /ui of its REST listeners.",
    ),
    (
        "kconnect.ui.read.timeout.ms",
        LONG,
        4_000,
        Range.at_least(1),
        LOW,
        "How long a page of the web console waits for what it only reads; a page then shows what it has, and what not.",
    ),
)


def history_topic(worker: Mapping[str, str]) -> str | None:
    """The topic of who changed what, of a worker with these settings; None: it is switched off, or has no cluster."""
    return _beside_configs(worker, "history")


def schemas_topic(worker: Mapping[str, str]) -> str | None:
    """The topic of schemas that converters inferred; None as for `history_topic`."""
    return _beside_configs(worker, "schemas")


def _beside_configs(worker: Mapping[str, str], purpose: str) -> str | None:
    given, configs = worker.get(f"kconnect.{purpose}.topic"), worker.get("config.storage.topic", "").strip()
    if given is not None:
        return given.strip() or None
    return f"{configs}-{purpose}" if configs else None


def own_topics(worker: Mapping[str, str]) -> dict[str, str]:
    """The topics that are the cluster itself, and why no source writes to them where there are roles.

    Whoever writes configs there is an administrator; so a router must not lead there what an editor's source reads.
    Differs: Java has no roles, and lets any source write there.
    """
    if not worker.get("kconnect.rest.roles.file"):
        return {}
    keys = ("config.storage.topic", "offset.storage.topic", "status.storage.topic", "kconnect.audit.log.topic")
    named = {worker[key]: key for key in keys if worker.get(key)}
    for purpose in ("history", "schemas"):
        if (beside := _beside_configs(worker, purpose)) is not None:
            named[beside] = f"kconnect.{purpose}.topic"
    return {
        topic: f"No source of this worker writes to {topic}, the topic of {key}. "
        "Correct the connector's topic, or the transformation that names it."
        for topic, key in named.items()
    }
