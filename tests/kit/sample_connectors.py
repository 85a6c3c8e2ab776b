"""Connectors whose behaviour a test chooses with settings: `raise.in`, `hang.in` (a call's name), `tasks`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from kconnect.api import Config, ConfigDef, SinkConnector, SinkTask, SourceConnector, SourceTask, TopicPartition
from kconnect.errors import ConfigError, ConnectError, DataError, RetriableError
from kconnect.runtime.herder.interface import PluginDescription
from kit.pace import ample_s


class Gate:
    """Holds up the calls that a connector is asked to hang in, until the test opens it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def open(self) -> None:
        self._event.set()

    def wait(self) -> None:
        self._event.wait(ample_s(20))


class SampleTask(SourceTask):
    def version(self) -> str:
        return "task-1"

    def start(self, props: Mapping[str, str]) -> None: ...
    def poll(self) -> None: ...
    def stop(self) -> None: ...


class SampleSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None: ...
    def put(self, records: Any) -> None: ...
    def stop(self) -> None: ...


class Journal:
    """What the connectors of a test were asked, in order; and the switches that change while they run."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.altered: list[Any] = []
        self.gate = Gate()
        self.task_count: int | None = None
        self.retriable_left = 0
        self.broken_left = 0
        """So many times task configs end in an error that nobody calls retriable."""
        self.last: Any = None
        """The instance made last."""


JOURNAL = Journal()


def fresh_journal() -> Journal:
    global JOURNAL
    JOURNAL = Journal()
    return JOURNAL


class _Behaviour:
    _props: Mapping[str, str]

    def _enter(self, call: str) -> None:
        JOURNAL.calls.append(call)
        if self._props.get("hang.in") == call:
            JOURNAL.gate.wait()
        if self._props.get("raise.in") == call:
            raise RuntimeError(f"no {call} today")
        if call == "task_configs" and JOURNAL.retriable_left > 0:
            JOURNAL.retriable_left -= 1
            raise RetriableError("the source is not ready")
        if call == "task_configs" and JOURNAL.broken_left > 0:
            JOURNAL.broken_left -= 1
            raise OSError("the system is away")

    def start(self, props: Mapping[str, str]) -> None:
        JOURNAL.last = self
        self._props = props
        self._enter("start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self._enter("task_configs")
        wanted = JOURNAL.task_count or int(self._props.get("tasks", "1"))
        return [
            {"part": str(index), **({"file": self._props["file"]} if "file" in self._props else {})}
            for index in range(wanted)
        ]

    def stop(self) -> None:
        self._enter("stop")

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "4.3.0"

    def validate(self, configs: Mapping[str, str]) -> Config:
        self._props = configs
        self._enter("validate")
        return Config([])


class SampleSource(_Behaviour, SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return SampleTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        self._props = config
        self._enter("alter_offsets")
        if config.get("raise.in") == "alter_offsets_politely":
            raise ConnectError("The value for the 'position' key in the offset should be a non-negative value")
        if config.get("raise.in") == "alter_offsets_wrong":
            raise DataError("no such file")
        if config.get("raise.in") == "alter_offsets_unsupported":
            raise NotImplementedError
        JOURNAL.altered.append(offsets)
        return config.get("knows.offsets") == "true"


class SampleSink(_Behaviour, SinkConnector):
    def task_class(self) -> type[SinkTask]:
        return SampleSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[TopicPartition, int | None]) -> bool:
        JOURNAL.altered.append(offsets)
        return True


class SamplePlugins:
    """A registry of just these."""

    def connector_class(self, name: str, version: str | None = None) -> Any:
        found = {"source": SampleSource, "sink": SampleSink}.get(name)
        if found is None:
            raise ConfigError(f"Failed to find any class that implements Connector and which name matches {name}")
        return found

    def java_name(self, plugin_class: type) -> str:
        return f"{plugin_class.__module__}.{plugin_class.__qualname__}"

    def password_keys(self, config: Mapping[str, str]) -> frozenset[str]:
        return frozenset({"pin"})

    def abandon(self, connector: str, task: int | None) -> None:
        """None of these is in Java."""

    def java_stack(self, connector: str, task: int | None) -> None:
        """Nothing of it is in Java."""

    def describe_one(self, name: str) -> list[PluginDescription]:
        return [plugin for plugin in self.describe() if plugin.class_name.casefold() == f"kit.sample{name}"]

    def describe(self) -> list[PluginDescription]:
        return [
            PluginDescription("kit.SampleSource", "source", "4.3.0"),
            PluginDescription("kit.SampleSink", "sink", "4.3.0"),
            PluginDescription("kit.Cast", "transformation", "4.3.0"),
        ]
