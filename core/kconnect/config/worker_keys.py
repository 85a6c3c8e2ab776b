"""Settings of a worker, as rows. Source: WorkerConfig, RestServerConfig, StandaloneConfig (Kafka 4.3).

Names, types, defaults and validators are Java's; KCONNECT holds the settings that only we have.
"""

from __future__ import annotations

import csv
import re
from typing import Any, Final

from kconnect.api.config_key import NO_DEFAULT
from kconnect.api.configdef import ConfigDef
from kconnect.config.key_table import Rows
from kconnect.config.restart_keys import OF_WORKER, RESTART_KEYS
from kconnect.config.webhook_keys import LAG_ABOVE
from kconnect.config.webhook_keys import OF_WORKER as WEBHOOKS
from kconnect.errors import ConfigError
from kconnect.labels import LABELS

BOOLEAN: Final = ConfigDef.Type.BOOLEAN
STRING: Final = ConfigDef.Type.STRING
INT: Final = ConfigDef.Type.INT
LONG: Final = ConfigDef.Type.LONG
LIST: Final = ConfigDef.Type.LIST
CLASS: Final = ConfigDef.Type.CLASS
HIGH: Final = ConfigDef.Importance.HIGH
MEDIUM: Final = ConfigDef.Importance.MEDIUM
LOW: Final = ConfigDef.Importance.LOW
Range: Final = ConfigDef.Range
ValidString: Final = ConfigDef.ValidString
ValidList: Final = ConfigDef.ValidList
CaseInsensitiveValidString: Final = ConfigDef.CaseInsensitiveValidString

_URLS: Final = "List of comma-separated URLs, ex: http://localhost:8080,https://localhost:8443."
_HEADER_ACTIONS: Final = ("set", "add", "setDate", "addDate")


def _check_listeners(name: str, value: Any) -> None:
    if not value:
        example = "http://localhost:8080,https://localhost:8443"
        raise ConfigError(f"Invalid value for listeners, at least one URL is expected, ex: {example}.")
    if any(not url.strip() for url in value):
        raise ConfigError(f"Empty URL found when parsing {name} list.")


def _check_http_headers(name: str, value: Any) -> None:
    if value is None or not value.strip():
        return
    for rule in next(csv.reader([value], skipinitialspace=True)):
        _check_http_header(rule)


