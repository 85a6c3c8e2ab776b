"""Predicates that switch transformations on and off. Each has a columnar form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, ConnectRecord, Headers, Predicate, RecordBatch
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.regex import RegexValidator, compile_java

if TYPE_CHECKING:
    import pyarrow as pa

HEADER_NAME_CONFIG = ConfigDef().define(
    "name",
    ConfigDef.Type.STRING,
    ConfigDef.NO_DEFAULT,
    ConfigDef.NonEmptyString(),
    ConfigDef.Importance.MEDIUM,
    "Key of the header; upper and lower case count.",
)

TOMBSTONE_CONFIG = ConfigDef()

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


class HasHeaderKey(Predicate):
    """True for records with a header of that key. Source: o.a.k.connect.transforms.predicates.HasHeaderKey."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._name: str = HEADER_NAME_CONFIG.parse(configs)["name"]

    def test(self, record: ConnectRecord) -> bool:
        return record.has_headers and self._is_in(record.headers)

    def test_batch(self, batch: RecordBatch) -> bool | pa.BooleanArray:
        if batch.headers is None:
            return False
        import pyarrow as pa

        return pa.array([self._is_in(headers) for headers in batch.headers], pa.bool_())

    def config(self) -> ConfigDef:
        return HEADER_NAME_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def __str__(self) -> str:
        return f"HasHeaderKey{{name='{self._name}'}}"

    def _is_in(self, headers: Headers) -> bool:
        return any(header.key == self._name for header in headers)


class RecordIsTombstone(Predicate):
    """True for records without value. Source: o.a.k.connect.transforms.predicates.RecordIsTombstone."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """It has nothing to configure."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def test_batch(self, batch: RecordBatch) -> bool | pa.BooleanArray:
        column = batch.value
        if column is None:
            return True
        return column.is_null() if column.null_count else False

    def config(self) -> ConfigDef:
        return TOMBSTONE_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def __str__(self) -> str:
        return "RecordIsTombstone{}"
