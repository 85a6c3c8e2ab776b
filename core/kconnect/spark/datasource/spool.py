"""The spool of a stream: Arrow files with what was polled, on a disk or in a store that driver and executors share.

A file is complete when it is named in Spark's offset, and is never written again. It is removed once Spark has
committed its batch. Losing one is no loss of records: they are polled again (stream_reader.py).
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kconnect.errors import ConnectError
from kconnect.files.folders import state_folder

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

# A checkpoint that nobody has used for so long is not waited for: its last batch would be polled again
_KEPT_S: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """One file as Spark's offset names it; `batches` are its Arrow batches."""

    name: str
    rows: int
    batches: int

    def to_json(self) -> list[Any]:
        return [self.name, self.rows, self.batches]


class Spool:
    """One folder with the files of one run of a query. Threads: any; a writer belongs to one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder.rstrip("/")
        self._store, self._path = _store_of(self.folder)

    @classmethod
    def new(cls, path: str | None) -> Spool:
        """A new folder under `path`, a folder or URI; by default under the user's state folder, which is tidied."""
        if path is None:
            root = state_folder() / "spark-spool"
            _tidy(root)
            path = str(root)
        return cls(f"{path.rstrip('/')}/{uuid.uuid4().hex[:16]}")

    def writer(self, name: str, schema: pa.Schema) -> SpoolWriter:
        """Begin a file. Errors: ConnectError naming the folder, when it cannot be written to."""
        import pyarrow as pa

        try:
            if self._is_local:
                os.makedirs(self._path, mode=0o700, exist_ok=True)
                os.close(os.open(f"{self._path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                sink: Any = pa.OSFile(f"{self._path}/{name}", "wb")
            else:
                self._store.create_dir(self._path, recursive=True)
                sink = self._store.open_output_stream(f"{self._path}/{name}")
        except OSError as error:
            raise _unusable(self.folder, error) from error
        return SpoolWriter(name, sink, schema, self.folder)

    def has(self, file: SpooledFile) -> bool:
        """Whether the file is there, and whole."""
        import pyarrow as pa

        try:
            with self._open(file.name) as source:
                return bool(pa.ipc.open_file(source).num_record_batches == file.batches)
        except (OSError, pa.ArrowInvalid):
            return False

    def read(self, name: str, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Arrow batches of a file. Errors: ConnectError when it is not here: the folder is not shared."""
        import pyarrow as pa

        try:
            source = self._open(name)
        except OSError as error:
            raise ConnectError(
                f"{self.folder}/{name} cannot be read on this machine: {error}",
                hint="On a cluster set kconnect.spool.path to a folder or URI that driver and executors share.",
            ) from error
        with source:
            reader = pa.ipc.open_file(source)
            for index in range(first, end):
                yield reader.get_batch(index)

    def remove(self, names: list[str]) -> None:
        """Remove files, and the folder with the last one. What is gone already is no error."""
        for name in names:
            try:
                self._store.delete_file(f"{self._path}/{name}")
            except OSError as error:
                log.debug("%s/%s was not removed: %s", self.folder, name, error)

    def remove_folder(self) -> None:
        """Remove the folder with all that is in it."""
        try:
            self._store.delete_dir(self._path)
        except OSError as error:
            log.debug("%s was not removed: %s", self.folder, error)

    @property
    def _is_local(self) -> bool:
        return bool(self._store.type_name == "local")

    def _open(self, name: str) -> Any:
        import pyarrow as pa

        path = f"{self._path}/{name}"
        return pa.memory_map(path) if self._is_local else self._store.open_input_file(path)


class SpoolWriter:
    """A file being written. Threads: one at a time."""

    def __init__(self, name: str, sink: Any, schema: pa.Schema, folder: str) -> None:
        import pyarrow as pa

        self._name, self._sink, self._folder = name, sink, folder
        self._writer = pa.ipc.new_file(sink, schema)
        self.rows = self.batches = self.size = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Errors: ConnectError naming the folder, such as for a full disk."""
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise _unusable(self._folder, error) from error
        self.rows += batch.num_rows
        self.batches += 1
        self.size += batch.nbytes

    def close(self) -> SpooledFile:
        """End the file. Errors: as `write`."""
        try:
            self._writer.close()
            self._sink.close()
        except OSError as error:
            raise _unusable(self._folder, error) from error
        return SpooledFile(self._name, self.rows, self.batches)


def _store_of(folder: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        if "://" not in folder and not folder.startswith("file:"):
            return fs.LocalFileSystem(), str(Path(folder).absolute())
        store, path = fs.FileSystem.from_uri(folder)
        return store, path
    except (OSError, ValueError) as error:
        raise _unusable(folder, error) from error


def _unusable(folder: str, error: Exception) -> ConnectError:
    reason = getattr(error, "strerror", None) or str(error)
    return ConnectError(
        f"The spool {folder} cannot be used: {reason}",
        hint="kconnect.spool.path says where it is: a folder with room for two micro-batches, or a URI.",
    )


def _tidy(root: Path) -> None:
    """Remove folders of queries that nobody has run for a week."""
    oldest = time.time() - _KEPT_S
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.is_dir() and max((path.stat().st_mtime for path in (folder, *folder.iterdir())), default=0) < oldest:
            shutil.rmtree(folder, ignore_errors=True)
