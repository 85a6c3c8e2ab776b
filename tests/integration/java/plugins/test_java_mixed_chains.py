"""Chains that are partly Java's and partly ours: what comes out is what Java's own chain gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.java.devbroker import DevBroker
from kconnect.java.plugins import JavaSettings
from kconnect.model import RunState
from kconnect.runtime.config.connector_config import SinkConnectorConfig
from kconnect.runtime.pipeline.java_chain import java_chain
from kconnect.runtime.plugins import PluginRegistry
from kit.debezium import debezium_plugin_path
from kit.java_plugin_folder import java_plugin_folder
from kit.pipeline_host import SOURCE, Behaviour, PipelineHost
from kit.topics import consume, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_JSON = {f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")}
_OURS = {"transforms": "ours", "transforms.ours.type": "kit.failing_transform:DropsText"}

_INFERS = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.schemas.infer.enable": "true",
}


def step(name: str, **settings: str) -> dict[str, str]:
    """A transformation of Kafka's by its simple name."""
    given = {"type": f"org.apache.kafka.connect.transforms.{name}", **settings}
    return {"transforms": "step", **{f"transforms.step.{key}": value for key, value in given.items()}}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginRegistry]:
    folder = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    made = PluginRegistry.load(f"{folder},{debezium_plugin_path()}", java=JavaSettings(heap="256m"))
    assert made.connector_class("kit.TestPlugins$Numbers")().version() == "1.2.3"  # the JVM is up
    yield made
    made.close()


@pytest.fixture
def host(broker: DevBroker, java: PluginRegistry) -> Iterator[PipelineHost]:
    Behaviour.reset()
    with PipelineHost(broker.bootstrap, plugins=java, group_id="mixed") as made:
        yield made


def messages(broker: DevBroker, topic: str, count: int) -> list[tuple[Any, ...]]:
    found = consume(broker.bootstrap, topic, count, 30)
    return [(message.key(), message.value(), message.timestamp(), message.headers()) for message in found]


def test_records_of_all_kinds_are_the_same_bytes_by_javas_chain_and_by_columns_and_our_converters(
    broker: DevBroker, topic: str, host: PipelineHost
) -> None:
    count, found = 1500, []
    for name, more in (("java", {}), ("mixed", _OURS)):
        target = f"{topic}-{name}"
        create_topic(broker.bootstrap, target)
        shapes = {"topic": target, "count": str(count), "seed": "11", **_JSON, **more}
        spec = host.start_source(f"shapes-{name}", "kit.TestPlugins$Shapes", **shapes)
        found.append(messages(broker, target, count))
        host.stop(spec)
    by_java, by_us = found
    for theirs, ours in zip(by_java, by_us, strict=True):
        assert ours == theirs


@pytest.mark.parametrize("chain", ["java", "mixed"])
def test_a_java_source_is_reported_where_in_kafka_each_record_is(
    broker: DevBroker, topic: str, host: PipelineHost, tmp_path: Path, chain: str
) -> None:
    journal = tmp_path / "journal.txt"
    numbers = {"topic": topic, "count": "300", "journal": str(journal), **(_OURS if chain == "mixed" else {})}
    spec = host.start_source(f"reported-{chain}", "kit.TestPlugins$Reported", **numbers)
    wanted = [f"number {number} at {number}" for number in range(300)]
    eventually(lambda: journal.exists() and journal.read_text().splitlines() == wanted, 20, "it is reported of all")
    host.stop(spec)


def test_a_java_sink_takes_no_records_that_were_made_of_one(topic: str, host: PipelineHost, tmp_path: Path) -> None:
    """It may name a file, or commit, by an offset between two of them."""
    sql = {"transforms": "sql", "transforms.sql.type": "SqlTransform"}
    sql["transforms.sql.query"] = "SELECT explode(split(_value, ';')) AS word FROM records"
    settings = {"topics": topic, "journal": str(tmp_path / "journal.txt"), **sql}
    spec = host.start_sink("unfolds", "kit.TestPlugins$Obeying", **settings)
    eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 20, "the task has failed")
    assert "cannot be used with a sink of Java" in host.trace(spec)


