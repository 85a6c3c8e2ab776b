"""FileStore: files below a URL, in a local folder or on whatever fsspec reaches, each whole or not there."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kconnect.api import ConfigError, ConnectError
from kconnect.builtin.stores.store_errors import store_error

# What stays text although it may look like a number
_TEXTS = ("key", "secret", "token", "password", "username", "account_name", "account_key", "sas_token", "project")
_LOCAL = ("file", "local")
# Stores without folders: asked to make one, s3fs would make the bucket
_WITHOUT_FOLDERS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"}
# Extras by protocol; others are named by fsspec itself
_EXTRAS = {"s3": "s3", "s3a": "s3"}
_S3_CONNECT_S, _S3_READ_S, _S3_ATTEMPTS = 10, 30, 3
# Files that are being written in their folder; listings leave them out
_UNFINISHED = ".unfinished-"


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a listing. `etag` changes with its content; `time_s` is when it was last written."""

    path: str
    etag: str
    size: int
    time_s: float


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How the connector's settings are called, for hints: the URL, and what the options begin with."""

    url: str
    options: str


class FileStore:
    """The files below a URL. Paths begin with `root`, as listings give them.

    Errors: RetriableError while the store is away or full; ConnectError for what will not pass; whose `__cause__` is
    the store's own. Threads: one.
    """

    def __init__(self, url: str, settings: StoreSettings) -> None:
        self.url = url
        self.root = _local_path(url)
        self._settings = settings
        self._task: tuple[str, str] | None = None

    @property
    def kind(self) -> type:
        """What files can be moved within: they stay in stores of one kind."""
        return FileStore

    def at(self, path: str) -> str:
        """The path of what is called so below the root."""
        return f"{self.root.rstrip('/')}/{path}"

    @contextlib.contextmanager
    def telling(self, what: str, where: str) -> Iterator[None]:
        """Errors inside say that this failed, and not what was asked of the store for it."""
        self._task = what, where
        try:
            yield
        finally:
            self._task = None

    # --- looking ---

    @property
    def grows(self) -> bool:
        """Whether files can be seen while they are written; where not, each is whole once it is there."""
        return True

    def listing(self, besides: str | None = None) -> list[Found]:
        """All files below the URL, and folders that have none, whose paths end in a slash; none below `besides`.

        The URL's own file where it names one.
        """
        prefix = self.at("")
        aside = None if besides is None else besides.rstrip("/") + "/"
        with self._reported("list", self.root):
            return [
                found
                for found in self._all_below(self.root)
                if (found.path.startswith(prefix) or found.path == self.root)
                and not os.path.basename(found.path).startswith(_UNFINISHED)
                and not (aside and found.path.startswith(aside))
            ]

    def find(self, path: str) -> Found | None:
        """The file as it is now; None if it does not exist."""
        with self._reported("look at", path), contextlib.suppress(FileNotFoundError):
            return self._found(path)
        return None

    def below(self, path: str) -> list[str]:
        """The paths of all files whose path begins with this one."""
        with self._reported("list", path), contextlib.suppress(FileNotFoundError):
            folder = path.rsplit("/", 1)[0]
            paths = [found.path for found in self._all_below(folder)]
            return [found for found in paths if found.startswith(path) and not found.endswith("/")]
        return []

    def names(self, folder: str) -> list[str]:
        """Names in a folder; none when it does not exist."""
        with self._reported("list", folder), contextlib.suppress(FileNotFoundError):
            return self._names(folder)
        return []

    # --- reading ---

    def open(self, path: str) -> io.BufferedIOBase:
        """A file for reading, with seek."""
        with self._reported("open", path):
            return io.BufferedReader(_Raw(self, path, self._opened(path)), 1 << 20)

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None if it does not exist."""
        with self._reported("read", path), contextlib.suppress(FileNotFoundError):
            return self._content(path)
        return None

    # --- writing ---

    def write(self, path: str, body: bytes) -> None:
        """Write a file as a whole: it is there completely and durably, or as it was before."""
        with self._reported("write", path):
            with self._unfinished(path) as (unfinished, file):
                file.write(body)
            self._replace(unfinished, path)

    def create(self, path: str, data: bytes) -> bool:
        """Make a small file that is durable and whole at once; False when there is one already.

        `data` is like no other's, so that a file that is there can be known as one's own.
        """
        with self._reported("write", path):
            with self._unfinished(path) as (unfinished, file):
                file.write(data)
            try:
                os.link(unfinished, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(unfinished)
            _sync_folder(path)
            return True

    @contextlib.contextmanager
    def open_new(self, path: str) -> Iterator[Any]:
        """A file object to write to; what it wrote is there, and durable, once it is closed."""
        with self._reported("write", path):
            with self._unfinished(path) as (unfinished, file):
                yield file
            self._replace(unfinished, path)

    def move(self, path: str, target: str) -> bool:
        """Give a file another path, and replace what is there; nobody sees half of it. False when there is no file."""
        with self._reported("move", path):
            try:
                self._move(path, target)
            except FileNotFoundError:
                if self.find(path) is not None:  # it is the target that cannot be
                    raise
                return False
            return True

    def remove(self, path: str) -> None:
        """Remove a file; nothing when there is none."""
        with self._reported("delete", path), contextlib.suppress(FileNotFoundError):
            self._remove(path)

    # --- a folder of this machine, or one that is mounted ---

    def _all_below(self, folder: str) -> Iterator[Found]:
        if os.path.isfile(folder):
            yield self._found(folder)
            return
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder or file", folder)
        for at, folders, names in os.walk(folder, onerror=_raise_unless_gone):
            folders.sort()
            if not names and not folders:
                yield Found(f"{at}/", "", 0, 0.0)
            for name in sorted(names):
                with contextlib.suppress(FileNotFoundError):  # gone since, or a link to nothing
                    yield self._found(os.path.join(at, name))

    def _found(self, path: str) -> Found:
        about = os.stat(path)
        return found_of(path, {"size": about.st_size, "mtime": about.st_mtime})

    def _names(self, folder: str) -> list[str]:
        return os.listdir(folder)

    def _opened(self, path: str) -> Any:
        return open(path, "rb", buffering=0)

    def _content(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    @contextlib.contextmanager
    def _unfinished(self, path: str) -> Iterator[tuple[str, Any]]:
        """A file beside this one, which is durable once it is closed; it is gone if that fails."""
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                yield unfinished, file
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)
            raise

    def _replace(self, unfinished: str, path: str) -> None:
        os.replace(unfinished, path)
        _sync_folder(path)

    def _move(self, path: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        self._replace(path, target)

    def _remove(self, path: str) -> None:
        os.unlink(path)

    # --- errors ---

    @contextlib.contextmanager
    def _reported(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except ConnectError:
            raise
        except Exception as err:  # each store's library has classes of its own
            what, where = self._task or (verb, path)
            raise store_error(what, where, err, self._hint(err), (FileNotFoundError, FileExistsError)) from err

    def _hint(self, err: Exception) -> str | None:
        if isinstance(err, FileNotFoundError):
            return f"Check {self._settings.url}."
        if isinstance(err, PermissionError):
            return f"Check the credentials in {self._settings.options}*, and what they may do."
        if isinstance(err, TypeError):
            return f"Check the names in {self._settings.options}*: they are arguments of fsspec's class for this store."
        return None


class FsspecStore(FileStore):
    """The files of a store of fsspec.

    `create` asks the store to refuse an existing file (If-None-Match of S3), so that two writers never both succeed.
    """

    def __init__(self, url: str, settings: StoreSettings, files: Any, root: str) -> None:
        """`files` is an fsspec.AbstractFileSystem, which has no types."""
        super().__init__(url, settings)
        self.root = root
        self._files = files
        self._has_folders = _WITHOUT_FOLDERS.isdisjoint(_protocols(files))

    @property
    def kind(self) -> type:
        return type(self._files)

    @property
    def grows(self) -> bool:
        return self._has_folders

    def write(self, path: str, body: bytes) -> None:
        """Large ones go up in parts."""
        with self._reported("write", path):
            self._make_folder(path)
            self._files.pipe_file(path, body)

    def create(self, path: str, data: bytes) -> bool:
        with self._reported("write", path):
            self._make_folder(path)
            try:
                self._files.pipe_file(path, data, mode="create")
            except OSError:
                # s3fs knows no FileExistsError here; or an answer was lost, and the client's next try failed
                there = self.read(path)
                if there is None:
                    raise
                return there == data
            return True

    @contextlib.contextmanager
    def open_new(self, path: str) -> Iterator[Any]:
        with self._reported("write", path):
            self._make_folder(path)
            with self._files.open(path, "wb") as file:
                yield file

    def _all_below(self, folder: str) -> Iterator[Found]:
        self._files.invalidate_cache()
        return (found_of(path, info) for path, info in self._files.find(folder, detail=True).items())

    def _found(self, path: str) -> Found:
        self._files.invalidate_cache()
        return found_of(path, self._files.info(path))

    def _names(self, folder: str) -> list[str]:
        self._files.invalidate_cache()
        return [str(path).rsplit("/", 1)[-1] for path in self._files.ls(folder, detail=False)]

    def _opened(self, path: str) -> Any:
        return self._files.open(path, "rb")

    def _content(self, path: str) -> bytes:
        data: bytes = self._files.cat_file(path)
        return data

    def _move(self, path: str, target: str) -> None:
        self._make_folder(target)
        if self._has_folders:
            self._files.mv(path, target)
        else:
            self._files.cp_file(path, target)
            self._files.rm_file(path)

    def _remove(self, path: str) -> None:
        self._files.rm_file(path)

    def _make_folder(self, path: str) -> None:
        if self._has_folders:
            self._files.makedirs(self._files._parent(path), exist_ok=True)


class _Raw(io.RawIOBase):
    """An open file whose errors are those of the store, and so differ from those of its content."""

    def __init__(self, store: FileStore, path: str, file: Any) -> None:
        self._store, self._path, self._file = store, path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._store._reported("read", self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._store._reported("read", self._path):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def file_store(url: str, options: Mapping[str, str], settings: StoreSettings) -> FileStore:
    """The store of a URL or local path; opens no connection yet. Errors: ConfigError names what must be installed."""
    protocol = url.partition("://")[0] if "://" in url else url.partition(":")[0] if url.startswith("file:") else "file"
    if protocol in _LOCAL:
        return FileStore(url, settings)
    try:
        import fsspec
    except ImportError as err:
        raise ConfigError("fsspec is not installed", hint="pip install 'kconnect[objects]'") from err
    try:
        given = _with_defaults(protocol, typed_options(options, settings))
        files, path = fsspec.core.url_to_fs(url, skip_instance_cache=True, **given)
    except ImportError as err:
        extra = _EXTRAS.get(protocol)
        raise ConfigError(
            f"{protocol}:// needs a package that is not installed: {str(err).rstrip('.')}.",
            hint=f"pip install 'kconnect[{extra}]'" if extra else "Install the package that it names.",
        ) from err
    except (ValueError, TypeError) as err:
        raise ConfigError(f"{url} cannot be opened: {err}") from err
    return FsspecStore(url, settings, files, str(path).rstrip("/") or "/")


def typed_options(options: Mapping[str, str], settings: StoreSettings) -> dict[str, Any]:
    """Options for fsspec: numbers, true and false are such, JSON objects and lists are read. Errors: ConfigError."""
    return {name: _typed(name, value, settings) for name, value in options.items()}


def found_of(path: str, info: Mapping[str, Any]) -> Found:
    """What a listing says of a file, whatever the store calls it."""
    time_s = 0.0
    for name in ("LastModified", "mtime", "last_modified", "updated", "created"):
        stamp = info.get(name)
        if isinstance(stamp, datetime):
            time_s = stamp.timestamp()
        elif isinstance(stamp, int | float):
            time_s = float(stamp)
        elif isinstance(stamp, str):
            time_s = datetime.fromisoformat(stamp).timestamp()
        if stamp is not None:
            break
    size = int(info.get("size") or 0)
    tag = next((str(info[name]).strip('"') for name in ("ETag", "etag", "md5Hash") if info.get(name)), "")
    return Found(path, tag or f"{time_s:.6f}-{size}", size, time_s)


def _local_path(url: str) -> str:
    for protocol in _LOCAL:
        url = url.removeprefix(f"{protocol}://").removeprefix(f"{protocol}:")
    return os.path.abspath(os.path.expanduser(url))


def _raise_unless_gone(err: OSError) -> None:
    if not isinstance(err, FileNotFoundError):
        raise err


def _sync_folder(path: str) -> None:
    """Make a new name durable."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    """The mask for new files, which can only be read by setting it; where the system shows it, from there."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    return 0o022


def _with_defaults(protocol: str, given: dict[str, Any]) -> dict[str, Any]:
    """Deadlines for stores whose own are minutes, each unless it is given; nothing is listed from a cache."""
    if protocol not in _EXTRAS:
        return given
    limits = {"connect_timeout": _S3_CONNECT_S, "read_timeout": _S3_READ_S, "retries": {"max_attempts": _S3_ATTEMPTS}}
    own = given.get("config_kwargs", {})
    config = {**limits, **own} if isinstance(own, dict) else own
    return {"use_listings_cache": False, **given, "config_kwargs": config}


def _typed(name: str, text: str, settings: StoreSettings) -> Any:
    if name in _TEXTS:
        return text
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError as err:
            raise ConfigError.invalid(settings.options + name, "[hidden]", f"It is not JSON: {err}") from None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
