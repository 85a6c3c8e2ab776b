"""ParquetTable: a folder of plain Parquet files, with the range of offsets in the name of each, and its commit log."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kconnect.api import ConnectError, DataError, RetriableError, TopicPartition
from kconnect.builtin.connectors.tables.partition_columns import Places, is_local_path
from kconnect.builtin.connectors.tables.table_format import TableWrite, stale_offsets
from kconnect.builtin.stores.file_store import FileStore
from kconnect.builtin.stores.hive_paths import HIVE_NULL, folder_name
from kconnect.builtin.types.seen import joined_schemas

if TYPE_CHECKING:
    import pyarrow as pa

_PLACES: Final = Places("folders of Parquet", folder_name, nulls=("", HIVE_NULL))
_TRIES = 10
# Those of a store take 50 ms each
_MOST_FOOTERS = 1000
FOLDER = "_kconnect"
"""Readers of Parquet folders leave names with an underscore out."""

# A writer that slept through so many commits of another finds the one it stands on gone, and so learns of them.
_KEPT = 50


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
        self._has_long: dict[str, bool] = {}
        """Columns that were asked to be doubles, and whether files have whole numbers that are none."""

    def schema(self) -> pa.Schema | None:
        """The columns of what this writer has committed in the partitions that it opened."""
        return self._schema

    def stored_type(self, kind: pa.DataType) -> pa.DataType:
        return kind

    def can_widen(self, column: str, old: pa.DataType, new: pa.DataType) -> bool:
        """Each file has types of its own; readers take all of a column for the widest.

        So whole numbers in the files must be doubles for that. Their footers say it, which are read once a column.
        """
        import pyarrow as pa

        if not pa.types.is_integer(old) or old.bit_width < 64 or not pa.types.is_floating(new):
            return True
        if column not in self._has_long:
            with self._telling("read footers of"):
                self._has_long[column] = self._may_have_long(column)
        return not self._has_long[column]

    def refusal(self, schema: pa.Schema) -> str:
        return ""

    def misplaced(self, rows: pa.RecordBatch) -> str:
        return _PLACES.misplaced(rows, self._partition_by, is_local=is_local_path(self.where))

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
            self._schema = found if self._schema is None else joined_schemas([self._schema, found])

    def _may_have_long(self, column: str) -> bool:
        """Whether a whole number in a column of the files may have more digits than a double."""
        import pyarrow.parquet as pq

        root = self._files.at("")
        paths = [path for path in self._files.below(root) if path.endswith(".parquet") and f"/{FOLDER}/" not in path]
        if len(paths) > _MOST_FOOTERS:
            return True
        for path in paths:
            with self._files.open(path) as file:
                footer = pq.ParquetFile(file).metadata
                for group in (footer.row_group(index) for index in range(footer.num_row_groups)):
                    chunks = (group.column(index) for index in range(group.num_columns))
                    if any(_may_be_long(chunk) for chunk in chunks if chunk.path_in_schema.split(".")[0] == column):
                        return True
        return False

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


def _may_be_long(chunk: Any) -> bool:
    """Whether a chunk of a column, by its statistics, may have a whole number that is not a double."""
    if chunk.physical_type != "INT64" or chunk.num_values == 0:
        return False
    found = chunk.statistics
    if found is None or not found.has_min_max:
        return not (found is not None and found.null_count == chunk.num_values)
    return not (isinstance(found.min, int) and found.min >= -_EXACT and found.max <= _EXACT)


_EXACT = 1 << 53


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
        folder = "".join(f"{folder_name(name, group[name])}/" for name in columns)
        found.append((folder, rest.take(places.values)))
    return found


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: the offset to go on from afterwards (None: none), and the files that it adds."""

    number: int
    offset: int | None
    files: tuple[tuple[str, str], ...] = ()
    """Pairs of temporary and final path. The final one is there at the latest before the next commit."""
    columns: str | None = None
    """The table's columns after it, as text of the table's own."""


class CommitLog:
    """Commits of a partition by one writer (a connector), as small files with a number.

    A commit exists when its file does: the store makes a file with that number once. Its data files get their names
    afterwards; who opens the log next does it where the writer died in between. Threads: one.
    """

    def __init__(self, files: FileStore, writer: str, at: TopicPartition) -> None:
        self._files = files
        self.folder = f"{FOLDER}/{quote(writer, safe='')}/{at.topic}/{at.partition}"
        self.head = Commit(-1, None)

    def last(self) -> Commit | None:
        """The last commit; None when there is none. Changes nothing."""
        numbers = sorted(self._numbers(), reverse=True)
        for number in numbers[:2]:  # one that is found in a hole is taken back by who made it
            found = self._read(number)
            if found is not None:
                return found
        return None

    def take_over(self) -> Commit:
        """Finish the last commit, and add an empty one, after which no earlier writer can commit."""
        while True:
            found = self.last() or Commit(-1, None)
            self.finish(found)
            self.head = found
            taken = self.append(found.offset, (), found.columns)
            if taken is not None:
                self._tidy()
                return taken

    def append(self, offset: int | None, files: Sequence[tuple[str, str]], columns: str | None = None) -> Commit | None:
        """Commit, if the head is still the last one; None if somebody else has committed since."""
        base, made = self.head, Commit(self.head.number + 1, offset, tuple(files), columns)
        pairs = [list(pair) for pair in files]
        record = {"offset": offset, "files": pairs, "columns": columns, "id": uuid.uuid4().hex}
        if not self._files.create(self._path(made.number), json.dumps(record).encode()):
            return None
        if self._is_hole(base):
            self._files.remove(self._path(made.number))
            return None
        self.head = made
        if made.number >= _KEPT:
            self._files.remove(self._path(made.number - _KEPT))
        return made

    def finish(self, commit: Commit) -> None:
        """Give the commit's files their final names, where that was not done."""
        for temporary, final in commit.files:
            self._files.move(self._files.at(temporary), self._files.at(final))

    def _is_hole(self, base: Commit) -> bool:
        """Whether the number that was just made was used before, and removed: the ones before it are removed first."""
        if base.number >= 0:
            return self._files.find(self._path(base.number)) is None
        return max(self._numbers(), default=0) > 0

    def _tidy(self) -> None:
        """Remove what writers left that died before they committed. They cannot commit any more."""
        for name in self._files.names(self._files.at(self.folder)):
            if name.endswith(".tmp"):
                self._files.remove(self._files.at(f"{self.folder}/{name}"))

    def _numbers(self) -> list[int]:
        names = self._files.names(self._files.at(self.folder))
        return [int(name.removesuffix(".json")) for name in names if _is_commit(name)]

    def _read(self, number: int) -> Commit | None:
        path = self._path(number)
        content = self._files.read(path)
        if content is None:
            return None
        try:
            found = json.loads(content)
            files = tuple((str(temporary), str(final)) for temporary, final in found["files"])
            return Commit(number, found["offset"], files, found.get("columns"))
        except (ValueError, KeyError, TypeError) as error:
            raise ConnectError(
                f"{path} is not a commit of a table: {error}",
                hint="Remove it only if you know that it is not the last.",
            ) from error

    def _path(self, number: int) -> str:
        return self._files.at(f"{self.folder}/{number:020d}.json")


def _is_commit(name: str) -> bool:
    return name.endswith(".json") and name.removesuffix(".json").isdecimal()
