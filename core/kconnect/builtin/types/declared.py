"""`value.schema`: what values are declared to be, found and applied to records and to columns, with one result.

Begin with `declared_type`, which takes what people write, and `Declared`, which makes values of it.

`type_like` reads the columns of a table that is there: Parquet, Delta Lake, or Iceberg.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigError, DataError, Schema, Type
from kconnect.api.columns import arrow_type, column_of, values_of
from kconnect.builtin.types.column_type import Column, ColumnType, parse_ddl, schema_of
from kconnect.builtin.types.declarations import (
    CATALOG_TIMEOUT,
    CATALOG_TIMEOUT_MS,
    OF_TOPIC,
    catalog_settings,
    declarations,
)
from kconnect.builtin.types.fitting import NotFittingError, data_error
from kconnect.builtin.types.foreign_schemas import of_arrow, parse_json
from kconnect.builtin.types.leaf_columns import is_bytes, is_text, leaf
from kconnect.builtin.types.reading import Read, others_of, reader_of

if TYPE_CHECKING:
    import pyarrow as pa


_LIKE, _FILE = "like:", "file:"
_FILES: Final = (".avsc", ".json", ".sql", ".ddl")


def declared_type(text: str, settings: Mapping[str, str] | None = None) -> ColumnType:
    """The type that a setting declares: DDL, a file, JSON itself, or a table to be like.

    `settings`: as of `type_like`. Errors: ConfigError that says what is wrong, and where.
    """
    text = text.strip()
    if text.startswith(_LIKE):
        return type_like(text.removeprefix(_LIKE).strip(), settings or {})
    if text.startswith(_FILE) or (text.endswith(_FILES) and not any(sign in text for sign in "{<,\n")):
        return _of_file(Path(text.removeprefix(_FILE).removeprefix("//")))
    return parse_json(text) if text.startswith("{") else parse_ddl(text)


def _of_file(path: Path) -> ColumnType:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    try:
        return parse_json(text) if text.startswith("{") else parse_ddl(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}", hint=error.hint) from error


def problems(settings: Mapping[str, Any], *, is_sink: bool) -> list[tuple[str, str]]:
    """What is wrong with a connector's declarations: pairs of setting and message."""
    found: list[tuple[str, str]] = []
    types: dict[str, ColumnType] = {}
    for name, text in declarations(settings, is_sink=is_sink).items():
        try:
            types[name] = declared_type(text, settings)
        except ConfigError as error:
            found.append((name, f"{error}. {error.hint or ''}".rstrip()))
    whole = [name for name in types if not name.startswith(OF_TOPIC)]
    for name in whole[1:]:
        if types[name] != types[whole[0]]:
            message = f"{whole[0]} and {name} declare different schemas"
            what = difference(types, whole[0], name)
            found += [(one, f"{message}: {what}. Leave one of them out") for one in (whole[0], name)]
    return found


def difference(types: Mapping[str, ColumnType], one: str, other: str) -> str:
    """The first column in which two declarations differ; `types`: by the names of the settings."""
    ours, theirs = ({column.name: column for column in types[name].columns} for name in (one, other))
    for name in [*ours, *theirs]:
        mine, yours = ours.get(name), theirs.get(name)
        if mine is None or yours is None:
            return f"column {name} is in {other if mine is None else one} alone"
        if mine.type != yours.type:
            return f"{name} is {mine.type} in {one} and {yours.type} in {other}"
        if mine.is_required != yours.is_required:
            return f"{name} is NOT NULL in {one if mine.is_required else other} alone"
    return f"{types[one]} in {one} and {types[other]} in {other}"


