"""What a trace says in one line: the root cause first, for statuses, tables and pages."""

from __future__ import annotations

import re
import traceback
from typing import Final

from kconnect.errors import ConnectError
from kconnect.logs.java_messages import log_words

# A record of Kafka has 1 MB by default, and a character up to 6 bytes in the JSON of a status
_LONGEST_HEAD: Final = 10_000
_LONGEST_STACK: Final = 100_000
# How our workers begin a trace; of a failed record: "Task x-0 failed: CAUSE. Record of topic .. failed in STAGE of .."
_FAILED, _ROOT_CAUSE, _RECORD, _IN_STAGE = " failed: ", " Root cause: ", ". Record of topic ", " failed in "
_OURS: Final = re.compile(r"(?:Task|Connector) .+? failed: ")
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAYS_NOTHING: Final = re.compile(r"AuthorizationException: \w+(?: \w+)? authorization failed\.$")
_PLUGIN: Final = re.compile(r"\w+ of [\w.<>$]*\w(?: \([^()]*\))?")
_GIVEN: Final = re.compile(r"The (?:key|value) (?:is|begins with) b.*?(?=\.(?: Since|$))")


def root_cause(trace: str | None) -> str:
    """The last cause of a trace, in one line, and which record: the part an operator wants to read first."""
    return log_words(_last_cause(trace)) if trace else ""


def _last_cause(trace: str) -> str:
    lines = [line.strip() for line in _ANSI.sub("", trace).splitlines() if line.strip()]
    is_ours = _OURS.match(lines[0]) is not None
    cause, _, record = lines[0].partition(_FAILED)[2].partition(_RECORD)
    if record:
        place, _, stage = record.partition(_IN_STAGE)
        plugin, given = _PLUGIN.match(stage), _GIVEN.search(stage)
        in_stage = f" in {plugin[0]}" if plugin is not None else ""
        return f"{cause}{_RECORD}{place}{in_stage}" + (f". {given[0]}" if given is not None else "")
    if _ROOT_CAUSE in lines[0]:  # our workers say it at once
        return lines[0].partition(_ROOT_CAUSE)[2]
    if is_ours:
        return cause
    caused = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    if caused and _SAYS_NOTHING.search(caused[-1]):  # what it may not do stands above it
        return [lines[0], *caused][-2]
    if caused:
        return caused[-1]
    return lines[-1] if lines[0].startswith("Traceback") else lines[0]


def trace_with_cause(subject: str, failure: BaseException, since: str = "") -> str:
    """The trace of a FAILED `subject`, such as Task a-1: a line with what failed, the cause and a hint, then the stack.

    `since`: what that line ends with.
    """
    head = f"{subject} failed: {_shortened(what_failed(failure), _LONGEST_HEAD)}"
    if isinstance(failure, ConnectError) and failure.hint:
        head += f"{'' if head.endswith(('.', '!', '?')) else '.'} {failure.hint}"
    stack = _shortened("".join(traceback.format_exception(failure)), _LONGEST_STACK)
    return sendable(f"{' '.join(head.split())}{since}\n{stack}")


def sendable(text: str) -> str:
    """The same with `?` for halves of surrogate pairs, as Java writes them: no status, log or answer can have them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _shortened(text: str, longest: int) -> str:
    """Its begin and end where it is longer, as a message with a whole document in it: a status has to be written."""
    left_out = len(text) - longest
    if left_out <= 0:
        return text
    half = longest // 2
    return f"{text[:half]} [.. {left_out:,} characters ..] {text[-half:]}"


# Errors of the Kafka client, which our own above them say in words
_NATIVE: Final = frozenset({"cimpl"})


def what_failed(failure: BaseException) -> str:
    """What failed, where, and the root cause, as one line."""
    root = failure
    while (earlier := root.__cause__ or (None if root.__suppress_context__ else root.__context__)) is not None:
        if type(earlier).__module__ in _NATIVE:
            break
        root = earlier
    reported = failure.opening(root) if isinstance(failure, ConnectError) else None
    return " ".join((reported or _what_failed(failure, root)).split())


def _what_failed(failure: BaseException, root: BaseException) -> str:
    cause = f"{type(root).__name__}: {root}"
    message = str(failure) or type(failure).__name__
    because = (
        "" if root is failure or cause in message or (str(root) and str(root) in message) else f" Root cause: {cause}"
    )
    return f"{sentence(message)}{because}"


def sentence(text: str) -> str:
    """A text with a full stop."""
    return text if text.endswith(".") else f"{text}."