def test_a_java_sink_gets_the_schemas_that_a_converter_of_ours_infers(
    broker: DevBroker, topic: str, host: PipelineHost, tmp_path: Path
) -> None:
    produce_lines(broker.bootstrap, topic, ['{"id": 1}', '{"id": 2}'])
    journal = tmp_path / "journal.txt"
    named = {
        "transforms": "named",
        "transforms.named.type": "org.apache.kafka.connect.transforms.SetSchemaMetadata$Value",
    }
    given = {"topics": topic, "journal": str(journal), **_INFERS, **named, "transforms.named.schema.name": "shop.row"}
    spec = host.start_sink("infers", "kit.TestPlugins$Obeying", **given)
    eventually(lambda: journal.exists() and "put 0 1" in journal.read_text(), 20, "values have a schema to name")
    host.stop(spec)


@pytest.mark.parametrize(
    ("settings", "is_java"),
    [
        ({}, True),
        (_INFERS, False),
        (_INFERS | {"value.converter.schemas.infer.enable": "false"}, True),
        (step("Cast$Value", spec="a.b:int32"), True),
        (step("Cast$Value", spec="a.b:int32", **{"field.syntax.version": "v2"}), False),
        (step("Cast$Value", spec="a:int32", **{"field.syntax.version": "V1"}), True),
        (step("ExtractField$Value", field="a.b", **{"field.syntax.version": "V2"}), True),
    ],
)
def test_a_setting_that_kafkas_class_lacks_keeps_the_chain_here(
    java: PluginRegistry, settings: dict[str, str], is_java: bool
) -> None:
    """It would be left out in silence."""
    given = {"name": "n", "connector.class": "kit.TestPlugins$Obeying", "topics": "t", **_JSON, **settings}
    chain = java_chain(SinkConnectorConfig.parse(given), {}, java)
    assert (chain is not None) is is_java


def change(number: int, op: str) -> SourceRecord:
    """What Debezium says of a row."""
    row = SchemaBuilder.struct().optional().name("shop.row").field("id", Schema.INT64_SCHEMA)
    state = row.field("name", Schema.OPTIONAL_STRING_SCHEMA).build()
    envelope = SchemaBuilder.struct().name("shop.customers.Envelope")
    envelope = envelope.field("before", state).field("after", state).field("op", Schema.STRING_SCHEMA)
    schema = envelope.field("ts_ms", Schema.OPTIONAL_INT64_SCHEMA).build()
    value, after = Struct(schema), Struct(state).put("id", number).put("name", f"name {number}")
    value.put("before" if op == "d" else "after", after).put("op", op).put("ts_ms", number)
    key = SchemaBuilder.struct().name("shop.key").field("id", Schema.INT64_SCHEMA).build()
    return SourceRecord(
        {"t": 1},
        {"n": number},
        "changes",
        value,
        key=Struct(key).put("id", number),
        key_schema=key,
        value_schema=schema,
    )


@pytest.mark.parametrize("size", [1, 100])
def test_debeziums_transformation_takes_what_a_python_source_gives(
    broker: DevBroker, topic: str, host: PipelineHost, size: int
) -> None:
    changes = [change(number, "d" if number % 10 == 0 else "u") for number in range(100)]
    for given in changes:
        given.topic = topic

    def poll(task: Any) -> Any:
        given = [changes.pop(0) for _ in range(min(size, len(changes)))]
        return given or task.context.wait(0.01) or None

    Behaviour.poll = poll
    steps = {
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.add.fields": "op",
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
    }
    plain = {f"{kind}.converter.schemas.enable": "false" for kind in ("key", "value")}
    spec = host.start_source(f"unwrapped-{size}", SOURCE, **steps, **_JSON, **plain)
    found = [json.loads(value) for _, value, *_ in messages(broker, topic, 100)]
    host.stop(spec)
    assert found == [
        {"id": n, "name": f"name {n}", "__op": "d" if n % 10 == 0 else "u", "__deleted": str(n % 10 == 0).lower()}
        for n in range(100)
    ]
