"""Worker settings as typed, frozen objects: StandaloneConfig, DistributedConfig, and the tables they are read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from kconnect.api.config_parse import Password, parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.files.folders import data_folder
from kconnect.runtime.config.addresses import check_servers
from kconnect.runtime.config.distributed_keys import CLUSTER, GROUP
from kconnect.runtime.config.key_table import define_rows
from kconnect.runtime.config.own_worker_keys import KCONNECT
from kconnect.runtime.config.removed_settings import opens_rest
from kconnect.runtime.config.security_keys import SASL, SSL
from kconnect.runtime.config.slot_keys import SlotBounds
from kconnect.runtime.config.worker_keys import REST, STANDALONE, TOPIC_TRACKING, WORKER

_BASE: Final = define_rows(None, WORKER, SSL, TOPIC_TRACKING, REST)

STANDALONE_CONFIG: Final = define_rows(_BASE, STANDALONE)
"""Every setting of Java's standalone worker."""
DISTRIBUTED_CONFIG: Final = define_rows(_BASE, GROUP, SASL, CLUSTER)
"""Every setting of Java's distributed worker."""
KCONNECT_CONFIG: Final = define_rows(None, KCONNECT)
"""Our own settings, all with the prefix `kconnect.`."""

WITHOUT_EFFECT: Final = frozenset(
    {
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "metric.reporters",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Java's settings that are accepted and mean nothing here."""

_KNOWN_PREFIXES: Final = (
    "admin.",
    "admin.listeners.",
    "config.providers.",
    "config.storage.",
    "connector.client.",
    "consumer.",
    "header.converter.",
    "key.converter.",
    "listeners.",
    "metrics.context.",
    "offset.storage.",
    "producer.",
    "sasl.",
    "spark.",
    "ssl.",
    "status.storage.",
    "topic.creation.",
    "value.converter.",
)
# Kafka client settings that a worker file holds without a prefix; Java's standalone table does not list them.
_CLIENT_KEYS: Final = frozenset(DISTRIBUTED_CONFIG.names()) - frozenset(row[0] for row in CLUSTER)

W = TypeVar("W", bound="WorkerConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class KConnectSettings:
    """Our own settings; times are in milliseconds, as everywhere in worker files."""

    slots: SlotBounds | None
    query_cores: int | None
    slot_heartbeat_interval_ms: int
    slot_heartbeat_timeout_ms: int
    slot_start_timeout_ms: int
    link_bind_host: str | None
    link_advertised_host: str | None
    link_port: int
    request_timeout_ms: int
    offsets_request_timeout_ms: int
    bootstrap_timeout_ms: int
    kafka_heartbeat_interval_ms: int
    sink_lag_interval_ms: int
    connector_start_timeout_ms: int
    task_stuck_after_ms: int
    task_lagging_after_ms: int
    log_format: str
    jaas_file: str | None
    rest_roles_file: str | None
    rest_max_body_bytes: int
    rest_records_enable: bool
    rest_max_header_bytes: int
    rest_max_connections: int
    rest_request_read_timeout_ms: int
    rest_idle_timeout_ms: int
    rest_requests_per_second: int | None
    rest_requests_burst: int
    rest_namespace: str | None
    audit_log_file: str | None
    audit_log_max_bytes: int
    audit_log_max_files: int
    audit_log_topic: str | None
    audit_log_required: bool
    history_topic: str | None
    schemas_topic: str | None
    errors_restart_max: int | None
    errors_restart_backoff_ms: int
    errors_restart_backoff_max_ms: int
    errors_restart_window_ms: int
    webhook_url: Password | None
    webhook_secret: Password | None
    webhook_events: list[str]
    webhook_connect_timeout_ms: int
    webhook_timeout_ms: int
    webhook_retries: int
    webhook_queue_size: int
    webhook_lag_above: int | None
    ui_enable: bool
    ui_read_timeout_ms: int
    kafka_answer_timeout_ms: int
    forward_answer_timeout_ms: int
    java_home: str | None
    java_opts: str | None
    java_heap: str
    java_command: str | None = None
    java_host: str
    java_mbeans: str
    java_timeout_ms: int

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> KConnectSettings:
        values = KCONNECT_CONFIG.parse(props)
        if values["kconnect.slots"] is not None:
            values["kconnect.slots"] = SlotBounds.parse(values["kconnect.slots"])
        settings = cls(**{name.removeprefix("kconnect.").replace(".", "_"): value for name, value in values.items()})
        if settings.slot_heartbeat_timeout_ms < 2 * settings.slot_heartbeat_interval_ms:
            raise ConfigError.invalid(
                "kconnect.slot.heartbeat.timeout.ms",
                settings.slot_heartbeat_timeout_ms,
                "Must be at least twice kconnect.slot.heartbeat.interval.ms, "
                f"which is {settings.slot_heartbeat_interval_ms}",
            )
        return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What both kinds of worker have. `values` holds every setting of the table, parsed, by its Java name."""

    bootstrap_servers: list[str]
    key_converter: str
    value_converter: str
    header_converter: str
    task_shutdown_graceful_timeout_ms: int
    offset_flush_timeout_ms: int
    plugin_path: list[str] | None
    connector_client_config_override_policy: str
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    listeners: list[str]
    admin_listeners: list[str] | None
    access_control_allow_origin: str
    access_control_allow_methods: str
    response_http_headers_config: str
    kconnect: KConnectSettings
    values: Mapping[str, Any] = field(repr=False)  # any type that ConfigDef parses to; secrets live here
    originals: Mapping[str, str] = field(repr=False)  # those given, which may be live; secrets live here

    @property
    def spark(self) -> dict[str, str]:
        """Every `spark.*` setting under its full name, for the session's builder."""
        return {key: value for key, value in self.originals.items() if key.startswith("spark.")}

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Settings under a prefix, with it taken off: `key.converter.` gives the key converter's own."""
        return {key[len(prefix) :]: value for key, value in self.originals.items() if key.startswith(prefix)}

    def unknown_keys(self) -> list[str]:
        """Keys that mean nothing to us or to Java, for one warning; in the order of the file."""
        return [key for key in self.originals if not self._is_known(key)]

    def keys_without_effect(self) -> list[str]:
        """Java's keys that were set and have no effect here, for one line of information."""
        return [key for key in self.originals if key in WITHOUT_EFFECT]

    def _is_known(self, key: str) -> bool:
        if key in self.values or key in _CLIENT_KEYS or key in KCONNECT_CONFIG.config_keys:
            return True
        return key.startswith(_KNOWN_PREFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(WorkerConfig):
    """Settings of a worker that runs alone. Source: o.a.k.connect.runtime.standalone.StandaloneConfig (Kafka 4.3)."""

    offset_storage_file_filename: str

    @classmethod
    def parse(cls, props: Mapping[str, str], find_class: Callable[[str], object] | None = None) -> StandaloneConfig:
        """Typed settings. Errors: ConfigError with Java's message on the first setting that is missing or wrong."""
        return _parse(cls, STANDALONE_CONFIG, props, find_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedConfig(WorkerConfig):
    """Settings of a worker in a cluster. Source: o.a.k.connect.runtime.distributed.DistributedConfig (Kafka 4.3)."""

    group_id: str
    config_storage_topic: str
    connect_protocol: str

    @classmethod
    def parse(cls, props: Mapping[str, str], find_class: Callable[[str], object] | None = None) -> DistributedConfig:
        """Typed settings. Errors: ConfigError with Java's message on the first setting that is missing or wrong."""
        config = _parse(cls, DISTRIBUTED_CONFIG, props, find_class)
        _check_signing(config.values)
        return config


def worker_value(worker: Mapping[str, str], name: str) -> Any:  # any type that ConfigDef parses to
    """One setting of the worker, typed; its default when it is not set."""
    key = STANDALONE_CONFIG.config_keys[name]
    value = worker.get(name)
    return key.default if value is None else parse_type(name, value, key.type)


def default_standalone_properties(home: Path | None = None) -> dict[str, str]:
    """Settings of a worker for which no file was given: a broker on this machine, offsets in the user's data folder.

    Converters are those of Java's sample worker file. `home` replaces the user's data folder.
    Differs: Java's sample keeps offsets in /tmp, which a restart of the machine empties.
    """
    folder = home or data_folder()
    return {
        "bootstrap.servers": "localhost:9092",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        "offset.storage.file.filename": str(folder / "connect.offsets"),
        "offset.flush.interval.ms": "10000",
    }


def _parse(cls: type[W], table: ConfigDef, props: Mapping[str, str], find_class: Callable[[str], object] | None) -> W:
    try:
        if why := opens_rest(props):
            raise ConfigError(why, [ConfigProblem("rest.host.name", props["rest.host.name"], why)])
        values = table.parse(props, find_class)
        check_servers(props)
    except ConfigError as err:
        err.hint = err.hint or _misspelt(err.problems, table, props)
        raise
    by_field = {name.replace(".", "_"): value for name, value in values.items()}
    names = {item.name for item in fields(cls)}
    typed = {name: value for name, value in by_field.items() if name in names}
    return cls(**typed, kconnect=KConnectSettings.parse(props), values=values, originals=props)


def _misspelt(problems: Sequence[ConfigProblem], table: ConfigDef, props: Mapping[str, str]) -> str | None:
    """A hint at keys that are there and mean nothing, and are like one that is missing; None without any."""
    from difflib import get_close_matches  # here: only who made a mistake needs it

    unlisted = [key for key in props if key not in table.config_keys and key not in _CLIENT_KEYS]
    missing = [problem.key for problem in problems if problem.value is None]
    # bootstrapServers is 0.91 of bootstrap.servers; key.converter.schemas.enable is 0.63 of key.converter
    near = {key: get_close_matches(key, unlisted, n=1, cutoff=0.8) for key in missing}
    sentences = [f"Unknown setting: {found[0]}. Did you mean {key}?" for key, found in near.items() if found]
    return " ".join(sentences) or None


def _check_signing(values: Mapping[str, Any]) -> None:
    """Source: DistributedConfig.validateInterWorkerKeyConfigs."""
    algorithm, bits = values["inter.worker.key.generation.algorithm"], values["inter.worker.key.size"]
    if bits is not None and bits < 40:
        raise ConfigError(
            f"Unable to create key generator with algorithm {algorithm} and key size {bits}: "
            "Key length must be at least 40 bits",
            hint="Leave inter.worker.key.size out, or give at least 256.",
        )
    signature = values["inter.worker.signature.algorithm"]
    if signature not in values["inter.worker.verification.algorithms"]:
        raise ConfigError.invalid(
            "inter.worker.signature.algorithm",
            signature,
            "Signature algorithm must be present in inter.worker.verification.algorithms list",
        )
