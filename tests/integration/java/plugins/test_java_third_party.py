"""Java plugins of others, unmodified, as they come from Maven. Those that are large run by `make java-plugins`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.api import Schema, SchemaBuilder, SinkRecord, Struct
from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kconnect.java.plugins import JavaSettings
from kconnect.model import ConnectorOffset
from kconnect.runtime.plugins import PluginRegistry
from kit.java_worker import JavaWorker, java_worker
from kit.third_party import third_party_path
from kit.topics import consume, create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

_COMMON = "com.github.jcustenborder.kafka.connect.transform.common"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_TOOLS = "org.apache.kafka.connect.tools"
_LONG = os.environ.get("KCONNECT_JAVA_PLUGINS") == "long"


def test_a_transformation_of_others_runs() -> None:
    plugins = PluginRegistry.load(
        str(third_party_path("kafka-connect-transform-common")), java=JavaSettings(heap="128m")
    )
    try:
        made = plugins.transformation(f"{_COMMON}.ChangeCase$Value")()
        made.configure({"from": "LOWER_UNDERSCORE", "to": "UPPER_CAMEL"})
        fields = SchemaBuilder.struct().field("order_id", Schema.INT64_SCHEMA)
        schema = fields.field("customer_name", Schema.STRING_SCHEMA).build()
        value = Struct(schema, {"order_id": 7, "customer_name": "Ann"})
        record = made.apply(SinkRecord("orders", 0, None, None, schema, value, 3))
        assert record is not None
        assert record.value_schema is not None
        assert [field.name for field in record.value_schema.fields] == ["OrderId", "CustomerName"]
        assert record.value["OrderId"] == 7
        made.close()
    finally:
        plugins.close()


if _LONG:

    @pytest.fixture(scope="module")
    def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[JavaWorker]:
        path = third_party_path(
            "apicurio-registry-utils-converter",
            "connect-test-plugins",
            "kafka-connect-transform-common",
            "mongo-kafka-connect",
        )
        with java_worker(tmp_path_factory.mktemp("third-party"), broker.bootstrap, path) as running:
            yield running

    @pytest.fixture
    def camels(tmp_path: Path, broker: DevBroker) -> Iterator[JavaWorker]:
        """A worker for it alone: its folder has another version of Apicurio's converter."""
        path = third_party_path("camel-timer-kafka-connector")
        with java_worker(tmp_path, broker.bootstrap, path) as running:
            yield running

    def test_camels_timer_ticks(camels: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest) -> None:
        topic = topic_for(request)
        create_topic(broker.bootstrap, topic)
        camel = "org.apache.camel.kafkaconnector.timer.CamelTimerSourceConnector"
        more = {"camel.source.path.timerName": "tick", "camel.source.endpoint.period": "200"}
        camels.create("camel", **{"connector.class": camel, "topics": topic, **more})
        ticks = consume(broker.bootstrap, topic, 5)
        assert b"tick" in dict(ticks[0].headers() or ())["CamelProperty.CamelTimerName"]
        camels.delete("camel")

    def test_kafkas_test_tools_run(
        worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        topic, schemas = topic_for(request), topic_for(request, "-schemas")
        create_topic(broker.bootstrap, topic)
        create_topic(broker.bootstrap, schemas)
        worker.create("source", **{"connector.class": f"java:{_TOOLS}.VerifiableSourceConnector"}, topic=topic,
               throughput="200", id="1")  # fmt: skip
        found = consume(broker.bootstrap, topic, 300)
        assert [int(message.value() or b"") for message in found] == list(range(300))
        worker.create("sink", **{"connector.class": f"java:{_TOOLS}.VerifiableSinkConnector"}, topics=topic, id="2")

        def committed() -> bool:
            with worker.client() as client:
                offsets = client.connector_offsets("sink")
            # A group outlives its connector: others of this name had other topics
            ours = [one.offset or {} for one in offsets if one.partition["kafka_topic"] == topic]
            assert sum(int(offset["kafka_offset"]) for offset in ours) >= 300, f"{offsets}"
            return True

        eventually(committed, 30, "the sink has taken them")
        tool = {"connector.class": f"{_TOOLS}.SchemaSourceConnector", "value.converter": _JSON}
        numbers = {"num.messages": "100", "throughput": "1000", "multiple.schema": "true", "partition.count": "1"}
        worker.create("schemas", **tool, **numbers, id="3", topic=schemas)
        rows = [json.loads(message.value() or b"{}")["payload"] for message in consume(broker.bootstrap, schemas, 100)]
        assert [row["seqno"] for row in rows] == list(range(100))
        worker.delete("source", "sink", "schemas")

    def test_a_mirrors_source_runs_on_a_standalone_worker_and_its_offsets_can_be_altered(
        worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
    ) -> None:
        topic = topic_for(request)
        create_topic(broker.bootstrap, topic)
        produce_lines(broker.bootstrap, topic, [f"line {number}" for number in range(10)])
        bytes_only = "org.apache.kafka.connect.converters.ByteArrayConverter"
        mirror = {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": broker.bootstrap,
            "target.cluster.bootstrap.servers": broker.bootstrap,
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **{f"{kind}.converter": bytes_only for kind in ("key", "value", "header")},
        }
        worker.create("mirror", **mirror)
        consume(broker.bootstrap, f"A.{topic}", 10)
        partition = {"cluster": "A", "topic": topic, "partition": 0}

        def offset() -> int:
            with worker.client() as client:
                found = [one.offset for one in client.connector_offsets("mirror") if one.partition == partition]
            return int(str((found[0] or {})["offset"])) if found else -1

        eventually(lambda: offset() == 9, 30, "the offset is committed")
        with worker.client() as client:
            client.stop_connector("mirror")
            eventually(lambda: not client.connector_status("mirror").tasks, 30, "it has stopped")
            client.alter_connector_offsets("mirror", [ConnectorOffset(partition, {"offset": 6})])
            client.resume_connector("mirror")
        again = [message.value() for message in consume(broker.bootstrap, f"A.{topic}", 13)]
        assert again[10:] == [b"line 7", b"line 8", b"line 9"]
        worker.delete("mirror")

    def test_mongos_connectors_are_validated_and_name_the_server_that_is_away(
        worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest
    ) -> None:
        mongo = "com.mongodb.kafka.connect.MongoSourceConnector"
        away = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1000&connectTimeoutMS=1000"
        with worker.client() as client:
            infos = client.validate(mongo, {"connector.class": mongo, "name": "m", "connection.uri": "no uri"})
            reported = {info["value"]["name"]: info["value"]["errors"] for info in infos["configs"]}
            assert "connection string" in " ".join(reported["connection.uri"]).lower()
        with pytest.raises(ConnectError):
            worker.create(
                "mongo", **{"connector.class": mongo, "connection.uri": away}, database="shop", collection="a"
            )
        eventually(lambda: "127.0.0.1:1" in worker.log_text() and "MongoSocketOpenException" in worker.log_text(), 60,
                   "its log says which server it cannot reach")  # fmt: skip

    def test_apicurios_avro_converter_writes_what_ours_reads(
        worker: JavaWorker, broker: DevBroker, registry: DevRegistry, request: pytest.FixtureRequest
    ) -> None:
        topic = topic_for(request)
        create_topic(broker.bootstrap, topic)
        server = registry.url.partition("/apis/")[0]
        avro = {
            "value.converter": "java:io.apicurio.registry.utils.converter.AvroConverter",
            "value.converter.apicurio.registry.url": f"{server}/apis/registry/v2",
            "value.converter.apicurio.registry.auto-register": "true",
            "value.converter.apicurio.registry.headers.enabled": "false",
            "value.converter.apicurio.registry.as-confluent": "true",
            "value.converter.apicurio.registry.use-id": "contentId",
        }
        tool = {"connector.class": f"{_TOOLS}.SchemaSourceConnector", "throughput": "1000", "num.messages": "50"}
        worker.create("avro", **tool, **avro, id="9", topic=topic)
        found = [message.value() or b"" for message in consume(broker.bootstrap, topic, 50)]
        ours = PluginRegistry.load().converter("io.confluent.connect.avro.AvroConverter")()
        ours.configure({"schema.registry.url": registry.url}, False)
        rows = [ours.to_connect_data(topic, value).value for value in found]
        assert [row["seqno"] for row in rows] == list(range(50))
        ours.close()
        worker.delete("avro")
