"""Why a query failed, out of Spark's traces: the root cause, and whether starting again may help. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kconnect.errors import ConnectError

# The last line of a Python trace inside Java's: `module.Class: what it said`
_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+([\w.]+): ?((?:.|\n(?!\s+at |\n|\tat ))*)"
)
_JAVA: Final = re.compile(r"(?:^|Caused by: |: )([\w$]+(?:\.[\w$]+)+(?:Exception|Error)): (.+)", re.MULTILINE)
# What stands at the bottom and says nothing: pyspark's, and since Spark 4.0 where else the error has been thrown
_NO_CAUSE: Final = ("pyspark", "OriginalTryStackTraceException")
# An executor or a Python process is gone, Kafka or a database does not answer: the same may succeed a moment later
_PASSING: Final = (
    "ExecutorLostFailure",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Connection reset",
    "kconnect.errors.RetriableError",
    "kconnect.errors.UnreachableError",
    "kconnect.errors.TimedOutError",
    # By a query on a worker that was cut off, which may not start again
    "kconnect.errors.FencedError",
    "was lost",
    "java.net.ConnectException",
    "java.net.SocketException",
    "java.net.SocketTimeoutException",
    "terminating connection due to",
    # Somebody else's commit in between: Delta Lake refuses ours, Iceberg has given up after trying
    "io.delta.exceptions.",
    "org.apache.iceberg.exceptions.CommitFailedException",
    "org.apache.iceberg.exceptions.CommitStateUnknownException",
)


class QueryError(ConnectError):
    """A query has ended by an error of Spark or in it; what Spark said in full is in the trace."""


@dataclass(frozen=True, slots=True)
class RootCause:
    """What was at the bottom of an error of Spark."""

    kind: str
    message: str
    trace: str

    @property
    def is_passing(self) -> bool:
        """Whether the same query may run if it is started again."""
        return any(mark in self.trace for mark in _PASSING)

    def error(self, doing: str) -> QueryError:
        """An error that says it, with Spark's trace beneath."""
        name = self.kind.rpartition(".")[2]
        made = QueryError(f"{doing}: {name}: {self.message}" if name else f"{doing}: {self.message}")
        made.add_note(self.trace)
        return made


def root_cause(error: BaseException) -> RootCause:
    """Gives, for an error of py4j or pyspark, that of the innermost cause; for any other error, itself."""
    trace = full_text(error)
    python = list(_PYTHON.finditer(trace))
    if python:
        return RootCause(python[-1][1], _cut(python[-1][2]), trace)
    java = [found for found in _JAVA.finditer(trace) if not any(name in found[1] for name in _NO_CAUSE)]
    # What a socket says names no address: a driver's error above it does
    while len(java) > 1 and java[-1][1].startswith("java.net.") and not java[-2][1].startswith("org.apache.spark."):
        java.pop()
    if java:
        return RootCause(java[-1][1], _cut(java[-1][2]), trace)
    return RootCause("", _cut(str(error)) or type(error).__name__, trace)


def full_text(error: BaseException) -> str:
    """All that Spark said: the JVM's trace where there is one."""
    for get in ("_stackTrace", "getStackTrace", "_get_jvm_stacktrace"):
        found = getattr(error, get, None)
        text = found() if callable(found) else found
        if isinstance(text, str) and text:
            return f"{error}\n{text}"
    return str(error)


def _cut(text: str) -> str:
    return text.strip().split("\n\tat ")[0].split("=== Streaming Query ===")[0].strip()


class RestartQueryError(ConnectError):
    """The query must be started again, at once, and goes on then: it has found out more about its records."""
