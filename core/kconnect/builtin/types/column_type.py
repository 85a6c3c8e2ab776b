"""ColumnType: a type as people declare it, in Spark's words, and the schema that Connect has for it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kconnect.api import Date, Decimal, Schema, SchemaBuilder, Time, Timestamp

UUID_NAME: Final = "io.debezium.data.Uuid"
JSON_NAME: Final = "io.debezium.data.Json"
UNITS: Final = ("s", "ms", "us", "ns")
MOST_DIGITS: Final = 38
"""Limits a decimal in Arrow, Spark and each table format."""
# Digits behind the second that Connect's own Time and Timestamp have
_MILLI_DIGITS: Final = 3
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Column:
    """A column or a struct's field. `doc`: its COMMENT."""

    name: str
    type: ColumnType
    is_required: bool = False
    doc: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type by its name in Spark's DDL, such as bigint; beside those uuid and json.

    `digits`: of a decimal, or behind the second of a time. `length`: of varchar and char. `unit`: what numbers that
    are read as a time count; of a date that is `d` where none is said. `holds_null`: of a list's or map's values.
    """

    name: str
    digits: int | None = None
    scale: int = 0
    length: int | None = None
    unit: str | None = None
    key: ColumnType | None = None
    item: ColumnType | None = None
    columns: tuple[Column, ...] = ()
    holds_null: bool = True

    def __str__(self) -> str:
        """Its DDL."""
        match self.name:
            case "decimal":
                return f"decimal({self.digits},{self.scale})"
            case "varchar" | "char":
                return f"{self.name}({self.length})"
            case "array":
                return f"array<{self.item}>"
            case "map":
                return f"map<{self.key},{self.item}>"
            case "struct":
                return f"struct<{', '.join(f'{quoted(column.name)}:{column.type}' for column in self.columns)}>"
            case "time" | "timestamp" | "timestamp_ntz" if self.unit is None and self.digits is not None:
                return f"{self.name}({self.digits})"
            case _:
                return f"{self.name}({self.unit})" if self.unit else self.name


def quoted(name: str) -> str:
    """A column's name as DDL has it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def schema_of(kind: ColumnType, *, is_required: bool = False, is_fine: bool = False, doc: str | None = None) -> Schema:
    """Connect's schema. `is_fine`: times keep microseconds, and whether they have a zone, which Connect's own lack."""
    builder = _builder(kind, is_fine)
    if doc is not None:
        builder.doc(doc)
    return (builder if is_required else builder.optional()).build()


def _builder(kind: ColumnType, is_fine: bool) -> SchemaBuilder:
    match kind.name:
        case "decimal":
            return Decimal.builder(kind.scale).parameter(Decimal.PRECISION_FIELD, str(kind.digits))
        case "date":
            return Date.builder()
        case "time":
            return _finer(Time.builder(), kind, is_fine)
        case "timestamp":
            return _finer(Timestamp.builder(), kind, is_fine)
        case "timestamp_ntz":
            local = _finer(Timestamp.builder(), kind, is_fine)
            return local.parameter(Timestamp.ZONE_FIELD, Timestamp.NO_ZONE) if is_fine else local
        case "uuid":
            return SchemaBuilder.string().name(UUID_NAME).version(1)
        case "json" | "variant":
            return SchemaBuilder.string().name(JSON_NAME).version(1)
        case "array":
            return SchemaBuilder.array(_inner(kind.item, is_fine, not kind.holds_null))
        case "map":
            return SchemaBuilder.map(_inner(kind.key, is_fine, True), _inner(kind.item, is_fine, not kind.holds_null))
        case "struct":
            builder = SchemaBuilder.struct()
            for column in kind.columns:
                builder.field(
                    column.name,
                    schema_of(column.type, is_required=column.is_required, is_fine=is_fine, doc=column.doc),
                )
            return builder
        case _:
            return getattr(SchemaBuilder, _PLAIN[kind.name])()  # type: ignore[no-any-return]  # a SchemaBuilder


def _inner(kind: ColumnType | None, is_fine: bool, is_required: bool) -> Schema:
    assert kind is not None, "a list or map has a type inside"
    return schema_of(kind, is_required=is_required, is_fine=is_fine)


def _finer(builder: SchemaBuilder, kind: ColumnType, is_fine: bool) -> SchemaBuilder:
    has_micros = is_fine and (kind.digits is None or kind.digits > _MILLI_DIGITS)
    return builder.parameter(Timestamp.UNIT_FIELD, "us") if has_micros else builder


_PLAIN: Final = {
    "boolean": "bool",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "string": "string",
    "varchar": "string",
    "char": "string",
    "binary": "bytes",
}
