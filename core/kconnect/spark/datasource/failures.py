"""What Spark shows of an error: one sentence with the root cause first, secrets hidden, instead of a Python trace."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kconnect.errors import ConfigError, ConnectError
from kconnect.logs.redaction import redact
from kconnect.runtime.pipeline.stages import StageError

# pyspark gives the message alone while it is set. The process ends with the error, so nobody else meets it.
_HIDE_TRACE = "SPARK_HIDE_TRACEBACK"
ROWS_OF_A_WRITE: Final = 1 << 32
"""Offsets that one partition of a write has for its rows at most."""


@contextmanager
def reported_to_spark(doing: str, first_offset: int | None = None) -> Iterator[None]:
    """Errors inside become a ConnectError whose text is all that Spark shows. `doing`: `reading task 0`, or empty.

    `first_offset`: that of the first row that is written, whose offsets nobody else knows: rows are named instead.
    """
    try:
        yield
    except Exception as error:  # whatever a connector or its plugins raise
        os.environ[_HIDE_TRACE] = "1"
        text = text_of(error, doing)
        raise ConnectError(redact(text if first_offset is None else rows_named(text, first_offset))) from None


# Offsets alone: a number that a value has may be as large
_OFFSET: Final = re.compile(r"\boffset (\d+)\b")
_GIVEN: Final = re.compile(r"(?<=\(it was given )[^)]+(?=\))")
_SPAN: Final = re.compile(r"(?<= )(\d+) to (\d+)")


def rows_named(text: str, first: int) -> str:
    """The text with rows, counted from 0, in place of offsets, of which the first row has `first`."""

    def row(offset: str) -> str:
        number = int(offset) - first
        return f"row {number}" if 0 <= number < ROWS_OF_A_WRITE else f"offset {offset}"

    def spans(found: re.Match[str]) -> str:
        return _SPAN.sub(lambda span: f"{row(span[1])} to {row(span[2])}", found[0])

    return _GIVEN.sub(spans, _OFFSET.sub(lambda found: row(found[1]), text))


def text_of(error: BaseException, doing: str = "") -> str:
    """The error as Spark's user reads it: the root cause, what failed with it, what to do, the plugin's own lines."""
    chain = _chain(error)
    root = chain[-1]
    lines = [_said(root)]
    for number, outer in reversed(list(enumerate(chain[:-1], 1))):
        said = outer.place if isinstance(outer, StageError) else _without(_said(outer), chain[number:])
        if said and said not in lines:
            lines.append(said)
    if doing:
        lines.append(f"while {doing}")
    hint = next((e.hint for e in chain if isinstance(e, ConnectError) and e.hint), None)
    text = "\n  ".join(lines) + (f"\n{hint}" if hint else "")
    return text if isinstance(root, ConnectError) else f"{text}\n{_trace(root)}"


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    while found[-1].__cause__ is not None and found[-1].__cause__ not in found:
        found.append(found[-1].__cause__)
    return found


def _said(error: BaseException) -> str:
    text = str(error).strip()
    if isinstance(error, ConfigError) and error.problems and not error.problems[0].key:
        return error.problems[0].message  # an unknown class: without the list of all that there are
    if isinstance(error, ConnectError):
        return text or _kind(error)
    return f"{_kind(error)}: {text}" if text else _kind(error)


def _without(text: str, causes: Sequence[BaseException]) -> str:
    """What an outer error adds to its causes, the nearest first: `FileTask.poll() raised OSError`."""
    for cause in causes:
        said = _said(cause)
        text = text.replace(f": {said}", "").replace(said, "" if isinstance(cause, ConnectError) else _kind(cause))
    return text.strip(" :\n")


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _trace(error: BaseException) -> str:
    """The plugin's lines: the last frames of the trace."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:]).rstrip()
