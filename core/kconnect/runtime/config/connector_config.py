"""Connector settings as typed, frozen objects, with the stages that `transforms` and `predicates` define."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.builtin.types.declarations import FORMER_NAMES, OF_TOPIC, VALUE_SCHEMA, declarations
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.java.compat.regex import compile_java
from kconnect.runtime.config.connector_keys import CONNECTOR_CONFIG, DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.removed_settings import removed_problems


@dataclass(frozen=True, slots=True)
class PluginSpec:
    """A plugin to instantiate: its alias, its class name, its own settings."""

    alias: str
    type: str
    config: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TransformSpec:
    """One transformation of the chain, with the predicate that guards it."""

    transform: PluginSpec
    predicate: PluginSpec | None = None
    negate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSettings:
    """The errors.deadletterqueue.* settings of one connector."""

    topic: str
    replication_factor: int = 3
    context_headers: bool = False

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> DeadLetterSettings | None:
        """Returns None without a topic. Errors: ConfigError for a value of the wrong type."""
        name, replicas, headers = DEAD_LETTER_KEYS
        values = {key: _parsed(key, props) for key in DEAD_LETTER_KEYS}
        if not values[name].strip():
            return None
        return cls(topic=values[name].strip(), replication_factor=values[replicas], context_headers=values[headers])


def source_dead_letter_problems(props: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """What is wrong with a source's dead letter settings, which are ours alone: pairs of key and message."""
    problems = []
    for key in DEAD_LETTER_KEYS:
        try:
            _parsed(key, props)
        except ConfigError as error:
            problems.append((key, str(error)))
    return problems


