"""Rows as the content of an object: what is kept of them until the object is written, and the bytes it becomes."""

from __future__ import annotations

import datetime
import decimal
import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import DataError, RecordBatch, Schema, SinkRecord, Struct
from kconnect.api.columns import column_of, values_of
from kconnect.api.plain_values import plain
from kconnect.builtin.connectors.objects.avro_codecs import add_codecs
from kconnect.builtin.connectors.objects.object_columns import ObjectColumns
from kconnect.builtin.connectors.objects.object_formats import compressed
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.plain_json import plain_json_list
from kconnect.builtin.schema_registry.avro.avro_names import INTERNAL_TYPE, MAP_ENTRY
from kconnect.builtin.types.fitting import KEPT, NotFittingError, as_mapping, fit
from kconnect.builtin.types.leaf_columns import is_bytes
from kconnect.builtin.types.meaning import meant_column, meant_values
from kconnect.builtin.types.seen import is_untyped, joined_schemas, turns_to_text, without_empty
from kconnect.builtin.types.seen_columns import NO_FIELD, require_fields, seen_table, widened_table
from kconnect.builtin.types.settling import with_texts
from kconnect.java.compat.json_writer import RawJson

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_FORMATS = ("lines", "jsonl", "json")
# Readers in Java refuse a whole file of Avro for any other name
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Content(Protocol):
    """The rows of one object, in order. Rows without a value are left out."""

    size: int
    """About how many bytes it keeps."""

    @property
    def is_empty(self) -> bool:
        """Whether no row has a value."""
        ...

    def fits(self, piece: Any) -> bool:
        """Whether these rows can be in one object with those before."""
        ...

    def add(self, piece: Any) -> None: ...

    def body(self) -> bytes:
        """The object, compressed as it is to be."""
        ...


