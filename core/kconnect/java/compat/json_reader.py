"""Parsed JSON to Connect data and schemas."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

from kconnect.api import DataError, Date, Decimal, Schema, SchemaBuilder, Struct, Time, Timestamp, Type
from kconnect.api.values_text import single_precision
from kconnect.java.compat.jackson import node_type, read_base64

_TYPES = {**{kind.value: kind for kind in Type}, "float": Type.FLOAT32, "double": Type.FLOAT64}
del _TYPES["float32"], _TYPES["float64"]  # the envelope has its own names for these


class InexactError(Exception):
    """A whole number was asked for, and the float that was parsed may lack digits of the text."""


class JsonReader:
    """Reads values and schemas as Java's JsonConverter does.

    Differs: a whole number without schema keeps its digits, where Java keeps the low 64 bits of a larger one.
    Source: JsonConverter.convertToConnect, asConnectSchema (Kafka 4.3).
    """

    def __init__(self, *, replace_null_with_default: bool, exact_numbers: bool = False) -> None:
        """`exact_numbers`: without a schema, a fraction that no double holds keeps all its digits."""
        self._replace_null = replace_null_with_default
        self._schemaless = _exact if exact_numbers else _schemaless

    def value(self, schema: Schema | None, node: Any) -> Any:
        """The Connect value of parsed JSON. Errors: DataError in Java's words; InexactError for jackson.parse."""
        if schema is None:
            return self._schemaless(node)
        if node is None:  # not MISSING: to Java an empty text is no null, but 0, false, an empty list
            if schema.default is not None and self._replace_null:
                return schema.default
            if schema.is_optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type} field")
        logical = _LOGICAL.get(schema.name or "")
        if logical is not None:
            return logical(schema, node)
        if schema.type is Type.STRUCT:
            return self._struct(schema, node)
        if schema.type is Type.ARRAY:
            items = schema.value_schema
            return [self.value(items, element) for element in _elements(node)]
        if schema.type is Type.MAP:
            return self._map(schema, node)
        return _PRIMITIVES[schema.type](node)

    def schema(self, node: Any) -> Schema | None:
        """The schema that parsed JSON describes; None for null. Errors: DataError in Java's words."""
        if node is None:
            return None
        name = node.get("type") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise DataError("Schema must contain 'type' field")
        builder = self._builder(name, node)
        if node.get("optional") is True:
            builder.optional()
        else:
            builder.required()
        if isinstance(node.get("name"), str):
            builder.name(node["name"])
        version = node.get("version")
        if isinstance(version, int) and not isinstance(version, bool):
            builder.version(_wrap(version, 32))
        if isinstance(node.get("doc"), str):
            builder.doc(node["doc"])
        parameters = node.get("parameters")
        if isinstance(parameters, dict):
            for key, text in parameters.items():
                if not isinstance(text, str):
                    raise DataError("Schema parameters must have string values.")
                builder.parameter(key, text)
        if "default" in node:
            builder.default(self.value(builder.build(), node["default"]))
        return builder.build()

    def _builder(self, name: str, node: dict[str, Any]) -> SchemaBuilder:
        kind = _TYPES.get(name)
        if kind is None:
            raise DataError(f"Unknown schema type: {name}")
        if kind is Type.ARRAY:
            if node.get("items") is None:
                raise DataError("Array schema did not specify the element type")
            return SchemaBuilder.array(self.schema(node["items"]))  # type: ignore[arg-type]  # not None: checked above
        if kind is Type.MAP:
            for part, word in (("keys", "key"), ("values", "value")):
                if part not in node:
                    raise DataError(f"Map schema did not specify the {word} type")
            return SchemaBuilder.map(self.schema(node["keys"]), self.schema(node["values"]))  # type: ignore[arg-type]  # null as Java: refused there
        if kind is Type.STRUCT:
            builder = SchemaBuilder.struct()
            if not isinstance(node.get("fields"), list):
                raise DataError('Struct schema\'s "fields" argument is not an array.')
            for field in node["fields"]:
                field_name = field.get("field") if isinstance(field, dict) else None
                if not isinstance(field_name, str):
                    raise DataError("Struct schema's field name not specified properly")
                builder.field(field_name, self.schema(field))  # type: ignore[arg-type]  # a dict: never None
            return builder
        return SchemaBuilder.type(kind)

    def _struct(self, schema: Schema, node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
        result = Struct(schema)
        for field in schema.fields:
            result.put(field, self.value(field.schema, node.get(field.name)))
        return result

    def _map(self, schema: Schema, node: Any) -> dict[Any, Any]:
        keys, values = schema.key_schema, schema.value_schema
        if keys is not None and keys.type is Type.STRING:
            if not isinstance(node, dict):
                raise DataError(
                    f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}"
                )
            return {name: self.value(values, element) for name, element in node.items()}
        if not isinstance(node, list):
            raise DataError(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {node_type(node)}"
            )
        result = {}
        for entry in node:
            if not isinstance(entry, list):
                raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
            if len(entry) != 2:
                raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
            result[self.value(keys, entry[0])] = self.value(values, entry[1])
        return result


