"""InsertField: topic, partition, offset, timestamp or a constant as further fields of the key or value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    DataError,
    RecordBatch,
    Schema,
    Struct,
    Timestamp,
    Transformation,
    Type,
)
from kconnect.builtin.transforms.field_path import NESTED, SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    kept_child,
    require_map,
    require_sink_record,
    require_struct,
    struct_like,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "field insertion"
OPTIONALITY = "Ends in ! for a required field; in ? for an optional one, which is the default."

TOPIC_FIELD = "topic.field"
PARTITION_FIELD = "partition.field"
OFFSET_FIELD = "offset.field"
TIMESTAMP_FIELD = "timestamp.field"
STATIC_FIELD = "static.field"
STATIC_VALUE = "static.value"


def _config() -> ConfigDef:
    text, medium = ConfigDef.Type.STRING, ConfigDef.Importance.MEDIUM
    table = ConfigDef()
    for name, doc in (
        (TOPIC_FIELD, f"Field for the topic. {OPTIONALITY}"),
        (PARTITION_FIELD, f"Field for the Kafka partition. {OPTIONALITY}"),
        (OFFSET_FIELD, f"Field for the Kafka offset; sinks only. {OPTIONALITY}"),
        (TIMESTAMP_FIELD, f"Field for the record's timestamp. {OPTIONALITY}"),
        (STATIC_FIELD, f"Field for a constant. {OPTIONALITY}"),
        (STATIC_VALUE, "The constant."),
    ):
        table.define(name, text, None, None, medium, doc)
    return with_syntax_version(with_replace_null(table))


CONFIG = _config()

# Java's order of insertion, and the type of each field.
KINDS = (
    (TOPIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
    (PARTITION_FIELD, Schema.INT32_SCHEMA, Schema.OPTIONAL_INT32_SCHEMA),
    (OFFSET_FIELD, Schema.INT64_SCHEMA, Schema.OPTIONAL_INT64_SCHEMA),
    (TIMESTAMP_FIELD, Timestamp.SCHEMA, Timestamp.builder().optional().build()),
    (STATIC_FIELD, Schema.STRING_SCHEMA, Schema.OPTIONAL_STRING_SCHEMA),
)


class _InsertField(Part, Transformation):
    """Source: o.a.k.connect.transforms.InsertField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._insertions = []
        for kind, required, optional in KINDS:
            text: str | None = config[kind]
            if text is not None:
                name = text[:-1] if text.endswith(("!", "?")) else text
                path = FieldPath(name, config[SYNTAX_VERSION_CONFIG])
                self._insertions.append(Insertion(kind, path, required if text.endswith("!") else optional))
        self._static_value: str | None = config[STATIC_VALUE]
        if not self._insertions:
            raise ConfigError(
                "No field insertion configured", hint=f"Set one of {', '.join(kind for kind, *_ in KINDS)}."
            )
        if config[STATIC_FIELD] is not None and self._static_value is None:
            raise ConfigError.invalid(
                STATIC_VALUE, None, f"No value specified for static field: {config[STATIC_FIELD]}"
            )
        self._insertion = FieldInsertion(self._insertions, replace_null=config[REPLACE_NULL_CONFIG])
        self._schemas = SchemaMemory(self._insertion.schema)

    def apply(self, record: R) -> R:
        value = self._value(record)
        if value is None:
            return record
        if self._schema(record) is None:
            values = self._values(record, {TOPIC_FIELD, OFFSET_FIELD})
            return self._replace(record, None, self._insertion.map(require_map(value, PURPOSE), values))
        struct = require_struct(value, PURPOSE)
        updated = self._schemas.changed(struct.schema)
        values = self._values(record, {TOPIC_FIELD})
        if values.get(TIMESTAMP_FIELD) is not None:
            values[TIMESTAMP_FIELD] = Timestamp.to_logical(Timestamp.SCHEMA, values[TIMESTAMP_FIELD])
        return self._replace(record, updated, self._insertion.struct(struct, updated, values))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """More children for the struct column; the children that are there are not copied.

        By records go: schemaless values, null rows (they keep their old schema), nulls in required fields.
        """
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or schema.type is not Type.STRUCT or column.null_count:
            return NotImplemented
        columns = {}
        for kind, _, inserted_schema in self._insertions:
            inserted = self._inserted_column(batch, kind)
            if inserted is None or (inserted.null_count == len(inserted) and kind == TOPIC_FIELD):
                return NotImplemented
            if inserted.null_count and kind == OFFSET_FIELD and not inserted_schema.is_optional:
                return NotImplemented
            columns[kind] = inserted
        updated = self._schemas.changed(schema)
        made = self._insertion.column(schema, updated, column, columns)
        return NotImplemented if made is None else self._replace_column(batch, updated, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _values(self, record: ConnectRecord, also_null: Collection[str]) -> dict[str, Any]:
        """What is inserted, by kind, without the nulls that are not inserted."""
        found = {kind: self._inserted(record, kind) for kind, _, _ in self._insertions}
        return {kind: value for kind, value in found.items() if value is not None or kind in also_null}

    def _inserted(self, record: ConnectRecord, kind: str) -> Any:
        if kind == TOPIC_FIELD:
            return record.topic
        if kind == PARTITION_FIELD:
            return record.kafka_partition
        if kind == OFFSET_FIELD:
            return require_sink_record(record, PURPOSE).kafka_offset
        if kind == TIMESTAMP_FIELD:
            return record.timestamp
        return self._static_value

    def _inserted_column(self, batch: RecordBatch, kind: str) -> pa.Array | None:
        import pyarrow as pa

        if kind == OFFSET_FIELD:
            return batch.kafka_offsets
        if kind == TOPIC_FIELD:
            return _constant(batch.topic, pa.string(), len(batch))
        if kind == PARTITION_FIELD:
            return _constant(batch.kafka_partition, pa.int32(), len(batch))
        if kind == STATIC_FIELD:
            return _constant(self._static_value, pa.string(), len(batch))
        stamp, millis = batch.timestamp, pa.timestamp("ms", tz="UTC")
        if stamp is None or isinstance(stamp, int):
            return _constant(stamp, pa.int64(), len(batch)).cast(millis)
        return stamp.cast(millis)


class InsertFieldKey(_InsertField):
    """`org.apache.kafka.connect.transforms.InsertField$Key`."""

    PART: ClassVar[str] = "key"


class InsertFieldValue(_InsertField):
    """`org.apache.kafka.connect.transforms.InsertField$Value`."""

    PART: ClassVar[str] = "value"


def _constant(value: Any, kind: pa.DataType, length: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, kind), length)


