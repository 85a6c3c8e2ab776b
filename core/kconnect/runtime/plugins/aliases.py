"""Java names of the built-in plugins, and the short names that Java derives from a class name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class PluginType(StrEnum):
    """The type of a plugin, as REST spells it, in listing order. Source: PluginType."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"

    @property
    def is_connector(self) -> bool:
        return self in (PluginType.SINK, PluginType.SOURCE)

    @property
    def suffix(self) -> str:
        """The suffix that a short alias omits: FileStreamSource for FileStreamSourceConnector."""
        return "Connector" if self.is_connector else "".join(word.title() for word in self.split("_"))


@dataclass(frozen=True, slots=True)
class BuiltinPlugin:
    """A built-in plugin, known by the name of the Java class it replaces.

    `target` is `module:Class`, imported on first use: built-ins cost nothing until then.
    """

    java_name: str
    target: str
    types: tuple[PluginType, ...]
    has_short_name: bool = True  # False where another has that already


_BOTH = (PluginType.CONVERTER, PluginType.HEADER_CONVERTER)
_TRANSFORMATION = (PluginType.TRANSFORMATION,)

# Our own plugins, unknown to Java: named in Python, or as HttpJsonSource, SqlSink, SqlTransform ..
_OURS = (
    BuiltinPlugin(
        "kconnect.builtin.connectors.http_source.HttpJsonSourceConnector",
        "kconnect.builtin.connectors.http_source:HttpJsonSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.sql_sink.SqlSinkConnector",
        "kconnect.builtin.connectors.sql.sql_sink:SqlSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.sql_source.SqlSourceConnector",
        "kconnect.builtin.connectors.sql.sql_source:SqlSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.tables.table_sink.TableSinkConnector",
        "kconnect.builtin.connectors.tables.table_sink:TableSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "kconnect.spark.query.spark_sink.SparkSinkConnector",
        "kconnect.spark.query.spark_sink:SparkSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.objects.object_source.ObjectSourceConnector",
        "kconnect.builtin.connectors.objects.object_source:ObjectSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.objects.object_sink.ObjectSinkConnector",
        "kconnect.builtin.connectors.objects.object_sink:ObjectSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.python.python_source.PythonSourceConnector",
        "kconnect.builtin.connectors.python.python_source:PythonSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.python.python_sink.PythonSinkConnector",
        "kconnect.builtin.connectors.python.python_sink:PythonSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.connectors.singer.singer_source.SingerSourceConnector",
        "kconnect.builtin.connectors.singer.singer_source:SingerSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.spark.query.spark_source.SparkSourceConnector",
        "kconnect.spark.query.spark_source:SparkSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.transforms.with_schema.WithSchema",
        "kconnect.builtin.transforms.with_schema:WithSchema",
        _TRANSFORMATION,
    ),
    BuiltinPlugin(
        "kconnect.builtin.sql.sql_transform.SqlTransform",
        "kconnect.builtin.sql.sql_transform:SqlTransform",
        (PluginType.TRANSFORMATION,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.sql.sql_predicate.SqlPredicate",
        "kconnect.builtin.sql.sql_predicate:SqlPredicate",
        (PluginType.PREDICATE,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.python_function.PythonTransform",
        "kconnect.builtin.python_function:PythonTransform",
        (PluginType.TRANSFORMATION,),
    ),
    BuiltinPlugin(
        "kconnect.builtin.python_function.PythonPredicate",
        "kconnect.builtin.python_function:PythonPredicate",
        (PluginType.PREDICATE,),
    ),
)

# Confluent's converters and JDBC connectors, of which Apache Kafka has none, and Apicurio's where it writes the same.
_CONFLUENT = (
    BuiltinPlugin(
        "io.confluent.connect.avro.AvroConverter",
        "kconnect.builtin.schema_registry.avro.avro_converter:AvroConverter",
        (PluginType.CONVERTER,),
    ),
    BuiltinPlugin(
        "io.confluent.connect.protobuf.ProtobufConverter",
        "kconnect.builtin.schema_registry.protobuf.protobuf_converter:ProtobufConverter",
        (PluginType.CONVERTER,),
    ),
    BuiltinPlugin(
        "io.confluent.connect.json.JsonSchemaConverter",
        "kconnect.builtin.schema_registry.json_schema.json_schema_converter:JsonSchemaConverter",
        (PluginType.CONVERTER,),
    ),
    BuiltinPlugin(
        "io.confluent.connect.s3.S3SinkConnector",
        "kconnect.builtin.connectors.objects.s3_sink:S3SinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "kconnect.builtin.connectors.sql.jdbc:JdbcSourceConnector",
        (PluginType.SOURCE,),
    ),
    BuiltinPlugin(
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "kconnect.builtin.connectors.sql.jdbc:JdbcSinkConnector",
        (PluginType.SINK,),
    ),
    BuiltinPlugin(
        "io.apicurio.registry.utils.converter.AvroConverter",
        "kconnect.builtin.schema_registry.avro.apicurio_converter:ApicurioAvroConverter",
        (PluginType.CONVERTER,),
        has_short_name=False,
    ),
)

_APICURIOS_OWN = (
    "cannot be used: its records and schemas have a form of Apicurio's own, which its Confluent API does not serve."
)
# Classes of Java that people name, and why they are not there.
NOT_THERE = {
    f"io.apicurio.registry.utils.converter.{name}": f"{name} {_APICURIOS_OWN} {instead}"
    for name, instead in (
        ("ExtJsonConverter", "Use io.confluent.connect.json.JsonSchemaConverter or JsonConverter."),
        ("ProtobufConverter", "Use io.confluent.connect.protobuf.ProtobufConverter."),
        ("SchemalessConverter", "Use JsonConverter with schemas.enable=false, or ByteArrayConverter."),
    )
}

BUILTINS: tuple[BuiltinPlugin, ...] = (
    _OURS
    + _CONFLUENT
    + tuple(
        BuiltinPlugin(f"org.apache.kafka.connect.{java_name}", f"kconnect.builtin.{target}", types)
        for java_name, target, types in (
            ("file.FileStreamSinkConnector", "connectors.file_sink:FileStreamSinkConnector", (PluginType.SINK,)),
            (
                "file.FileStreamSourceConnector",
                "connectors.file_source:FileStreamSourceConnector",
                (PluginType.SOURCE,),
            ),
            ("tools.VerifiableSinkConnector", "connectors.verifiable_sink:VerifiableSinkConnector", (PluginType.SINK,)),
            (
                "tools.VerifiableSourceConnector",
                "connectors.verifiable_source:VerifiableSourceConnector",
                (PluginType.SOURCE,),
            ),
            ("transforms.Cast$Key", "transforms.cast:CastKey", _TRANSFORMATION),
            ("transforms.Cast$Value", "transforms.cast:CastValue", _TRANSFORMATION),
            ("transforms.DropHeaders", "transforms.headers:DropHeaders", _TRANSFORMATION),
            ("transforms.ExtractField$Key", "transforms.extract_field:ExtractFieldKey", _TRANSFORMATION),
            ("transforms.ExtractField$Value", "transforms.extract_field:ExtractFieldValue", _TRANSFORMATION),
            ("transforms.Filter", "transforms.filter:Filter", _TRANSFORMATION),
            ("transforms.Flatten$Key", "transforms.flatten:FlattenKey", _TRANSFORMATION),
            ("transforms.Flatten$Value", "transforms.flatten:FlattenValue", _TRANSFORMATION),
            ("transforms.HeaderFrom$Key", "transforms.header_from:HeaderFromKey", _TRANSFORMATION),
            ("transforms.HeaderFrom$Value", "transforms.header_from:HeaderFromValue", _TRANSFORMATION),
            ("transforms.HoistField$Key", "transforms.hoist_field:HoistFieldKey", _TRANSFORMATION),
            ("transforms.HoistField$Value", "transforms.hoist_field:HoistFieldValue", _TRANSFORMATION),
            ("transforms.InsertField$Key", "transforms.insert_field:InsertFieldKey", _TRANSFORMATION),
            ("transforms.InsertField$Value", "transforms.insert_field:InsertFieldValue", _TRANSFORMATION),
            ("transforms.InsertHeader", "transforms.headers:InsertHeader", _TRANSFORMATION),
            ("transforms.MaskField$Key", "transforms.mask_field:MaskFieldKey", _TRANSFORMATION),
            ("transforms.MaskField$Value", "transforms.mask_field:MaskFieldValue", _TRANSFORMATION),
            ("transforms.RegexRouter", "transforms.regex_router:RegexRouter", _TRANSFORMATION),
            ("transforms.ReplaceField$Key", "transforms.replace_field:ReplaceFieldKey", _TRANSFORMATION),
            ("transforms.ReplaceField$Value", "transforms.replace_field:ReplaceFieldValue", _TRANSFORMATION),
            (
                "transforms.SetSchemaMetadata$Key",
                "transforms.set_schema_metadata:SetSchemaMetadataKey",
                _TRANSFORMATION,
            ),
            (
                "transforms.SetSchemaMetadata$Value",
                "transforms.set_schema_metadata:SetSchemaMetadataValue",
                _TRANSFORMATION,
            ),
            (
                "transforms.TimestampConverter$Key",
                "transforms.timestamp_converter:TimestampConverterKey",
                _TRANSFORMATION,
            ),
            (
                "transforms.TimestampConverter$Value",
                "transforms.timestamp_converter:TimestampConverterValue",
                _TRANSFORMATION,
            ),
            ("transforms.TimestampRouter", "transforms.timestamp_router:TimestampRouter", _TRANSFORMATION),
            ("transforms.ValueToKey", "transforms.value_to_key:ValueToKey", _TRANSFORMATION),
            ("transforms.predicates.HasHeaderKey", "predicates:HasHeaderKey", (PluginType.PREDICATE,)),
            ("transforms.predicates.RecordIsTombstone", "predicates:RecordIsTombstone", (PluginType.PREDICATE,)),
            ("transforms.predicates.TopicNameMatches", "predicates:TopicNameMatches", (PluginType.PREDICATE,)),
            ("converters.BooleanConverter", "converters.boolean_converter:BooleanConverter", _BOTH),
            ("converters.ByteArrayConverter", "converters.bytes_converter:ByteArrayConverter", _BOTH),
            ("converters.DoubleConverter", "converters.number_converters:DoubleConverter", _BOTH),
            ("converters.FloatConverter", "converters.number_converters:FloatConverter", _BOTH),
            ("converters.IntegerConverter", "converters.number_converters:IntegerConverter", _BOTH),
            ("converters.LongConverter", "converters.number_converters:LongConverter", _BOTH),
            ("converters.ShortConverter", "converters.number_converters:ShortConverter", _BOTH),
            ("json.JsonConverter", "converters.json_converter:JsonConverter", _BOTH),
            ("storage.SimpleHeaderConverter", "converters.header_converter:SimpleHeaderConverter", _BOTH[1:]),
            ("storage.StringConverter", "converters.string_converter:StringConverter", _BOTH),
        )
    )
)


def short_names(class_name: str, kind: PluginType) -> tuple[str, ...]:
    """The aliases of a class: its simple name, and that without the suffix for its kind.

    Shape: of `a.b.JsonConverter` JsonConverter and Json; of `a.b.InsertField$Value` InsertField$Value.
    Source: PluginUtils.simpleName, prunedName. Differs: Java takes only `Value` of a nested class, which is ambiguous
        and so never works; we take the outer name with it.
    """
    simple = class_name.rsplit(".", 1)[-1]
    cut = simple.rfind(kind.suffix)
    return (simple, simple[:cut]) if cut > 0 else (simple,)


@cache
def builtins_by_name() -> Mapping[str, Sequence[BuiltinPlugin]]:
    """Built-in plugins by their names, full and short."""
    found: dict[str, list[BuiltinPlugin]] = {}
    for plugin in BUILTINS:
        kinds = plugin.types if plugin.has_short_name else ()
        shorts = [short for kind in kinds for short in short_names(plugin.java_name, kind)]
        for name in dict.fromkeys((plugin.java_name, *shorts)):
            found.setdefault(name, []).append(plugin)
    return found


def names_of(plugins: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Full names by what plugins may be called: of each its class and kinds. Of a short name the first one counts."""
    of_name = {str(kind): kind for kind in PluginType}
    found: dict[str, str] = {}
    for class_name, kinds in plugins:
        found.setdefault(class_name, class_name)
        for kind in kinds:
            for short in short_names(class_name, of_name[kind]) if kind in of_name else ():
                found.setdefault(short, class_name)
    return found
