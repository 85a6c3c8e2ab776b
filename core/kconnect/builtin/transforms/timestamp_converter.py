"""TimestampConverter: instants as text, numbers, dates or times of day, and between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConfigError, ConnectError, ConnectRecord, RecordBatch, Schema, Transformation, Type
from kconnect.api.columns import column_of, values_of
from kconnect.api.config_parse import java_trim
from kconnect.builtin.transforms.date_pattern import pattern_validator
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
from kconnect.builtin.transforms.timestamp_kinds import (
    TARGETS,
    UNITS,
    TimestampFormat,
    converted,
    converted_column,
    kind_of,
    target_schema,
)
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.simple_date_format import DatePattern

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "converting timestamp formats"
FIELD_CONFIG, TARGET_CONFIG = "field", "target.type"
FORMAT_CONFIG, PRECISION_CONFIG = "format", "unix.precision"


def _config() -> ConfigDef:
    text, importance = ConfigDef.Type.STRING, ConfigDef.Importance
    table = ConfigDef()
    table.define(FIELD_CONFIG, text, "", None, importance.HIGH, "The field; empty for the whole key or value.")
    table.define(
        TARGET_CONFIG,
        text,
        ConfigDef.NO_DEFAULT,
        ConfigDef.ValidString.in_(*TARGETS),
        importance.HIGH,
        "What the instant becomes: string, unix, Date, Time or Timestamp.",
    )
    table.define(
        FORMAT_CONFIG,
        text,
        "",
        pattern_validator(),
        importance.MEDIUM,
        "Pattern of Java's SimpleDateFormat, in UTC and with English names: how text is read, and how it is written "
        "with target.type=string. All its letters are written; Y, w, W and F (weeks) are not read.",
    )
    table.define(
        PRECISION_CONFIG,
        text,
        "milliseconds",
        ConfigDef.ValidString.in_(*UNITS),
        importance.LOW,
        "Unit of numbers, both ways: seconds, milliseconds, microseconds or nanoseconds. What is below a millisecond "
        "is lost.",
    )
    return with_syntax_version(with_replace_null(table))


CONFIG = _config()


class _TimestampConverter(Part, Transformation):
    """Source: o.a.k.connect.transforms.TimestampConverter (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        pattern: str = config[FORMAT_CONFIG]
        target: str = config[TARGET_CONFIG]
        if target == "string" and not java_trim(pattern):
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        self._format = TimestampFormat(
            target, config[PRECISION_CONFIG], DatePattern(pattern) if java_trim(pattern) else None
        )
        if target != "string" and self._format.pattern is not None:
            _refuse_unread(self._format.pattern)
        self._field: str = config[FIELD_CONFIG]
        self._edits: FieldEdits[TimestampFormat] = FieldEdits(
            {self._field: self._format} if self._field else {},
            config[SYNTAX_VERSION_CONFIG],
            _TimestampField(),
            replace_null=config[REPLACE_NULL_CONFIG],
            setting=FIELD_CONFIG,
        )
        self._schemas = SchemaMemory(self._edits.schema)

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if schema is None:
            if value is None or not self._field:
                return self._replace(record, None, converted(None, value, self._format))
            return self._replace(record, None, self._edits.map(require_map(value, PURPOSE)))
        if not self._field:
            updated = target_schema(self._format.target, schema.is_optional)
            return self._replace(record, updated, converted(schema, value, self._format))
        struct = None if value is None else require_struct(value, PURPOSE)
        updated = self._schemas.changed(schema)
        return self._replace(record, updated, None if struct is None else self._edits.struct(struct, updated))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """A new column for the field; the others are not copied. Schemaless values go by records."""
        schema, column = self._schema(batch), self._column(batch)
        if schema is None:
            return batch if column is None else NotImplemented
        if not self._field:
            kind_of(schema)
            updated = target_schema(self._format.target, schema.is_optional)
            made = None if column is None else self._whole_column(schema, updated, column)
        elif schema.type is Type.STRUCT:
            updated = self._schemas.changed(schema)
            made = None if column is None else self._edits.column(schema, updated, column)
        else:
            return NotImplemented
        if made is None and column is not None:
            return NotImplemented
        return self._replace_column(batch, updated, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _whole_column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        made = converted_column(schema, column, self._format)
        if made is not None:
            return made
        try:
            values = [converted(schema, value, self._format) for value in values_of(schema, column, len(column))]
            return column_of(updated, values)
        except ConnectError:
            return None  # by records: the same error comes with the record that caused it


class TimestampConverterKey(_TimestampConverter):
    """`org.apache.kafka.connect.transforms.TimestampConverter$Key`."""

    PART: ClassVar[str] = "key"


class TimestampConverterValue(_TimestampConverter):
    """`org.apache.kafka.connect.transforms.TimestampConverter$Value`."""

    PART: ClassVar[str] = "value"


class _TimestampField:
    """The edit of one field. Its schema keeps whether it is optional, and nothing else, as in Java."""

    def schema(self, schema: Schema, what: TimestampFormat) -> Schema:
        return target_schema(what.target, schema.is_optional)

    def value(self, schema: Schema | None, value: Any, what: TimestampFormat) -> Any:
        return converted(schema, value, what)

    def column(self, schema: Schema, column: pa.Array, what: TimestampFormat) -> pa.Array | None:
        return converted_column(schema, column, what)


def _refuse_unread(pattern: DatePattern) -> None:
    """A pattern that can only be there to read texts must be one that is read."""
    letters = pattern.refused_letters
    if letters:
        raise ConfigError.invalid(
            FORMAT_CONFIG,
            pattern.text,
            f"Texts are not read by patterns with {' and '.join(letters)} (weeks), only written",
        )
