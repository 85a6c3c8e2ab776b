"""The description of data (Field, Schema) and values that carry their schema (Struct, SchemaAndValue).

Imported by everything that touches a record. Schemas are built with `SchemaBuilder` (schema_builder.py); the logical
types Decimal, Date, Time and Timestamp are named schemas over plain types (logical.py). Type is in schema_types.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, cast

from kconnect.api.schema_types import INT_BITS, LOGICAL_CHECKS, TYPE_CHECKS, Type
from kconnect.errors import DataError


class Field:
    """One field of a STRUCT schema: its name, index and schema. Immutable. Source: o.a.k.connect.data.Field."""

    __slots__ = ("index", "name", "schema")

    name: str
    index: int
    schema: Schema

    def __init__(self, name: str, index: int, schema: Schema) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "index", index)
        put(self, "schema", schema)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A Field is immutable: cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Field):
            return NotImplemented
        return self.index == other.index and self.name == other.name and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.name, self.index, self.schema))

    def __repr__(self) -> str:
        return f"Field{{name={self.name}, index={self.index}, schema={self.schema}}}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Field, (self.name, self.index, self.schema)


class Schema:
    """Describes data: type, whether it may be None, default, and the contents of a STRUCT, MAP or ARRAY. Immutable.

    Build one with `SchemaBuilder`, or take a ready one: `Schema.STRING_SCHEMA`, `Schema.OPTIONAL_INT64_SCHEMA`, ...
    Equal when all parts are equal; hash and equality are cheap, and one schema object should be kept for all records
    that share it: converters and transforms cache their results by schema object.

    Threads: safe to share. Errors: none from construction; `SchemaBuilder` validates.
    Source: o.a.k.connect.data.Schema, ConnectSchema.
    """

    __slots__ = (
        "__weakref__",
        "_by_name",
        "_check",
        "_fields",
        "_hash",
        "_key_schema",
        "_value_schema",
        "default",
        "doc",
        "is_optional",
        "name",
        "parameters",
        "type",
        "version",
    )

    type: Type
    is_optional: bool
    default: Any  # a value of this schema
    name: str | None
    version: int | None
    doc: str | None
    parameters: Mapping[str, str] | None

    INT8_SCHEMA: ClassVar[Schema]
    INT16_SCHEMA: ClassVar[Schema]
    INT32_SCHEMA: ClassVar[Schema]
    INT64_SCHEMA: ClassVar[Schema]
    FLOAT32_SCHEMA: ClassVar[Schema]
    FLOAT64_SCHEMA: ClassVar[Schema]
    BOOLEAN_SCHEMA: ClassVar[Schema]
    STRING_SCHEMA: ClassVar[Schema]
    BYTES_SCHEMA: ClassVar[Schema]
    OPTIONAL_INT8_SCHEMA: ClassVar[Schema]
    OPTIONAL_INT16_SCHEMA: ClassVar[Schema]
    OPTIONAL_INT32_SCHEMA: ClassVar[Schema]
    OPTIONAL_INT64_SCHEMA: ClassVar[Schema]
    OPTIONAL_FLOAT32_SCHEMA: ClassVar[Schema]
    OPTIONAL_FLOAT64_SCHEMA: ClassVar[Schema]
    OPTIONAL_BOOLEAN_SCHEMA: ClassVar[Schema]
    OPTIONAL_STRING_SCHEMA: ClassVar[Schema]
    OPTIONAL_BYTES_SCHEMA: ClassVar[Schema]

    def __init__(
        self,
        type: Type,
        is_optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[Field] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "type", type)
        put(self, "is_optional", is_optional)
        put(self, "default", default)
        put(self, "name", name)
        put(self, "version", version)
        put(self, "doc", doc)
        put(self, "parameters", None if parameters is None else MappingProxyType(dict(parameters)))
        put(self, "_fields", tuple(fields))
        put(self, "_by_name", {field.name: field for field in self._fields})
        put(self, "_key_schema", key_schema)
        put(self, "_value_schema", value_schema)
        put(self, "_check", LOGICAL_CHECKS.get(name or "") or _CHECKS[type])
        put(self, "_hash", None)

    # The four slots below are typed here because they are set past __setattr__.
    _fields: tuple[Field, ...]
    _by_name: dict[str, Field]
    _key_schema: Schema | None
    _value_schema: Schema | None
    _check: Callable[[Any], bool]
    _hash: int | None

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of a STRUCT in order. Errors: DataError for any other type."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        return self._fields

    def field(self, name: str) -> Field | None:
        """The field of that name, or None if the STRUCT has none. Errors: DataError for any other type."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    @property
    def key_schema(self) -> Schema | None:
        """Schema of the keys of a MAP. Errors: DataError for any other type."""
        if self.type is not Type.MAP:
            raise DataError("Cannot look up key schema on non-map type")
        return self._key_schema

    @property
    def value_schema(self) -> Schema | None:
        """Schema of the values of a MAP or the elements of an ARRAY. Errors: DataError for any other type."""
        if self.type is not Type.MAP and self.type is not Type.ARRAY:
            raise DataError("Cannot look up value schema on non-array and non-map type")
        return self._value_schema

    def validate_value(self, value: Any, field: str | None = None) -> None:
        """Check that a value matches this schema, recursively; `field` is only for the message.

        Errors: DataError with the expected type, the actual one, and the field.
        Source: ConnectSchema.validateValue. Differs: int ranges are checked here, as Python has one int; the Python
            class is named where Java names its own.
        """
        _validate(self, value, "value" if field is None else f'field: "{field}"')

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A Schema is immutable: cannot set {name}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        if hash(self) != hash(other):
            return False
        return (
            self.type is other.type
            and self.is_optional == other.is_optional
            and self.name == other.name
            and self.version == other.version
            and self.doc == other.doc
            and self.parameters == other.parameters
            and self._fields == other._fields
            and self._key_schema == other._key_schema
            and self._value_schema == other._value_schema
            and self.default == other.default
        )

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            parts = (self.type.value, self.is_optional, self.name, self.version, self.doc)
            known = hash((*parts, self._fields, self._key_schema, self._value_schema))
            object.__setattr__(self, "_hash", known)
        return known

    def __repr__(self) -> str:
        return f"Schema{{{self.type}}}" if self.name is None else f"Schema{{{self.name}:{self.type}}}"

    def __copy__(self) -> Schema:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Schema:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        parameters = None if self.parameters is None else dict(self.parameters)
        head = (self.type, self.is_optional, self.default, self.name, self.version, self.doc, parameters)
        return Schema, (*head, self._fields, self._key_schema, self._value_schema)


