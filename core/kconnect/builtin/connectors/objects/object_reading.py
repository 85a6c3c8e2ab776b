"""One open object: its rows as records or columns, each with the place behind it as its offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kconnect.api import ConnectError, DataError, RecordBatch, RetriableError, SourceRecord
from kconnect.builtin.connectors.objects.object_formats import compression_of, format_of
from kconnect.builtin.connectors.objects.object_progress import Place, partition_of
from kconnect.builtin.connectors.objects.object_readers import Reading, Rows, read_rows
from kconnect.builtin.stores.file_store import FileStore

if TYPE_CHECKING:
    import pyarrow as pa

Errant = Callable[[SourceRecord, BaseException], None]
# Of what cannot be read, in a message
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class RowSettings:
    """How rows are read, whatever the object."""

    format: str
    compression: str
    json_schema: str
    csv_delimiter: str
    csv_header: bool
    csv_types: str
    batch_rows: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> RowSettings:
        return cls(
            config["object.format"],
            config["object.compression"],
            config["json.schema"],
            config["csv.delimiter"],
            config["csv.header"],
            config["csv.types"],
            config["batch.rows"],
        )


class OpenObject:
    """An object that is being read. One block is read ahead, so that the last one is known to be it.

    `place` is behind the rows that were given; `is_done` when there are no more. Threads: the task's.
    """

    def __init__(self, store: FileStore, place: Place, settings: RowSettings, topic: str, errant: Errant) -> None:
        self.place = place
        self.is_done = False
        self._topic, self._errant = topic, errant
        self._file = store.open(place.path)
        self._rows: Iterator[Rows] = self._read(settings)
        self._ahead: Rows | None = None
        self._has_begun = False
        self._failure: Exception | None = None
        self._broken: list[tuple[int, Any, Exception]] = []  # of the block that is read ahead
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
        self.is_done = self._ahead is None and self._failure is None
        if self.is_done:
            broken += self._broken
        self.has_given_up = bool(broken)
        for row, held, error in broken:
            self._give_up(row, held, error)
        return rows

    def polled(self, rows: Rows, topic: str) -> RecordBatch | list[SourceRecord]:
        """The rows for Connect, as a batch if they are columns; `place` is behind them now."""
        before, positions = self.place, rows.positions() if rows.positions is not None else None
        position = positions[-1].as_py() if positions is not None else -1
        self.place = replace(before, row=rows.row, position=position, done=self.is_done)
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
        return RecordBatch(
            topic,
            value=rows.column,
            value_schema=rows.schema,
            source_partition=partition_of(place.path),
            source_offsets=offsets,
        )

    def _read(self, settings: RowSettings) -> Iterator[Rows]:
        path = self.place.path
        return read_rows(
            Reading(
                file=self._file,
                format=format_of(path, settings.format),
                compression=compression_of(path, settings.compression),
                broken=lambda *found: self._broken.append(found),
                row=self.place.row,
                position=self.place.position,
                json_schema=settings.json_schema,
                csv_delimiter=settings.csv_delimiter,
                csv_header=settings.csv_header,
                csv_types=settings.csv_types,
                batch_rows=settings.batch_rows,
            )
        )

    def _take(self) -> Rows | None:
        try:
            return next(self._rows, None)
        except RetriableError:
            raise
        except DataError as err:
            raise DataError(f"{self.place.path} cannot be read: {err}", hint=err.hint) from err
        except ConnectError:
            raise
        except Exception as err:  # a reader's
            text = f"{self.place.path} cannot be read: {type(err).__name__}: {err}"
            raise DataError(text) from err

    def _give_up(self, row: int, held: Any, error: Exception) -> None:
        """Give up one row; the others of the object are read. Errors: what fails the task, if it is not tolerated."""
        text = held.decode(errors="replace") if isinstance(held, bytes) else str(held)
        offset = replace(self.place, row=row, position=-1).offset()
        record = SourceRecord(partition_of(self.place.path), offset, self._topic, text)
        shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + ".."
        told = DataError(f"Row {row} of {self.place.path} cannot be read: {error}: {shown}")
        told.__cause__ = error
        self._errant(record, told)
