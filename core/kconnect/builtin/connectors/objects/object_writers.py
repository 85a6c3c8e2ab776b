"""Rows as the content of an object: what is kept of them until the object is written, and the bytes it becomes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import DataError, RecordBatch, Schema, SinkRecord
from kconnect.builtin.connectors.objects.avro_types import avro_schema
from kconnect.builtin.connectors.objects.object_formats import compressed
from kconnect.builtin.converters.json_converter import JsonConverter

if TYPE_CHECKING:
    import pyarrow as pa

TEXT_FORMATS = ("lines", "jsonl", "json")


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

    def __init__(self, format_: str, compression: str, csv_delimiter: str = ",") -> None:
        self._format, self._compression, self._delimiter = format_, compression, csv_delimiter
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"}, is_key=False)

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
            return [self._text(record.topic, record.value_schema, record.value) for record in records]
        return _rows_of(records)

    def piece_of_batch(self, batch: RecordBatch) -> Any:
        """The same of columns."""
        column, schema = batch.value, batch.value_schema
        if column is not None and column.null_count:
            column = column.drop_null()
        if column is None or not len(column):
            return [] if self._format in TEXT_FORMATS else None
        if self._format not in TEXT_FORMATS:
            return _rows_of_column(column)
        if self._format == "lines":
            return [_line(value) for value in column.to_pylist()]
        texts = self._json.from_connect_batch(batch.topic, schema, column)
        if texts is NotImplemented:
            return self.piece(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records
        return texts.to_pylist()

    def _text(self, topic: str, schema: Schema | None, value: Any) -> bytes:
        text = self._json.from_connect_data(topic, schema, value)
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
        if piece is not None:
            self._schema = piece.schema if self._schema is None else self._with(piece)
            self._tables.append(piece)
            self.size += piece.nbytes

    def body(self) -> bytes:
        import pyarrow as pa

        table = pa.concat_tables(self._tables, promote_options="permissive")
        made: bytes = _BODIES[self._format](self, table)
        return made

    def _with(self, piece: pa.Table) -> pa.Schema | None:
        import pyarrow as pa

        assert self._schema is not None
        if piece.schema.equals(self._schema):
            return self._schema
        try:
            return pa.unify_schemas([self._schema, piece.schema], promote_options="permissive")
        except pa.ArrowException:
            return None

    def _csv(self, table: pa.Table) -> bytes:
        import pyarrow.csv as pc

        for field in table.schema:
            if field.type.num_fields:
                raise DataError(f"Field {field.name} of type {field.type} cannot be a column of CSV")
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
        fastavro.writer(out, avro_schema(table.schema, "Row"), table.to_pylist(maps_as_pydicts="strict"), codec=codec)
        return out.getvalue()


_BODIES: dict[str, Any] = {"csv": _Table._csv, "parquet": _Table._parquet, "avro": _Table._avro}
_AVRO_CODECS = {"none": "null", "gzip": "deflate", "zstd": "zstandard"}


def _line(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise DataError(f"A value of type {type(value).__name__} is not a line; object.format=jsonl takes any")


def _rows_of(records: Sequence[SinkRecord]) -> pa.Table | None:
    """A table of the values; texts and numbers are its one column `value`."""
    import pyarrow as pa

    if not records:
        return None
    if records[0].value_schema is not None:
        batch = RecordBatch.from_records(records)
        if batch is None or batch.value is None:
            raise DataError("The values do not fit their schema")
        return _rows_of_column(batch.value)
    values = [record.value for record in records]
    rows = values if all(isinstance(value, dict) for value in values) else [{"value": value} for value in values]
    try:
        return pa.Table.from_pylist(rows, schema=_inferred(rows))
    except (pa.ArrowException, TypeError, OverflowError) as err:
        raise DataError(f"The values are no table: {err}") from err


def _inferred(rows: Sequence[dict[str, Any]]) -> pa.Schema:
    """All fields of all rows, in the order in which they come. Errors: ArrowException."""
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in row)
    return pa.schema([(name, pa.array([row.get(name) for row in rows]).type) for name in names])


def _rows_of_column(column: pa.Array) -> pa.Table:
    import pyarrow as pa

    if pa.types.is_struct(column.type):
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(column)])
    return pa.table({"value": column})
