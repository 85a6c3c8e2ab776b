"""Connectors of others whose tables have names that our own settings have, too: theirs is what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kconnect.api import ConfigDef, SinkConnector, SinkRecord, SinkTask, SourceConnector, SourceRecord, SourceTask
from kconnect.errors import ConfigError
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry
from kconnect.testing import SinkHarness, SourceHarness

_T = ConfigDef.Type
_PLAIN = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
_NOT_OURS = {"value.schema": "no type of ours", "value.schema.fields": "2"}


class CountTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._left = [{field: "1" for field in "ab"[: int(props["value.schema.fields"])]}]

    def poll(self) -> list[SourceRecord] | None:
        return [SourceRecord({}, {}, "t", self._left.pop())] if self._left else None

    def stop(self) -> None:
        """Nothing is open."""


class _One:
    """A connector of one task, which gets its config."""

    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None:
        """Nothing is open."""


class Counts(_One, SourceConnector):
    """Its `value.schema.fields` says how many fields a value has."""

    def task_class(self) -> type[CountTask]:
        return CountTask

    def config(self) -> ConfigDef:
        return ConfigDef().define("value.schema", _T.STRING, "").define("value.schema.fields", _T.INT, 1)


class FreeCounts(Counts):
    """The same by a prefix."""

    def config(self) -> ConfigDef:
        return ConfigDef().define("value.schema", _T.STRING, "").define_prefix("value.schema.")


class KeepTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self.values: list[Any] = []

    def put(self, records: list[SinkRecord]) -> None:
        self.values += [record.value for record in records]

    def stop(self) -> None:
        """Nothing is open."""


class Keeps(_One, SinkConnector):
    """Its `table.schema` is the schema of a database."""

    def task_class(self) -> type[KeepTask]:
        return KeepTask

    def config(self) -> ConfigDef:
        return ConfigDef().define("table.schema", _T.STRING, "public")


def values_of(sink: SinkHarness) -> list[Any]:
    values: list[Any] = sink.task.values
    return values


@pytest.mark.parametrize("connector", [Counts, FreeCounts])
def test_a_sources_own_setting_declares_nothing(connector: type[SourceConnector]) -> None:
    with SourceHarness(connector, {**_NOT_OURS, **_PLAIN}) as source:
        source.poll()
        (record,) = source.log.records("t")
    assert json.loads(record.value or b"") == {"a": "1", "b": "1"}


def test_a_sinks_own_setting_declares_nothing() -> None:
    with SinkHarness(Keeps, {"topics": "t", "table.schema": "id bigint"}) as sink:
        sink.put({"id": "7"})
        assert values_of(sink) == [{"id": "7"}]


def test_what_a_table_does_not_have_is_ours() -> None:
    with SinkHarness(Keeps, {"topics": "t", "value.schema": "id bigint"}) as sink:
        sink.put({"id": "7"})
        assert [value.get("id") for value in values_of(sink)] == [7]
    with pytest.raises(ConfigError, match=r"value\.schema: "), SinkHarness(Keeps, {"topics": "t", "value.schema": "?"}):
        pass


def test_validation_leaves_it_to_the_connector() -> None:
    validator = ConnectorValidator(PluginRegistry.load(), {"key.converter": "JsonConverter"})
    for connector, more in ((Counts, _NOT_OURS), (Keeps, {"topics": "t", "table.schema": "dbo"})):
        config = {"name": "n", "connector.class": f"{connector.__module__}.{connector.__qualname__}", **more}
        assert validator.validate(config).errors == []
    assert validator.validate({**config, "value.schema": "?"}).errors != []
