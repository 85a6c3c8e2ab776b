"""Logging: the origin of a line (connector, task, stage), its format, and what must never appear in it.

The library adds no handler and sets no level: the CLI and the main functions of worker and slot call `configure`.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TextIO

from kconnect.logs.java_messages import log_words
from kconnect.logs.redaction import HIDDEN, redact

# Parts of a key that mark its value as secret: whole dotted words, so neither `key.converter` nor `ssl.key` matches
# (PEM keys have their own names below).
_SECRET_WORDS: Final = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "credentials", "apikey",
    "authorization", "cookie",
)  # fmt: skip
# With dots for lines and dashes: `x-api-key` of an HTTP header is one
_SECRET_ENDS: Final = (
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.key.pem",
    "api.key",
    "access.key",
    "private.key",
    "basic.auth.user.info",
    "account.key",  # this and the next two: of stores, in object.options.*
    "connection.string",
    "client.kwargs",
)
# Keys with such a word whose value is a location, not the secret itself.
_HARMLESS_ENDS: Final = (
    ".url", ".class", ".file", ".location", ".path", ".ms", ".seconds", ".type", ".name", ".expire.ms",
)  # fmt: skip


_context: ContextVar[str] = ContextVar("kconnect_log_context", default="")


def current_context() -> str:
    """The current prefix of this thread's lines, such as `[orders|task-0] `; empty outside connectors."""
    return _context.get()


def current_place() -> tuple[str | None, int | None]:
    """Connector and task of this thread's lines; None where it has none."""
    context = _CONTEXT.fullmatch(_context.get())
    if context is None:
        return None, None
    return context["connector"], None if context["task"] is None else int(context["task"])


def set_log_context(connector: str | None, task: int | None = None, stage: str | None = None) -> None:
    """Set the context for the rest of this thread. Call it where a thread starts: threads do not inherit it."""
    _context.set(_prefix(connector, task, stage))


@contextmanager
def log_context(connector: str | None, task: int | None = None, stage: str | None = None) -> Iterator[None]:
    """Set the context for a block. Source: o.a.k.connect.util.LoggingContext (KIP-449)."""
    before = _context.set(_prefix(connector, task, stage))
    try:
        yield
    finally:
        _context.reset(before)


def _prefix(connector: str | None, task: int | None, stage: str | None) -> str:
    """`[name|worker] ` of a connector, `[name|task-0] ` of a task; or `[name|stage] ` and `[name|task-0|stage] `.

    Source: LoggingContext.prefixFor. Differs: Java's only stages are `offsets` and `validate`.
    """
    if connector is None:
        return ""
    scopes = [] if task is None else [f"task-{task}"]
    scopes += [stage] if stage is not None else []
    return f"[{'|'.join([connector, *(scopes or ['worker'])])}] "


class LineFormatter(logging.Formatter):
    """Lines as Connect's log4j writes them: `[2026-01-31 12:00:00,123] INFO [orders|task-0] message (logger:42)`."""

    def format(self, record: logging.LogRecord) -> str:
        context = getattr(record, "connect_context", _context.get())
        when = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        stamp = f"{when:%Y-%m-%d %H:%M:%S},{int(record.msecs):03d}"
        line = f"{record.getMessage()} ({record.name}:{record.lineno})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            line += "\n" + self.formatStack(record.stack_info)
        # A connector's name is no secret, whatever is in it
        return f"[{stamp}] {record.levelname} {context}{redact(log_words(line))}"


_CONTEXT: Final = re.compile(r"\[(?P<connector>.*?)(?:\|task-(?P<task>\d+))?(?:\|(?P<stage>[\w -]+))?\] ")
_TRACE: Final = "\nTraceback (most recent call last):\n"


