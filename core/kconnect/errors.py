"""Every exception of the library. An error is data first (its fields), then a sentence: what, where, what to do.

ConnectError                      the root; catch this to catch all of ours
├── RetriableError                the same call may succeed later
├── DataError                     a record or a schema is wrong: retrying is useless
│   ├── SchemaBuilderError        a schema was put together wrongly
│   └── SchemaProjectorError      a value cannot be read with the other schema
├── ConfigError                   settings are wrong: carries one ConfigProblem for each
│   └── NotGivenError             neither options nor files say which cluster is meant, or where something of it is
├── NotFoundError                 a connector, task, plugin or file does not exist (REST 404)
├── AlreadyExistsError            the name is taken (REST 409)
├── ConflictError                 a rebalance runs or the state forbids it; may succeed later (REST 409)
│   ├── FencedError               another one took over the right to write, and ours is gone
│   └── WrongWorkerError          another worker of the cluster has to do it: carries its URL
├── PreconditionFailedError       it is not in the version that the caller knows (REST 412): carries the current tag
├── BadRequestError               the caller asked for something that makes no sense (REST 400)
├── NotAllowedError               the brokers refuse it for want of a right, and allow it once that is granted
├── ForbiddenError                a setting of the worker does not allow it (REST 403)
├── NotReadyError                 the worker is starting and lacks what it needs for it (REST 503)
├── TimedOutError                 a deadline passed: names the setting that sets it
├── UnreachableError              nobody answers at an address (broker, worker)
├── LinkError                     the control link between worker and slot broke
│   └── LinkRefusedError          slot and worker do not match; retrying will not help
├── EnvironmentProblemError       this machine lacks something: Java, a free port, a writable folder
└── IllegalWorkerParametersError  the settings of one connector do not fit this worker
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class ConnectError(Exception):
    """Something in Connect failed; the message says what and where. Source: o.a.k.connect.errors.ConnectException."""

    is_fatal = False
    """No record is to blame, such as for a class that is missing: it is tolerated for none."""

    def __init__(self, message: str = "", *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        """What the user can do about it, one sentence, or None. The command line prints it below the message."""
        self.log_stage: str | None = None
        """The stage of a task it came from (poll, put, value-converter ..), or None; shown in its log line."""

    def opening(self, root: BaseException) -> str | None:
        """The sentence that a trace begins with, where this error has one of its own; `root` is its first cause."""
        return None


def with_hint(error: BaseException) -> str:
    """What an error says and what can be done about it, for a place that has room for one text."""
    text = str(error) or type(error).__name__
    hint = error.hint if isinstance(error, ConnectError) else None
    return f"{text.rstrip('.')}. {hint}" if hint else text


class RetriableError(ConnectError):
    """The same call may succeed later: the runtime tries again with back-off. Source: RetriableException.

    `retry_after_s`: how long to wait first, if the code that raises it knows, such as from a server's Retry-After;
    None leaves it to the runtime.
    """

    def __init__(self, message: str = "", *, hint: str | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class DataError(ConnectError):
    """A record or a schema is wrong; retrying is useless. Source: DataException."""


class SchemaBuilderError(DataError):
    """A schema was put together wrongly. Source: SchemaBuilderException."""


class SchemaProjectorError(DataError):
    """A value written with one schema cannot be read with the other. Source: SchemaProjectorException."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One setting that is wrong: its key, the value found (None if missing) and a sentence."""

    key: str
    value: str | None
    message: str


class ConfigError(ConnectError):
    """Settings are wrong; `problems` has one entry for each. Source: o.a.k.common.config.ConfigException.

    `str(error)` is Java's message where Java has one, so that REST bodies match.
    """

    def __init__(self, message: str, problems: Sequence[ConfigProblem] = (), *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = tuple(problems)

    @classmethod
    def invalid(cls, key: str, value: object, message: str | None = None) -> ConfigError:
        """The error of one bad value, in Java's words: `Invalid value V for configuration K: message`."""
        text = f"Invalid value {string_value(value)} for configuration {key}" + (f": {message}" if message else "")
        return cls(text, [ConfigProblem(key, None if value is None else str(value), text)])


class NotGivenError(ConfigError):
    """Neither options nor files have a setting that says which cluster is meant, or where something of it is."""


def string_value(value: object) -> str:
    """A value as Java's `String.valueOf` gives it: null, true, false, [a, b]."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(string_value(item) for item in value) + "]"
    return str(value)


def sayable(error: BaseException) -> BaseException:
    """The error of somebody else's code; another, with its trace, if its text cannot be made."""
    try:
        str(error)
    except Exception as failed:  # whatever its __str__ raises
        text = f"{type(error).__name__}, whose text cannot be made: __str__() raised {type(failed).__name__}"
        return ConnectError(text).with_traceback(error.__traceback__)
    return error


class NotFoundError(ConnectError):
    """A connector, task, plugin or file does not exist. Source: NotFoundException (REST 404)."""


class NoRouteError(NotFoundError):
    """The worker has no such route: it is one of Java's, an older one, or serves it not. Source: Jersey's own 404."""


class AlreadyExistsError(ConnectError):
    """The name is taken. Source: AlreadyExistsException (REST 409)."""


class ConflictError(ConnectError):
    """A rebalance runs, or the current state forbids it; it may succeed later. Source: RebalanceNeededException."""


class FencedError(ConflictError):
    """Another writer has fenced off ours. Source: PrivilegedWriteException, ProducerFenced."""


class WrongWorkerError(ConflictError):
    """Another worker must do it: the leader, or the one with the task. Source: RequestTargetException.

    REST forwards the request to `url`, or answers 409 where forwarding is not allowed.
    """

    def __init__(self, message: str, url: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.url = url


class PreconditionFailedError(ConnectError):
    """Somebody else changed it since the caller read it (REST 412). `etag`: the tag of the current version, if any."""

    def __init__(self, message: str, *, etag: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.etag = etag


class BadRequestError(ConnectError):
    """The request is invalid. Source: BadRequestException (REST 400)."""


class NotAllowedError(ConnectError):
    """The brokers refuse it for want of a right. Source: AuthorizationException."""


class ForbiddenError(ConnectError):
    """A worker setting forbids the request. Source: ConnectRestException with status 403."""


class NotReadyError(ConnectError):
    """The worker is still starting and cannot handle the request yet. Source: ConnectRestException with status 503."""


class TimedOutError(ConnectError):
    """A deadline passed. The message says what it waited for and which setting is the deadline."""


class UnreachableError(ConnectError):
    """Nothing answers at an address."""


class LinkError(ConnectError):
    """The control link between worker and slot broke, or the peer is not one of ours."""


class LinkRefusedError(LinkError):
    """Slot and worker are incompatible (token or version differs); retrying will not help."""


class EnvironmentProblemError(ConnectError):
    """The machine lacks a prerequisite: Java, a free port, a writable folder."""


class IllegalWorkerParametersError(ConnectError):
    """The settings of a connector are not allowed on this worker. Source: IllegalWorkerParametersException."""


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint for a misspelt name: up to three known names close to it, None if there are none."""
    from difflib import get_close_matches  # imported here: needed after a mistake only

    near = get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(near)}?" if near else None
