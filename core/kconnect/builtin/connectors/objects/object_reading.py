"""One open object: its rows as records or columns, each with the place behind it as its offset."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError, RecordBatch, RetriableError, Schema, SchemaBuilder, SourceRecord
from kconnect.builtin.connectors.objects.csv_rows import csv_form, delimiter_of
from kconnect.builtin.connectors.objects.csv_text import CsvForm
from kconnect.builtin.connectors.objects.json_rows import are_lines
from kconnect.builtin.connectors.objects.object_formats import (
    AUTO,
    HEAD_BYTES,
    compression_of,
    compression_seen,
    decompressed,
    format_of,
    refuse_no_text,
)
from kconnect.builtin.connectors.objects.object_progress import Place, partition_of
from kconnect.builtin.connectors.objects.object_readers import Reached, Reading, Rows, read_rows
from kconnect.builtin.connectors.objects.object_text import Utf8Stream
from kconnect.builtin.stores.file_store import FileStore
from kconnect.builtin.stores.hive_paths import path_columns

if TYPE_CHECKING:
    import pyarrow as pa

Errant = Callable[[SourceRecord, BaseException], None]
_LEAVE_OUT = "Correct it, or take it out of the folder; object.pattern and object.format say what is read, and how."
# Of what is looked at to tell lines of JSON from a document
_HEAD = 1 << 20
# Formats that can be read while they are written
_GROWING = ("lines", "jsonl", "csv")
_OUTSIDE = ("lines", "jsonl", "json", "csv")  # compressed from outside, if at all
# Of what cannot be read, in a message
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class RowSettings:
    """How rows are read, whatever the object."""

    format: str
    compression: str
    json_schema: str
    csv: CsvForm
    batch_rows: int
    encoding: str
    path_columns: bool
    is_declared: bool

    @classmethod
    def of(cls, config: Mapping[str, Any], *, is_declared: bool = False) -> RowSettings:
        return cls(
            config["object.format"],
            config["object.compression"],
            config["json.schema"],
            replace(csv_form(config), infers=False) if is_declared else csv_form(config),
            config["batch.rows"],
            config["object.encoding"],
            config["object.path.columns"],
            is_declared,
        )


class OpenObject:
    """An object that is being read. One block is read ahead, so that the last one is known to be it.

    `place` is behind the rows that were given; `is_over` when there are no more; `is_done` if there will be none, which
    is so where the object's end is its end (`ends`). Threads: the task's.
    """

    def __init__(
        self,
        store: FileStore,
        place: Place,
        settings: RowSettings,
        topic: str,
        errant: Errant,
        *,
        ends: bool = True,
    ) -> None:
        self.place = place
        self.is_over = self.is_done = False
        self.is_unreadable = False  # as a whole, or from here on
        self._reached = Reached()
        self._format = format_of(place.path, settings.format)
        self._compression = compression_of(place.path, settings.compression)
        self._ends = ends
        columns = path_columns(place.path[len(store.at("")) :]) if settings.path_columns else {}
        self._path_fields = _PathFields(columns) if columns else None
        self._topic, self._errant = topic, errant
        self._file = store.open(place.path)
        self._settings = settings
        form = settings.csv
        self._csv = form if form.delimiter else replace(form, delimiter=delimiter_of(place.path))
        self._rows: Iterator[Rows] = self._read()
        self._ahead: Rows | None = None
        self._has_begun = False
        self._failure: Exception | None = None
        self._broken: list[tuple[int, Any, Exception, int | None]] = []  # of the block that is read ahead
        self.has_given_up = False

    def next_rows(self) -> Rows | None:
        """The next rows, after those among them that cannot be read were given up; None if there is none at all.

        Errors: RetriableError of the store; ConnectError that names object and row.
        """
        if not self._has_begun:
            self._has_begun = True
            self._ahead = self._take()
        if self._failure is not None:
            raise self._failure
        rows, broken, self._broken = self._ahead, self._broken, []
        if rows is not None:
            try:
                self._ahead = self._take()
            except Exception as err:  # what was read before it is given first
                self._failure, self._ahead = err, None
        self.is_over = self._ahead is None and self._failure is None
        self.is_done = self.is_over and self._ends
        if self.is_over:
            broken += self._broken
            if rows is None:
                self.place = self._end_of(self.place)
        self.has_given_up = bool(broken)
        for row, held, error, line in broken:
            self._give_up(row, held, error, line)
        return rows

    def polled(self, rows: Rows, topic: str) -> RecordBatch | list[SourceRecord]:
        """The rows for Connect, as a batch if they are columns; `place` is behind them now."""
        if self._path_fields is not None:
            rows = self._path_fields.added_to(rows)
        before, positions = self.place, rows.positions() if rows.positions is not None else None
        position = positions[-1].as_py() if positions is not None else -1
        self.place = replace(before, row=rows.row, position=position, done=self.is_done)
        if self.is_over:
            self.place = self._end_of(self.place)
        if rows.column is not None:
            return self._batch(rows, topic, positions)
        partition, rest = partition_of(before.path), {"etag": before.etag, "size": before.size, "done": False}
        offsets = [{"row": number, **rest} for number in rows.row_numbers().to_pylist()]
        if positions is not None:
            for offset, end in zip(offsets, positions.to_pylist(), strict=True):
                offset["position"] = end
        pairs = zip(offsets, rows.values or (), strict=True)
        records = [SourceRecord(partition, offset, topic, value) for offset, value in pairs]
        records[-1].source_offset = self.place.offset()
        return records

    def close(self) -> None:
        self._file.close()

    def _end_of(self, place: Place) -> Place:
        """The place behind all that was read, rows that were given up among it.

        Of what may grow, what comes behind it is more. A line that is held is behind it, too.
        """
        reached = self._reached
        position = reached.position if reached.position >= 0 else place.position
        size = place.size
        if self._format == "csv" and self._compression == "none":
            position = size
        elif not self._ends and position >= 0:
            size = position
        return replace(place, row=max(place.row, reached.row), position=position, size=size)

    def _batch(self, rows: Rows, topic: str, positions: pa.Int64Array | None) -> RecordBatch:
        import pyarrow as pa

        count, place = len(rows), self.place
        offsets: dict[str, Any] = {
            "row": rows.row_numbers,
            "etag": lambda: pa.repeat(place.etag, count),
            "size": lambda: pa.repeat(place.size, count),
            "done": lambda: pa.array([False] * (count - 1) + [place.done]),
        }
        if positions is not None:
            offsets["position"] = positions
        if self.is_over:  # the last row leads behind all that was read, as what was given up
            offsets["row"] = lambda: _with_last(rows.row_numbers(), place.row)
            if place.position >= 0:
                known = positions if positions is not None else pa.repeat(pa.scalar(-1, pa.int64()), count)
                offsets["position"] = _with_last(known, place.position)
        return RecordBatch(
            topic,
            value=rows.column,
            value_schema=rows.schema,
            source_partition=partition_of(place.path),
            source_offsets=offsets,
        )

    def _read(self) -> Iterator[Rows]:
        if self._settings.compression == AUTO and self._compression == "none" and self._format in _OUTSIDE:
            self._compression = compression_seen(self._file)
        if self._format in _OUTSIDE:
            refuse_no_text(decompressed(self._file, self._compression).read(HEAD_BYTES))
        if self._format == "json" and self._settings.format == AUTO and are_lines(self._text(self._file).read(_HEAD)):
            self._format = "jsonl"
        self._ends = self._ends or self._format not in _GROWING or self._compression != "none"
        yield from read_rows(self._reading())

    def _text(self, file: io.BufferedIOBase) -> Utf8Stream:
        return Utf8Stream(decompressed(file, self._compression), self._settings.encoding)

    def _reading(self) -> Reading:
        settings = self._settings
        return Reading(
            file=self._file,
            format=self._format,
            compression=self._compression,
            broken=lambda row, held, error, line=None: self._broken.append((row, held, error, line)),
            row=self.place.row,
            position=self.place.position,
            json_schema=settings.json_schema,
            csv=self._csv,
            batch_rows=settings.batch_rows,
            encoding=settings.encoding,
            is_declared=settings.is_declared,
            holds_last=not self._ends,
            path=self.place.path,
            reached=self._reached,
        )

    def _take(self) -> Rows | None:
        try:
            return next(self._rows, None)
        except RetriableError:
            raise
        except DataError as err:
            self.is_unreadable = True
            raise DataError(f"{self.place.path} cannot be read: {err}", hint=err.hint or _LEAVE_OUT) from err
        except ConnectError:
            raise
        except Exception as err:  # a reader's
            self.is_unreadable = True
            text = f"{self.place.path} cannot be read: {type(err).__name__}: {err}"
            raise DataError(text, hint=_LEAVE_OUT) from err

    def _give_up(self, row: int, held: Any, error: Exception, line: int | None) -> None:
        """Give up one row; the others of the object are read. Errors: what fails the task, if it is not tolerated."""
        text = held.decode(errors="replace") if isinstance(held, bytes) else str(held)
        offset = replace(self.place, row=row, position=-1).offset()
        record = SourceRecord(partition_of(self.place.path), offset, self._topic, text)
        shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + ".."
        where = f"{'Line' if self._format in ('lines', 'jsonl') else 'Row'} {row}" + (f" (line {line})" if line else "")
        hint = error.hint if isinstance(error, DataError) else None
        reported = DataError(
            f"{where} of {self.place.path} cannot be read: {error}: {shown}",
            hint=hint,
        )
        reported.__cause__ = error
        self._errant(record, reported)


def _with_last(numbers: pa.Int64Array, last: int) -> pa.Int64Array:
    """The numbers, with this one in place of the last."""
    import pyarrow as pa

    return pa.concat_arrays([numbers[:-1], pa.array([last], pa.int64())])


class _PathFields:
    """Fields that all rows of an object have, as its path names them; where a row has one of the name, that stays."""

    def __init__(self, columns: Mapping[str, str | None]) -> None:
        self._columns = columns
        self._schemas: tuple[Schema, Schema] | None = None  # the last schema of rows, and the same with the fields

    def added_to(self, rows: Rows) -> Rows:
        if rows.column is None:
            values = [
                {**row, **{name: value for name, value in self._columns.items() if name not in row}}
                if type(row) is dict
                else row
                for row in rows.values or ()
            ]
            return replace(rows, values=values)
        import pyarrow as pa

        if rows.schema is None or not pa.types.is_struct(rows.column.type):
            return rows
        names = [field.name for field in rows.column.type]
        more = {name: value for name, value in self._columns.items() if name not in names}
        arrays = [pa.repeat(pa.scalar(value, pa.string()), len(rows)) for value in more.values()]
        column = pa.StructArray.from_arrays([*rows.column.flatten(), *arrays], names=[*names, *more])
        return replace(rows, column=column, schema=self._schema_with(rows.schema, more))

    def _schema_with(self, schema: Schema, more: Iterable[str]) -> Schema:
        if self._schemas is None or self._schemas[0] is not schema:
            builder = SchemaBuilder.struct()
            for field in schema.fields:
                builder.field(field.name, field.schema)
            for name in more:
                builder.field(name, Schema.OPTIONAL_STRING_SCHEMA)
            self._schemas = schema, builder.build()
        return self._schemas[1]