class Declared:
    """Values made to be of one declared type. Threads: one.

    `is_fine`: as of `schema_of`. `note`: called with the name of each field that values have and the type has not, once
    for a name; such fields are left out.
    """

    def __init__(self, kind: ColumnType, *, is_fine: bool = False, note: Callable[[str], object] | None = None) -> None:
        self.kind = kind
        self.schema = schema_of(kind, is_fine=is_fine)
        self._names = frozenset(column.name for column in kind.columns)
        self._note = note
        self._noted: set[str] = set()
        self._readers: dict[int, tuple[Schema | None, Read]] = {}

    def value(self, given: Schema | None, value: Any) -> Any:
        """A value, of the schema `given` or of none, as one of `schema`. Errors: DataError that names the column."""
        if value is None:
            return None
        known = self._readers.get(id(given))
        if known is None:
            if len(self._readers) > _MOST_READERS:
                self._readers.clear()
            known = self._readers[id(given)] = (given, reader_of(self.kind, self.schema, given))
            if given is not None and given.type is Type.STRUCT:
                self._see([field.name for field in given.fields])
        if given is None and isinstance(value, Mapping) and not value.keys() <= self._names:
            self._see(value)
        try:
            return known[1](value)
        except NotFittingError as error:
            raise data_error(error) from None  # which says all of it, without one error a level

    def column(self, given: Schema | None, column: pa.Array) -> pa.Array | None:
        """A column of such values; None where single values must be looked at, because one does not fit."""
        import pyarrow as pa

        if pa.types.is_struct(column.type):
            self._see([field.name for field in column.type])
        try:
            return _column(self.kind, self.schema, given, column, None)
        except (NotFittingError, DataError, pa.ArrowException, ValueError, TypeError, OverflowError):
            return None

    def _see(self, names: Iterable[str]) -> None:
        if self.kind.name != "struct" or self._note is None:
            return
        for name in others_of(self.kind, list(names)):
            if name not in self._noted and len(self._noted) < _MOST_NOTES:
                self._noted.add(name)
                self._note(name)


# Values whose schema is new each time must not fill the memory, nor the log
_MOST_READERS: Final = 100
_MOST_NOTES: Final = 100


def read_column(kind: ColumnType, schema: Schema, given: Schema | None, column: pa.Array) -> pa.Array:
    """A column of values of `given` as one of the type, whose schema is `schema`. Errors: as `Declared.column`."""
    made = _column(kind, schema, given, column, None)
    assert made is not None, "only the metadata of a field without schema says what its column does not"
    return made


def _column(
    kind: ColumnType, schema: Schema, given: Schema | None, column: pa.Array, field: pa.Field | None
) -> pa.Array | None:
    """A column of the type, by Arrow where its rules are ours, else value by value. Errors: as of `Declared.column`."""
    import pyarrow as pa

    wanted = arrow_type(schema)
    if pa.types.is_null(column.type) or column.null_count == len(column):
        return pa.nulls(len(column), wanted)
    if kind.name == "struct" and pa.types.is_struct(column.type):
        return _struct_column(kind, schema, given, column)
    if kind.name == "array" and pa.types.is_list(column.type):
        return _list_column(kind, schema, given, column)
    made = _by_arrow(kind, given, column, wanted) if given is None or given.name not in _NAMED_UNITS else None
    if made is not None:
        return made
    if field is not None and field.metadata and kind.name in ("string", "varchar", "char", "json", "variant"):
        return None  # the field's metadata says which numbers were whole
    read = reader_of(kind, schema, given)
    values = values_of(given, column, len(column))
    return column_of(schema, [None if value is None else read(value) for value in values])