class Struct:
    """A value of a STRUCT schema: named fields, each validated by `put`.

    A field that was never put is None; `get` and `[]` then return the field's default. `validate()` finds missing
    required fields; converters call it before a record leaves.

    Threads: not safe to change from two threads. Errors: DataError for an unknown field or a value that does not match.
    Source: o.a.k.connect.data.Struct.
    """

    __slots__ = ("_values", "schema")

    schema: Schema

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema._fields)
        for name, value in (values or {}).items():
            self.put(name, value)

    @classmethod
    def from_values(cls, schema: Schema, values: list[Any]) -> Struct:
        """A struct over values in the order of the fields, unchecked: for converters that built them from the schema.

        Shape: one value per field, None if absent; the list is kept, not copied.
        """
        struct = object.__new__(cls)
        struct.schema = schema
        struct._values = values
        return struct

    def put(self, field: str | Field, value: Any) -> Struct:
        """Set a field and give the struct back, so that puts chain. Errors: DataError when the value does not fit."""
        found = field if isinstance(field, Field) else self._lookup(field)
        schema = found.schema
        # Valid plain values take the fast path; all others go through the check that produces the error.
        if value is None or not schema.type.is_primitive or not schema._check(value):
            schema.validate_value(value, found.name)
        self._values[found.index] = value
        return self

    def get(self, field: str | Field) -> Any:
        """The field's value, or its default if it was not put. Errors: DataError for an unknown field."""
        found = field if isinstance(field, Field) else self._lookup(field)
        value = self._values[found.index]
        return found.schema.default if value is None else value

    def get_without_default(self, field: str | Field) -> Any:
        """The field's value as it was put, None if it was not. Errors: DataError for an unknown field."""
        found = field if isinstance(field, Field) else self._lookup(field)
        return self._values[found.index]

    def get_int8(self, field: str) -> int | None:
        """Works as `get_without_default`, for an INT8 field. Errors: DataError, also for a field of another type."""
        return cast("int | None", self._of_type(field, Type.INT8))

    def get_int16(self, field: str) -> int | None:
        """Works as `get_int8`, for an INT16 field."""
        return cast("int | None", self._of_type(field, Type.INT16))

    def get_int32(self, field: str) -> int | None:
        """Works as `get_int8`, for an INT32 field."""
        return cast("int | None", self._of_type(field, Type.INT32))

    def get_int64(self, field: str) -> int | None:
        """Works as `get_int8`, for an INT64 field."""
        return cast("int | None", self._of_type(field, Type.INT64))

    def get_float32(self, field: str) -> float | None:
        """Works as `get_int8`, for a FLOAT32 field."""
        return cast("float | None", self._of_type(field, Type.FLOAT32))

    def get_float64(self, field: str) -> float | None:
        """Works as `get_int8`, for a FLOAT64 field."""
        return cast("float | None", self._of_type(field, Type.FLOAT64))

    def get_boolean(self, field: str) -> bool | None:
        """Works as `get_int8`, for a BOOLEAN field."""
        return cast("bool | None", self._of_type(field, Type.BOOLEAN))

    def get_string(self, field: str) -> str | None:
        """Works as `get_int8`, for a STRING field."""
        return cast("str | None", self._of_type(field, Type.STRING))

    def get_bytes(self, field: str) -> bytes | None:
        """Works as `get_int8`, for a BYTES field."""
        return cast("bytes | None", self._of_type(field, Type.BYTES))

    def get_array(self, field: str) -> list[Any] | None:
        """Works as `get_int8`, for an ARRAY field."""
        return cast("list[Any] | None", self._of_type(field, Type.ARRAY))

    def get_map(self, field: str) -> dict[Any, Any] | None:
        """Works as `get_int8`, for a MAP field."""
        return cast("dict[Any, Any] | None", self._of_type(field, Type.MAP))

    def get_struct(self, field: str) -> Struct | None:
        """Works as `get_int8`, for a STRUCT field."""
        return cast("Struct | None", self._of_type(field, Type.STRUCT))

    def _of_type(self, name: str, wanted: Type) -> object:
        """Source: Struct#getCheckType: the value as it was put, without the default."""
        field = self._lookup(name)
        if field.schema.type is not wanted:
            raise DataError(f"Field '{name}' is not of type {wanted}")
        return self._values[field.index]

    def validate(self) -> None:
        """Check every field. Errors: DataError that names the first field that is missing or does not fit."""
        for field, value in zip(self.schema._fields, self._values, strict=True):
            if value is None and (field.schema.is_optional or field.schema.default is not None):
                continue
            field.schema.validate_value(value, field.name)

    def _lookup(self, name: str) -> Field:
        field = self.schema._by_name.get(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.put(name, value)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self._values == other._values

    def __hash__(self) -> int:
        return hash((self.schema, _hashable(self._values)))

    def __repr__(self) -> str:
        named = zip(self.schema._fields, self._values, strict=True)
        return "Struct{" + ",".join(f"{field.name}={value}" for field, value in named if value is not None) + "}"


class SchemaAndValue:
    """A value with its schema; the schema is None for schemaless data. Treat as immutable.

    A plain slots class, as converters make one for each record. `schema, value = converted` unpacks it.
    Source: o.a.k.connect.data.SchemaAndValue.
    """

    __slots__ = ("schema", "value")
    __match_args__ = ("schema", "value")

    NULL: ClassVar[SchemaAndValue]

    def __init__(self, schema: Schema | None, value: Any) -> None:
        self.schema = schema
        self.value = value

    def __iter__(self) -> Any:  # Iterator[Schema | None | value]: no narrower type helps callers that unpack
        return iter((self.schema, self.value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SchemaAndValue):
            return NotImplemented
        return self.schema == other.schema and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.schema, _hashable(self.value)))

    def __repr__(self) -> str:
        return f"SchemaAndValue{{schema={self.schema}, value={self.value}}}"


