"""Names that Confluent's ProtobufData gives meaning to, and its settings that shape the mapping."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Final

from kconnect.api import Date, Decimal, Schema, Time, Timestamp, Type
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM, GENERAL_UNION, scrubbed

NAMESPACE: Final = "io.confluent.connect.protobuf"
ENUM: Final = f"{NAMESPACE}.Enum"
UNION: Final = f"{NAMESPACE}.Union"
TAG: Final = f"{NAMESPACE}.Tag"
TYPE: Final = f"{NAMESPACE}.Type"
WRAPPER: Final = f"{NAMESPACE}.Wrapper"
PRECISION: Final = "connect.decimal.precision"
CONNECT_TYPE: Final = "connect.type"
MAP_ENTRY: Final = "Entry"

_WRAPPERS: Final = "google/protobuf/wrappers.proto"
LOGICAL_TYPES: Final = {
    Decimal.LOGICAL_NAME: "confluent.type.Decimal",
    Date.LOGICAL_NAME: "google.type.Date",
    Time.LOGICAL_NAME: "google.type.TimeOfDay",
    Timestamp.LOGICAL_NAME: "google.protobuf.Timestamp",
}
WRAPPED: Final = {
    "google.protobuf.DoubleValue": Type.FLOAT64,
    "google.protobuf.FloatValue": Type.FLOAT32,
    "google.protobuf.Int64Value": Type.INT64,
    "google.protobuf.UInt64Value": Type.INT64,
    "google.protobuf.Int32Value": Type.INT32,
    "google.protobuf.UInt32Value": Type.INT64,
    "google.protobuf.BoolValue": Type.BOOLEAN,
    "google.protobuf.StringValue": Type.STRING,
    "google.protobuf.BytesValue": Type.BYTES,
}
LOCATIONS: Final = {
    "confluent.type.Decimal": "confluent/type/decimal.proto",
    "google.type.Date": "google/type/date.proto",
    "google.type.TimeOfDay": "google/type/timeofday.proto",
    "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
    **dict.fromkeys(WRAPPED, _WRAPPERS),
}


@dataclass(frozen=True, slots=True)
class ProtobufOptions:
    """Source: io.confluent.connect.protobuf.ProtobufDataConfig."""

    enhanced: bool = False
    generalized: bool = False
    scrub: bool = False
    int_for_enums: bool = False
    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    wrapper_for_raw_primitives: bool = True
    struct_for_nulls: bool = False
    index_for_unions: bool = True
    flatten_unions: bool = False
    ignore_default_for_nullables: bool = False

    @property
    def enum_parameter(self) -> str:
        return GENERAL_ENUM if self.generalized else ENUM

    def scrub_name(self, name: str) -> str:
        if not self.scrub:
            return name
        return f"x{scrubbed(name)}" if name.startswith("_") else scrubbed(name)

    def split_name(self, name: str) -> tuple[str, str]:
        """The package, which may be empty, and the name in it."""
        package, _, simple = ".".join(map(self.scrub_name, name.split("."))).rpartition(".")
        return package, simple

    def is_wrapped(self, schema: Schema, *, in_oneof: bool) -> bool:
        """Whether a scalar is written in a wrapper message, which can be absent."""
        if not self.wrapper_for_nullables or not schema.is_optional:
            return False
        return not in_oneof or (schema.parameters or {}).get(WRAPPER, "").lower() == "true"


class NumberedNames:
    """Names for schemas that have none: ConnectDefault1, ConnectDefault2, .."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._numbers = itertools.count(1)

    def full(self, schema: Schema) -> str:
        return schema.name or f"ConnectDefault{next(self._numbers)}"

    def simple(self, schema: Schema) -> str:
        """Without its package."""
        return self._options.scrub_name(self.full(schema).rpartition(".")[2])


def is_union(schema: Schema) -> bool:
    """Whether the fields of a struct are those of a oneof."""
    if schema.type is not Type.STRUCT:
        return False
    return (schema.name or "").startswith(UNION) or GENERAL_UNION in (schema.parameters or ())


def is_enum(schema: Schema) -> bool:
    return ENUM in (schema.parameters or ()) or GENERAL_ENUM in (schema.parameters or ())


def map_entry(name: str) -> str:
    """The message for entries of a map with that name. Source: ProtobufSchema.toMapEntry."""
    if "_" in name:
        name = "".join(word.capitalize() for word in name.split("_"))
    return name + MAP_ENTRY


def map_name(entry: str) -> str:
    """The name of the map that has such entries. Source: ProtobufSchema.toMapField."""
    package, dot, simple = entry.rpartition(".")
    if simple.endswith(MAP_ENTRY):
        simple = re.sub(r"(?<!^)(?=[A-Z])", "_", simple.removesuffix(MAP_ENTRY)).lower()
    return package + dot + simple
