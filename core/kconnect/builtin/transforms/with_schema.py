"""WithSchema: values without schema, or with another, become what is declared. `value.schema` puts it into a chain."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, RecordBatch, Transformation
from kconnect.builtin.types.declarations import CATALOG_PREFIX
from kconnect.builtin.types.declared import Declared, declared_type
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)
R = TypeVar("R", bound=ConnectRecord)

SCHEMA_CONFIG: Final = "schema"
_OF_TOPIC: Final = "schema."
_IS_FINE: Final = "microseconds"


def _check(name: str, value: Any) -> None:
    try:
        if value:
            declared_type(value)
    except ConfigError as error:
        raise ConfigError.invalid(name, value, str(error)) from error


_T, _I = ConfigDef.Type, ConfigDef.Importance
CONFIG = (
    ConfigDef()
    .define_prefix(_OF_TOPIC)
    .define_prefix(CATALOG_PREFIX)
    .define(
        SCHEMA_CONFIG,
        _T.STRING,
        "",
        ConfigDef.LambdaValidator.with_(_check, "DDL of Spark, a file, or like:TABLE"),
        _I.HIGH,
        "What values are, as of value.schema. schema.TOPIC: of one topic.",
    )
    .define(
        _IS_FINE,
        _T.BOOLEAN,
        False,
        None,
        _I.LOW,
        "Whether times keep microseconds: on the way to a sink of ours, which can store them.",
    )
)


class WithSchema(Transformation):
    """Records of a topic for which nothing is declared pass as they are, and so do those without value of a source.

    A value that does not fit is its record's error. Nothing like it is in Java.
    """

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        settings = CONFIG.parse(configs)
        self._is_fine: bool = settings[_IS_FINE]
        self._settings = {name: str(value) for name, value in configs.items()}
        self._texts = {"": settings[SCHEMA_CONFIG].strip()}
        self._texts |= {
            name.removeprefix(_OF_TOPIC): str(text).strip()
            for name, text in configs.items()
            if name.startswith(_OF_TOPIC)
        }
        if not any(self._texts.values()):
            raise ConfigError(f"WithSchema declares nothing: set {SCHEMA_CONFIG}, or {_OF_TOPIC}TOPIC")
        # found now, so that what is wrong is shown at the start, and not by the first record
        self._declared = {topic: self._made(topic, text) for topic, text in self._texts.items() if text}

    def apply(self, record: R) -> R:
        declared = self._of(record)
        if declared is None or (record.value is None and not self._is_fine):
            return record  # a source's record without value is one without schema, so that its bytes are null
        made = declared.value(record.value_schema, record.value)
        return record.new_record(value_schema=declared.schema, value=made)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        declared, column = self._of(batch), batch.value
        if declared is None or column is None:
            return batch
        if column.null_count and not self._is_fine:
            return NotImplemented  # as in apply
        made = declared.column(batch.value_schema, column)
        return NotImplemented if made is None else batch.with_(value_schema=declared.schema, value=made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _of(self, record: Any) -> Declared | None:  # ConnectRecord | RecordBatch
        """What is declared for the topic that was read, else for the one that a transformation gave."""
        found = self._declared
        if len(found) > 1 or "" not in found:
            named = found.get(getattr(record, "original_topic", record.topic)) or found.get(record.topic)
            return named or found.get("")
        return found[""]

    def _made(self, topic: str, text: str) -> Declared:
        kind = declared_type(text, self._settings)
        where = f" of topic {topic}" if topic else ""

        def note(name: str) -> None:
            log.warning("Field %s of the records%s is in no column of the declared schema and is left out", name, where)

        return Declared(kind, is_fine=self._is_fine, note=note)
