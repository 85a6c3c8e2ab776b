"""Settings of a worker, as rows. Source: WorkerConfig, RestServerConfig, StandaloneConfig (Kafka 4.3).

Names, types, defaults and validators are Java's. `own_worker_keys.py` has the settings that only we have.
"""

from __future__ import annotations

import csv
import re
from typing import Any, Final

from kconnect.api.config_key import NO_DEFAULT
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.runtime.config.key_table import Rows

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
        "How Java's plugins in plugin.path are found: by their manifests (service_load), by their classes (only_scan), "
        "or both: hybrid_warn names those without manifest in a warning, hybrid_fail refuses to start.",
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
