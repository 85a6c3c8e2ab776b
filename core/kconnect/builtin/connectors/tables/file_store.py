"""Where plain Parquet tables keep their files: a local folder, or any store of fsspec (s3://, gs://, memory://)."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from kconnect.api import ConfigError


class FileStore(Protocol):
    """Files by path below a root. Errors: OSError as the store gives them."""

    def create(self, path: str, data: bytes) -> bool:
        """Make a small file that is durable and whole at once; False when there is one already.

        `data` is like no other's, so that a file that is there can be known as one's own.
        """
        ...

    def read(self, path: str) -> bytes:
        """Errors: FileNotFoundError."""
        ...

    def open_new(self, path: str) -> Any:
        """A file object to write to; what it wrote is durable once it is closed. Folders are made."""
        ...

    def move(self, path: str, new: str) -> None:
        """Give a file its final path; nobody sees half of it there."""
        ...

    def exists(self, path: str) -> bool: ...
    def names(self, folder: str) -> list[str]:
        """Names in a folder; none when it does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file; nothing when there is none."""
        ...


def file_store(path: str, options: Mapping[str, str]) -> FileStore:
    """The store for a table's path. Errors: ConfigError when a package for it is missing."""
    if "://" not in path or path.startswith("file://"):
        return LocalFiles(path.removeprefix("file://"))
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ConfigError(
            f"table.path={path} needs the package fsspec: pip install 'kconnect[objects]' ('kconnect[s3]' for S3)"
        ) from error
    try:
        files, root = url_to_fs(path, **options)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"table.path={path}: {error}") from error
    return FsspecFiles(files, root)


class LocalFiles:
    """A folder of this machine, or one that is mounted. Implements FileStore."""

    def __init__(self, root: str) -> None:
        self._root = os.path.abspath(root)

    def create(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(full), prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, full)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        _sync_folder(full)
        return True

    def read(self, path: str) -> bytes:
        with open(self._full(path), "rb") as file:
            return file.read()

    @contextlib.contextmanager
    def open_new(self, path: str) -> Iterator[Any]:
        full = self._full(path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        try:
            with open(full, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(full)
            raise

    def move(self, path: str, new: str) -> None:
        full = self._full(new)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        os.replace(self._full(path), full)
        _sync_folder(full)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(self._full(folder))
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._full(path))

    def _full(self, path: str) -> str:
        return os.path.join(self._root, path)


class FsspecFiles:
    """A store of fsspec. Implements FileStore.

    `create` asks the store to refuse an existing file (If-None-Match of S3), so that two writers never both succeed.
    """

    def __init__(self, files: Any, root: str) -> None:  # an fsspec.AbstractFileSystem, which has no types
        self._files = files
        self._root = root.rstrip("/")

    def create(self, path: str, data: bytes) -> bool:
        full = self._full(path)
        self._files.makedirs(self._files._parent(full), exist_ok=True)
        try:
            self._files.pipe_file(full, data, mode="create")
        except OSError:  # s3fs knows no FileExistsError here; or an answer was lost, and the client's next try failed
            try:
                return self.read(path) == data
            except FileNotFoundError:
                pass
            raise
        return True

    def read(self, path: str) -> bytes:
        data: bytes = self._files.cat_file(self._full(path))
        return data

    @contextlib.contextmanager
    def open_new(self, path: str) -> Iterator[Any]:
        full = self._full(path)
        self._files.makedirs(self._files._parent(full), exist_ok=True)
        with self._files.open(full, "wb") as file:
            yield file

    def move(self, path: str, new: str) -> None:
        full = self._full(new)
        self._files.makedirs(self._files._parent(full), exist_ok=True)
        self._files.mv(self._full(path), full)

    def exists(self, path: str) -> bool:
        self._files.invalidate_cache()
        return bool(self._files.exists(self._full(path)))

    def names(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        try:
            return [str(path).rsplit("/", 1)[-1] for path in self._files.ls(self._full(folder), detail=False)]
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._full(path))

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


def _sync_folder(path: str) -> None:
    """Make a new name durable."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
