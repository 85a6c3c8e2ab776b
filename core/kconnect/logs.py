"""Logging: where a line comes from (connector, task, stage), how it looks, and what must never be in it.

The library itself adds no handler and sets no level: the command, the worker's main and a slot's main call `configure`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO

__all__ = [
    "HIDDEN",
    "configure",
    "current_context",
    "is_secret",
    "log_context",
    "mask",
    "set_log_context",
]

HIDDEN: Final = "[hidden]"
"""What stands in place of a secret."""

# Parts of a key that make its value a secret. Whole dotted words, so that `key.converter` is none and `ssl.key` is not
# asked for: PEM keys have names of their own below.
_SECRET_WORDS: Final = ("password", "passwd", "passphrase", "secret", "token", "credential", "credentials", "apikey")
_SECRET_ENDS: Final = (
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.key.pem",
    "api.key",
    "access.key",
    "private.key",
    "basic.auth.user.info",
)
# Keys with such a word that tell where something is, not what it is.
_HARMLESS_ENDS: Final = (
    ".url", ".class", ".file", ".location", ".path", ".ms", ".seconds", ".type", ".name", ".expire.ms",
)  # fmt: skip


_context: ContextVar[str] = ContextVar("kconnect_log_context", default="")


def current_context() -> str:
    """What lines of this thread begin with now, such as `[orders|task-0] `; empty outside of any connector."""
    return _context.get()


def set_log_context(connector: str | None, task: int | None = None, stage: str | None = None) -> None:
    """Set the context for the rest of this thread: call it at a thread's top, threads do not inherit it."""
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
    """`[name|worker] ` of a connector, `[name|task-0] ` of a task, `[name|task-0|stage] ` of a stage in one."""
    if connector is None:
        return ""
    scope = "worker" if task is None else f"task-{task}"
    parts = [connector, scope] if stage is None else [connector, scope, stage]
    return f"[{'|'.join(parts)}] "


class LineFormatter(logging.Formatter):
    """Lines as Connect's log4j writes them: `[2026-01-31 12:00:00,123] INFO [orders|task-0] message (logger:42)`."""

    def format(self, record: logging.LogRecord) -> str:
        context = getattr(record, "connect_context", _context.get())
        when = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        stamp = f"{when:%Y-%m-%d %H:%M:%S},{int(record.msecs):03d}"
        line = f"[{stamp}] {record.levelname} {context}{record.getMessage()} ({record.name}:{record.lineno})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            line += "\n" + self.formatStack(record.stack_info)
        return line


def configure(level: int | str = logging.INFO, stream: TextIO | None = None) -> logging.Handler:
    """Send the log of this process to `stream` (standard error if None) and set the level; return the handler.

    Calling it again replaces the handler of the earlier call, and leaves handlers of others alone.
    Threads: call it once, at the start of a process.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler.formatter, LineFormatter)]:
        root.removeHandler(handler)
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(LineFormatter())
    root.addHandler(handler)
    root.setLevel(level.upper() if isinstance(level, str) else level)
    return handler


def is_secret(key: str) -> bool:
    """Whether a setting's name says that its value is a secret."""
    lowered = key.lower()
    if lowered.endswith(_SECRET_ENDS):
        return True
    if lowered.endswith(_HARMLESS_ENDS):
        return False
    words = lowered.replace("_", ".").replace("-", ".").split(".")
    return any(word in _SECRET_WORDS or word.endswith(("password", "secret")) for word in words)


def mask(config: Mapping[str, Any], secret_keys: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A copy of settings that may be logged: secrets are replaced.

    `secret_keys`: names that a ConfigDef types as PASSWORD; others are known by their names.
    """
    return {
        key: HIDDEN if value is not None and (key in secret_keys or is_secret(key)) else value
        for key, value in config.items()
    }
