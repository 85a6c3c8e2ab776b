"""Names that Confluent's JsonSchemaData gives meaning to, and its settings that shape the mapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kconnect.api import Schema, Type
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM, GENERAL_UNION, GENERAL_UNION_FIELD

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
NULL_SYMBOL: Final = "<NULL>"
CONNECT_TYPE: Final = "connect.type"
CONNECT_INDEX: Final = "connect.index"
CONNECT_VERSION: Final = "connect.version"
CONNECT_PARAMETERS: Final = "connect.parameters"


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """Source: io.confluent.connect.json.JsonSchemaDataConfig."""

    additional_properties: bool = True
    optional_for_nonrequired: bool = False
    generalized: bool = False
    numeric_decimals: bool = False
    flatten_singleton_unions: bool = True
    ignore_default_for_nullables: bool = False

    @property
    def enum_parameter(self) -> str:
        return GENERAL_ENUM if self.generalized else ENUM

    def member_name(self, index: int) -> str:
        """The field of a union's struct for its member with that index."""
        return f"{GENERAL_UNION_FIELD}{index}" if self.generalized else f"{ONE_OF}.field.{index}"


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (schema.name == ONE_OF or GENERAL_UNION in (schema.parameters or ()))


def has_text_keys(schema: Schema) -> bool:
    """Whether a map is a JSON object; others are arrays of objects with key and value."""
    key = schema.key_schema
    assert key is not None
    return key.type is Type.STRING and not key.is_optional