def _struct_column(
    kind: ColumnType, schema: Schema, given: Schema | None, column: pa.StructArray
) -> pa.StructArray | None:
    import pyarrow as pa

    present = column.is_valid() if column.null_count else None
    parts = {field.name: (field, child) for field, child in zip(column.type, column.flatten(), strict=True)}
    children = []
    for declared, field in zip(kind.columns, schema.fields, strict=True):
        found = parts.get(declared.name)
        own = None if given is None else given.field(declared.name)
        if own is not None and own.schema.default is not None:
            return None  # which stands in place of nulls
        if found is None:
            made: pa.Array | None = pa.nulls(len(column), arrow_type(field.schema))
        else:
            made = _column(declared.type, field.schema, None if own is None else own.schema, found[1], found[0])
        if made is None or (declared.is_required and _lacks(made, present)):
            return None
        children.append(made)
    if not children:
        return None
    fields = [pa.field(one.name, child.type) for one, child in zip(kind.columns, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null() if column.null_count else None)


def _lacks(column: pa.Array, present: pa.Array | None) -> bool:
    """Whether a row that is there has no value."""
    import pyarrow.compute as pc

    if not column.null_count:
        return False
    return present is None or bool(pc.any(pc.and_(column.is_null(), present)).as_py())


def _list_column(kind: ColumnType, schema: Schema, given: Schema | None, column: pa.ListArray) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    assert kind.item is not None
    assert schema.value_schema is not None
    values = column.flatten()
    inner = None if given is None else given.value_schema
    made = _column(kind.item, schema.value_schema, inner, values, column.type.value_field)
    if made is None or (made.null_count and not kind.holds_null):
        return None
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, made, type=arrow_type(schema), mask=mask)


