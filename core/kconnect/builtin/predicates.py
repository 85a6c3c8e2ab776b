"""Predicates that switch transformations on and off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.api import ConfigDef, ConnectRecord, Predicate, RecordBatch
from kconnect.builtin.java_regex import RegexValidator, compile_java
from kconnect.builtin.version import KAFKA_VERSION

__all__ = ["TopicNameMatches"]

TOPIC_NAME_CONFIG = ConfigDef().define(
    "pattern",
    ConfigDef.Type.STRING,
    ConfigDef.NO_DEFAULT,
    ConfigDef.CompositeValidator.of(ConfigDef.NonEmptyString(), RegexValidator()),
    ConfigDef.Importance.MEDIUM,
    "Java regular expression that the whole topic must match.",
)


class TopicNameMatches(Predicate):
    """True for records whose topic matches. Source: o.a.k.connect.transforms.predicates.TopicNameMatches."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._text: str = TOPIC_NAME_CONFIG.parse(configs)["pattern"]
        self._pattern = compile_java(self._text)

    def test(self, record: ConnectRecord) -> bool:
        return record.topic is not None and self._pattern.fullmatch(record.topic) is not None

    def test_batch(self, batch: RecordBatch) -> bool:
        return self._pattern.fullmatch(batch.topic) is not None

    def config(self) -> ConfigDef:
        return TOPIC_NAME_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def __str__(self) -> str:
        return f"TopicNameMatches{{pattern={self._text}}}"
