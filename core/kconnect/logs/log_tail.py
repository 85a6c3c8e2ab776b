"""The last lines of a worker's log, its slots' among them, kept in memory for callers over REST."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from kconnect.logs.java_messages import log_words
from kconnect.logs.log_context import current_context, level_name
from kconnect.logs.redaction import redact

# A busy worker writes some lines a second, one with a thousand connectors 3,000 at its start; 200 bytes a line
MOST_LINES: Final = 10_000
MOST_CHARS: Final = 4_000_000
# A trace of Java is rarely longer, and its beginning and end say it
_MOST_TEXT: Final = 20_000
MOST_AT_ONCE: Final = 2_000

_CONTEXT: Final = re.compile(
    r"\[(?P<connector>.*?)\|(?:task-(?P<task>\d{1,9})(?:\|(?P<stage>(?!worker\])[^|]*))?|(?P<scope>[^|]*))\] ",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `slot`: where it was written, None in the worker's own process."""

    number: int
    time_ms: int
    level: str
    logger: str
    connector: str | None
    task: int | None
    stage: str | None
    slot: int | None
    thread: str
    text: str
    """With the trace, if there is one; without secrets."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines: of a connector, at least of a level (Python's number), from a time on, behind a number."""

    connector: str | None = None
    level: int = 0
    since_ms: int | None = None
    after: int | None = None
    limit: int = 200


@dataclass(frozen=True, slots=True)
class LogPage:
    """Lines in order. `last`: ask for what comes after it. `missed`: whether lines behind `after` are gone."""

    lines: Sequence[LogLine]
    last: int
    missed: bool


class LogTail:
    """The last lines. Threads: any.

    Numbers grow also over a restart of the worker: they begin with its time in microseconds.
    """

    def __init__(self, wall_s: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()  # guards the three below
        self._lines: deque[LogLine] = deque()
        self._chars = 0
        self._last = self._first = int(wall_s() * 1_000_000)
        self.handler: logging.Handler = _TailHandler(self)
        """Put it on the root logger."""

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self._last

    def add(self, record: logging.LogRecord, text: str) -> None:
        """Keep a line; the oldest go."""
        context = str(getattr(record, "connect_context", current_context()))
        connector, task, stage = parse_context(context)
        with self._lock:
            self._last += 1
            self._lines.append(
                LogLine(
                    self._last,
                    int(record.created * 1000),
                    level_name(record.levelno),
                    record.name,
                    connector,
                    task,
                    stage,
                    getattr(record, "connect_slot", None),
                    record.threadName or "",
                    text,
                )
            )
            self._chars += len(text)
            while self._lines and (len(self._lines) > MOST_LINES or self._chars > MOST_CHARS):
                self._chars -= len(self._lines.popleft().text)

    def page(self, query: LogQuery) -> LogPage:
        """The last lines that fit, or with `after` the first ones behind it."""
        wanted = _filter(query)
        with self._lock:
            lines, last = list(self._lines), self._last
        if query.after is None:
            found: list[LogLine] = []
            for line in reversed(lines):
                if len(found) >= query.limit:
                    break
                if wanted(line):
                    found.append(line)
            return LogPage([_shown(line) for line in reversed(found)], last, missed=False)
        first_kept = lines[0].number if lines else last + 1
        found = []
        for line in _behind(lines, query.after):
            if wanted(line):
                found.append(line)
                if len(found) >= query.limit:
                    last = line.number
                    break
        is_ours = query.after >= self._first
        return LogPage([_shown(line) for line in found], last, missed=is_ours and query.after + 1 < first_kept)

    def watch(self, query: LogQuery) -> Callable[[], bool]:
        """A question that can be asked again and again: whether there is a line behind `after` that fits by now.

        Each call looks at the lines that are new since the one before. Threads: one at a time.
        """
        wanted, seen = _filter(query), query.after if query.after is not None else self._last

        def has_any() -> bool:
            nonlocal seen
            if self._last <= seen:
                return False
            with self._lock:
                new = list(_behind(self._lines, seen))
            seen = new[-1].number if new else self._last
            return any(wanted(line) for line in new)

        return has_any


def parse_context(context: str) -> tuple[str | None, int | None, str | None]:
    """Connector, task and stage of the prefix of a line, such as `[orders|task-0] `; see `logs.log_context`."""
    form = _CONTEXT.fullmatch(context)
    if form is None:
        return None, None, None
    scope = form["stage"] or form["scope"]
    return form["connector"], None if form["task"] is None else int(form["task"]), None if scope == "worker" else scope


def _filter(query: LogQuery) -> Callable[[LogLine], bool]:
    names = None if query.connector is None else _names(query.connector)
    levels = {level_name(number) for number in (60, 50, 40, 30, 20, 10, 5, 1) if number >= query.level}

    def wanted(line: LogLine) -> bool:
        if line.level not in levels or (query.since_ms is not None and line.time_ms < query.since_ms):
            return False
        if names is None or line.connector == query.connector:
            return True
        return line.connector is None and names.search(line.text) is not None

    return wanted


def _names(connector: str) -> re.Pattern[str]:
    """Finds a connector, or a task of it, in a line that the worker wrote about it."""
    return re.compile(rf"(?<![\w.-]){re.escape(connector)}(?!\w|\.\w|-\D)")


def _behind(lines: Sequence[LogLine] | deque[LogLine], after: int) -> Iterator[LogLine]:
    new: list[LogLine] = []
    for line in reversed(lines):
        if line.number <= after:
            break
        new.append(line)
    return reversed(new)


def _shown(line: LogLine) -> LogLine:
    """Without secrets that became known after it was written."""
    text = redact(line.text)
    return line if text == line.text else LogLine(**{**asdict(line), "text": text})


class _TailHandler(logging.Handler):
    def __init__(self, tail: LogTail) -> None:
        super().__init__()
        self._tail = tail
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = redact(log_words(self.format(record)))
            if len(text) > _MOST_TEXT:
                half = _MOST_TEXT // 2
                text = f"{text[:half]}\n.. {len(text) - _MOST_TEXT} characters left out ..\n{text[-half:]}"
            self._tail.add(record, text)
        except Exception:
            self.handleError(record)