class Encoder:
    """Makes pieces of records, and contents to put them in. Threads: one.

    Errors: DataError for values that the format cannot hold.
    """

    def __init__(
        self,
        format_: str,
        compression: str,
        csv_delimiter: str = ",",
        columns: ObjectColumns | None = None,
        decimal_format: str = "NUMERIC",
    ) -> None:
        """`columns`: what keeps those of a topic, of formats that have any; None: nothing does."""
        self._format, self._compression, self._delimiter = format_, compression, csv_delimiter
        self._columns = columns
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "decimal.format": decimal_format}, is_key=False)

    def content(self) -> Content:
        if self._format in TEXT_FORMATS:
            return _Texts(self._format, self._compression)
        return _Table(self._format, self._compression, self._delimiter)

    def piece(self, records: Sequence[SinkRecord]) -> Any:
        """What a content takes of these records; they have one schema, or none."""
        records = [record for record in records if record.value is not None]
        if self._format == "lines":
            return [_line(record.value) for record in records]
        if self._format in TEXT_FORMATS:
            if records and records[0].value_schema is None:
                texts = plain_json_list([record.value for record in records])
                if texts is not None:
                    return texts
            return [self._text(record.topic, record.value_schema, record.value) for record in records]
        rows = _rows_of(records)
        if rows is None:
            return None
        first = records[0]
        came = None if first.value_schema is not None else lambda: [record.value for record in records]
        return self._rows(rows, first.topic, first.original_kafka_partition, came)

    def piece_of_batch(self, batch: RecordBatch) -> Any:
        """The same of columns."""
        column, schema = batch.value, batch.value_schema
        if column is not None and column.null_count:
            column = column.drop_null()
        if column is None or not len(column):
            return [] if self._format in TEXT_FORMATS else None
        if self._format not in TEXT_FORMATS:
            rows = _rows_of_column(meant_column(schema, column))
            came = None if schema is not None else lambda: values_of(None, column, len(column))
            return self._rows(rows, batch.topic, batch.original_kafka_partition, came)
        if self._format == "lines":
            return [_line(value) for value in column.to_pylist()]
        texts = self._json.from_connect_batch(batch.topic, schema, column)
        if texts is NotImplemented:
            return self.piece(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records
        return texts.to_pylist()

    def _rows(
        self, rows: pa.Table, topic: str, partition: int | None, came: Callable[[], Sequence[Any]] | None
    ) -> pa.Table:
        """`came`: gives the values that the rows were seen in; None where these have a schema."""
        if came is not None:
            require_fields(rows.columns, came)
        elif not rows.num_columns:
            raise DataError(NO_FIELD)
        if self._columns is not None:
            rows = self._columns.fitted(topic, partition, rows, came)
        if self._format == "avro":
            _avro_schema(_with_entries(rows.schema))  # what Avro cannot have is their error, not the object's
        if self._format == "csv" and came is not None:
            return _with_texts(rows, came)
        return rows

    def _text(self, topic: str, schema: Schema | None, value: Any) -> bytes:
        try:
            given = _in_json(value) if schema is None else value
        except RecursionError:  # whose trace has a thousand lines
            raise DataError("A value is nested too deeply to be written as JSON") from None
        text = self._json.from_connect_data(topic, schema, given)
        return b"null" if text is None else text


class _Texts:
    """Lines, or the items of a JSON list. A piece is a list of bytes."""

    def __init__(self, format_: str, compression: str) -> None:
        self._format, self._compression = format_, compression
        self._texts: list[bytes] = []
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return not self._texts

    def fits(self, piece: list[bytes]) -> bool:
        return True

    def add(self, piece: list[bytes]) -> None:
        self._texts += piece
        self.size += sum(map(len, piece)) + len(piece)

    def body(self) -> bytes:
        is_list = self._format == "json"
        whole = b"[" + b",\n".join(self._texts) + b"]\n" if is_list else b"\n".join([*self._texts, b""])
        return compressed(whole, self._compression)


class _Table:
    """Rows in columns. A piece is a table, or None for no rows."""

    def __init__(self, format_: str, compression: str, delimiter: str) -> None:
        self._format, self._compression, self._delimiter = format_, compression, delimiter
        self._tables: list[pa.Table] = []
        self._schema: pa.Schema | None = None
        self.size = 0

    @property
    def is_empty(self) -> bool:
        return not self._tables

    def fits(self, piece: pa.Table | None) -> bool:
        return piece is None or self._schema is None or self._with(piece) is not None

    def add(self, piece: pa.Table | None) -> None:
        if piece is None:
            return
        if self._schema is None or piece.schema == self._schema:
            self._tables.append(piece)
        else:
            together = self._with(piece)
            assert together is not None
            self._tables = together
        self._schema = self._tables[0].schema
        self.size += piece.nbytes

    def body(self) -> bytes:
        import pyarrow as pa

        table = pa.concat_tables(self._tables)
        fields = [field.with_type(without_empty(field.type)) for field in table.schema]
        kept = [new for new, old in zip(fields, table.schema, strict=True) if _stays(new, old)]
        # Without a column there would be no row: those of no type are columns of nulls then
        schema = pa.schema(kept or [field.with_type(pa.null()) for field in fields])
        made: bytes = _BODIES[self._format](self, widened_table(table.select(schema.names), schema))
        return made

    def _with(self, piece: pa.Table) -> list[pa.Table] | None:
        """The tables with this one, all with columns of all; None where a column cannot be of one type."""
        assert self._schema is not None
        if piece.schema == self._schema:
            return [*self._tables, piece]
        both = [self._schema, piece.schema]
        schema = joined_schemas([self._schema, _as_known(piece, self._schema)])
        if any(turns_to_text(one, schema) for one in both):
            return None
        try:
            known = self._tables if schema == self._schema else [widened_table(one, schema) for one in self._tables]
            return [*known, widened_table(piece, schema)]
        except NotFittingError:
            return None

    def _csv(self, table: pa.Table) -> bytes:
        import pyarrow as pa
        import pyarrow.compute as compute
        import pyarrow.csv as pc

        # Members as JSON, bytes as base64: Arrow writes bytes as they are, and no object at all if they are no UTF-8
        flat = [
            field.with_type(pa.string()) if field.type.num_fields or is_bytes(field.type) else field
            for field in table.schema
        ]
        table = widened_table(table, pa.schema(flat))
        if table.num_columns == 1 and table.column(0).null_count:
            # A null alone would be a blank line, which is no row to any reader: "" is, as Python's csv has it
            table = table.set_column(0, table.schema.names[0], compute.fill_null(table.column(0).cast(pa.string()), ""))
        out = io.BytesIO()
        pc.write_csv(table, out, pc.WriteOptions(delimiter=self._delimiter))
        return compressed(out.getvalue(), self._compression)

    def _parquet(self, table: pa.Table) -> bytes:
        import pyarrow.parquet as pq

        out = io.BytesIO()
        pq.write_table(table, out, compression="snappy" if self._compression == "none" else self._compression)
        return out.getvalue()

    def _avro(self, table: pa.Table) -> bytes:
        import fastavro

        out = io.BytesIO()
        codec = _AVRO_CODECS[self._compression]
        add_codecs()
        fastavro.writer(out, *as_avro(table), codec=codec)
        return out.getvalue()


_BODIES: dict[str, Any] = {"csv": _Table._csv, "parquet": _Table._parquet, "avro": _Table._avro}
_AVRO_CODECS = {"none": "null", "gzip": "deflate", "zstd": "zstandard", "snappy": "snappy", "bzip2": "bzip2"}


def _with_texts(rows: pa.Table, came: Callable[[], Sequence[Any]]) -> pa.Table:
    """The rows with lists and structs as the JSON that they came as: in columns, others add members and digits."""
    import pyarrow as pa

    flat = [field.with_type(pa.string()) if field.type.num_fields else field for field in rows.schema]
    if flat == list(rows.schema):
        return rows
    (batch,) = rows.combine_chunks().to_batches()
    values = [value if isinstance(value, dict) else {"value": value} for value in came()]
    column = with_texts(batch.to_struct_array(), pa.struct(flat), values)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])


