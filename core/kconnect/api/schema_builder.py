"""SchemaBuilder: how schemas are put together, checked at each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.api.schema import Field, Schema
from kconnect.api.schema_types import Type
from kconnect.errors import DataError, SchemaBuilderError


class SchemaBuilder:
    """Puts a Schema together in chained calls, ended by `build()`.

        SchemaBuilder.struct().name("order").field("id", Schema.INT64_SCHEMA).field("note", SchemaBuilder.string()
            .optional()).build()

    Wherever a schema is expected inside (`field`, `array`, `map`) a builder is accepted too, and built immediately.
    `optional`, `default`, `name`, `version` and `doc` may be set once; a second, different value is an error.

    Threads: one. Errors: SchemaBuilderError.
    Source: o.a.k.connect.data.SchemaBuilder.
    """

    def __init__(self, type: Type) -> None:
        if not isinstance(type, Type):
            raise SchemaBuilderError("type cannot be null", hint="Pass a kconnect.api.Type, such as Type.STRUCT.")
        self._type = type
        self._optional: bool | None = None
        self._default: Any = None
        self._name: str | None = None
        self._version: int | None = None
        self._doc: str | None = None
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, Field] = {}
        self._key_schema: Schema | None = None
        self._value_schema: Schema | None = None

    @classmethod
    def type(cls, type: Type) -> SchemaBuilder:
        """A builder for any type; for ARRAY and MAP prefer `array` and `map`, which take the inner schemas."""
        return cls(type)

    @classmethod
    def int8(cls) -> SchemaBuilder:
        """A builder for 8-bit integers."""
        return cls(Type.INT8)

    @classmethod
    def int16(cls) -> SchemaBuilder:
        """A builder for 16-bit integers."""
        return cls(Type.INT16)

    @classmethod
    def int32(cls) -> SchemaBuilder:
        """A builder for 32-bit integers."""
        return cls(Type.INT32)

    @classmethod
    def int64(cls) -> SchemaBuilder:
        """A builder for 64-bit integers."""
        return cls(Type.INT64)

    @classmethod
    def float32(cls) -> SchemaBuilder:
        """A builder for single-precision floats."""
        return cls(Type.FLOAT32)

    @classmethod
    def float64(cls) -> SchemaBuilder:
        """A builder for double-precision floats, Python's own."""
        return cls(Type.FLOAT64)

    @classmethod
    def bool(cls) -> SchemaBuilder:
        """A builder for booleans."""
        return cls(Type.BOOLEAN)

    @classmethod
    def string(cls) -> SchemaBuilder:
        """A builder for text."""
        return cls(Type.STRING)

    @classmethod
    def bytes(cls) -> SchemaBuilder:
        """A builder for bytes."""
        return cls(Type.BYTES)

    @classmethod
    def struct(cls) -> SchemaBuilder:
        """A builder for a struct; add its fields with `field`."""
        return cls(Type.STRUCT)

    @classmethod
    def array(cls, value_schema: Schema | SchemaBuilder) -> SchemaBuilder:
        """A builder for a list whose elements have the given schema."""
        builder = cls(Type.ARRAY)
        builder._value_schema = _built(value_schema, "valueSchema cannot be null.")
        return builder

    @classmethod
    def map(cls, key_schema: Schema | SchemaBuilder, value_schema: Schema | SchemaBuilder) -> SchemaBuilder:
        """A builder for a dict whose keys and values have the given schemas."""
        builder = cls(Type.MAP)
        builder._key_schema = _built(key_schema, "keySchema cannot be null.")
        builder._value_schema = _built(value_schema, "valueSchema cannot be null.")
        return builder

    def field(self, name: str, schema: Schema | SchemaBuilder) -> SchemaBuilder:
        """Add a field to a struct. Errors: SchemaBuilderError if the name is empty or taken, or this is not a
        struct.
        """
        if self._type is not Type.STRUCT:
            raise SchemaBuilderError(f"Cannot create fields on type {self._type}")
        if not name:
            place = f"the one after {list(self._fields)[-1]}" if self._fields else "the first"
            raise SchemaBuilderError(f"fieldName cannot be null. A field of a struct needs a name; {place} has none")
        built = _built(schema, f"fieldSchema for field {name} cannot be null.")
        if name in self._fields:
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {name}")
        self._fields[name] = Field(name, len(self._fields), built)
        return self

    def optional(self) -> SchemaBuilder:
        """Values may be None."""
        _check_once("optional", self._optional, True)
        self._optional = True
        return self

    def required(self) -> SchemaBuilder:
        """Values may not be None; the default unless `optional()` is called."""
        _check_once("optional", self._optional, False)
        self._optional = False
        return self

    def default(self, value: Any) -> SchemaBuilder:
        """The value used if there is none. Call it after all methods that determine the type."""
        _check_once("default", self._default, value)
        try:
            self.build().validate_value(value)
        except DataError as err:
            raise SchemaBuilderError("Invalid default value") from err
        self._default = value
        return self

    def name(self, name: str | None) -> SchemaBuilder:
        """The schema's name, by convention dotted and global, such as `com.example.Order`."""
        _check_once("name", self._name, name)
        self._name = name
        return self

    def version(self, version: int | None) -> SchemaBuilder:
        """The schema's version."""
        _check_once("version", self._version, version)
        self._version = version
        return self

    def doc(self, doc: str | None) -> SchemaBuilder:
        """A description of the data for human readers."""
        _check_once("doc", self._doc, doc)
        self._doc = doc
        return self

    def parameter(self, key: str, value: str) -> SchemaBuilder:
        """Set one parameter, as logical types use them; an earlier value of that key is replaced."""
        self._parameters = {**(self._parameters or {}), key: value}
        return self

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        """Set several parameters; an empty mapping changes nothing."""
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def build(self) -> Schema:
        """The schema built so far; the builder can be changed and built again."""
        return Schema(
            self._type,
            bool(self._optional),
            self._default,
            self._name,
            self._version,
            self._doc,
            self._parameters,
            self._fields.values(),
            self._key_schema,
            self._value_schema,
        )


def _built(schema: Schema | SchemaBuilder | None, refusal: str) -> Schema:
    if isinstance(schema, SchemaBuilder):
        return schema.build()
    if not isinstance(schema, Schema):
        raise SchemaBuilderError(refusal)
    return schema


def _check_once(what: str, present: object, wanted: object) -> None:
    if present is not None and (type(present) is not type(wanted) or present != wanted):
        raise SchemaBuilderError(f"Invalid SchemaBuilder call: {what} has already been set.")
