"""ParquetTable: a folder of plain Parquet files, with the range of offsets in the name of each."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kconnect.api import DataError, RetriableError, TopicPartition
from kconnect.builtin.connectors.tables.commit_log import Commit, CommitLog
from kconnect.builtin.connectors.tables.table_format import TableWrite, stale_offsets
from kconnect.builtin.stores.file_store import FileStore

if TYPE_CHECKING:
    import pyarrow as pa

_TRIES = 10
_NULL = "__HIVE_DEFAULT_PARTITION__"  # what Hive, Spark, DuckDB and pyarrow read as null


class ParquetTable:
    """Implements TableFormat. Folders of partition columns are Hive's: region=eu/day=2026-11-23/.

    A flush of several files is seen file by file; if the writer dies in between, the rest appears when the connector
    starts again. Errors of the store say what was done to the table.
    """

    joins_partitions = False

    def __init__(
        self, where: str, files: FileStore, writer: str, partition_by: Sequence[str], compression: str
    ) -> None:
        self.where = where
        self._files = files
        self._writer = writer
        self._partition_by = tuple(partition_by)
        self._compression = compression
        self._logs: dict[TopicPartition, CommitLog] = {}
        self._schema: pa.Schema | None = None
        self._unfinished: dict[TopicPartition, Commit] = {}

    def schema(self) -> pa.Schema | None:
        """The columns of what this writer has committed in the partitions that it opened."""
        return self._schema

    def stored_type(self, kind: pa.DataType) -> pa.DataType:
        return kind

    def can_widen(self, old: pa.DataType, new: pa.DataType) -> bool:
        """Each file has types of its own."""
        return True

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        for at in partitions:
            log = CommitLog(self._files, self._writer, at)
            with self._telling(f"open partition {at} of"):
                commit = log.take_over()
            self._logs[at] = log
            self._unfinished.pop(at, None)
            self._learn(commit.columns)
            if commit.offset is not None:
                found[at] = commit.offset
        return found

    def write(self, write: TableWrite) -> None:
        (span,) = write.ranges
        log = self._logs[span.at]
        with self._telling(f"write {span} to"):
            self._finish(span.at)
            if log.head.offset != span.base:  # an earlier call committed, and failed afterwards
                if log.head.offset == span.stop:
                    return
                raise stale_offsets(self.where, write, {span.at: log.head.offset})
            self._commit(log, write)
        self._schema = write.rows.schema

    def offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = {}
        for at in partitions:
            with self._telling(f"read the offset of {at} in"):
                last = CommitLog(self._files, self._writer, at).last()
            if last is not None and last.offset is not None:
                found[at] = last.offset
        return found

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        for at, offset in offsets.items():
            log = CommitLog(self._files, self._writer, at)
            with self._telling(f"set the offset of {at} in"):
                last = log.last()
                while last is not None and last.offset not in (None, offset):
                    log.finish(last)
                    log.head = last
                    last = None if log.append(offset, (), last.columns) is not None else log.last()

    def compact(self, small_bytes: int) -> str | None:
        raise DataError("Plain Parquet files cannot be exchanged at once: no reader may see a record twice, or not")

    def close(self) -> None:
        """Nothing is open between calls."""

    def _learn(self, columns: str | None) -> None:
        """Columns of a partition's last commit: the table has those of all."""
        import pyarrow as pa

        if columns is not None:
            found = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(columns)))
            known = [found] if self._schema is None else [self._schema, found]
            self._schema = pa.unify_schemas(known, promote_options="permissive")

    def _telling(self, what: str) -> AbstractContextManager[None]:
        return self._files.telling(what, f"table {self.where}")

    # --- writing ---

    def _commit(self, log: CommitLog, write: TableWrite) -> None:
        """Errors: StaleOffsetsError; the store's; RetriableError while others open the partition again and again."""
        (span,) = write.ranges
        for _ in range(_TRIES):
            files = self._write_files(log, write)
            made = log.append(span.stop, files, _as_text(write.rows.schema))
            if made is not None:
                self._unfinished[span.at] = made
                self._finish(span.at)
                return
            for temporary, _final in files:
                self._files.remove(self._files.at(temporary))
            found = log.take_over().offset
            if found != span.base:
                raise stale_offsets(self.where, write, {span.at: found})
            # Another task opened the partition, and has written nothing: nobody can tell which of the two is right
        raise RetriableError(f"Others opened {span.at} of table {self.where} {_TRIES} times while {span} were written")

    def _write_files(self, log: CommitLog, write: TableWrite) -> list[tuple[str, str]]:
        """Write the rows to temporary files, one for each folder; returns their paths and those they are to get."""
        (span,) = write.ranges
        name = (
            f"{quote(self._writer, safe='')}.{span.at.topic}-{span.at.partition}"
            f"-{span.start:012d}-{span.stop - 1:012d}-{log.head.number + 1}.parquet"
        )
        made = []
        for folder, rows in _by_folder(write.rows, self._partition_by):
            temporary = f"{log.folder}/{uuid.uuid4().hex}.tmp"
            self._write_file(temporary, rows)
            made.append((temporary, f"{folder}{name}"))
        return made

    def _write_file(self, path: str, rows: pa.Table) -> None:
        import pyarrow.parquet as pq

        with self._files.open_new(self._files.at(path)) as file:
            pq.write_table(rows, file, compression=self._compression)

    def _finish(self, at: TopicPartition) -> None:
        """Give the files of a commit their names."""
        commit = self._unfinished.get(at)
        if commit is not None:
            self._logs[at].finish(commit)
            del self._unfinished[at]


def _as_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _by_folder(rows: pa.Table, columns: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """The rows by Hive folder (with / at its end, empty for none), without the columns that are in its name."""
    if not columns:
        return [("", rows)]
    import pyarrow as pa

    index = "__row__"
    keyed = rows.select(list(columns)).append_column(index, pa.array(range(len(rows)), pa.int64()))
    groups = keyed.group_by(list(columns), use_threads=False).aggregate([(index, "list")])
    rest = rows.drop_columns(list(columns))
    found = []
    for group, places in zip(groups.select(list(columns)).to_pylist(), groups.column(f"{index}_list"), strict=True):
        folder = "".join(f"{quote(name, safe='')}={_folder_value(group[name])}/" for name in columns)
        found.append((folder, rest.take(places.values)))
    return found


def _folder_value(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    return quote(str(value), safe=" :+") or _NULL
