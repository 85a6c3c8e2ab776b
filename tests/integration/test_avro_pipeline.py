"""Avro from a source to a sink through real Kafka, with a real registry that goes away and comes back."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fastavro
import pytest
from confluent_kafka import Producer

from kconnect.api import DataError, RetriableError, Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.devbroker import DevBroker
from kconnect.devbroker.dev_registry import DevRegistry
from kconnect.model import Condition
from kconnect.schema_registry.avro_converter import AvroConverter
from kit.brokers import PatientRegistry
from kit.pipeline_host import SINK, SOURCE, Behaviour, PipelineHost
from kit.ports import free_port
from kit.topics import consume_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(300)]

AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


@pytest.fixture
def own_registry(tmp_path: Path) -> Iterator[DevRegistry]:
    with PatientRegistry(free_port(), tmp_path / "own-registry") as running:
        yield running


def schema_of(version: int) -> Schema:
    """Each version has one more optional field, which every compatibility rule takes."""
    builder = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.INT64_SCHEMA)
    for number in range(version):
        builder.field(f"more{number}", Schema.OPTIONAL_STRING_SCHEMA)
    return builder.build()


def avro(url: str) -> dict[str, str]:
    return {
        "value_converter": AVRO,
        "value_converter_schema_registry_url": url,
        "value_converter_http_read_timeout_ms": "3000",
        "errors_retry_timeout": "120000",
        "errors_retry_delay_max_ms": "300",
    }


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def test_a_registry_that_goes_away_holds_source_and_sink_up_and_nothing_is_lost(
    request: pytest.FixtureRequest, broker: DevBroker, own_registry: DevRegistry
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    numbers, version, arrived = itertools.count(), [0], []

    def poll(task: Any) -> list[SourceRecord]:
        task.context.wait(0.02)
        number, schema = next(numbers), schema_of(version[0])
        return [
            SourceRecord({"s": 1}, {"at": number}, topic, value_schema=schema, value=Struct(schema, {"id": number}))
        ]

    Behaviour.poll = poll
    Behaviour.put = lambda task, records: arrived.extend(record.value["id"] for record in records)
    with PipelineHost(broker.bootstrap) as host:
        sink = host.start_sink("avro-sink", SINK, topics=topic, **avro(own_registry.url))
        source = host.start_source("avro-source", SOURCE, **avro(own_registry.url))
        eventually(lambda: len(arrived) > 20, 60, "records arrive")

        own_registry.kill()
        version[0] = 1  # a schema that nobody knows yet
        told = host.await_condition(source, Condition.RETRYING, 60)
        assert own_registry.url in str(told)
        held = len(arrived)
        own_registry.start()

        eventually(lambda: len(arrived) > held + 20, 60, "records arrive again")
        host.stop(source)
        last = next(numbers) - 1
        eventually(lambda: arrived[-1] >= last - 1, 30, "the rest arrives")
        host.stop(sink)
    assert sorted(set(arrived)) == list(range(max(arrived) + 1))


def test_what_the_converter_writes_an_independent_reader_reads_and_the_other_way_round(
    request: pytest.FixtureRequest, broker: DevBroker, registry: DevRegistry
) -> None:
    topic, back = topic_for(request), topic_for(request, "-back")
    schema, arrived = schema_of(2), []
    create_topic(broker.bootstrap, topic)
    create_topic(broker.bootstrap, back)
    left = [
        SourceRecord({"s": 1}, {"at": n}, topic, value_schema=schema, value=Struct(schema, {"id": n, "more1": f"m{n}"}))
        for n in range(50)
    ]

    def poll(task: Any) -> list[SourceRecord]:
        task.context.wait(0.02)
        found, left[:] = list(left), []
        return found

    Behaviour.poll = poll
    Behaviour.put = lambda task, records: arrived.extend(record.value for record in records)
    with PipelineHost(broker.bootstrap) as host:
        host.start_source("avro-writer", SOURCE, **avro(registry.url))
        values = consume_values(broker.bootstrap, topic, 50)
        readers: dict[int, Any] = {}
        found = []
        for value in values:
            assert value is not None
            assert value[0] == 0
            number = int.from_bytes(value[1:5], "big")
            if number not in readers:
                with urlopen(f"{registry.url}/schemas/ids/{number}", timeout=30) as answer:
                    readers[number] = fastavro.parse_schema(json.loads(json.load(answer)["schema"]))
            found.append(fastavro.schemaless_reader(io.BytesIO(value[5:]), readers[number], None))
        assert found == [{"id": n, "more0": None, "more1": f"m{n}"} for n in range(50)]

        ((number, parsed),) = readers.items()
        written = []
        for record in found:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, record)
            written.append(b"\x00" + number.to_bytes(4, "big") + out.getvalue())
        assert written == values
        produce(broker.bootstrap, back, written)
        host.start_sink("avro-reader", SINK, topics=back, **avro(registry.url))
        eventually(lambda: len(arrived) == 50, 60, "all are read")
    assert [(value["id"], value["more1"]) for value in arrived] == [(n, f"m{n}") for n in range(50)]


def test_the_registry_refuses_by_rule_and_knows_versions(request: pytest.FixtureRequest, registry: DevRegistry) -> None:
    topic = topic_for(request)
    made = AvroConverter()
    made.configure({"schema.registry.url": registry.url}, False)
    first = made.from_connect_data(topic, schema_of(0), Struct(schema_of(0), {"id": 1}))
    second = made.from_connect_data(topic, schema_of(1), Struct(schema_of(1), {"id": 1}))
    versions = []
    for data in (first, second):
        found = made.to_connect_data(topic, data).schema
        assert found is not None
        versions.append(found.version)
    assert versions == [1, 2]

    body, kind = b'{"compatibility": "BACKWARD"}', {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    urlopen(Request(f"{registry.url}/config/{topic}-value", body, kind, method="PUT"), timeout=30).close()
    other = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.STRING_SCHEMA).build()
    with pytest.raises(DataError, match=f"subject {topic}-value, whose compatibility rule is BACKWARD"):
        made.from_connect_data(topic, other, Struct(other, {"id": "x"}))
    with pytest.raises(DataError, match="the schema with id 987654"):
        made.to_connect_data(topic, b"\x00" + (987654).to_bytes(4, "big"))

    wrong = AvroConverter()
    wrong.configure({"schema.registry.url": f"http://127.0.0.1:{free_port()}"}, False)
    with pytest.raises(RetriableError, match="nothing listens there"):
        wrong.to_connect_data(topic, first)
