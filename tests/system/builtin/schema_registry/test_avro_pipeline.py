"""Avro from a source to a sink and into a table, through real Kafka, with a real registry that goes away."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Sequence
from typing import Any
from urllib.request import Request, urlopen

import fastavro
import psycopg
import pytest
from confluent_kafka import Producer

from kconnect.api import DataError, RetriableError, Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kconnect.model import Condition
from kit.pace import ample_s
from kit.pipeline_host import SINK, SOURCE, Behaviour, PipelineHost
from kit.ports import free_port
from kit.relay import Relay
from kit.topics import consume, consume_values, create_topic, end_offset, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(300)]

AVRO = "io.confluent.connect.avro.AvroConverter"


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


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


def produce(bootstrap: str, topic: str, values: Sequence[bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


class Orders:
    """Orders that a source sends as long as it is polled: nested, with the time and the amount as text."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.schema = self.schema_of(with_note=False)

    def schema_of(self, *, with_note: bool) -> Schema:
        customer = SchemaBuilder.struct().name("com.example.Customer").field("name", Schema.STRING_SCHEMA)
        builder = SchemaBuilder.struct().name("com.example.Order").field("id", Schema.INT64_SCHEMA)
        builder.field("placed", Schema.STRING_SCHEMA).field("amount", Schema.STRING_SCHEMA)
        builder.field("customer", customer.field("city", Schema.OPTIONAL_STRING_SCHEMA).build())
        if with_note:
            builder.field("note", Schema.OPTIONAL_STRING_SCHEMA)
        return builder.build()

    def order(self, schema: Schema, number: int, amount: str) -> Struct:
        customer = schema.field("customer").schema
        return Struct(
            schema,
            {
                "id": number,
                "placed": f"2026-01-02T03:04:05.{number % 1000:03}Z",
                "amount": amount,
                "customer": Struct(customer, {"name": f"c{number}"}),
            },
        )

    def row(self, number: int) -> tuple[Any, ...]:
        """What has to be in the table."""
        at = datetime.datetime(2026, 1, 2, 3, 4, 5, number % 1000 * 1000, datetime.UTC)
        return number, at, number + 0.25, f"c{number}", None, None

    def poll(self, task: Any) -> list[SourceRecord]:
        task.context.wait(0.02)
        number, schema = self.sent, self.schema
        self.sent += 1
        value = self.order(schema, number, f"{number}.25")
        return [SourceRecord({"s": 1}, {"at": number}, self.topic, value_schema=schema, value=value)]


INTO_A_TABLE = {
    "connection_driver": "psycopg",
    "errors_tolerance": "all",
    "errors_deadletterqueue_topic_replication_factor": "1",
    "errors_deadletterqueue_context_headers_enable": "true",
    "transforms": "flat,at,amount",
    "transforms_flat_type": "org.apache.kafka.connect.transforms.Flatten$Value",
    "transforms_flat_delimiter": "_",
    "transforms_at_type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
    "transforms_at_field": "placed",
    "transforms_at_format": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "transforms_at_target_type": "Timestamp",
    "transforms_amount_type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms_amount_spec": "amount:float64",
}


def test_a_pipeline_into_a_table_outlasts_its_registry_with_each_row_once_and_poison_apart(
    request: pytest.FixtureRequest, broker: DevBroker, registry: DevRegistry, postgres_uri: str
) -> None:
    """The registry stops answering while the source has a schema, and the sink an id, that it has to be asked for."""
    topic, letters = topic_for(request), topic_for(request, "-dlq")
    create_topic(broker.bootstrap, topic)
    orders, other_writer = Orders(topic), AvroConverter()
    Behaviour.poll = orders.poll
    other_writer.configure({"schema.registry.url": registry.url}, False)
    with psycopg.connect(postgres_uri, autocommit=True) as tables:
        # No key: a record that came twice would be two rows
        columns = "id bigint, placed timestamptz, amount float8, customer_name text, customer_city text, note text"
        name = f"orders_{topic[-6:]}"  # of a table: PostgreSQL cuts longer ones
        tables.execute(f'CREATE TABLE "{name}" ({columns})')

        def count() -> int:
            return int(tables.execute(f'SELECT count(*) FROM "{name}"').fetchall()[0][0])

        with Relay(registry.port) as way, PipelineHost(broker.bootstrap) as host:
            url = registry.url.replace(str(registry.port), str(way.port))
            answers = {**avro(url), "value_converter_http_read_timeout_ms": str(round(ample_s(0.4) * 1000))}
            table = {**INTO_A_TABLE, "connection_url": postgres_uri, "errors_deadletterqueue_topic_name": letters}
            table["table_name_format"] = name
            sink = host.start_sink("orders-table", "SqlSink", topics=topic, **answers, **table)
            source = host.start_source("orders", SOURCE, **answers)
            eventually(lambda: count() > 20, 60, "rows arrive")

            way.cut()
            not_a_number = other_writer.from_connect_data(topic, orders.schema, orders.order(orders.schema, -1, "many"))
            noted = orders.schema_of(with_note=True)
            unknown_id = other_writer.from_connect_data(topic, noted, orders.order(noted, -2, "-1.75"))
            produce(broker.bootstrap, topic, [b"\x01 not Avro", not_a_number, unknown_id])
            orders.schema = noted
            for spec in (source, sink):
                reported = host.await_condition(spec, Condition.RETRYING, 60)
                assert url in str(reported)
            held = count()
            way.repair()

            eventually(lambda: count() > held + 20, 60, "rows arrive again")
            host.stop(source)
            in_topic = end_offset(broker.bootstrap, topic)
            eventually(lambda: count() >= in_topic - 2, 30, "the rest arrives")
            host.stop(sink)
        found = tables.execute(f'SELECT * FROM "{name}" ORDER BY id').fetchall()
    assert found == [orders.row(number) for number in (-2, *range(len(found) - 1))]
    assert len(found) == in_topic - 2, "all but the poison"
    causes = [
        dict(letter.headers() or [])["__connect.errors.exception.message"]
        for letter in consume(broker.bootstrap, letters, 2)
    ]
    assert [b"magic byte" in causes[0], b"many" in causes[1]] == [True, True], causes
    assert end_offset(broker.bootstrap, letters) == 2


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
    with pytest.raises(RetriableError, match=r"nobody answers \(connection refused\)"):
        wrong.to_connect_data(topic, first)
