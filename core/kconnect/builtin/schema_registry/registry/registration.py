"""How a converter registers schemas and finds those of others: the settings that all converters share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import ConfigDef, ConfigError, DataError
from kconnect.builtin.schema_registry.registry.registry_client import RegistryClient
from kconnect.builtin.schema_registry.registry.registry_http import RegistryHttp, RegistryTransport
from kconnect.builtin.schema_registry.registry.registry_settings import define_registry, registry_settings

CACHE_SIZE: Final = "schemas.cache.config"
_STRATEGY: Final = "How subjects are named: TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy."
_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
TOPIC, RECORD, TOPIC_RECORD = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"


def define_registration() -> ConfigDef:
    """The settings of the registry and of registration. Source: AbstractKafkaSchemaSerDeConfig."""
    kind, medium, low = ConfigDef.Type, ConfigDef.Importance.MEDIUM, ConfigDef.Importance.LOW
    return define_rows(
        define_registry(ConfigDef()),
        (
            ("auto.register.schemas", kind.BOOLEAN, True, medium, "Whether new schemas are registered."),
            ("use.latest.version", kind.BOOLEAN, False, low, "Write with the newest schema of the subject."),
            (
                "latest.compatibility.strict", kind.BOOLEAN, True, low,
                "With use.latest.version: refuse records whose own schema the newest cannot stand for.",
            ),
            ("normalize.schemas", kind.BOOLEAN, False, medium, "Whether schemas are compared in normal form."),
            ("key.subject.name.strategy", kind.STRING, TOPIC, medium, _STRATEGY),
            ("value.subject.name.strategy", kind.STRING, TOPIC, medium, _STRATEGY),
            (CACHE_SIZE, kind.INT, 1000, low, "How many schemas to remember."),
        ),
    )  # fmt: skip


def define_rows(table: ConfigDef, rows: tuple[tuple[str, Any, Any, Any, str], ...]) -> ConfigDef:
    """Add rows of name, type, default, importance and documentation to a table, which is given back."""
    for name, kind, default, importance, doc in rows:
        table.define(name, kind, default, None, importance, doc)
    return table


@dataclass(frozen=True, slots=True)
class Registration:
    """The registry of one converter, and how it is used."""

    registry: RegistryClient
    subjects: SubjectNames
    registers: bool
    is_strict: bool  # about the newest schema
    normalizes: bool
    takes_latest: bool  # writes with the newest schema of the subject

    def id_of(self, subject: str, text: str) -> int:
        """The id of a schema under a subject. Errors: RetriableError, DataError."""
        return self.registry.id_of(subject, text, register=self.registers, normalize=self.normalizes)


def registration_of(
    config: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    is_key: bool,
    schema_type: str,
    transport: RegistryTransport | None = None,
) -> Registration:
    """From the parsed table and the settings as given; `transport` stands in for the network. Errors: ConfigError."""
    transport = transport or RegistryHttp(registry_settings(config, given))
    strategy = config["key.subject.name.strategy" if is_key else "value.subject.name.strategy"]
    registers = config["auto.register.schemas"]
    return Registration(
        RegistryClient(transport, cache_size=config[CACHE_SIZE], schema_type=schema_type),
        SubjectNames(strategy, is_key=is_key),
        registers,
        config["latest.compatibility.strict"],
        config["normalize.schemas"],
        config["use.latest.version"] and not registers,
    )


def latest_misfit(subject: str, schema_id: int, why: DataError) -> DataError:
    """The error for records that the newest schema of a subject cannot take."""
    return DataError(
        f"The newest schema of subject {subject} (id {schema_id}) does not fit the record: {why}",
        hint="Register a schema that does, or set latest.compatibility.strict=false to leave fields out.",
    )


class SubjectNames:
    """The strategy of one converter."""

    def __init__(self, strategy: str, *, is_key: bool) -> None:
        """`strategy` is a class name of Java's, with its package or without. Errors: ConfigError."""
        self._what = "key" if is_key else "value"
        self._setting = f"{self._what}.subject.name.strategy"
        self._strategy = strategy.removeprefix(_PACKAGE)
        if self._strategy not in (TOPIC, RECORD, TOPIC_RECORD):
            raise ConfigError.invalid(
                self._setting,
                strategy,
                f"expected {TOPIC}, {RECORD} or {TOPIC_RECORD}; classes of Java cannot be loaded",
            )

    def subject(self, topic: str, record: str | None) -> str:
        """`record` is the name of the schema, if it is a record. Errors: DataError where the strategy needs one."""
        if self._strategy == TOPIC:
            return f"{topic}-{self._what}"
        if record is None:
            raise DataError(
                f"In configuration {self._setting} = {_PACKAGE}{self._strategy}, the message {self._what} must only be "
                "a record schema"
            )
        return record if self._strategy == RECORD else f"{topic}-{record}"