def _by_arrow(kind: ColumnType, given: Schema | None, column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """The column by Arrow's kernels; None where `reading` alone knows. Errors: ArrowException."""
    import pyarrow as pa

    old, is_ = column.type, pa.types
    match kind.name:
        case "boolean" if is_.is_boolean(old):
            return column
        case "string" if is_text(old):
            return column.cast(wanted)
        case "binary" if is_bytes(old):
            return column.cast(wanted)
        case "tinyint" | "smallint" | "int" | "bigint" if is_.is_integer(old):
            return column.cast(wanted)
        case "double" if is_.is_float64(old) or is_.is_float32(old) or is_.is_integer(old):
            return column.cast(wanted)
        case "float" if is_.is_floating(old):
            return leaf(column, wanted, reads=True)
        case "decimal" if is_.is_integer(old) or is_.is_floating(old) or is_.is_decimal(old):
            return leaf(column, wanted, reads=True)
        case "date" if old == wanted:
            return column
        case "time" if is_.is_time(old) and kind.digits is None:
            return column.cast(wanted, safe=False)
        case "timestamp" | "timestamp_ntz" if kind.digits is None and (
            is_.is_timestamp(old) or (is_.is_int64(old) and kind.unit in (None, "ms", "us")) or is_text(old)
        ):
            return _instants(kind, column, wanted)
    return None


def _instants(kind: ColumnType, column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_int64(column.type):
        column = column.cast(pa.timestamp(kind.unit or "ms", tz="UTC"))
    if is_text(column.type) and not pc.all(pc.match_substring_regex(column, _ARROWS_ISO)).as_py():
        return None
    made = leaf(column, wanted, reads=True)
    if made is None:
        return None
    span = pc.min_max(made.cast(pa.int64()))
    per_second = 1_000_000 if wanted.unit == "us" else 1000
    is_inside = span["min"].as_py() >= _FIRST_S * per_second and span["max"].as_py() < _LAST_S * per_second
    return made if is_inside else None


# The years 1 to 9999, outside of which there is no datetime
_FIRST_S: Final = -62_135_596_800
_LAST_S: Final = 253_402_300_800
# What Arrow and Python read alike
_ARROWS_ISO: Final = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?$"
_NAMED_UNITS: Final = frozenset(
    f"io.debezium.time.{name}" for name in ("MicroTimestamp", "NanoTimestamp", "MicroTime", "NanoTime")
)
__all__ = ["Column", "ColumnType", "Declared", "declared_type", "problems"]


def type_like(where: str, settings: Mapping[str, str]) -> ColumnType:
    """The type of the rows of a table: a Parquet file, a folder of them, a Delta table, one of Iceberg by its name.

    `settings`: the connector's, of which `table.catalog.*` says where names of Iceberg are. Errors: ConfigError.
    """
    import pyarrow as pa

    try:
        return of_arrow(pa.struct(list(_columns(where, settings))))
    except ConfigError:
        raise
    except Exception as error:  # of three libraries, which share no root
        raise ConfigError(f"The columns of {where} cannot be read: {type(error).__name__}: {error}") from error


def _columns(where: str, settings: Mapping[str, str]) -> pa.Schema:
    if catalog_settings(settings) and "/" not in where and not where.endswith(".parquet"):
        return _iceberg(where, settings)
    if "://" in where:
        return _stored(where)
    folder = Path(where)
    if not folder.exists():
        hint = "An Iceberg table is named as in its catalog, which table.catalog.type and table.catalog.uri say."
        raise ConfigError(f"{where} does not exist", hint=None if "/" in where else hint)
    if (folder / "_delta_log").is_dir():
        return _delta(where)
    if (folder / "metadata").is_dir():
        return _iceberg_folder(folder / "metadata")
    import pyarrow.parquet as pq

    files = [folder] if folder.is_file() else sorted(_files(folder))
    if not files:
        raise ConfigError(f"{where} has no Parquet file")
    return pq.read_schema(files[-1])  # the newest by name, which has columns that came later


def _files(folder: Path) -> list[Path]:
    hidden = ("_", ".")
    return [
        path
        for path in folder.rglob("*.parquet")
        if not any(part.startswith(hidden) for part in path.relative_to(folder).parts)
    ]


def _delta(where: str) -> pa.Schema:
    import pyarrow as pa
    from deltalake import DeltaTable

    fields = json.loads(DeltaTable(where).schema().to_json())["fields"]
    return pa.schema([pa.field(field["name"], _of_delta(field["type"]), field["nullable"]) for field in fields])


def _of_delta(kind: Any) -> pa.DataType:
    """Arrow's type of one of Delta's log, which are Spark's."""
    import pyarrow as pa

    if isinstance(kind, Mapping):
        match kind["type"]:
            case "struct":
                return pa.struct(
                    [pa.field(part["name"], _of_delta(part["type"]), part["nullable"]) for part in kind["fields"]]
                )
            case "array":
                return pa.list_(pa.field("element", _of_delta(kind["elementType"]), kind["containsNull"]))
            case _:
                item = pa.field("value", _of_delta(kind["valueType"]), kind["valueContainsNull"])
                return pa.map_(_of_delta(kind["keyType"]), item)
    if kind.startswith("decimal("):
        digits, scale = kind.removeprefix("decimal(").rstrip(")").split(",")
        return pa.decimal128(int(digits), int(scale))
    return {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[kind]


def _iceberg(name: str, settings: Mapping[str, str]) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    from kconnect.builtin.types.iceberg_catalog import catalog_problem, close_catalog, open_catalog

    properties = catalog_settings(settings)
    timeout_s = int(settings.get(CATALOG_TIMEOUT) or CATALOG_TIMEOUT_MS) / 1000
    try:
        catalog = open_catalog(properties, timeout_s)
        try:
            return schema_to_pyarrow(catalog.load_table(name).schema())
        finally:
            close_catalog(catalog)
    except Exception as error:  # pyiceberg's, of many kinds
        raise catalog_problem(error, properties, timeout_s) from error


def _iceberg_folder(folder: Path) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.table import StaticTable

    newest = max(folder.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime)
    return schema_to_pyarrow(StaticTable.from_metadata(str(newest)).schema())


def _stored(where: str) -> pa.Schema:
    """Reads a table in a store: Delta where it has a log, else Parquet files."""
    from pyarrow import fs

    system, path = fs.FileSystem.from_uri(where)
    if system.get_file_info(f"{path}/_delta_log").type is fs.FileType.Directory:
        return _delta(where)
    import pyarrow.dataset as ds

    return ds.dataset(path, filesystem=system, format="parquet", exclude_invalid_files=False).schema