def _in_json(value: Any) -> Any:
    """A value without schema, with forms for what JsonConverter refuses: times are ISO 8601, decimals numbers."""
    if isinstance(value, dict):
        return {name: _in_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(item) for item in value]
    if isinstance(value, Struct):
        return _in_json(as_mapping(value))
    if isinstance(value, decimal.Decimal):
        return RawJson(value) if value.is_finite() else str(value)
    return plain(value) if isinstance(value, datetime.date | datetime.time) else value


def _line(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    hint = "JSON takes any: object.format=jsonl, or JsonFormat as format.class."
    raise DataError(f"A value of type {type(value).__name__} is not a line", hint=hint)


def _as_known(piece: pa.Table, known: pa.Schema) -> pa.Schema:
    """The columns of these rows, with the known type where every value is one of it: 2 ** 63 among doubles."""
    import pyarrow as pa

    return pa.schema(
        [
            field.with_type(known.field(field.name).type) if _is_one_of(field, column, known) else field
            for field, column in zip(piece.schema, piece.columns, strict=True)
        ]
    )


def _is_one_of(field: pa.Field, column: pa.ChunkedArray, known: pa.Schema) -> bool:
    """Whether every value is one of the known type. Structs and lists never are: they may have other members."""
    place = known.get_field_index(field.name)
    if place < 0 or field.type.num_fields or known.field(place).type.num_fields:
        return False
    try:
        for chunk in column.chunks:
            fit(chunk, known.field(place).type, KEPT)
    except NotFittingError:
        return False
    return True


def _stays(new: pa.Field, old: pa.Field) -> bool:
    """Whether a column has a type yet, or is one of nulls."""
    return bool(new.type == old.type or not is_untyped(new.type))


def _rows_of(records: Sequence[SinkRecord]) -> pa.Table | None:
    """A table of the values; texts and numbers are its one column `value`."""
    import pyarrow as pa

    if not records:
        return None
    if records[0].value_schema is not None:
        schema, values = meant_values(records[0].value_schema, [record.value for record in records])
        assert schema is not None
        return _rows_of_column(column_of(schema, values))
    values = [record.value for record in records]
    rows = values if all(isinstance(value, dict) for value in values) else [{"value": value} for value in values]
    return pa.Table.from_batches([seen_table(rows)])


def _rows_of_column(column: pa.Array) -> pa.Table:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])
    return pa.table({"value": column})


