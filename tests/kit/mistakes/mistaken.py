"""Connectors with the mistakes of their authors: the setting `mistake` says which. For `connect try`."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import (
    ConfigDef,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    Transformation,
)


class _Connector:
    task: type[Any]

    def config(self) -> ConfigDef:
        return ConfigDef().define("mistake", ConfigDef.Type.STRING, "", doc="Which one.")

    def validate(self, props: Mapping[str, str]) -> Any:
        if props.get("mistake") == "validate":
            return self.settings[props["mistake"]]  # an author's slip: nothing made it
        return super().validate(props)

    def start(self, props: Mapping[str, str]) -> None:
        self.props = dict(props)
        if props["mistake"] == "connector start":
            raise OSError(2, "No such file or directory", "/no/such/ca.pem")

    def task_class(self) -> type[Any]:
        return self.task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.props["mistake"] == "task_configs":
            return [{"part": self.props["parts"]}]
        return [self.props]

    def stop(self) -> None: ...


class _Task:
    def start(self, props: Mapping[str, str]) -> None:
        self.mistake = props["mistake"]
        if self.mistake == "start":
            self.limit = int("many")
        if self.mistake == "hang in start":
            threading.Event().wait()
        self.polls = 0
        self.puts = 0

    def stop(self) -> None:
        if self.mistake == "stop":
            raise RuntimeError("already closed")
        self.polls.bit_length()  # an AttributeError when start() did not get so far


class MistakenSourceTask(_Task, SourceTask):
    def poll(self) -> list[SourceRecord] | None:
        self.polls += 1
        if self.mistake == "poll":
            row = {"square": 4}
            return [self.record(row["squar"])]
        if self.mistake == "retriable":
            raise RetriableError("the API answers 503")
        if self.mistake == "retriable once" and self.polls == 1:
            raise RetriableError("the API answers 503")
        if self.mistake == "hang in poll" or (self.mistake == "hang in second poll" and self.polls == 2):
            threading.Event().wait()
        if self.mistake == "wait in poll":
            self.context.wait(3600)
            return None
        if self.mistake == "exit":
            raise SystemExit("no licence")
        offset: Any = {"next": self.polls}
        if self.mistake == "nested offset":
            offset = {"next": {"page": 1}}
        if self.mistake == "object offset":
            offset = {"since": object}
        if self.mistake == "nested partition":
            return [SourceRecord({"tables": ["a"]}, {"next": 1}, "t", "x")]
        return [self.record(self.polls, offset)]

    def record(self, value: Any, offset: Any = None) -> SourceRecord:
        return SourceRecord({"source": "mistaken"}, offset, "t", value)


class MistakenSource(_Connector, SourceConnector):
    task = MistakenSourceTask


class MistakenSinkTask(_Task, SinkTask):
    def put(self, records: Sequence[SinkRecord]) -> None:
        self.puts += 1
        if self.mistake == "put":
            raise ValueError("no column for it")
        if self.mistake == "retriable put":
            raise RetriableError("the database is away")
        if self.mistake == "retriable put once" and self.puts == 1:
            raise RetriableError("the database is away")
        if self.mistake == "hang in put":
            time.sleep(3600)

    def flush(self, current_offsets: Mapping[Any, int]) -> None:
        if self.mistake == "flush":
            raise ValueError("cannot flush")


class MistakenSink(_Connector, SinkConnector):
    task = MistakenSinkTask


class MistakenTransform(Transformation):
    def configure(self, configs: Mapping[str, Any]) -> None:
        if configs.get("mistake") == "configure":
            self.field = configs["feild"]

    def apply(self, record: Any) -> Any:
        return record.new_record(value=record.value["text"])

    def config(self) -> ConfigDef:
        return ConfigDef()
