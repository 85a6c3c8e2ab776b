"""HeaderFrom: fields of the key or value as headers, copied or moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    DataError,
    Header,
    Headers,
    RecordBatch,
    Schema,
    Struct,
    Transformation,
    Type,
)
from kconnect.api.columns import values_of
from kconnect.builtin.transforms.field_path import NESTED, SYNTAX_VERSION_CONFIG, FieldPath, with_syntax_version
from kconnect.builtin.transforms.record_part import (
    REPLACE_NULL_CONFIG,
    Part,
    SchemaMemory,
    kept_child,
    require_map,
    require_struct,
    struct_like,
    with_replace_null,
)
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

FIELDS_CONFIG, HEADERS_CONFIG, OPERATION_CONFIG = "fields", "headers", "operation"
MOVE, COPY = "move", "copy"


class _NonEmptyList:
    """Source: o.a.k.connect.transforms.util.NonEmptyListValidator."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if not value:
            raise ConfigError.invalid(name, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


CONFIG = with_syntax_version(
    with_replace_null(
        ConfigDef()
        .define(
            FIELDS_CONFIG,
            ConfigDef.Type.LIST,
            ConfigDef.NO_DEFAULT,
            _NonEmptyList(),
            ConfigDef.Importance.HIGH,
            "Fields whose values become headers.",
        )
        .define(
            HEADERS_CONFIG,
            ConfigDef.Type.LIST,
            ConfigDef.NO_DEFAULT,
            _NonEmptyList(),
            ConfigDef.Importance.HIGH,
            "Names of the headers, in the order of the fields.",
        )
        .define(
            OPERATION_CONFIG,
            ConfigDef.Type.STRING,
            ConfigDef.NO_DEFAULT,
            ConfigDef.ValidString.in_(MOVE, COPY),
            ConfigDef.Importance.HIGH,
            "With move the fields are taken out of the key or value, with copy they stay.",
        )
    )
)


class _HeaderFrom(Part, Transformation):
    """Source: o.a.k.connect.transforms.HeaderFrom (Kafka 4.3).

    Differs: a field that the schema does not have is named; Java fails with a NullPointerException.
    """

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        names: list[str] = config[HEADERS_CONFIG]
        if len(names) != len(config[FIELDS_CONFIG]):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        paths = [FieldPath(field, config[SYNTAX_VERSION_CONFIG]) for field in config[FIELDS_CONFIG]]
        self._fields = list(zip(paths, names, strict=True))
        self._operation: str = config[OPERATION_CONFIG]
        self._replace_null: bool = config[REPLACE_NULL_CONFIG]
        self._removal = FieldRemoval(paths, replace_null=self._replace_null)
        self._schemas = SchemaMemory(self._removal.schema)

    def apply(self, record: R) -> R:
        schema, value = self._schema(record), self._value(record)
        headers = record.headers.duplicate() if record.has_headers else Headers()
        purpose, is_move = f"header {self._operation}", self._operation == MOVE
        if schema is None:
            items = require_map(value, purpose)
            for path, name in self._fields:
                headers.add(name, path.value_in_map(items))
            left = self._removal.map(items) if is_move else dict(items)
            return self._replace(record, None, left).new_record(headers=headers)
        struct = require_struct(value, purpose)
        updated = self._schemas.changed(schema) if is_move else schema
        for path, name in self._fields:
            inner = _field_schema(path, schema)
            headers.add(name, path.value_in_struct(struct, with_default=self._replace_null), inner)
        moved = self._removal.struct(struct, updated) if is_move else struct
        return self._replace(record, updated, moved).new_record(headers=headers)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """Headers are made from the fields' columns; the other columns are not copied."""
        schema, column = self._schema(batch), self._column(batch)
        if schema is None or schema.type is not Type.STRUCT or column is None or column.null_count:
            return NotImplemented
        made = [self._header_column(schema, column, path, name) for path, name in self._fields]
        if any(each is None for each in made):
            return NotImplemented
        added = zip(*(each for each in made if each is not None), strict=True)
        given = batch.headers
        if given is None:
            headers = [Headers(row) for row in added]
        else:
            headers = [Headers([*before, *row]) for before, row in zip(given, added, strict=True)]
        if self._operation == COPY:
            return batch.with_(headers=headers)
        updated = self._schemas.changed(schema)
        left = self._removal.column(schema, updated, column)
        if left is None:
            return NotImplemented
        return self._replace_column(batch, updated, left).with_(headers=headers)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _header_column(self, schema: Schema, column: pa.Array, path: FieldPath, name: str) -> list[Header] | None:
        field = path.field(schema)
        found = None if field is None else path.column(schema, column, with_default=self._replace_null)
        if field is None or found is None or (found.null_count and not field.schema.is_optional):
            return None
        inner = field.schema
        return [Header(name, value, inner) for value in values_of(inner, found, len(found))]


class HeaderFromKey(_HeaderFrom):
    """`org.apache.kafka.connect.transforms.HeaderFrom$Key`."""

    PART: ClassVar[str] = "key"


class HeaderFromValue(_HeaderFrom):
    """`org.apache.kafka.connect.transforms.HeaderFrom$Value`."""

    PART: ClassVar[str] = "value"


def _field_schema(path: FieldPath, schema: Schema) -> Schema:
    field = path.field(schema)
    if field is None:
        raise DataError(f"Field does not exist: {path.text}")
    return field.schema


Tree = dict[str, Any]  # of a field's name: the Tree of what goes below it; empty for a field that goes itself


class FieldRemoval:
    """Takes fields, at any depth, out of schemas, structs, maps and columns.

    Fields that are not there are no error. A struct that loses all its fields stays, without fields.
    """

    def __init__(self, paths: Iterable[FieldPath], *, replace_null: bool) -> None:
        self._replace_null = replace_null
        self._tree: Tree = {}
        for path in sorted(paths, key=lambda path: len(path.steps)):
            _grow(self._tree, path.steps)

    def schema(self, schema: Schema) -> Schema:
        """The schema without the fields. The outermost struct is required and has no default, as in Java."""
        return _schema(schema, self._tree)

    def struct(self, struct: Struct, updated: Schema) -> Struct:
        """The struct without the fields; `updated` is what `schema` gave for its schema."""
        return _struct(struct, updated, self._tree, self._replace_null)

    def map(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """The map without the fields."""
        return _map(value, self._tree)

    def column(self, schema: Schema, updated: Schema, column: pa.Array) -> pa.Array | None:
        """The column of structs without the fields, none null; None when only records can tell what is right."""
        return _column(schema, updated, column, self._tree, self._replace_null)


def _grow(tree: Tree, steps: tuple[str, ...]) -> None:
    for step in steps[:-1]:
        if step in tree and not tree[step]:
            return  # what holds it goes as a whole
        tree = tree.setdefault(step, {})
    tree[steps[-1]] = {}


def _schema(schema: Schema, tree: Tree) -> Schema:
    builder = struct_like(schema)
    for field in schema.fields:
        below = tree.get(field.name)
        if below is None:
            builder.field(field.name, field.schema)
        elif below:
            inner = _schema(field.schema, below)
            builder.field(field.name, _optional(inner) if field.schema.is_optional else inner)
    return builder.build()


def _optional(schema: Schema) -> Schema:
    builder = struct_like(schema).optional()
    for field in schema.fields:
        builder.field(field.name, field.schema)
    return builder.build()


def _struct(struct: Struct, updated: Schema, tree: Tree, replace_null: bool) -> Struct:
    made = Struct(updated)
    for field in updated.fields:
        value = struct.get(field.name) if replace_null else struct.get_without_default(field.name)
        below = tree.get(field.name)
        if below and value is not None:
            value = _struct(require_struct(value, NESTED), field.schema, below, False)
        made.put(field, value)
    return made


def _map(value: dict[Any, Any], tree: Tree) -> dict[Any, Any]:
    made = dict(value)
    for name, below in tree.items():
        if not below:
            made.pop(name, None)
        elif made.get(name) is not None:
            made[name] = _map(require_map(made[name], NESTED), below)
    return made


def _column(schema: Schema, updated: Schema, column: pa.Array, tree: Tree, replace_null: bool) -> pa.Array | None:
    import pyarrow as pa

    children, kept = column.flatten(), []
    for field in updated.fields:
        old = schema.field(field.name)
        if old is None:
            return None
        child, below = children[old.index], tree.get(field.name)
        if column.null_count == 0:
            child = kept_child(old.schema, child, replace_null)
        if child is not None and below:
            is_struct = old.schema.type is Type.STRUCT
            child = _column(old.schema, field.schema, child, below, False) if is_struct else None
        if child is None:
            return None
        kept.append(child)
    if not kept:
        return None
    fields = [pa.field(field.name, child.type) for field, child in zip(updated.fields, kept, strict=True)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(kept, fields=fields, mask=mask)
