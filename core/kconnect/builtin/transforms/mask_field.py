"""MaskField: fields that must not be seen become empty, or a text or number of your choice."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, DataError, RecordBatch, Schema, Transformation, Type, values
from kconnect.builtin.transforms.field_edits import FieldEdits
from kconnect.builtin.transforms.field_path import SYNTAX_VERSION_CONFIG, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    require_map,
    require_struct,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.to_string import java_class

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

PURPOSE = "mask fields"
FIELDS_CONFIG = "fields"
REPLACEMENT_CONFIG = "replacement"

CONFIG = with_syntax_version(
    with_replace_null(
        ConfigDef()
        .define(
            FIELDS_CONFIG,
            ConfigDef.Type.LIST,
            ConfigDef.NO_DEFAULT,
            ConfigDef.ValidList.any_non_duplicate_values(False, False),
            ConfigDef.Importance.HIGH,
            "Fields to mask.",
        )
        .define(
            REPLACEMENT_CONFIG,
            ConfigDef.Type.STRING,
            None,
            ConfigDef.NonEmptyString(),
            ConfigDef.Importance.LOW,
            "The value that masked fields get, for numbers and text; otherwise 0, false, an empty text or list.",
        )
    )
)


class _MaskField(Part, Transformation):
    """Source: o.a.k.connect.transforms.MaskField (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._edits: FieldEdits[str | None] = FieldEdits(
            dict.fromkeys(config[FIELDS_CONFIG], config[REPLACEMENT_CONFIG]),
            config[SYNTAX_VERSION_CONFIG],
            _Mask(),
            replace_null=config[REPLACE_NULL_CONFIG],
            setting=FIELDS_CONFIG,
        )

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        if schema is None:
            return self._replace(record, None, self._edits.map(require_map(value, PURPOSE)))
        struct = require_struct(value, PURPOSE)
        return self._replace(record, schema, self._edits.struct(struct, struct.schema))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """One constant per masked column; the others are not copied."""
        schema, column = self._schema(batch), self._column(batch)
        if schema is None or schema.type is not Type.STRUCT or column is None or column.null_count:
            return NotImplemented
        made = self._edits.column(schema, schema, column)
        return NotImplemented if made is None else self._replace_column(batch, schema, made)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


class _Mask:
    """The edit of one field, given the replacement if there is one."""

    def schema(self, schema: Schema, what: str | None) -> Schema:
        return schema

    def value(self, schema: Schema | None, value: Any, what: str | None) -> Any:
        if value is None:
            return None
        return _empty(value) if what is None else _replaced(value, schema, what)

    def column(self, schema: Schema, column: pa.Array, what: str | None) -> pa.Array | None:
        """The column with the mask in each row that is not null. Decimals, dates, lists and maps go value by value."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not schema.type.is_primitive or schema.type is Type.BYTES or schema.name is not None:
            return None
        if column.null_count == len(column):
            return column
        present = column if not column.null_count else column.drop_null()
        mask = pa.scalar(self.value(schema, present[0].as_py(), what), column.type)
        return pc.if_else(column.is_valid(), mask, pa.scalar(None, column.type))


class MaskFieldKey(_MaskField):
    """`org.apache.kafka.connect.transforms.MaskField$Key`."""

    PART: ClassVar[str] = "key"


class MaskFieldValue(_MaskField):
    """`org.apache.kafka.connect.transforms.MaskField$Value`."""

    PART: ClassVar[str] = "value"


def _empty(value: Any) -> Any:
    make = _EMPTY.get(type(value))
    if make is None:
        raise DataError(f"Cannot mask value of type: class {java_class(value)}")
    return make()


def _replaced(value: Any, schema: Schema | None, replacement: str) -> Any:
    make = _REPLACED.get(java_class(value, schema))
    if make is None:
        raise DataError(f"Cannot mask value of type class {java_class(value)} with custom replacement.")
    try:
        return make(replacement)
    except DataError as error:
        number = "number" if isinstance(value, Decimal) else "a number"  # two places in Java, two ways to say it
        raise DataError(f"Unable to convert {replacement} (class java.lang.String) to {number}") from error


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

_EMPTY: dict[type, Callable[[], Any]] = {
    bool: bool,
    int: int,
    float: float,
    str: str,
    list: list,
    dict: dict,
    Decimal: lambda: Decimal(0),
    datetime.date: _EPOCH.date,
    datetime.time: datetime.time,
    datetime.datetime: lambda: _EPOCH,
}

_REPLACED: dict[str, Callable[[str], Any]] = {
    "java.lang.Byte": lambda text: values.convert_to_byte(None, text),
    "java.lang.Short": lambda text: values.convert_to_short(None, text),
    "java.lang.Integer": lambda text: values.convert_to_integer(None, text),
    "java.lang.Long": lambda text: values.convert_to_long(None, text),
    "java.lang.Float": lambda text: values.convert_to_float(None, text),
    "java.lang.Double": lambda text: values.convert_to_double(None, text),
    "java.lang.String": str,
    "java.math.BigDecimal": lambda text: values.convert_to_decimal(None, text, 0),
}