class JsonFormatter(LineFormatter):
    """One JSON object a line: time (UTC), level (log4j's name), logger, line, message, connector, task, stage, worker,
    thread, stack; keys without a value are left out. ASCII only, so that no locale of a container spoils it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._worker = socket.gethostname()

    def format(self, record: logging.LogRecord) -> str:
        context = _CONTEXT.fullmatch(getattr(record, "connect_context", _context.get()))
        # A slot's line comes with its trace in the text
        message, has_trace, trace = record.getMessage().partition(_TRACE)
        stack = _TRACE.lstrip() + trace if has_trace else ""
        if record.exc_info:
            stack += self.formatException(record.exc_info)
        if record.stack_info:
            stack += self.formatStack(record.stack_info)
        when = datetime.fromtimestamp(record.created, tz=UTC)
        task = context["task"] if context else None
        found = {
            "time": f"{when:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": level_name(record.levelno),
            "logger": record.name,
            "line": record.lineno,
            "message": redact(log_words(message)),
            "connector": context["connector"] if context else None,
            "task": int(task) if task is not None else None,
            "stage": context["stage"] if context and context["stage"] != "worker" else None,
            "worker": self._worker,
            "thread": record.threadName,
            "stack": redact(log_words(stack)) or None,
        }
        return json.dumps({key: value for key, value in found.items() if value is not None})


FORMATS: Final = {"line": LineFormatter, "json": JsonFormatter}
"""How lines of the log may look, by name."""


def configure(level: int | str = logging.INFO, stream: TextIO | None = None, form: str = "line") -> logging.Handler:
    """Send the log of this process to `stream` (standard error if None) and set the level; return the handler.

    `form` is one of FORMATS.

    A second call replaces the handler of the first and leaves other handlers alone.
    Threads: call it once, at the start of a process.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler.formatter, LineFormatter)]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(FORMATS[form]())
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    return handler


# log4j's names with Python's numbers. 0 would mean "inherit from the parent logger".
_LEVELS: Final = {"OFF": 60, "FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5, "ALL": 1}
_MAKES_LOGGER: Final = "\nlog = logging.getLogger(__name__)\n"
# For people used to Java: the root of its loggers also means the root of ours.
_JAVA_ROOTS: Final = {"org.apache.kafka.connect": "kconnect"}


_given: dict[str, int] = {}


def give_levels(levels: Mapping[str, int]) -> None:
    """Set levels of loggers at the start of a process, each with what is below it that has none of its own.

    Threads: call it once, before loggers are at work.
    """
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _given.update(levels)


def given_levels() -> dict[str, int]:
    """What `give_levels` has set, parents first: slots get it, too."""
    return dict(sorted(_given.items()))


def level_number(name: str) -> int | None:
    """The level that log4j calls `name` (case-insensitive), or None if there is no such level."""
    return _LEVELS.get(name.strip().upper())


def level_name(number: int) -> str:
    """log4j's name of a level; one between two gets the name of the more verbose one."""
    return next((name for name, known in _LEVELS.items() if known <= number), "ALL")


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The effective level of a logger by log4j's name, and when it was last changed here (epoch ms), if ever."""

    level: str
    last_modified_ms: int | None

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level, "last_modified": self.last_modified_ms}


_followers: list[Callable[[], None]] = []


def follow_levels(changed: Callable[[], None]) -> Callable[[], None]:
    """Have a function called after each change of a level, on the thread that changes it; gives one that ends it."""
    _followers.append(changed)
    return lambda: _followers.remove(changed) if changed in _followers else None


def set_levels() -> dict[str, int]:
    """Every level that was set, by logger, and that of `root`; others have that of the nearest name above."""
    found = {name: made.level for name, made in list(logging.root.manager.loggerDict.items())
             if isinstance(made, logging.Logger) and made.level}  # fmt: skip
    return {**found, "root": logging.root.level}


