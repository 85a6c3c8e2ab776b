"""Exit codes, and exception -> sentence, hint and code.

| code | means |
|------|-------|
| 0    | done |
| 1    | failed: the worker refused or something broke; the sentence says what |
| 2    | usage: unknown option, bad value, or a question that could not be asked (no terminal, no --yes) |
| 3    | not found: no such connector, task or file |
| 4    | conflict: the name is taken, or a rebalance runs |
| 5    | unreachable: nobody answers at the URL |
| 6    | timed out: the worker did not answer in time |
| 130  | Ctrl-C |
| 141  | the reader of stdout went away (`connect .. | head`) |

`connect standalone` keeps the codes of Java's connect-standalone: 1, 2, 3, 130, 143.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    NotFoundError,
    TimedOutError,
    UnreachableError,
)

__all__ = ["Explained", "Failure", "UsageProblem", "explain"]

FAILED = 1
USAGE = 2
INTERRUPTED = 130
READER_GONE = 141

# How workers, ours and Java's, answer to a class they do not have; a long list of all their connectors follows.
_NO_SUCH_CLASS = "Failed to find any class that implements"
_PLUGINS_FOLLOW = ", available connectors are: "

_CODE_OF: tuple[tuple[type[Exception], int], ...] = (
    (NotFoundError, 3),
    (FileNotFoundError, 3),
    (AlreadyExistsError, 4),
    (ConflictError, 4),
    (UnreachableError, 5),
    (TimedOutError, 6),
)


class Failure(Exception):
    """An error with an exit code of its own choice, for commands that keep another program's codes."""

    def __init__(self, error: ConnectError, code: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.code = code


class UsageProblem(ConnectError):
    """The command was called in a way that cannot be carried out; exit code 2."""


class Explained(NamedTuple):
    """What the user is shown, and the exit code."""

    sentence: str
    hint: str | None
    code: int


def explain(error: BaseException) -> Explained:
    """Sentence, hint and exit code of anything a command raised."""
    if isinstance(error, Failure):
        return Explained(str(error.error), error.error.hint, error.code)
    if isinstance(error, UsageProblem):
        return Explained(str(error), error.hint, USAGE)
    code = next((code for kind, code in _CODE_OF if isinstance(error, kind)), FAILED)
    if isinstance(error, ConnectError):
        sentence, listed, plugins = str(error).partition(_PLUGINS_FOLLOW)
        if listed and _NO_SUCH_CLASS in sentence:
            return Explained(sentence, error.hint or _alike(sentence.rpartition(" ")[2], plugins), code)
        return Explained(str(error), error.hint or _usual_hint(error), code)
    if isinstance(error, OSError) and error.filename:
        return Explained(f"{error.filename}: {error.strerror}", None, code)
    return Explained(f"{type(error).__name__}: {error}", "This is a bug in connect: --verbose shows the trace.", code)


def _alike(name: str, plugins: str) -> str:
    """Connectors whose short name is like a misspelt one, out of the list in a worker's answer."""
    from difflib import get_close_matches

    short = [found.rpartition(".")[2] for found in re.findall(r"klass=class ([\w.$]+)", plugins)]
    short += [found.removesuffix("Connector") for found in short]
    near = get_close_matches(name.rpartition(".")[2], short, n=1)
    asked = f"Did you mean {near[0]}? " if near else ""
    return f"{asked}`connect plugins list` shows what the worker has."


def _usual_hint(error: ConnectError) -> str | None:
    """Hints for what a worker, ours or Java's, answers in words of its API."""
    if isinstance(error, BadRequestError) and "must be in the STOPPED state" in str(error):
        return "Stop it first: connect connectors stop NAME"
    if isinstance(error, AlreadyExistsError):
        return "connect connectors apply -f FILE changes one that is there."
    if isinstance(error, ConflictError):
        return "A rebalance may be running: try again in a few seconds."
    return None
