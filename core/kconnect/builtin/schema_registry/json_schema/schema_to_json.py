"""Connect schema to JSON Schema. Source: io.confluent.connect.json.JsonSchemaData.fromConnectSchema.

The order of keys is that of everit's ToStringVisitor, which writes the text for Java: a registry compares texts.
"""

from __future__ import annotations

from typing import Any, Final

from kconnect.api import Decimal, Schema, Type
from kconnect.builtin.schema_registry.json_schema.json_names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    NAMESPACE,
    NULL_SYMBOL,
    JsonOptions,
    has_text_keys,
    is_union,
)
from kconnect.builtin.schema_registry.json_schema.values_to_json import plain_json
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM
from kconnect.java.compat.hash_map import grown_map_order, hash_map_order

_NULL: Final = {"type": "null"}
_NUMBERS: Final = {
    Type.INT8: "integer",
    Type.INT16: "integer",
    Type.INT32: "integer",
    Type.INT64: "integer",
    Type.FLOAT32: "number",
    Type.FLOAT64: "number",
}


def json_schema_of(schema: Schema, options: JsonOptions) -> dict[str, Any]:
    """The JSON Schema of values of a schema."""
    return _Mapping(options).of(schema)


class _Mapping:
    def __init__(self, options: JsonOptions) -> None:
        self._options = options

    def of(self, schema: Schema, index: int | None = None, *, ignores_optional: bool = False) -> dict[str, Any]:
        """`index` is that of the field which has this schema."""
        place = {} if index is None else {CONNECT_INDEX: index}
        if is_union(schema):
            return {**place, "oneOf": self._members(schema)}
        if schema.type is Type.STRUCT and schema.is_optional and not ignores_optional:
            return {**place, "oneOf": [_NULL, self.of(schema, ignores_optional=True)]}
        head, inside, props = self._parts(schema)
        is_wrapped = schema.is_optional and not ignores_optional
        if schema.version is not None:
            props[CONNECT_VERSION] = schema.version
        parameters = {key: value for key, value in (schema.parameters or {}).items() if not key.startswith(NAMESPACE)}
        if parameters:
            props[CONNECT_PARAMETERS] = hash_map_order(parameters)
        if not is_wrapped:
            props.update(place)
        common = {
            "title": schema.name,
            "description": schema.doc,
            "default": plain_json(schema, schema.default, self._options),
        }
        made = {
            **head,
            **{key: value for key, value in common.items() if value is not None},
            **hash_map_order(props),
            **inside,
        }
        return {**place, "oneOf": [_NULL, made]} if is_wrapped else made

    def _members(self, union: Schema) -> list[dict[str, Any]]:
        members = [self.of(field.schema, field.index, ignores_optional=True) for field in union.fields]
        return [_NULL, *members] if union.is_optional else members

    def _parts(self, schema: Schema) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """What comes before the title, what comes last, and the properties that only Connect knows."""
        kind = schema.type
        if kind in _NUMBERS:
            return {"type": _NUMBERS[kind]}, {}, {CONNECT_TYPE: kind.value}
        if kind is Type.BOOLEAN:
            return {}, {"type": "boolean"}, {}
        if kind is Type.STRING:
            return self._text(schema), {}, {}
        if kind is Type.BYTES:
            is_number = schema.name == Decimal.LOGICAL_NAME and self._options.numeric_decimals
            return {"type": "number" if is_number else "string"}, {}, {CONNECT_TYPE: "bytes"}
        if kind is Type.ARRAY:
            assert schema.value_schema is not None
            return {"type": "array"}, {"items": self.of(schema.value_schema)}, {}
        if kind is Type.MAP:
            return self._map(schema)
        head = (
            {"type": "object"}
            if self._options.additional_properties
            else {"type": "object", "additionalProperties": False}
        )
        fields = {field.name: self.of(field.schema, field.index) for field in schema.fields}
        return head, {"properties": grown_map_order(fields)} if fields else {}, {}

    def _text(self, schema: Schema) -> dict[str, Any]:
        parameters = schema.parameters or {}
        if ENUM not in parameters and GENERAL_ENUM not in parameters:
            return {"type": "string"}
        prefix = f"{self._options.enum_parameter}."
        symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
        return {"enum": [None if symbol == NULL_SYMBOL else symbol for symbol in symbols]}

    def _map(self, schema: Schema) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        props = {CONNECT_TYPE: "map"}
        if has_text_keys(schema):
            return {"type": "object"}, {"additionalProperties": self.of(schema.value_schema)}, props
        entry = {"key": self.of(schema.key_schema, 0), "value": self.of(schema.value_schema, 1)}
        return {"type": "array"}, {"items": {"type": "object", "properties": grown_map_order(entry)}}, props
