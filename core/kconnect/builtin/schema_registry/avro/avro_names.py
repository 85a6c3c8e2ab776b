"""Names that Confluent's AvroData gives meaning to, and its settings that shape the mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kconnect.api import Schema, Type
from kconnect.builtin.schema_registry.registry.general_names import (
    GENERAL_ENUM,
    GENERAL_UNION,
    GENERAL_UNION_FIELD,
    scrubbed,
)

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = f"{NAMESPACE}.ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
"""A record with a key and a value; a list of them is a map whose keys are no texts."""
INTERNAL_TYPE: Final = "connect.internal.type"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
FIXED_SIZE: Final = "connect.fixed.size"
PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64

_AVRO_NAMES: Final = {
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.INT8: "int",
    Type.INT16: "int",
}


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """Source: io.confluent.connect.avro.AvroDataConfig."""

    enhanced: bool = False
    meta_data: bool = True
    scrub: bool = False
    generalized: bool = False
    discard_type_doc_default: bool = False
    allow_optional_map_keys: bool = False
    flatten_singleton_unions: bool = True
    ignore_default_for_nullables: bool = False
    cache_size: int = 1000

    def scrub_name(self, name: str) -> str:
        return scrubbed(name) if self.scrub else name

    def scrub_full_name(self, name: str) -> str:
        return ".".join(scrubbed(part) for part in name.split(".")) if self.scrub else name

    def member_name(self, schema: Schema, index: int) -> str:
        """The field of a union's struct that a member has, by its Connect schema."""
        if self.generalized:
            return f"{GENERAL_UNION_FIELD}{index}"
        if schema.type is Type.STRUCT or is_enum(schema) or is_fixed(schema):
            name = self.scrub_full_name(schema.name or "")
            return name if self.enhanced else name.rpartition(".")[2]
        return _AVRO_NAMES[schema.type]

    def has_text_keys(self, schema: Schema) -> bool:
        """Whether a MAP is an Avro map; others are arrays of key and value."""
        key = schema.key_schema
        assert key is not None
        return key.type is Type.STRING and (not key.is_optional or self.allow_optional_map_keys)


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (schema.name == UNION or GENERAL_UNION in (schema.parameters or ()))


def is_enum(schema: Schema) -> bool:
    parameters = schema.parameters or {}
    return schema.type is Type.STRING and (GENERAL_ENUM in parameters or ENUM in parameters)


def is_fixed(schema: Schema) -> bool:
    return schema.type is Type.BYTES and schema.name is not None and FIXED_SIZE in (schema.parameters or ())