def _check_http_header(rule: str) -> None:
    parts = rule.strip().split(None, 1)
    if len(parts) != 2:
        raise ConfigError(
            f"Invalid format of header config '{rule}'. Expected: '[action] [header name]:[header value]'"
        )
    action, header = parts
    if action.lower() not in (allowed.lower() for allowed in _HEADER_ACTIONS):
        allowed = ", ".join(_HEADER_ACTIONS)
        raise ConfigError(f"Invalid header config action: '{action}'. Expected one of [{allowed}]")
    # Java splits at every colon and drops empty parts at the end.
    pair = header.strip().rstrip(":").split(":")
    if len(pair) != 2:
        raise ConfigError(
            f"Invalid format of header name and header value pair '{header}'. Expected: '[header name]:[header value]'"
        )
    name = pair[0].strip()
    if not name or re.search(r"\s", name):
        raise ConfigError(f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace")


def _check_optional_positive(name: str, value: Any) -> None:
    if value is not None:
        Range.at_least(1).ensure_valid(name, value)


def _check_optional_not_negative(name: str, value: Any) -> None:
    if value is not None:
        Range.at_least(0).ensure_valid(name, value)


LISTENERS: Final = ConfigDef.LambdaValidator(_check_listeners, _URLS)
HTTP_HEADERS: Final = ConfigDef.LambdaValidator(
    _check_http_headers,
    "Comma-separated header rules, where each header rule is of the form '[action] [header name]:[header value]' "
    "and optionally surrounded by double quotes if any part of a header rule contains a comma",
)
OPTIONAL_POSITIVE: Final = ConfigDef.LambdaValidator(_check_optional_positive, "[1,...]")
OPTIONAL_NOT_NEGATIVE: Final = ConfigDef.LambdaValidator(_check_optional_not_negative, "[0,...]")

WORKER: Final[Rows] = (
    (
        "bootstrap.servers",
        LIST,
        NO_DEFAULT,
        ValidList.any_non_duplicate_values(False, False),
        HIGH,
        "Brokers to contact first, as host:port,host:port; the rest of the cluster is discovered from them.",
    ),
    (
        "client.dns.lookup",
        STRING,
        "use_all_dns_ips",
        ValidString.in_("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        MEDIUM,
        "How a broker name with several addresses is resolved: each address in turn, or canonical names first.",
    ),
    (
        "key.converter",
        CLASS,
        NO_DEFAULT,
        None,
        HIGH,
        "Class that turns record keys into bytes and back; a connector may name its own.",
    ),
    (
        "key.converter.plugin.version",
        STRING,
        None,
        None,
        LOW,
        "Version of the key converter to use; the newest by default.",
    ),
    (
        "value.converter",
        CLASS,
        NO_DEFAULT,
        None,
        HIGH,
        "Class that turns record values into bytes and back; a connector may name its own.",
    ),
    (
        "value.converter.plugin.version",
        STRING,
        None,
        None,
        LOW,
        "Version of the value converter to use; the newest by default.",
    ),
    (
        "task.shutdown.graceful.timeout.ms",
        LONG,
        5000,
        None,
        LOW,
        "How long all tasks together may take to stop before they are abandoned.",
    ),
    ("offset.flush.interval.ms", LONG, 60000, None, LOW, "How often source offsets are committed."),
    (
        "offset.flush.timeout.ms",
        LONG,
        5000,
        None,
        LOW,
        "How long one write of source offsets may take before it is cancelled and retried later.",
    ),
    (
        "plugin.path",
        LIST,
        None,
        ValidList.any_non_duplicate_values(False, True),
        LOW,
        "Folders to search for plugins, in addition to the installed Python packages.",
    ),
    (
        "plugin.discovery",
        STRING,
        "hybrid_warn",
        CaseInsensitiveValidString.in_("only_scan", "service_load", "hybrid_warn", "hybrid_fail"),
        LOW,
        "How Java discovers plugins; accepted and without effect here, where entry points are read.",
    ),
    (
        "metrics.sample.window.ms",
        LONG,
        30000,
        Range.at_least(0),
        LOW,
        "The length of a window for rates and averages in Java; without effect here: they cover the last 60 s.",
    ),
    (
        "metrics.num.samples",
        INT,
        2,
        Range.at_least(1),
        LOW,
        "How many windows a rate or average covers in Java; without effect here: they cover the last 60 s.",
    ),
    (
        "metrics.recording.level",
        STRING,
        "INFO",
        ValidString.in_("INFO", "DEBUG"),
        LOW,
        "The finest level of metrics that Java records; without effect here, where all are recorded.",
    ),
    (
        "metric.reporters",
        LIST,
        ["org.apache.kafka.common.metrics.JmxReporter"],
        ValidList.any_non_duplicate_values(True, False),
        LOW,
        "Java classes that report metrics; accepted and without effect here.",
    ),
    (
        "header.converter",
        CLASS,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        None,
        LOW,
        "Class that turns record headers into bytes and back; a connector may name its own.",
    ),
    (
        "header.converter.plugin.version",
        STRING,
        None,
        None,
        LOW,
        "Version of the header converter to use; the newest by default.",
    ),
    (
        "config.providers",
        LIST,
        [],
        ValidList.any_non_duplicate_values(True, False),
        LOW,
        "Names of config providers, which resolve ${provider:path:key} in connector configs.",
    ),
    (
        "connector.client.config.override.policy",
        STRING,
        "All",
        None,
        MEDIUM,
        "Which client settings a connector may override: All, None, Principal, Allowlist, or a Python class.",
    ),
    (
        "topic.creation.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether topics of source connectors may be created according to topic.creation.* settings.",
    ),
)

TOPIC_TRACKING: Final[Rows] = (
    (
        "topic.tracking.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether the topics that each connector uses are tracked and shown.",
    ),
    (
        "topic.tracking.allow.reset",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether REST may reset the topics that a connector used.",
    ),
)

REST: Final[Rows] = (
    (
        "listeners",
        LIST,
        ["http://:8083"],
        LISTENERS,
        LOW,
        "REST listeners: http://host:port or https://host:port, separated by commas; an empty host means all.",
    ),
    ("rest.advertised.host.name", STRING, None, None, LOW, "Host that other workers use to reach this worker's REST."),
    ("rest.advertised.port", INT, None, None, LOW, "Port that other workers use to reach this worker's REST."),
    ("rest.advertised.listener", STRING, None, None, LOW, "Which listener other workers use: http or https."),
    (
        "access.control.allow.origin",
        STRING,
        "",
        None,
        LOW,
        "Origin from which browsers may call REST, or * for all; empty disables cross-origin requests.",
    ),
    (
        "access.control.allow.methods",
        STRING,
        "",
        None,
        LOW,
        "HTTP methods that browsers may use across origins; empty means GET, POST and HEAD.",
    ),
    (
        "response.http.headers.config",
        STRING,
        "",
        HTTP_HEADERS,
        LOW,
        "Rules for headers of REST responses, such as `add X-Frame-Options: DENY`.",
    ),
    (
        "ssl.client.auth",
        STRING,
        "none",
        ValidString.in_("required", "requested", "none"),
        LOW,
        "Whether REST requests a certificate from its clients.",
    ),
    (
        "rest.extension.classes",
        LIST,
        [],
        ValidList.any_non_duplicate_values(True, False),
        LOW,
        "Extensions of REST: BasicAuthSecurityRestExtension, which requires user and password, or Python classes.",
    ),
    (
        "admin.listeners",
        LIST,
        None,
        ValidList.any_non_duplicate_values(True, True),
        LOW,
        "Listeners of REST's /admin: those of the rest by default, none if empty.",
    ),
)

STANDALONE: Final[Rows] = (
    (
        "offset.storage.file.filename",
        STRING,
        NO_DEFAULT,
        None,
        HIGH,
        "File for source offsets, in Java's format.",
    ),
)

OWN_OF_CONNECTORS: Final = (
    "kconnect.task.stuck.after.ms",
    "kconnect.task.lagging.after.ms",
    *RESTART_KEYS,
    LAG_ABOVE,
    LABELS,
)
"""Settings of ours that a connector may have; those with kconnect. override the worker's of the same name."""

KCONNECT: Final[Rows] = (
    (
        "kconnect.slots",
        INT,
        None,
        OPTIONAL_POSITIVE,
        MEDIUM,
        "Slots (Spark tasks that run Connect tasks) to start; by default one per core of Spark.",
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
        "it, whoever is let in may do everything.",
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
    *OF_WORKER,
    *WEBHOOKS,
    (
        "kconnect.ui.enable",
        BOOLEAN,
        True,
        None,
        LOW,
        "Whether the worker serves the web console at /ui of its REST listeners.",
    ),
)
