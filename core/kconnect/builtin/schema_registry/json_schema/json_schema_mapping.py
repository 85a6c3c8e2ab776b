"""Connect schemas as JSON Schemas, and back. Source: io.confluent.connect.json.JsonSchemaData.

The order of keys is that of everit's ToStringVisitor, which writes the text for Java: a registry compares texts.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kconnect.api import DataError, Decimal, Schema, SchemaBuilder, SchemaBuilderError, Type
from kconnect.builtin.schema_registry.json_schema.json_document import Part
from kconnect.builtin.schema_registry.json_schema.json_names import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    NAMESPACE,
    NULL_SYMBOL,
    ONE_OF,
    JsonOptions,
    has_text_keys,
    is_union,
)
from kconnect.builtin.schema_registry.json_schema.values_from_json import enum_text, reader_of
from kconnect.builtin.schema_registry.json_schema.values_to_json import plain_json
from kconnect.builtin.schema_registry.registry.general_names import GENERAL_ENUM, GENERAL_UNION, GENERAL_UNION_NAME
from kconnect.java.compat.hash_map import grown_map_order, hash_map_order

log = logging.getLogger(__name__)

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


_NUMBER_TYPES: Final = {
    kind.value: kind for kind in (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64, Type.BYTES)
}


_MOST_SHOWN: Final = 100  # characters of a schema in a message


def connect_of(part: Part, version: int | None, options: JsonOptions) -> Schema:
    """The Connect schema; `version` is the registry's, taken if the schema has no connect.version of its own.

    Differs: an object with additionalProperties alone is a map. Java has no field for them, unless the connect.type
    says that it is one.
    Errors: DataError, also for a schema that refers to itself: a Connect schema of ours is finite.
    """
    try:
        return _ConnectSchemas(options).of(part, version=version)
    except SchemaBuilderError as error:
        raise DataError(f"The JSON Schema cannot be a Connect schema: {error}") from error


class _ConnectSchemas:
    def __init__(self, options: JsonOptions) -> None:
        self._options = options
        self._open: list[int] = []
        self._unions = itertools.count()

    def of(self, part: Part, *, version: int | None = None, optional: bool = False) -> Schema:
        if part.kind in ("oneOf", "anyOf", "allOf"):
            other = self._looked_through(part, version=version, optional=optional)
            if other is not None:
                return other
        builder = self._builder(part)
        is_optional = optional or any(each.kind == "null" for each in part.parts)
        title, doc = part.prop("title"), part.prop("description")
        if isinstance(title, str) and builder.build().name is None:
            builder.name(title)
        found = part.prop(CONNECT_VERSION)
        found = version if found is None else found
        if found is not None:
            builder.version(found)
        if isinstance(doc, str):
            builder.doc(doc)
        parameters = part.prop(CONNECT_PARAMETERS)
        if isinstance(parameters, dict):
            builder.parameters({str(key): str(value) for key, value in parameters.items()})
        if part.prop("default") is not None and part.kind not in ("oneOf", "anyOf"):
            schema = builder.build()
            builder.default(reader_of(schema, self._options)(part.prop("default")))
        return builder.optional().build() if is_optional else builder.build()

    def _looked_through(self, part: Part, *, version: int | None, optional: bool) -> Schema | None:
        """The schema of another part that stands for this one; None for a union."""
        if len(part.parts) == 1 and self._options.flatten_singleton_unions:
            return self.of(part.parts[0])
        if part.kind == "allOf":
            return self._all_of(part, version=version, optional=optional)
        others = [each for each in part.parts if each.kind != "null"]
        if len(part.parts) == 2 and len(others) == 1:
            return self.of(others[0], version=version, optional=True)
        return None

    def _all_of(self, part: Part, *, version: int | None, optional: bool) -> Schema:
        fields: dict[str, tuple[Part, bool]] = {}
        _collect(part, fields)
        if fields:
            builder = SchemaBuilder.struct()
            with self._inside(part):
                for name, (each, is_required) in fields.items():
                    builder.field(name, self._property(name, each, is_required=is_required))
            return builder.optional().build() if optional else builder.build()
        kinds = {each.kind: each for each in part.parts}
        stands = next((kinds[kind] for kind in ("oneOf", "anyOf", "allOf") if kind in kinds), None)
        if stands is None and "enum" in kinds:
            is_const = "const" in kinds["enum"].node
            stands = (None if is_const else kinds["enum"]) if "string" in kinds else None
            stands = stands or next((kinds[kind] for kind in ("string", "number", "integer") if kind in kinds), None)
        elif stands is None:
            stands = next((kinds[kind] for kind in ("integer", "number", "string") if kind in kinds), None)
        if stands is None:
            raise DataError(f"Unsupported criterion allOf for {sorted(kinds)}")
        return self.of(stands, version=version, optional=optional)

    def _builder(self, part: Part) -> SchemaBuilder:
        kind, connect_type = part.kind, part.prop(CONNECT_TYPE)
        if kind == "boolean":
            return SchemaBuilder.bool()
        if kind in ("integer", "number"):
            if connect_type is None:
                return SchemaBuilder.int64() if kind == "integer" else SchemaBuilder.float64()
            if connect_type not in _NUMBER_TYPES:
                raise DataError(f"Unsupported type {connect_type}")
            return SchemaBuilder(_NUMBER_TYPES[connect_type])
        if kind == "string":
            return SchemaBuilder.bytes() if connect_type == "bytes" else SchemaBuilder.string()
        if kind == "enum":
            return self._enum(part.prop("enum"))
        if kind == "array":
            return self._array(part)
        if kind == "object":
            return self._object(part)
        if kind in ("oneOf", "anyOf"):
            return self._union(part)
        raise DataError(
            f"Unsupported schema type {kind}",
            hint="Give each property a type: what may be anything has no Connect schema.",
        )

    def _enum(self, symbols: list[Any]) -> SchemaBuilder:
        builder = SchemaBuilder.string()
        name = self._options.enum_parameter
        builder.parameter(name, "")
        for index, found in enumerate(symbols):
            symbol = NULL_SYMBOL if found is None else enum_text(found)
            builder.parameter(f"{name}.{symbol}", str(index) if self._options.generalized else symbol)
        return builder

    def _union(self, part: Part) -> SchemaBuilder:
        builder = SchemaBuilder.struct()
        if self._options.generalized:
            name = f"{GENERAL_UNION_NAME}{next(self._unions)}"
            builder.name(name).parameter(GENERAL_UNION, name)
        else:
            builder.name(ONE_OF)
        members = [each for each in part.parts if each.kind != "null"]
        for index, member in enumerate(members):
            builder.field(self._options.member_name(index), self.of(member, optional=True))
        return builder

    def _array(self, part: Part) -> SchemaBuilder:
        items = part.inner("items")
        if items is None:
            raise DataError("Array schema did not specify the items type")
        with self._inside(part):
            if part.prop(CONNECT_TYPE) != "map" or items.kind != "object":
                return SchemaBuilder.array(self.of(items))
            entry = dict(items.properties())
            if "key" not in entry or "value" not in entry:
                raise DataError("The entries of a map have no key and value in the JSON Schema")
            return SchemaBuilder.map(self.of(entry["key"]), self.of(entry["value"]))

    def _object(self, part: Part) -> SchemaBuilder:
        with self._inside(part):
            if part.prop(CONNECT_TYPE) == "map":
                values = part.inner("additionalProperties")
                if values is None:
                    raise DataError("A map has no additionalProperties in the JSON Schema: its values have no type")
                return SchemaBuilder.map(Schema.STRING_SCHEMA, self.of(values))
            found = _in_order(part)
            values = part.inner("additionalProperties")
            if not found and values is not None and values.kind not in ("empty", "not"):
                return SchemaBuilder.map(Schema.STRING_SCHEMA, self.of(values))
            if not found and part.node.get("additionalProperties") is not False:
                log.warning(
                    "The JSON Schema %s names no property: what such objects have is left out",
                    part.prop("title") or json.dumps(part.node)[:_MOST_SHOWN],
                )
            builder = SchemaBuilder.struct()
            required = part.prop("required") or ()
            for name, each in found:
                builder.field(name, self._property(name, each, is_required=name in required))
            return builder

    def _property(self, name: str, part: Part, *, is_required: bool) -> Schema:
        """Errors: DataError that names the property."""
        try:
            return self.of(part, optional=self._options.optional_for_nonrequired and not is_required)
        except DataError as error:
            raise DataError(f"Property {name}: {error}", hint=error.hint) from error

    @contextmanager
    def _inside(self, part: Part) -> Iterator[None]:
        """Errors: DataError for a part that is within itself."""
        if id(part.node) in self._open:
            raise DataError(
                f"The JSON Schema {part.prop('title') or part.kind} refers to itself, which a Connect schema cannot.",
                hint="Write such data as JSON text in a string, or leave the property out.",
            )
        self._open.append(id(part.node))
        yield
        self._open.pop()


def _in_order(part: Part) -> list[tuple[str, Part]]:
    """By connect.index, and as they are written where there is none."""
    found = [(name, each, each.prop(CONNECT_INDEX)) for name, each in part.properties()]
    placed = sorted((index if isinstance(index, int) else place, place) for place, (_, _, index) in enumerate(found))
    return [found[place][:2] for _, place in placed]


def _collect(part: Part, fields: dict[str, tuple[Part, bool]]) -> None:
    """The properties of all objects in an allOf."""
    for each in part.parts:
        if each.kind == "allOf":
            _collect(each, fields)
        elif each.kind == "object":
            required = each.prop("required") or ()
            for name, inner in each.properties():
                fields[name] = (inner, name in required)
