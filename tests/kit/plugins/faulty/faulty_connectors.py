"""A plugin folder's connectors that misbehave where a test tells them to: `raise.in` and `hang.in` name a method."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.api import ConfigDef, SinkConnector, SinkRecord, SinkTask, SourceConnector, SourceRecord, SourceTask


class Trouble:
    """What the settings ask for, done when a method of that name is called."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self._raise_in = props.get("raise.in")
        self._hang_in = props.get("hang.in")

    def at(self, method: str) -> None:
        if method == self._hang_in:
            threading.Event().wait()  # never returns
        if method == self._raise_in:
            raise ValueError(f"trouble in {method}")


def _config() -> ConfigDef:
    kind, low = ConfigDef.Type.STRING, ConfigDef.Importance.LOW
    return (
        ConfigDef()
        .define("topic", kind, "trouble", importance=low, doc="Where records of the source go.")
        .define("raise.in", kind, None, importance=low, doc="The method that raises.")
        .define("hang.in", kind, None, importance=low, doc="The method that never returns.")
    )


class FaultySource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)
        Trouble(props).at("connector")

    def task_class(self) -> type[SourceTask]:
        return FaultySourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return _config()

    def version(self) -> str:
        return "1"


class FaultySourceTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._trouble, self._topic, self._next = Trouble(props), props.get("topic", "trouble"), 0
        self._trouble.at("start")

    def poll(self) -> list[SourceRecord]:
        self._trouble.at("poll")
        self.context.wait(0.01)
        self._next += 1
        return [SourceRecord({"source": "faulty"}, {"next": self._next}, self._topic, f"record {self._next}")]

    def commit(self) -> None:
        self._trouble.at("commit")

    def stop(self) -> None:
        self._trouble.at("stop")


class FaultySink(SinkConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SinkTask]:
        return FaultySinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return _config()

    def version(self) -> str:
        return "1"


class FaultySinkTask(SinkTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._trouble = Trouble(props)
        self._trouble.at("start")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            self._trouble.at("put")

    def flush(self, current_offsets: Mapping[Any, int]) -> None:  # keys: TopicPartition
        self._trouble.at("flush")

    def stop(self) -> None:
        self._trouble.at("stop")
