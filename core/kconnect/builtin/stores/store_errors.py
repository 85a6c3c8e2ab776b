"""The sentence for what a store or its package refused, and whether it is tried again. Pure."""

from __future__ import annotations

import errno
import re

from kconnect.api import ConnectError, RetriableError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR)
# Stores raise these without a number, too
_DENIALS = (PermissionError, NotADirectoryError, IsADirectoryError)
# Failures that pass by themselves have other classes in each library; those of settings and rights are the ones above
_NETWORKS = ("botocore", "aiobotocore", "aiohttp", "asyncio", "requests", "urllib3", "google", "azure", "fsspec")
# Packages written in Rust have the number in their text alone
_NUMBER = re.compile(r"\(os error (\d+)\)")
# What object stores say for a while, in the words of deltalake: a network that is away, a server that is busy
_PASSES = re.compile(r"Generic \w+ error|timed? ?out|[Cc]onnection|503|SlowDown|database is locked|disk I/O error")

# Lines of SQLAlchemy and of Rust that tell a user nothing
_NOISE = ("(Background on this error", "[SQL:", "[parameters:", "stack backtrace", "note: ")
# Frames of native code, `12: __clone3` and `at ./misc/../sysdeps/..:81:0`, and colours for a terminal
_FRAME = re.compile(r"\d+: +\S+$|at \S+:\d+(:\d+)?$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def store_error(
    what: str, where: str, error: Exception, hint: str | None = None, lasting: tuple[type[Exception], ...] = ()
) -> ConnectError:
    """The error for `what` ("write .. to") that failed at `where`: RetriableError if it may pass by itself.

    `lasting`: what else will not pass where this is asked. `hint`: for what will not.
    """
    number = _number_of(error)
    has_own_words = type(error) is Exception or (isinstance(error, OSError) and error.strerror)
    kind = "" if has_own_words else f"{type(error).__name__}: "
    text = f"Cannot {what} {where}: {kind}{_words_of(error)}".removesuffix(": ")
    if number in _FULL or "disk is full" in str(error):
        return RetriableError(f"{text}. Nothing is lost: it is tried again until there is room.")
    if number in _DENIED or isinstance(error, _DENIALS + lasting):
        return ConnectError(text, hint=hint)
    is_of_network = type(error).__module__.partition(".")[0] in _NETWORKS
    if isinstance(error, OSError) or is_of_network or _PASSES.search(str(error)):
        return RetriableError(text)
    return ConnectError(text, hint=hint)


def _number_of(error: Exception) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = _NUMBER.search(str(error))
    return int(match[1]) if match else None


def _words_of(error: Exception) -> str:
    """What the error says, on one line: of a long chain, as deltalake draws it, the first and the last link."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    lines = [
        line.replace("↳", " ").replace("External error: ", "").strip()
        for line in _COLOUR.sub("", str(error)).splitlines()
    ]
    lines = [line for line in lines if line and not line.startswith(_NOISE) and not _FRAME.match(line)]
    return f"{lines[0]} .. {lines[-1]}" if len(lines) > 1 else "".join(lines)
