"""Exit codes, and exception -> sentence, hint and code.

| code | means |
|------|-------|
| 0    | done |
| 1    | failed: the worker refused, or something broke; the message says what |
| 2    | usage: unknown option, bad or missing value, or confirmation needed but not possible (no terminal, no --yes) |
| 3    | not found: no such connector, task or file |
| 4    | conflict: the name is taken, it was changed meanwhile, or a rebalance is in progress |
| 5    | unreachable: nothing answers at the URL, or Kafka does not answer the worker; nothing was changed |
| 6    | timed out: the worker did not answer in time |
| 7    | found: the command has looked, and what it looked at is not well, does not fit, or would change |
| 130  | Ctrl-C |
| 141  | stdout was closed early (`connect .. | head`) |

`connect standalone` keeps the codes of Java's connect-standalone: 1, 2, 3, 130, 143.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    NotFoundError,
    NotGivenError,
    PreconditionFailedError,
    TimedOutError,
    UnreachableError,
)
from kconnect.logs.java_messages import plain_words

FAILED = 1
USAGE = 2
FOUND = 7
INTERRUPTED = 130
READER_GONE = 141

_CODE_OF: tuple[tuple[type[Exception], int], ...] = (
    (NotGivenError, USAGE),
    (NotFoundError, 3),
    (FileNotFoundError, 3),
    (AlreadyExistsError, 4),
    (ConflictError, 4),
    (PreconditionFailedError, 4),
    (UnreachableError, 5),
    (TimedOutError, 6),
)


# What a write meets, such as one of stdout, whose error names no file
_NOT_WRITTEN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EBADF)


# How Python keeps bytes of the command line that are no text
_NOT_TEXT: Final = re.compile("[\udc80-\udcff]")
_NOT_TEXT_HINT: Final = "Look at LANG and LC_ALL, and at what the terminal or the script sends."


class ExitError(Exception):
    """An error with an exit code of its own choice, for commands that keep another program's codes."""

    def __init__(self, error: ConnectError, code: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.code = code


class UsageProblem(ConnectError):
    """The command was called in a way that cannot be carried out; exit code 2."""


@contextmanager
def refused_as_usage(lead: str = "") -> Iterator[None]:
    """Inside, text that the command line or the environment gives is read. `lead`: begins the sentence.

    Errors: UsageProblem for what is no such text, instead of the error that the same text has in a file.
    """
    try:
        yield
    except (BadRequestError, ConfigError) as err:
        raise UsageProblem(f"{lead}{err}", hint=err.hint) from err


def refuse_empty(option: str, value: str | None) -> None:
    """What a script gives whose variable is empty means another place than the default. Errors: UsageProblem."""
    if value is not None and not value.strip():
        raise UsageProblem(f"{option} is empty", hint=f"Give it a value, or leave {option} out.")


class FoundError(ConnectError):
    """The command has done its work, which was to look, and found what its caller must know; exit code 7."""


class Explained(NamedTuple):
    """What the user is shown, and the exit code."""

    sentence: str
    hint: str | None
    code: int


def explain(error: BaseException) -> Explained:
    """Sentence, hint and exit code of anything a command raised."""
    if isinstance(error, ExitError):
        return Explained(str(error.error), error.error.hint, error.code)
    if isinstance(error, UsageProblem):
        return Explained(str(error), error.hint, USAGE)
    if isinstance(error, FoundError):
        return Explained(str(error), error.hint, FOUND)
    code = next((code for kind, code in _CODE_OF if isinstance(error, kind)), FAILED)
    if isinstance(error, ConnectError):
        explained = plain_words(str(error))
        return Explained(explained.sentence, error.hint or explained.hint or _usual_hint(error), code)
    if isinstance(error, OSError) and error.errno in _NOT_WRITTEN:
        where = _file_of(error)
        return Explained(f"{where or 'The output cannot be written'}: {error.strerror}", None, code)
    if isinstance(error, OSError) and error.filename:
        return Explained(f"{error.filename}: {error.strerror}", None, code)
    if isinstance(error, UnicodeEncodeError) and _NOT_TEXT.search(error.object):
        return Explained(f"{error.object!a} is not a text in {sys.getfilesystemencoding()}", _NOT_TEXT_HINT, USAGE)
    return Explained(f"{type(error).__name__}: {error}", "This is a bug in connect: --verbose shows the trace.", code)


def is_of_output(error: BaseException) -> bool:
    """Whether stdout cannot be written."""
    return isinstance(error, OSError) and error.errno in _NOT_WRITTEN and _file_of(error) is None


def _file_of(error: OSError) -> object:
    return error.filename2 or error.filename  # of a copy, first the file that is read


def _usual_hint(error: ConnectError) -> str | None:
    """Hints for what a worker, ours or Java's, answers in words of its API."""
    if isinstance(error, AlreadyExistsError):
        return "connect connectors apply -f FILE changes an existing one."
    if isinstance(error, ConflictError):
        return "A rebalance may be running: try again in a few seconds."
    return None
