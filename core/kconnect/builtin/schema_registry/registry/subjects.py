"""The subject of a schema in the registry. Source: io.confluent.kafka.serializers.subject."""

from __future__ import annotations

from typing import Final

from kconnect.api import ConfigError, DataError

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
TOPIC, RECORD, TOPIC_RECORD = "TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"


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
