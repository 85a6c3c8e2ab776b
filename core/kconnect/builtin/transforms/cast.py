"""Cast: fields, or the whole key or value, as another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectError,
    ConnectRecord,
    RecordBatch,
    Schema,
    SchemaBuilder,
    Transformation,
    Type,
)
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.api.config_parse import java_trim
from kconnect.api.schema_types import LOGICAL_CHECKS
from kconnect.builtin.transforms.cast_values import OUTPUTS, cast_value
from kconnect.builtin.transforms.field_edits import FieldEdits
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    require_map,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "cast types"
SPEC_CONFIG = "spec"


def _check_spec(_name: str, spec: Any) -> None:
    if not spec:
        raise ConfigError("Must specify at least one field to cast.")
    _targets(spec)


CONFIG = with_syntax_version(
    with_replace_null(
        ConfigDef().define(
            SPEC_CONFIG,
            ConfigDef.Type.LIST,
            ConfigDef.NO_DEFAULT,
            ConfigDef.LambdaValidator.with_(
                _check_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
            ConfigDef.Importance.HIGH,
            "Pairs field:type, or one type for the whole key or value. Types are int8, int16, int32, int64, float32, "
            "float64, boolean and string; bytes can become string only.",
        )
    )
)


class _Cast(Part, Transformation):
    """Source: o.a.k.connect.transforms.Cast (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        targets = _targets(config[SPEC_CONFIG])
        self._whole: Type | None = targets.pop(None, None)
        self._edits: FieldEdits[Type] = FieldEdits(
            {name: target for name, target in targets.items() if name is not None},
            config[SYNTAX_VERSION_CONFIG],
            _CastField(),
            replace_null=config[REPLACE_NULL_CONFIG],
            setting=SPEC_CONFIG,
        )
        self._schemas = SchemaMemory(self._changed)

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if value is None:
            return record
        if schema is None:
            if self._whole is not None:
                return self._replace(record, None, cast_value(None, value, self._whole))
            return self._replace(record, None, self._edits.map(require_map(value, PURPOSE)))
        updated = self._schemas.changed(schema)
        if self._whole is not None:
            return self._replace(record, updated, cast_value(schema, value, self._whole))
        return self._replace(record, updated, self._edits.struct(require_struct(value, PURPOSE), updated))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """New columns for the fields that are cast; the others are not copied.

        By records go: schemaless values, null rows (they keep their old schema), and values that cannot be cast.
        """
        schema, column = self._schema(batch), self._column(batch)
        if column is None:
            return batch
        if schema is None or column.null_count:
            return NotImplemented
        updated = self._schemas.changed(schema)
        made = self._cast_column(schema, updated, column)
        return NotImplemented if made is None else self._replace_column(batch, updated, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _cast_column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        if self._whole is not None:
            # As in Java the new schema keeps its name; a column cannot be a number and be called a Date
            return None if schema.name in LOGICAL_CHECKS else cast_column(schema, column, self._whole)
        return self._edits.column(schema, updated, column) if schema.type is Type.STRUCT else None

    def _changed(self, schema: Schema) -> Schema:
        if self._whole is None:
            updated = self._edits.schema(schema)
            if schema.default is not None:
                cast_value(schema, schema.default, Type.STRUCT)  # a struct as default is refused, as in Java
            return updated
        builder = SchemaBuilder(self._whole).name(schema.name).version(schema.version).doc(schema.doc)
        builder.parameters(schema.parameters or {})
        return _with_default(builder, schema, self._whole)


class CastKey(_Cast):
    """`org.apache.kafka.connect.transforms.Cast$Key`."""

    PART: ClassVar[str] = "key"


class CastValue(_Cast):
    """`org.apache.kafka.connect.transforms.Cast$Value`."""

    PART: ClassVar[str] = "value"


class _CastField:
    """The edit of one field. A field that is cast loses name, doc and parameters of its schema, as in Java."""

    def schema(self, schema: Schema, what: Type) -> Schema:
        return _with_default(SchemaBuilder(what), schema, what)

    def value(self, schema: Schema | None, value: Any, what: Type) -> Any:
        return cast_value(schema, value, what)

    def column(self, schema: Schema, column: pa.Array, what: Type) -> pa.Array | None:
        return cast_column(schema, column, what)


def _with_default(builder: SchemaBuilder, schema: Schema, target: Type) -> Schema:
    if schema.is_optional:
        builder.optional()
    if schema.default is not None:
        builder.default(cast_value(schema, schema.default, target))
    return builder.build()


def _targets(spec: Sequence[str]) -> dict[str | None, Type]:
    """The type for each field; under None that of the whole. Source: Cast.parseFieldTypes, with Java's split."""
    found: dict[str | None, Type] = {}
    for mapping in spec:
        parts = mapping.rstrip(":").split(":")
        if len(parts) > 2 or not mapping.strip(":"):
            raise ConfigError.invalid("renames", list(spec), f"Invalid rename mapping: {mapping}")
        name = None if len(parts) == 1 else java_trim(parts[0])
        found[name] = _target(java_trim(parts[-1]))
    if None in found and len(spec) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to "
            "may only specify a single cast in their spec"
        )
    return found


def _target(text: str) -> Type:
    target = Type.__members__.get(text.upper())
    if target is None:
        java = "java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type."
        raise ConfigError.invalid(f"Invalid type found in casting spec: {text}", java + text.upper())
    if target not in OUTPUTS:
        supported = ", ".join(str(kind) for kind in OUTPUTS)
        raise ConfigError(
            f"Cast transformation does not support casting to {target}; supported types are [{supported}]"
        )
    return target


_INTEGERS = frozenset((Type.INT8, Type.INT16, Type.INT32, Type.INT64))
_FLOATS = frozenset((Type.FLOAT32, Type.FLOAT64))
# Digits that fit each type whatever they are; longer texts are read one by one.
_DIGITS = {Type.INT8: 2, Type.INT16: 4, Type.INT32: 9, Type.INT64: 18}
# A double holds 15 digits exactly, so that Arrow's reading and Java's cannot part.
_PLAIN_FLOAT = r"^-?[0-9]{1,12}(\.[0-9]{1,12})?$"


def cast_column(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    """The column as the target type; None when a value cannot be cast: records tell which one."""
    made = _by_kernel(schema, column, target)
    if made is not None:
        return made
    try:
        values = [cast_value(schema, value, target) for value in values_of(schema, column, len(column))]
        return column_of(Schema(target, is_optional=True), values)
    except ConnectError:
        return None


def _by_kernel(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    if schema.name is not None:
        return _from_moment(schema, column, target)
    if schema.type not in OUTPUTS:
        return None  # bytes: value by value
    if schema.type is target:
        return column
    wanted = arrow_type(Schema(target))
    if schema.type is Type.STRING:
        return _from_text(column, target, wanted)
    if schema.type in _FLOATS:
        return column.cast(wanted, safe=False) if target in _FLOATS else None
    if schema.type is Type.BOOLEAN:
        return column.cast(wanted)
    if target is Type.BOOLEAN:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.not_equal(column, pa.scalar(0, column.type))
    if target is Type.STRING:
        return column.cast(wanted)
    return column.cast(wanted, safe=False)  # too wide numbers are cut to their low bits, as in Java


def _from_moment(schema: Schema, column: pa.Array, target: Type) -> pa.Array | None:
    """Dates, times and timestamps by way of the number that stands for them; as text, and all else, value by value."""
    import pyarrow as pa

    plain = {"timestamp[ms, tz=UTC]": pa.int64(), "date32[day]": pa.int32(), "time32[ms]": pa.int32()}
    number = plain.get(str(column.type))
    if number is None or target is Type.STRING:
        return None
    return _by_kernel(Schema(schema.type), column.cast(number), target)


def _from_text(column: pa.Array, target: Type, wanted: Any) -> pa.Array | None:  # Any: pa.DataType
    import pyarrow.compute as pc

    if target is Type.BOOLEAN:
        return pc.equal(pc.ascii_lower(column), "true")
    pattern = rf"^-?[0-9]{{1,{_DIGITS[target]}}}$" if target in _INTEGERS else _PLAIN_FLOAT
    if not pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py():
        return None
    return column.cast(wanted)
