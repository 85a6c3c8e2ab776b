"""A folder or bucket of objects, on whatever fsspec reaches: listed, read, written whole, moved, deleted."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kconnect.api import ConfigError, ConnectError, RetriableError
from kconnect.builtin.connectors.objects.object_config import OPTIONS_PREFIX

# What stays text although it may look like a number
_TEXTS = ("key", "secret", "token", "password", "username", "account_name", "account_key", "sas_token", "project")
# Extras by protocol; others are named by fsspec itself
_EXTRAS = {"s3": "s3", "s3a": "s3"}
_S3_CONNECT_S, _S3_READ_S, _S3_ATTEMPTS = 10, 30, 3
# Failures that pass by themselves have other classes in each library; those of settings and rights are these
_LASTING = (FileNotFoundError, PermissionError, NotADirectoryError, IsADirectoryError, FileExistsError)
_NETWORKS = ("botocore", "aiobotocore", "aiohttp", "asyncio", "requests", "urllib3", "google", "azure", "fsspec")


@dataclass(frozen=True, slots=True)
class Found:
    """One object of a listing. `etag` changes with its content; `time_s` is when it was last written."""

    path: str
    etag: str
    size: int
    time_s: float


class Store:
    """The objects below a URL. Errors: RetriableError while the store is away; ConnectError for what will not pass.

    Threads: one.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._fs, self.root = open_store(url, options)
        self._is_local = "file" in _protocols(self._fs)

    def listing(self, pattern: str, besides: str | None = None) -> list[Found]:
        """All objects whose path below the URL matches the pattern; none of those below the path `besides`."""
        matches = re.compile(glob_regex(pattern)).fullmatch
        with self._told("list", self.root):
            self._fs.invalidate_cache()
            if self._is_local and not os.path.isdir(self.root):
                raise FileNotFoundError(f"There is no folder {self.root}")
            listed = self._fs.find(self.root, detail=True)
        prefix = self.root.rstrip("/") + "/"
        aside = None if besides is None else besides.rstrip("/") + "/"
        return [
            found_of(path, info)
            for path, info in listed.items()
            if path.startswith(prefix)
            and not os.path.basename(path).startswith(_UNFINISHED)
            and matches(path[len(prefix) :])
            and not (aside and path.startswith(aside))
        ]

    def find(self, path: str) -> Found | None:
        """The object as it is now; None if it does not exist."""
        with self._told("look at", path):
            self._fs.invalidate_cache()
            try:
                return found_of(path, self._fs.info(path))
            except FileNotFoundError:
                return None

    def below(self, path: str) -> list[str]:
        """The paths of all objects whose path begins with this one."""
        with self._told("list", path):
            self._fs.invalidate_cache()
            folder = path.rsplit("/", 1)[0]
            try:
                return [found for found in self._fs.find(folder) if found.startswith(path)]
            except FileNotFoundError:
                return []

    def open(self, path: str) -> io.BufferedIOBase:
        """An object for reading, with seek."""
        with self._told("open", path):
            return io.BufferedReader(_Raw(self, path, self._fs.open(path, "rb")), 1 << 20)

    def write(self, path: str, body: bytes) -> None:
        """Write an object as a whole: it is there completely, or as it was before. Large ones go up in parts."""
        with self._told("write", path):
            if self._is_local:
                _write_file(path, body)
            else:
                self._fs.pipe_file(path, body)

    def remove(self, path: str) -> None:
        with self._told("delete", path), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def move(self, path: str, target: str) -> None:
        """Move an object; the target is replaced."""
        with self._told("move", path):
            if self._is_local:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.replace(path, target)
            else:
                self._fs.cp_file(path, target)
                self._fs.rm_file(path)

    @contextlib.contextmanager
    def _told(self, verb: str, path: str) -> Iterator[None]:
        try:
            yield
        except ConnectError:
            raise
        except Exception as err:  # each store's library has classes of its own
            raise _problem(verb, path, err) from err


