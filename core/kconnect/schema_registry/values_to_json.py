"""Connect values to JSON. Source: io.confluent.connect.json.JsonSchemaData.fromConnectData."""

from __future__ import annotations

import base64
import decimal
from collections.abc import Callable, Mapping
from typing import Any, Final

from kconnect.api import DataError, Date, Decimal, Schema, Struct, Time, Timestamp, Type
from kconnect.api.schema_types import LOGICAL_CHECKS, TYPE_CHECKS
from kconnect.java_compat.jackson import jackson_text, quote, write_double, write_float
from kconnect.schema_registry.json_names import JsonOptions, has_text_keys, is_union

_WHOLE: Final[Mapping[str, Callable[[Schema, Any], int]]] = {
    Date.LOGICAL_NAME: Date.from_logical,
    Time.LOGICAL_NAME: Time.from_logical,
    Timestamp.LOGICAL_NAME: Timestamp.from_logical,
}


class JsonNumber(str):
    """A number as it is spelled in JSON."""

    __slots__ = ()


def json_text(schema: Schema, value: Any, options: JsonOptions) -> str | None:
    """The JSON of a value as Jackson writes it; None for null where the schema has no null. Errors: DataError."""
    node = _Nodes(options).of(schema, value)
    return None if node is _ABSENT else _text(node)


def plain_json(schema: Schema, value: Any, options: JsonOptions) -> Any:
    """A default as it stands in a JSON Schema; None for none."""
    if value is None:
        return None
    return _plain(_Nodes(options).of(schema, value))


_ABSENT: Final = object()


class _Nodes:
    def __init__(self, options: JsonOptions) -> None:
        self._options = options

    def of(self, schema: Schema, value: Any) -> Any:
        """None, bool, int, JsonNumber, str, list or dict; _ABSENT for null where there must be a value."""
        if value is None:
            if schema.default is not None and not self._options.ignore_default_for_nullables:
                return self.of(schema, schema.default)
            return None if schema.is_optional else _ABSENT
        check = LOGICAL_CHECKS.get(schema.name or "") or TYPE_CHECKS.get(schema.type)
        if check is not None and not check(value):
            schema.validate_value(value)
        return self._node(schema, value)

    def _node(self, schema: Schema, value: Any) -> Any:
        if schema.name == Decimal.LOGICAL_NAME:
            return self._decimal(schema, value)
        whole = _WHOLE.get(schema.name or "")
        if whole is not None:
            return whole(schema, value)
        kind = schema.type
        if kind is Type.FLOAT32:
            return JsonNumber(write_float(value))
        if kind is Type.FLOAT64:
            return JsonNumber(write_double(value))
        if kind is Type.BYTES:
            return base64.b64encode(value).decode()
        if kind is Type.ARRAY:
            assert schema.value_schema is not None
            element = schema.value_schema
            return [self._inside(element, each) for each in value]
        if kind is Type.MAP:
            return self._map(schema, value)
        if kind is Type.STRUCT:
            return self._struct(schema, value)
        return value

    def _decimal(self, schema: Schema, value: decimal.Decimal) -> Any:
        if self._options.numeric_decimals:
            return JsonNumber(str(value))
        return base64.b64encode(Decimal.from_logical(schema, value)).decode()

    def _inside(self, schema: Schema, value: Any) -> Any:
        node = self.of(schema, value)
        return None if node is _ABSENT else node

    def _map(self, schema: Schema, value: dict[Any, Any]) -> Any:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        keys, items = schema.key_schema, schema.value_schema
        if has_text_keys(schema):
            return {self._inside(keys, key): self._inside(items, item) for key, item in value.items()}
        return [{"key": self._inside(keys, key), "value": self._inside(items, item)} for key, item in value.items()]

    def _struct(self, schema: Schema, value: Any) -> Any:
        if not isinstance(value, Struct) or (value.schema is not schema and value.schema.fields != schema.fields):
            raise DataError("Mismatching schema.")
        own = self._options.ignore_default_for_nullables
        made: dict[str, Any] = {}
        for field in schema.fields:
            found = value.get_without_default(field.name) if own else value[field.name]
            if is_union(schema):
                if found is not None:
                    return self.of(field.schema, found)
                continue
            try:
                node = self.of(field.schema, found)
            except DataError as error:
                raise DataError(f"Field {field.name}: {error}") from error
            if node is not _ABSENT:
                made[field.name] = node
        if is_union(schema):
            return self.of(schema, None)
        return made


def _text(node: Any) -> str:
    if isinstance(node, JsonNumber):
        return str(node)
    if isinstance(node, str):
        return quote(node)
    if isinstance(node, dict):
        return "{" + ",".join(f"{quote(key)}:{_text(item)}" for key, item in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_text, node)) + "]"
    return jackson_text(node)


def _plain(node: Any) -> Any:
    """With numbers as Python has them, for a schema."""
    if isinstance(node, JsonNumber):
        return str(node)[1:-1] if node.startswith('"') else float(node)
    if isinstance(node, dict):
        return {key: _plain(item) for key, item in node.items()}
    if isinstance(node, list):
        return [_plain(item) for item in node]
    return node