def as_avro(table: pa.Table) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The Avro schema of a table's rows, and the rows. Errors: DataError naming a field that Avro cannot have."""
    table = table.cast(_with_entries(table.schema))
    return _avro_schema(table.schema), table.to_pylist(maps_as_pydicts="strict")


def _avro_schema(fields: pa.Schema) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [_avro_field(field, "Row_") for field in fields]}


def _avro_field(field: pa.Field, prefix: str) -> dict[str, Any]:
    if not _AVRO_NAME.fullmatch(field.name):
        raise DataError(
            f"{field.name!r} cannot be a name in Avro, which has letters without accents, _, and digits behind them",
            hint="ReplaceField renames fields; JSON Lines and Parquet take any name.",
        )
    kind = _avro_type(field.type, prefix + field.name)
    return {"name": field.name, "type": ["null", kind], "default": None} if field.nullable else _avro_named(field, kind)


def _avro_named(field: pa.Field, kind: Any) -> dict[str, Any]:
    return {"name": field.name, "type": kind}


def _avro_type(kind: pa.DataType, name: str) -> Any:
    """Names of records inside of others are made of the way to them: Avro wants each once."""
    import pyarrow.types as is_

    for matches, made in _AVRO_OF_ARROW:
        if getattr(is_, matches)(kind):
            return made
    if is_.is_time(kind):
        return _AVRO_TIMES[kind.unit]
    if is_.is_timestamp(kind):
        local = "" if kind.tz else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{_AVRO_UNITS[kind.unit]}"}
    if is_.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if is_.is_struct(kind):
        return {"type": "record", "name": name, "fields": [_avro_field(part, f"{name}_") for part in kind]}
    if is_.is_list(kind) and kind.value_field.name == MAP_ENTRY:
        entry = _avro_type(kind.value_type, f"{name}_{MAP_ENTRY}")
        return {"type": "array", "items": {**entry, INTERNAL_TYPE: MAP_ENTRY}}
    if is_.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type, f"{name}_item")]}
    if is_.is_map(kind):
        return {"type": "map", "values": ["null", _avro_type(kind.item_type, f"{name}_value")]}
    raise DataError(f"Field {name.removeprefix('Row_')}: a value of type {kind} cannot be written as Avro")


def _with_entries(schema: pa.Schema) -> pa.Schema:
    """Maps whose keys are no texts as lists of entries, as AvroConverter has them: keys of Avro's maps are texts."""
    import pyarrow as pa

    return pa.schema([field.with_type(_entries_of(field.type)) for field in schema])


def _entries_of(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_entries_of(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_entries_of(kind.value_type)))
    if not pa.types.is_map(kind):
        return kind
    item = kind.item_field.with_type(_entries_of(kind.item_type))
    if pa.types.is_string(kind.key_type):
        return pa.map_(kind.key_type, item)
    key = pa.field("key", _entries_of(kind.key_type), nullable=False)
    return pa.list_(pa.field(MAP_ENTRY, pa.struct([key, item.with_name("value")]), nullable=False))


_AVRO_OF_ARROW: tuple[tuple[str, Any], ...] = (
    ("is_boolean", "boolean"),
    ("is_int8", "int"),
    ("is_int16", "int"),
    ("is_int32", "int"),
    ("is_int64", "long"),
    ("is_float32", "float"),
    ("is_float64", "double"),
    ("is_string", "string"),
    ("is_binary", "bytes"),
    ("is_null", "string"),
    ("is_date", {"type": "int", "logicalType": "date"}),
)
_AVRO_UNITS = {"s": "millis", "ms": "millis", "us": "micros", "ns": "micros"}
_AVRO_TIMES = {
    unit: {"type": "int" if name == "millis" else "long", "logicalType": f"time-{name}"}
    for unit, name in _AVRO_UNITS.items()
}