def _validate(schema: Schema, value: Any, location: str) -> None:
    """The recursive part of `Schema.validate_value`."""
    if value is None:
        if not schema.is_optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type}")
        return
    if not schema._check(value):
        raise DataError(_misfit(schema, value, location))
    if schema.type is Type.STRUCT:
        if value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif schema.type is Type.ARRAY:
        place = f"element of array {location}"
        element_schema = _given(schema._value_schema, place)
        for element in value:
            _validate(element_schema, element, place)
    elif schema.type is Type.MAP:
        key_place, value_place = f"key of map {location}", f"value of map {location}"
        key_schema = _given(schema._key_schema, key_place)
        value_schema = _given(schema._value_schema, value_place)
        for key, item in value.items():
            _validate(key_schema, key, key_place)
            _validate(value_schema, item, value_place)


def _given(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema


def _misfit(schema: Schema, value: Any, location: str) -> str:
    named = "" if schema.name is None else f' "{schema.name}"'
    message = f"Invalid Python object for schema{named} with type {schema.type}: {type(value).__name__} for {location}"
    bits = INT_BITS.get(schema.type)
    if bits is not None and isinstance(value, int) and not isinstance(value, bool):
        message += f" ({value} does not fit in {bits} bits)"
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        message += " (the datetime has no time zone; use an aware one, such as datetime.now(timezone.utc))"
    return message


def _hashable(value: Any) -> Any:
    """Any Connect value in a hashable form; equal values give equal results."""
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    return value


# The kinds and their checks; a struct is one only here, as Struct needs Schema.
_CHECKS: Mapping[Type, Callable[[Any], bool]] = {**TYPE_CHECKS, Type.STRUCT: lambda value: isinstance(value, Struct)}

for _type in (kind for kind in Type if kind.is_primitive):
    setattr(Schema, f"{_type.name}_SCHEMA", Schema(_type))
    setattr(Schema, f"OPTIONAL_{_type.name}_SCHEMA", Schema(_type, is_optional=True))
SchemaAndValue.NULL = SchemaAndValue(None, None)
