"""Why a connector or task is FAILED, read off the trace of its status, and whether a restart can help.

Pure: text in, a `Failure` out. A status is all that the leader, or its successor, knows of a task elsewhere.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from kconnect.java.plugins.isolation import named_in


class NoHelp(StrEnum):
    """Why there is no restart: it would not help until somebody changes something, or nobody makes one."""

    CONFIG = "its configuration is wrong"
    CLASS = "a class or module is missing"
    RIGHTS = "it is not authorized"
    RECORD = "it fails on the same record again"
    OFF = "errors.restart.max is 0"
    JAVA_MEMBER = "a Java worker is in the group and errors.restart.max is not set"
    JAVA_LEADS = "a Java worker leads the group"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of a connector or task."""

    worker_id: str
    said: str
    """The first line of the trace, shortened."""
    no_help: NoHelp | None = None
    """It is None where a restart may help."""
    record: str = ""
    """A digest of the record and of what was wrong with it; empty if it is not about one record."""
    ended_by: str = ""
    """Who ended the JVM that it shared, as `connector` or `connector-0`; empty where nobody is known."""
    at_ms: int | None = field(default=None, compare=False)
    """When its status was written, since the epoch; None: nobody says."""

    def is_of_others(self, connector: str) -> bool:
        """Whether another connector's plugin caused it: it costs this one nothing of its budget of restarts."""
        own, _, task = self.ended_by.rpartition("-")
        return bool(self.ended_by) and connector not in (self.ended_by, own if task.isdecimal() else "")


# A status of Java's may have lines of any length; a line of a log or a message is no place for more
_LONGEST = 300
_RAISED = re.compile(
    r"^(?:Caused by: )?(?P<type>[\w.$]*(?:Error|Exception|Exit|Denied|Refused))(?::|$)(?P<said>.*)$", re.M
)
_STAGES = r"(?:TRANSFORMATION|KEY_CONVERTER|VALUE_CONVERTER|HEADER_CONVERTER)"
_ON_A_RECORD = re.compile(rf"^[\w.]*StageError: (?P<what>.* failed in {_STAGES} of .*)$", re.M)
_SINCE = re.compile(r" Since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.$")

_AWAY = frozenset(
    {
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "TimeoutError",
        "TimedOutError",
        "UnreachableError",
        "RetriableError",
        "RetriableException",
        "TimeoutException",
        "gaierror",
        "UnknownHostException",
        "SocketTimeoutException",
    }
)
_CONFIGS = frozenset({"ConfigError", "ConfigException", "BadRequestError", "IllegalWorkerParametersError"})
_CLASSES = frozenset(
    {"ModuleNotFoundError", "ImportError", "ClassNotFoundException", "NoClassDefFoundError", "PluginNotFoundException"}
)
_RIGHTS = frozenset(
    {
        "PermissionError",
        "AccessDeniedException",
        "ForbiddenError",
        "AuthorizationException",
        "AuthenticationException",
        "TopicAuthorizationException",
        "GroupAuthorizationException",
        "ClusterAuthorizationException",
        "TransactionalIdAuthorizationException",
        "SaslAuthenticationException",
        "SslAuthenticationException",
    }
)
_NOT_ALLOWED = re.compile(
    r"_AUTHORIZATION_FAILED|SASL_AUTHENTICATION_FAILED|\b(?:authorization|authentication) failed", re.IGNORECASE
)
_NO_CLASS = re.compile(r"Failed to find any class that implements|No module named")


def failure_of(worker_id: str, trace: str | None, at_ms: int | None = None) -> Failure:
    """What the status of a FAILED connector or task says of its failure."""
    text = (trace or "").strip()
    digest = blake2b(text.encode(errors="replace"), digest_size=16).digest()
    known = _READ.get(digest)
    if known is None:
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        known = _READ[digest] = _read(text)
    return replace(known, worker_id=worker_id, at_ms=at_ms)


# Each request for all statuses and each reading of metrics asks again: of 1,000 long traces that took 2 s. By digest,
# as traces that are over would take more memory than all that is said of them.
_READ: Final[dict[bytes, Failure]] = {}
_MOST_READ: Final = 4_096


def _read(text: str) -> Failure:
    first = _SINCE.sub("", text.partition("\n")[0].strip())
    said = first if len(first) <= _LONGEST else f"{first[: _LONGEST - 1]}…"
    raised = [(found["type"].rpartition(".")[2], found["said"]) for found in _RAISED.finditer(text)]
    ended_by = named_in(text) or ""
    return Failure("", said or "no trace", _no_help(raised, first), _record(raised, text), ended_by)


def _no_help(raised: list[tuple[str, str]], first: str) -> NoHelp | None:
    names = {name for name, _ in raised}
    said = "\n".join([first, *(text for _, text in raised)])
    if names & _RIGHTS or _NOT_ALLOWED.search(said):
        return NoHelp.RIGHTS
    if names & _CLASSES or _NO_CLASS.search(said):
        return NoHelp.CLASS
    if names & _CONFIGS and not names & _AWAY:  # such as a reference to a vault that does not answer
        return NoHelp.CONFIG
    return None


def _record(raised: list[tuple[str, str]], text: str) -> str:
    if found := _ON_A_RECORD.search(text):
        return _digest(found["what"])
    wrong = [f"{name}:{said}" for name, said in raised if name in ("DataError", "DataException")]
    return _digest(wrong[-1]) if wrong else ""


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.encode(errors='replace')):08x}"
