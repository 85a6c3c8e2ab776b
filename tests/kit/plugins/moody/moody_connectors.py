"""A plugin folder whose plugins have a mood that a test writes into a file while they run.

`away`: the call raises RetriableError; `hang`: it does not return; `slow`: it takes its time; nothing: all is well.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kconnect.api import (
    ConfigDef,
    ConnectRecord,
    Converter,
    Headers,
    RetriableError,
    Schema,
    SchemaAndValue,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Transformation,
)

_STRING, _HIGH = ConfigDef.Type.STRING, ConfigDef.Importance.HIGH


class Mood:
    """What the file of `mood.file` says at this moment."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self._file = Path(props["mood.file"])

    def said(self) -> str:
        return self._file.read_text().strip() if self._file.exists() else ""

    def suffer(self) -> None:
        while self.said() == "hang":
            time.sleep(0.02)  # the line that is to be named
        if self.said() == "away":
            raise RetriableError("the shop is closed")
        if self.said() == "slow":
            time.sleep(0.5)


def _config() -> ConfigDef:
    table = ConfigDef().define("mood.file", _STRING, importance=_HIGH, doc="Where the mood stands.")
    return table.define("topic", _STRING, "moods", importance=_HIGH, doc="Where records of the source go.")


class MoodyTransform(Transformation):
    def configure(self, configs: Mapping[str, Any]) -> None:
        self._mood = Mood(configs)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        self._mood.suffer()
        return record

    def config(self) -> ConfigDef:
        return _config()


class MoodyConverter(Converter):
    """Text as UTF-8."""

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        self._mood = Mood(configs)

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        self._mood.suffer()
        return None if value is None else str(value).encode()

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        self._mood.suffer()
        return SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, None if value is None else value.decode())

    def config(self) -> ConfigDef:
        return _config()


class MoodySource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return MoodySourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return _config()

    def version(self) -> str:
        return "1"


class MoodySourceTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._mood, self._topic, self._next = Mood(props), props.get("topic", "moods"), 0

    def poll(self) -> list[SourceRecord]:
        self._mood.suffer()
        self.context.wait(0.05)
        self._next += 1
        return [SourceRecord({"source": "moody"}, {"next": self._next}, self._topic, f"record {self._next}")]

    def stop(self) -> None: ...


class MoodySink(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SinkTask]:
        return MoodySinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return _config()

    def version(self) -> str:
        return "1"


class MoodySinkTask(SinkTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._mood = Mood(props)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            self._mood.suffer()

    def stop(self) -> None: ...