class Insertion(NamedTuple):
    """One field: where it goes, and under which kind its values are given."""

    kind: str
    path: FieldPath
    schema: Schema


class _Level:
    """What is inserted into one struct or map, and into those below it."""

    __slots__ = ("below", "here")

    def __init__(self) -> None:
        self.here: list[tuple[str, Insertion]] = []
        self.below: dict[str, _Level] = {}


class FieldInsertion:
    """Adds fields to structs, maps and columns, at the end of what is there.

    A path leads to a struct or map that is there; one that is null stays null.

    Shape: values and columns are given by the kind of insertion; a kind without value is left out.
        The outermost struct becomes required and has no default, as in Java; those inside stay optional if they were.
    """

    def __init__(self, insertions: Iterable[Insertion], *, replace_null: bool) -> None:
        self._replace_null = replace_null
        self._root = _Level()
        for insertion in insertions:
            level = self._root
            for step in insertion.path.steps[:-1]:
                level = level.below.setdefault(step, _Level())
            level.here.append((insertion.path.steps[-1], insertion))

    def schema(self, schema: Schema) -> Schema:
        """The struct's schema afterwards. Errors: DataError for a path over what is not there, or is no struct."""
        return _schema(schema, self._root, is_optional=False)

    def struct(self, struct: Struct, updated: Schema, values: Mapping[str, Any]) -> Struct:
        """The struct afterwards; `updated` is what `schema` gave for its schema."""
        return _struct(struct, updated, self._root, values, self._replace_null)

    def map(self, value: dict[Any, Any], values: Mapping[str, Any]) -> dict[Any, Any]:
        """The map afterwards."""
        return _map(value, self._root, values)

    def column(
        self, schema: Schema, updated: Schema, column: pa.Array, columns: Mapping[str, pa.Array]
    ) -> pa.Array | None:
        """The column of structs afterwards, none null; None when only records can tell what is right."""
        return _column(schema, updated, column, self._root, columns, self._replace_null)


def _schema(schema: Schema, level: _Level, *, is_optional: bool) -> Schema:
    if schema.type is not Type.STRUCT:
        raise DataError(f"Only Struct objects supported for [{NESTED}], found: {schema}")
    for name in level.below:
        if schema.field(name) is None:
            raise DataError(f"Field {name} does not exist: nothing can be inserted into it")
    builder = struct_like(schema)
    for field in schema.fields:
        below = level.below.get(field.name)
        inner = field.schema
        builder.field(field.name, inner if below is None else _schema(inner, below, is_optional=inner.is_optional))
    for name, insertion in level.here:
        builder.field(name, insertion.schema)
    return builder.optional().build() if is_optional else builder.build()


def _struct(struct: Struct, updated: Schema, level: _Level, values: Mapping[str, Any], replace_null: bool) -> Struct:
    made = Struct(updated)
    read = struct.get if replace_null else struct.get_without_default
    for target, field in zip(updated.fields, struct.schema.fields, strict=False):
        value = read(field)
        below = level.below.get(field.name)
        if below is not None and value is not None:
            value = _struct(require_struct(value, NESTED), target.schema, below, values, False)
        made.put(target, value)
    for name, insertion in level.here:
        if insertion.kind in values:
            made.put(name, values[insertion.kind])
    return made


def _map(value: dict[Any, Any], level: _Level, values: Mapping[str, Any]) -> dict[Any, Any]:
    made = dict(value)
    for name, below in level.below.items():
        if made.get(name) is not None:
            made[name] = _map(require_map(made[name], NESTED), below, values)
    for name, insertion in level.here:
        if insertion.kind in values:
            made[name] = values[insertion.kind]
    return made


def _column(
    schema: Schema,
    updated: Schema,
    column: pa.Array,
    level: _Level,
    columns: Mapping[str, pa.Array],
    replace_null: bool,
) -> pa.Array | None:
    import pyarrow as pa

    children = []
    for field, target, child in zip(schema.fields, updated.fields, column.flatten(), strict=False):
        kept = kept_child(field.schema, child, replace_null) if column.null_count == 0 else child
        below = level.below.get(field.name)
        if kept is not None and below is not None:
            kept = _column(field.schema, target.schema, kept, below, columns, False)
        if kept is None:
            return None
        children.append(kept)
    children += [columns[insertion.kind] for _, insertion in level.here]
    fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, children, strict=True)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
