"""Why a worker could not start: the error, its exit code, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.logs.java_messages import is_failed_start, is_unknown_class, plain_words
from kconnect.logs.redaction import redact
from kconnect.runtime.herder.validation.connector_checks import InvalidConnectorError

# Exit codes of connect-standalone and connect-distributed.
EXIT_HERDER = 1
"""Distributed: the worker cannot go on, such as one whose internal topics do not fit, or whose group refuses it."""
EXIT_WORKER = 2
"""The worker itself cannot start: settings, a taken port, no broker."""
EXIT_CONNECTORS = 3
"""The offsets file is damaged, or a connector cannot be created."""


class StartupError(ConnectError):
    """The worker could not start. `exit_code` is that of Java's connect-standalone; `__cause__` the reason.

    `file` is the one to correct. Each wrong setting is one sentence, where REST has Java's longer message.
    """

    def __init__(self, cause: ConnectError, exit_code: int, lead: str = "", file: Path | None = None) -> None:
        problems = cause.problems if isinstance(cause, ConfigError | InvalidConnectorError) else ()
        sentences = " ".join(f"{_words(problem.message).rstrip('.')}." for problem in problems)
        hint = cause.hint or _what_to_do(problems, file)
        if is_failed_start(str(cause)):  # its hint is why
            sentences, hint = f"{plain_words(str(cause)).sentence}: {cause.hint}", None
        super().__init__(redact(f"{lead}{sentences or cause}"), hint=hint)
        self.exit_code = exit_code


def _words(message: str) -> str:
    return plain_words(message).sentence if is_unknown_class(message) else message


def _what_to_do(problems: Sequence[ConfigProblem], file: Path | None) -> str | None:
    where = f"in {file}" if file is not None else "in the worker's properties"
    steps = []
    if missing := [problem.key for problem in problems if problem.value is None]:
        steps.append(f"Set {' and '.join(f'{key}=..' for key in dict.fromkeys(missing))} {where}.")
    if wrong := [problem.key for problem in problems if problem.value is not None]:
        steps.append(f"Correct {' and '.join(dict.fromkeys(wrong))} {where}.")
    return " ".join(steps) or None


@contextmanager
def exit_code(code: int, lead: str = "", file: Path | None = None) -> Iterator[None]:
    """An error inside ends the worker with this exit code; `file` is the one to correct."""
    try:
        yield
    except StartupError:
        raise
    except ConnectError as err:
        raise StartupError(err, code, lead, file) from err