def _schemaless(node: Any) -> Any:
    if isinstance(node, bool | str | int) or node is None:
        return node
    if isinstance(node, float | PyDecimal):
        return float(node) + 0.0  # Java's BigDecimal knows no -0.0
    if isinstance(node, list):
        return [_schemaless(element) for element in node]
    if isinstance(node, dict):
        return {name: _schemaless(element) for name, element in node.items()}
    return None  # MISSING


def _exact(node: Any) -> Any:
    """Works as `_schemaless`, but a fraction that Java would round is a Decimal."""
    if isinstance(node, PyDecimal):
        double = float(node)
        return double + 0.0 if PyDecimal(repr(double)) == node else node
    if isinstance(node, list):
        return [_exact(element) for element in node]
    if isinstance(node, dict):
        return {name: _exact(element) for name, element in node.items()}
    return _schemaless(node)


def _elements(node: Any) -> list[Any]:
    """What Java sees when it iterates a node: elements, the values of members, nothing for the rest."""
    if isinstance(node, list):
        return node
    return list(node.values()) if isinstance(node, dict) else []


def _wrap(value: int, bits: int) -> int:
    """The low bits as a signed number: Java's narrowing."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# Floats below are all the digits of a whole number
_EXACT_FLOATS = 1 << 53


def _integer(bits: int) -> Callable[[Any], int]:
    def read(node: Any) -> int:
        if isinstance(node, bool) or not isinstance(node, int | float | PyDecimal):
            return 0
        # 10 ** 64 is a multiple of 2 ** 64; to write out 1e99999999 would take minutes, in Java it takes no time
        if isinstance(node, PyDecimal) and int(node.as_tuple().exponent) >= 64:
            return 0
        if isinstance(node, float) and abs(node) >= _EXACT_FLOATS:
            raise InexactError
        whole = int(node)
        return _wrap(_wrap(whole, 64) if bits == 64 else _wrap(whole, 32), bits)

    return read


def _double(node: Any) -> float:
    if isinstance(node, bool) or not isinstance(node, int | float | PyDecimal):
        return 0.0
    try:
        return float(node) + 0.0  # as above
    except OverflowError:  # an int out of range
        return float("inf") if node > 0 else float("-inf")


def _single(node: Any) -> float:
    if isinstance(node, bool) or not isinstance(node, int | float | PyDecimal):
        return 0.0
    return single_precision(PyDecimal(node) if isinstance(node, int) else node) + 0.0


def _binary(node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    try:
        return read_base64(node)
    except ValueError as error:
        raise DataError("Invalid bytes field") from error


def _decimal(schema: Schema, node: Any) -> PyDecimal:
    if isinstance(node, int | float | PyDecimal) and not isinstance(node, bool):
        return PyDecimal(repr(node)) if isinstance(node, float) else PyDecimal(node)
    if isinstance(node, str):
        try:
            return Decimal.to_logical(schema, read_base64(node))
        except (ValueError, DataError) as error:
            raise DataError("Invalid bytes for Decimal field") from error
    raise DataError(
        f"Invalid type for Decimal, underlying representation should be numeric or bytes but was {node_type(node)}"
    )


def _date_like(kind: Any, name: str) -> Callable[[Schema, Any], Any]:
    def read(schema: Schema, node: Any) -> Any:
        if isinstance(node, bool) or not isinstance(node, int) or not -(1 << 31) <= node < 1 << 31:
            raise DataError(
                f"Invalid type for {name}, underlying representation should be integer but was {node_type(node)}"
            )
        return kind.to_logical(schema, node)

    return read


def _timestamp(schema: Schema, node: Any) -> Any:
    if isinstance(node, bool) or not isinstance(node, int):
        raise DataError(
            f"Invalid type for Timestamp, underlying representation should be integral but was {node_type(node)}"
        )
    return Timestamp.to_logical(schema, _wrap(node, 64))


_PRIMITIVES: dict[Type, Callable[[Any], Any]] = {
    Type.INT8: _integer(8),
    Type.INT16: _integer(16),
    Type.INT32: _integer(32),
    Type.INT64: _integer(64),
    Type.FLOAT32: _single,
    Type.FLOAT64: _double,
    Type.BOOLEAN: lambda node: node is True,
    Type.STRING: lambda node: node if isinstance(node, str) else None,
    Type.BYTES: _binary,
}

_LOGICAL: dict[str, Callable[[Schema, Any], Any]] = {
    Decimal.LOGICAL_NAME: _decimal,
    Date.LOGICAL_NAME: _date_like(Date, "Date"),
    Time.LOGICAL_NAME: _date_like(Time, "Time"),
    Timestamp.LOGICAL_NAME: _timestamp,
}
