"""The examples in docstrings of the plugin API and the harnesses do what they say."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

import pytest

from kconnect.api import (
    ConfigDef,
    Schema,
    SchemaBuilder,
    SinkConnector,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
    configdef,
)
from kconnect.testing import SinkHarness, SourceHarness


class _NoSettings:
    def start(self, props: Mapping[str, str]) -> None: ...
    def stop(self) -> None: ...
    def config(self) -> ConfigDef:
        return ConfigDef()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


class LettersTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        offset = self.context.offset_storage_reader().offset({"all": "letters"})
        self._next = 0 if offset is None else offset["next"]

    def poll(self) -> list[SourceRecord] | None:
        if self._next == 3:
            return None
        self._next += 1
        return [SourceRecord({"all": "letters"}, {"next": self._next}, "t", "abc"[self._next - 1])]

    def stop(self) -> None: ...


class MyConnector(_NoSettings, SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return LettersTask


class KeepingTask(SinkTask):
    taken: list[Any] = []  # noqa: RUF012 - of all tasks: the example makes two

    def start(self, props: Mapping[str, str]) -> None: ...
    def put(self, records: list[Any]) -> None:
        self.taken += [record.value for record in records]

    def stop(self) -> None: ...


class MySink(_NoSettings, SinkConnector):
    def task_class(self) -> type[SinkTask]:
        return KeepingTask


def example_of(thing: object) -> str:
    """The indented lines of its docstring."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    (example,) = [text for text in paragraphs if all(line.startswith("    ") for line in text.splitlines())]
    return textwrap.dedent(example)


@pytest.mark.parametrize(
    ("thing", "names"),
    [
        (configdef, {"ConfigDef": ConfigDef}),
        (SchemaBuilder, {"SchemaBuilder": SchemaBuilder, "Schema": Schema}),
        (SourceHarness, {"SourceHarness": SourceHarness, "MyConnector": MyConnector}),
        (SinkHarness, {"SinkHarness": SinkHarness, "MySink": MySink, "TopicPartition": TopicPartition}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_example_runs(thing: object, names: dict[str, Any]) -> None:
    exec(compile(example_of(thing), str(thing), "exec"), dict(names))


def test_the_values_the_examples_tell_are_true() -> None:
    assignment, _, reported = example_of(configdef).rpartition("CONFIG.parse")
    call, _, shown = reported.partition("  # ")
    names: dict[str, Any] = {"ConfigDef": ConfigDef}
    exec(assignment, names)

    assert eval(f"CONFIG.parse{call}", names) == eval(shown)


def test_what_was_put_since_the_last_commit_comes_again_as_the_example_says() -> None:
    KeepingTask.taken.clear()
    with SinkHarness(MySink, {"topics": "t"}) as sink:
        sink.put({"id": 1})
        sink.commit()
        sink.put({"id": 2})
        sink.crash()
        sink.start()
        sink.deliver()

    assert KeepingTask.taken == [{"id": 1}, {"id": 2}, {"id": 2}]