class LogLevels:
    """Levels of this process's loggers, adjustable at run time. Threads: any.

    Known loggers are those of all our modules, wherever they run, and any that code in this process has requested:
    loggers of a plugin that only slots import appear with their first line. A mere prefix of other names is not a
    logger.
    Source: o.a.k.connect.runtime.Loggers (Kafka 4.3).
    Differs: `org.apache.kafka.connect` stands for `kconnect` as well; a name covers those below it by whole words.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._modified_ms: dict[str, int] = {}  # guarded by _lock

    def all(self) -> dict[str, LoggerLevel]:
        """All known loggers by name, and `root`."""
        with self._lock:
            return {logger.name: self._shown(logger) for logger in sorted(_known(), key=lambda logger: logger.name)}

    def find(self, name: str) -> LoggerLevel | None:
        """One logger, or None if it is not known."""
        with self._lock:
            found = {logger.name: logger for logger in _known()}.get("root" if name.lower() == "root" else name)
            return None if found is None else self._shown(found)

    def set(self, name: str, level: int) -> list[str]:
        """Set the level of a logger and its children; return the sorted names of those that changed."""
        names = ["root"] if name.lower() == "root" else list(dict.fromkeys((name, _JAVA_ROOTS.get(name, name))))
        for asked in names:
            logging.getLogger(None if asked == "root" else asked)
        with self._lock:
            covered = [logger for logger in _known() if any(_covers(asked, logger.name) for asked in names)]
            changed = [logger for logger in covered if logger.getEffectiveLevel() != level]
            for logger in changed:
                logger.setLevel(level)
                self._modified_ms[logger.name] = time.time_ns() // 1_000_000
        for follower in list(_followers):
            follower()
        return sorted(logger.name for logger in changed)

    def _shown(self, logger: logging.Logger) -> LoggerLevel:
        return LoggerLevel(level_name(logger.getEffectiveLevel()), self._modified_ms.get(logger.name))


def _known() -> list[logging.Logger]:
    for name in _of_modules():
        logging.getLogger(name)
    made = list(logging.root.manager.loggerDict.values())  # a copy: other threads may create loggers meanwhile
    return [logging.root, *(logger for logger in made if isinstance(logger, logging.Logger))]


@cache
def _of_modules() -> tuple[str, ...]:
    """Names of the loggers that this package's modules create; most are imported in slots only.

    Read from the files, 235 of them in 6 ms: importing them would load Kafka's client and Spark.
    """
    root = Path(__file__).parents[1]
    return tuple(
        ".".join((root.name, *file.relative_to(root).with_suffix("").parts))
        for file in sorted(root.rglob("*.py"))
        if _MAKES_LOGGER in file.read_text("utf-8")
    )


def _covers(name: str, logger: str) -> bool:
    return name in ("root", logger) or logger.startswith(f"{name}.")


def is_secret(key: str) -> bool:
    """Whether the name of a setting marks its value as secret."""
    lowered = key.lower()
    dotted = lowered.replace("_", ".").replace("-", ".")
    if dotted.endswith(_SECRET_ENDS):
        return True
    if lowered.endswith(_HARMLESS_ENDS):
        return False
    words = dotted.split(".")
    return any(word in _SECRET_WORDS or word.endswith(("password", "secret")) for word in words)


def mask(config: Mapping[str, Any], secret_keys: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A copy of the settings that is safe to log: secrets are replaced.

    `secret_keys`: names that a ConfigDef declares as PASSWORD; others are recognised by name.
    """
    return {
        key: HIDDEN if value is not None and (key in secret_keys or is_secret(key)) else value
        for key, value in config.items()
    }


_URL = re.compile(r"://|\bjdbc:")
_URL_LOGIN = re.compile(r"(://[^/\s:@?#]*:|\bthin:[^/\s:@]+/)[^/\s@]+@")
_URL_PARAMETER = re.compile(r"([?&;])([A-Za-z][\w.-]*)=([^&;\s]+)")


def hide_in_urls(text: str) -> str:
    """The text with passwords of URLs replaced: those before the host, and parameters whose names mark a secret."""
    if not _URL.search(text):
        return text

    def hidden(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}={HIDDEN if is_secret(found[2]) else found[3]}"

    return _URL_PARAMETER.sub(hidden, _URL_LOGIN.sub(rf"\1{HIDDEN}@", text))
