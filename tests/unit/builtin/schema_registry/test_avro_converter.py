"""AvroConverter: wire format, subjects, registration, what is remembered, and each thing that can be wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import ConfigError, DataError, RetriableError, Schema, SchemaAndValue, SchemaBuilder, Struct
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kit.memory_registry import MemoryRegistry

ORDER = (
    SchemaBuilder.struct()
    .name("com.example.Order")
    .field("id", Schema.INT64_SCHEMA)
    .field("note", Schema.OPTIONAL_STRING_SCHEMA)
    .build()
)


def converter(registry: MemoryRegistry, is_key: bool = False, **settings: str) -> AvroConverter:
    made = AvroConverter(registry)
    given = {key.replace("_", "."): value for key, value in settings.items()}
    made.configure({"schema.registry.url": "http://unused:1", **given}, is_key)
    return made


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


def order(number: int, note: str | None = None) -> Struct:
    return Struct(ORDER, {"id": number, "note": note})


def test_a_record_is_magic_byte_id_and_avro_which_fastavro_reads(registry: MemoryRegistry) -> None:
    data = converter(registry).from_connect_data("orders", ORDER, order(7, "x"))

    assert data is not None
    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert registry.subjects == {"orders-value": [1]}
    schema = fastavro.parse_schema(json.loads(registry.schemas[1]["schema"]))
    assert fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None) == {"id": 7, "note": "x"}


def test_what_fastavro_wrote_is_read_with_the_registrys_version(registry: MemoryRegistry) -> None:
    text = '{"type":"record","name":"R","fields":[{"name":"a","type":["null","long"]},{"name":"b","type":"bytes"}]}'
    out = io.BytesIO(b"\x00" + registry.add("t-value", text).to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), {"a": 5, "b": b"z"})

    schema, value = converter(registry).to_connect_data("t", out.getvalue())

    assert (schema.name, schema.version, value["a"], value["b"]) == ("R", 1, 5, b"z")


def test_the_registry_is_asked_once_for_each_schema_and_id(registry: MemoryRegistry) -> None:
    writing, reading = converter(registry), converter(registry)
    data = [writing.from_connect_data("t", ORDER, order(number)) for number in range(50)]
    found = [reading.to_connect_data("t", each) for each in data]

    assert len(registry.asked) == 3  # register; the schema of the id, its version
    assert len({id(each.schema) for each in found}) == 1
    assert [each.value["id"] for each in found] == list(range(50))


def test_the_cache_has_a_bound(registry: MemoryRegistry) -> None:
    made = converter(registry, schemas_cache_config="2")
    schemas = [SchemaBuilder.struct().name(f"S{number}").field("f", Schema.INT8_SCHEMA).build() for number in range(3)]
    for schema in (*schemas, schemas[0]):
        made.from_connect_data("t", schema, Struct(schema, {"f": 1}))

    assert len(registry.asked) == 4


@pytest.mark.parametrize("value", [None, True, 5, 1 << 40, 1.5, "text", [1, "a", None], {"k": [1, {"n": None}]}])
def test_schemaless_data_comes_back_as_it_went(registry: MemoryRegistry, value: Any) -> None:
    made = converter(registry)
    data = made.from_connect_data("t", None, value)

    assert made.to_connect_data("t", data) == SchemaAndValue(None, value)


def test_null_is_null_on_both_sides(registry: MemoryRegistry) -> None:
    made = converter(registry)

    assert made.from_connect_data("t", Schema.OPTIONAL_STRING_SCHEMA, None) is None
    assert made.to_connect_data("t", None) == SchemaAndValue.NULL
    assert not registry.asked


def test_bytes_at_the_top_have_no_length_before_them(registry: MemoryRegistry) -> None:
    made = converter(registry)
    data = made.from_connect_data("t", Schema.BYTES_SCHEMA, b"raw")

    assert data is not None
    assert data[5:] == b"raw"
    assert made.to_connect_data("t", data).value == b"raw"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("TopicNameStrategy", "t-key"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "com.example.Order"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-com.example.Order"),
    ],
)
def test_the_strategy_names_the_subject(registry: MemoryRegistry, strategy: str, subject: str) -> None:
    converter(registry, True, key_subject_name_strategy=strategy).from_connect_data("t", ORDER, order(1))

    assert list(registry.subjects) == [subject]


def test_a_strategy_by_record_needs_a_record(registry: MemoryRegistry) -> None:
    made = converter(registry, value_subject_name_strategy="RecordNameStrategy")

    with pytest.raises(DataError, match="the message value must only be a record schema"):
        made.from_connect_data("t", Schema.STRING_SCHEMA, "x")


def test_an_unknown_strategy_is_a_config_error(registry: MemoryRegistry) -> None:
    with pytest.raises(ConfigError, match=r"value\.subject\.name\.strategy"):
        converter(registry, value_subject_name_strategy="com.example.Mine")


def test_without_registration_the_schema_must_be_there(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="the id of a schema under subject t-value") as caught:
        converter(registry, auto_register_schemas="false").from_connect_data("t", ORDER, order(1))
    assert "auto.register.schemas=true" in (caught.value.hint or "")
    assert not registry.schemas

    converter(registry).from_connect_data("t", ORDER, order(1))
    assert converter(registry, auto_register_schemas="false").from_connect_data("t", ORDER, order(1)) is not None


def test_the_newest_schema_fills_in_its_defaults(registry: MemoryRegistry) -> None:
    newest = (
        '{"type":"record","name":"Order","namespace":"com.example","fields":[{"name":"extra","type":["string","null"],'
        '"default":"d"},{"name":"note","type":["null","string"],"default":null},{"name":"id","type":"long"}]}'
    )
    registry.add("t-value", newest)
    made = converter(registry, auto_register_schemas="false", use_latest_version="true")

    data = made.from_connect_data("t", ORDER, order(9, "n"))

    assert data is not None
    read = fastavro.schemaless_reader(io.BytesIO(data[5:]), fastavro.parse_schema(json.loads(newest)), None)
    assert read == {"extra": "d", "note": "n", "id": 9}


def test_the_newest_schema_that_loses_a_field_is_refused_unless_not_strict(registry: MemoryRegistry) -> None:
    registry.add("t-value", '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}')
    settings = {"auto_register_schemas": "false", "use_latest_version": "true"}

    with pytest.raises(DataError, match=r"newest schema of subject t-value .*no field note"):
        converter(registry, **settings).from_connect_data("t", ORDER, order(1))
    loose = converter(registry, **settings, latest_compatibility_strict="false")
    assert loose.from_connect_data("t", ORDER, order(1)) == b"\x00\x00\x00\x00\x01\x02"


def test_a_schema_that_does_not_fit_names_subject_and_rule(registry: MemoryRegistry) -> None:
    registry.closed.add("t-value")

    with pytest.raises(
        DataError,
        match=r"subject t-value, whose compatibility rule is BACKWARD\. asked for .* 409 field x has no default",
    ):
        converter(registry).from_connect_data("t", ORDER, order(1))


def test_references_are_read_in_order_of_need(registry: MemoryRegistry) -> None:
    registry.add("b", '{"type":"enum","name":"B","namespace":"n","symbols":["X"]}')
    registry.add(
        "a", '{"type":"record","name":"A","namespace":"n","fields":[{"name":"b","type":"B"}]}',
        references=[{"name": "n.B", "subject": "b", "version": 1}],
    )  # fmt: skip
    top = registry.add(
        "t-value", '{"type":"record","name":"T","fields":[{"name":"a","type":"n.A"}]}', schemaType="AVRO",
        references=[{"name": "n.A", "subject": "a", "version": 1}],
    )  # fmt: skip

    _, value = converter(registry).to_connect_data("t", b"\x00" + top.to_bytes(4, "big") + b"\x00")

    assert value["a"]["b"] == "X"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "A schema id needs more than 0 bytes"),
        (b"\x00\x00\x00", "A schema id needs more than 3 bytes"),
        (b'{"a":1}', "Unknown magic byte!"),
        (b"\x00\x00\x00\x00\x63", "the schema with id 99"),
        (b"\x00\x00\x00\x00\x01", "they end in the middle of a value"),
        (b"\x00\x00\x00\x00\x01\x02\x02\x7e", "they end in the middle of a value"),
        (b"\x00\x00\x00\x00\x01\x02\x08", "not of the Avro schema that they name"),
        (b"\x00\x00\x00\x00\x01\x02\x02\x04\xff\xfe", "not of the Avro schema that they name"),
        (b"\x00\x00\x00\x00\x02\x02", "is of type PROTOBUF, not AVRO"),
    ],
)
def test_bytes_that_cannot_be_read_are_a_data_error(registry: MemoryRegistry, data: bytes, says: str) -> None:
    converter(registry).from_connect_data("t", ORDER, order(1))
    registry.add("p", "message M {}", schemaType="PROTOBUF")

    with pytest.raises(DataError, match=says):
        converter(registry).to_connect_data("t", data)


def test_a_registry_that_is_away_is_retriable_and_not_remembered(registry: MemoryRegistry) -> None:
    made = converter(registry)
    registry.problem = RetriableError("away")
    with pytest.raises(RetriableError):
        made.from_connect_data("t", ORDER, order(1))

    registry.problem = None
    assert made.from_connect_data("t", ORDER, order(1)) is not None


def test_a_required_value_may_not_be_null(registry: MemoryRegistry) -> None:
    with pytest.raises(DataError, match="Found null value for non-optional schema"):
        converter(registry).from_connect_data("t", ORDER, None)


def test_no_url_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"schema\.registry\.url"):
        AvroConverter().configure({}, False)


_VALUES = st.one_of(
    st.tuples(st.just(Schema.INT8_SCHEMA), st.integers(-128, 127)),
    st.tuples(st.just(Schema.INT32_SCHEMA), st.integers(-(1 << 31), (1 << 31) - 1)),
    st.tuples(st.just(Schema.OPTIONAL_INT64_SCHEMA), st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    st.tuples(st.just(Schema.FLOAT32_SCHEMA), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just(Schema.OPTIONAL_FLOAT64_SCHEMA), st.none() | st.floats(allow_nan=False)),
    st.tuples(st.just(Schema.BOOLEAN_SCHEMA), st.booleans()),
    st.tuples(st.just(Schema.OPTIONAL_STRING_SCHEMA), st.none() | st.text()),
    st.tuples(st.just(Schema.BYTES_SCHEMA), st.binary()),
    st.tuples(st.just(SchemaBuilder.array(Schema.STRING_SCHEMA).build()), st.lists(st.text())),
    st.tuples(
        st.just(SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA).build()),
        st.dictionaries(st.text(), st.none() | st.integers(0, 9)),
    ),
)


@given(st.lists(_VALUES, max_size=6))
def test_any_struct_is_read_by_fastavro_and_comes_back(columns: list[tuple[Schema, Any]]) -> None:
    registry = MemoryRegistry()
    builder = SchemaBuilder.struct().name("a.Any").version(1)
    for number, (schema, _) in enumerate(columns):
        builder.field(f"f{number}", schema)
    whole = builder.build()
    wanted = {f"f{number}": value for number, (_, value) in enumerate(columns)}
    made = converter(registry)

    data = made.from_connect_data("t", whole, Struct(whole, wanted))

    assert data is not None
    schema = fastavro.parse_schema(json.loads(registry.schemas[1]["schema"]))
    assert fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None) == wanted
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, wanted)
    assert out.getvalue() == data[5:]
    assert made.to_connect_data("t", data) == SchemaAndValue(whole, Struct(whole, wanted))


def test_finding_the_plugin_imports_no_fastavro() -> None:
    code = (
        "import sys; from kconnect.runtime.plugins.registry import PluginRegistry\n"
        "from kconnect.runtime.plugins.isolation import"
        " PluginFolders; PluginRegistry(PluginFolders()).converter('JsonConverter'); print('fastavro' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