class _Raw(io.RawIOBase):
    """An open object whose errors are those of the store, and so differ from those of its content."""

    def __init__(self, store: Store, path: str, file: Any) -> None:
        self._store, self._path, self._file = store, path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._store._told("read", self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._store._told("read", self._path):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def open_store(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The file system of a URL, by fsspec, and the path in it. Errors: ConfigError names what must be installed."""
    try:
        import fsspec
    except ImportError as err:
        raise ConfigError("fsspec is not installed", hint="pip install 'kconnect[objects]'") from err
    protocol = url.split("://", 1)[0] if "://" in url else "file"
    try:
        given = {**_defaults(protocol), **options}
        fs, path = fsspec.core.url_to_fs(url, skip_instance_cache=True, **given)
    except ImportError as err:
        extra = _EXTRAS.get(protocol)
        raise ConfigError(
            f"{protocol}:// needs a package that is not installed: {str(err).rstrip('.')}.",
            hint=f"pip install 'kconnect[{extra}]'" if extra else "Install the package that it names.",
        ) from err
    except (ValueError, TypeError) as err:
        raise ConfigError(f"{url} cannot be opened: {err}") from err
    return fs, str(path).rstrip("/") or "/"


def store_options(props: Mapping[str, str]) -> dict[str, Any]:
    """`object.options.*` for fsspec: numbers, true and false are such, JSON objects and lists are read."""
    return {
        key[len(OPTIONS_PREFIX) :]: _typed(key[len(OPTIONS_PREFIX) :], value)
        for key, value in props.items()
        if key.startswith(OPTIONS_PREFIX)
    }


def glob_regex(pattern: str) -> str:
    """A pattern of paths as a regular expression: `*` and `?` stay in a folder, `**` goes below, {a,b} is either."""
    found, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            found, at = found + ".*", at + 2
        elif pattern[at] == "*":
            found, at = found + "[^/]*", at + 1
        elif pattern[at] == "?":
            found, at = found + "[^/]", at + 1
        elif pattern[at] == "{" and "}" in pattern[at:]:
            end = pattern.index("}", at)
            found += "(?:" + "|".join(glob_regex(part) for part in pattern[at + 1 : end].split(",")) + ")"
            at = end + 1
        elif pattern[at] == "[" and "]" in pattern[at:]:
            end = pattern.index("]", at)
            found += fnmatch.translate(pattern[at : end + 1])[4:-3]
            at = end + 1
        else:
            found, at = found + re.escape(pattern[at]), at + 1
    return found


def found_of(path: str, info: Mapping[str, Any]) -> Found:
    """What a listing says of an object, whatever the store calls it."""
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


_UNFINISHED = ".unfinished-"


def _write_file(path: str, body: bytes) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def _umask() -> int:
    """The mask for new files, which can only be read by setting it; where the system shows it, from there."""
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    return 0o022


def _problem(verb: str, path: str, err: Exception) -> ConnectError:
    text = f"Cannot {verb} {path}: {type(err).__name__}: {err}" if str(err) else f"Cannot {verb} {path}: {err!r}"
    if isinstance(err, _LASTING):
        return ConnectError(text, hint=_HINTS.get(type(err)))
    is_of_network = type(err).__module__.partition(".")[0] in _NETWORKS
    if isinstance(err, OSError) or is_of_network:
        return RetriableError(text)
    return ConnectError(text, hint=_HINTS.get(type(err)))


_HINTS = {
    FileNotFoundError: "Check object.url.",
    PermissionError: "Check the credentials in object.options.*, and what they may do.",
    TypeError: "Check the names in object.options.*: they are arguments of fsspec's class for this store.",
}


def _defaults(protocol: str) -> dict[str, Any]:
    """Deadlines for stores whose own are minutes; nothing is listed from a cache."""
    if protocol not in _EXTRAS:
        return {}
    limits = {"connect_timeout": _S3_CONNECT_S, "read_timeout": _S3_READ_S, "retries": {"max_attempts": _S3_ATTEMPTS}}
    return {"config_kwargs": limits, "use_listings_cache": False}


def _typed(name: str, text: str) -> Any:
    if name in _TEXTS:
        return text
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError as err:
            raise ConfigError.invalid(OPTIONS_PREFIX + name, "[hidden]", f"It is not JSON: {err}") from None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)