def _parsed(key: str, props: Mapping[str, str | None]) -> Any:
    row = SINK_CONFIG.config_keys[key]
    given = props.get(key)
    return row.default if given is None else parse_type(key, given, row.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorConfig:
    """What Connect reads from any connector's config. Source: o.a.k.connect.runtime.ConnectorConfig (Kafka 4.3)."""

    name: str
    connector_class: str
    tasks_max: int
    tasks_max_enforce: bool
    key_converter: str | None
    value_converter: str | None
    header_converter: str | None
    errors_retry_timeout_ms: int
    errors_retry_delay_max_ms: int
    errors_tolerance: str
    errors_log_enable: bool
    errors_log_include_messages: bool
    transforms: tuple[TransformSpec, ...]
    originals: Mapping[str, str] = field(repr=False)  # secrets live here

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> Self:
        """Typed settings. Errors: ConfigError with Java's message on the first setting that is missing or wrong."""
        return cls(**_shared(CONNECTOR_CONFIG.parse(props), props))

    @property
    def tolerates_errors(self) -> bool:
        return self.errors_tolerance == "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConnectorConfig(ConnectorConfig):
    """What Connect reads from a source connector's config. Source: SourceConnectorConfig (Kafka 4.3)."""

    exactly_once_support: str
    transaction_boundary: str
    transaction_boundary_interval_ms: int | None
    dead_letters: DeadLetterSettings | None
    """Differs: Java's sources have none."""

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> Self:
        """Typed settings. Errors: as ConnectorConfig.parse."""
        values = SOURCE_CONFIG.parse(props)
        return cls(
            **_shared(values, props),
            exactly_once_support=values["exactly.once.support"].lower(),
            transaction_boundary=values["transaction.boundary"].lower(),
            transaction_boundary_interval_ms=values["transaction.boundary.interval.ms"],
            dead_letters=DeadLetterSettings.parse(props),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConnectorConfig(ConnectorConfig):
    """What Connect reads from a sink connector's config. Source: SinkConnectorConfig (Kafka 4.3)."""

    topics: list[str]
    topics_regex: str | None
    dead_letters: DeadLetterSettings | None

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> Self:
        """Typed settings. Errors: as ConnectorConfig.parse, and what `sink_problems` finds."""
        values = SINK_CONFIG.parse(props)
        for name, message in sink_problems(props):
            raise ConfigError.invalid(name, props.get(name), message)
        return cls(
            **_shared(values, props, is_sink=True),
            topics=values["topics"],
            topics_regex=values["topics.regex"] or None,
            dead_letters=DeadLetterSettings.parse(props),
        )


def sink_problems(props: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Problems with a sink's topics as a whole: pairs of key and Java's message. Source: SinkConnectorConfig."""
    topics, regex = props.get("topics") or "", props.get("topics.regex") or ""
    dlq = (props.get("errors.deadletterqueue.topic.name") or "").strip()
    problems: list[tuple[str, str]] = []
    if topics.strip() and regex.strip():
        message = "topics and topics.regex are mutually exclusive options, but both are set."
        problems += [("topics", message), ("topics.regex", message)]
    if not topics.strip() and not regex.strip():
        message = "Must configure one of topics or topics.regex"
        problems += [("topics", message), ("topics.regex", message)]
    if dlq and topics.strip():
        names = list(dict.fromkeys(name for name in parse_type("topics", topics, ConfigDef.Type.LIST) if name))
        if dlq in names:
            given = ", ".join(names)
            problems.append(
                (
                    "topics",
                    f"The DLQ topic '{dlq}' may not be included in the list of topics ('topics=[{given}]') "
                    "consumed by the connector",
                )
            )
    if dlq and regex.strip() and _matches(regex, dlq):
        problems.append(
            (
                "topics.regex",
                f"The DLQ topic '{dlq}' may not be matched by the regex for the topics ('topics.regex={regex}') "
                "consumed by the connector",
            )
        )
    return problems


def transform_specs(props: Mapping[str, str]) -> tuple[TransformSpec, ...]:
    """The chain that `transforms` and `predicates` define, in order.

    Errors: ConfigError for an alias without `type`, for a predicate that is not defined, and for a removed setting that
    keeps fields back.
    Source: ConnectorConfig.transformationStages (Kafka 4.3).
    """
    for key, message in removed_problems(props):
        raise ConfigError(message, [ConfigProblem(key, props[key], message)])
    specs = []
    for alias in _aliases(props, "transforms"):
        config = prefixed(props, f"transforms.{alias}.")
        predicate, negate = config.pop("predicate", None), config.pop("negate", "false")
        transform = _plugin(alias, f"transforms.{alias}.", config)
        if predicate is None:
            specs.append(TransformSpec(transform))
            continue
        prefix = f"predicates.{predicate.strip()}."
        guard = _plugin(predicate.strip(), prefix, prefixed(props, prefix))
        specs.append(TransformSpec(transform, guard, negate.strip().lower() == "true"))
    return tuple(specs)


def prefixed(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Settings under a prefix, without the prefix. A key that equals the prefix is left out, as in Java."""
    return {key[len(prefix) :]: value for key, value in props.items() if key.startswith(prefix) and key != prefix}


_SHARED: Final = {
    "name": "name",
    "connector_class": "connector.class",
    "tasks_max": "tasks.max",
    "tasks_max_enforce": "tasks.max.enforce",
    "key_converter": "key.converter",
    "value_converter": "value.converter",
    "header_converter": "header.converter",
    "errors_retry_timeout_ms": "errors.retry.timeout",
    "errors_retry_delay_max_ms": "errors.retry.delay.max.ms",
    "errors_tolerance": "errors.tolerance",
    "errors_log_enable": "errors.log.enable",
    "errors_log_include_messages": "errors.log.include.messages",
}


def _shared(values: Mapping[str, Any], props: Mapping[str, str], *, is_sink: bool = False) -> dict[str, Any]:
    typed = {attribute: values[key] for attribute, key in _SHARED.items()}
    steps, declared = transform_specs(props), declared_step(props, is_sink=is_sink)
    steps = (*steps, *declared) if is_sink else (*declared, *steps)
    return {**typed, "transforms": steps, "originals": dict(props)}


def declared_step(props: Mapping[str, str], *, is_sink: bool) -> tuple[TransformSpec, ...]:
    """What `value.schema` adds to the chain: the last step before a sink, the first one behind a source."""
    said = declarations(props, is_sink=is_sink)
    if not said:
        return ()
    whole = next((said[name] for name in (VALUE_SCHEMA, *FORMER_NAMES) if name in said), "")
    config = {"type": _DECLARES, "schema": whole, "microseconds": str(is_sink).lower()}
    config |= {name.removeprefix("value."): text for name, text in said.items() if name.startswith(OF_TOPIC)}
    config |= {name: text for name, text in props.items() if name.startswith("table.catalog.")}
    return (TransformSpec(PluginSpec(VALUE_SCHEMA, _DECLARES, config)),)


# By its full name: a plugin of the same short name must not come in between
_DECLARES: Final = "kconnect.builtin.transforms.with_schema.WithSchema"


def _aliases(props: Mapping[str, str], key: str) -> list[str]:
    return list(dict.fromkeys(parse_type(key, props.get(key), ConfigDef.Type.LIST) or []))


def _plugin(alias: str, prefix: str, config: dict[str, str]) -> PluginSpec:
    type = config.get("type", "").strip()
    if not type:
        raise ConfigError(f'Missing required configuration "{prefix}type" which has no default value.')
    return PluginSpec(alias, type, config)


def _matches(regex: str, text: str) -> bool:
    try:
        return compile_java(regex).fullmatch(text) is not None
    except re.error:
        return False  # the table's validator has reported it already
