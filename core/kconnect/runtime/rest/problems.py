"""Exception -> HTTP status and `{"error_code": .., "message": ..}`. Source: ConnectExceptionMapper, ErrorMessage."""

from __future__ import annotations

import logging

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    NotAllowedError,
    NotFoundError,
    NotReadyError,
    PreconditionFailedError,
    TimedOutError,
    UnreachableError,
    with_hint,
)
from kconnect.logs.java_messages import is_failed_start, plain_words
from kconnect.logs.redaction import redact
from kconnect.runtime.rest.access.access import DeniedError
from kconnect.runtime.rest.exchange import json_bytes

log = logging.getLogger(__name__)

# First match wins; what is not listed is 500.
_STATUS_OF: tuple[tuple[type[Exception], int], ...] = (
    (NotFoundError, 404),
    (AlreadyExistsError, 409),
    (ConflictError, 409),
    (BadRequestError, 400),
    (ForbiddenError, 403),
    (ConfigError, 400),
    (NotReadyError, 503),
    (PreconditionFailedError, 412),
)


def status_and_message(error: Exception, method: str, path: str) -> tuple[int, str]:
    """HTTP status and message of whatever a handler raised; 500s are logged here with their trace.

    Differs: the settings of a ConfigError are the caller's, so 400; Java wraps them into its BadRequestException first.
    """
    if isinstance(error, DeniedError):
        return error.status, redact(str(error))
    for kind, status in _STATUS_OF:
        if isinstance(error, kind):
            return status, redact(str(error))
    if isinstance(error, NotAllowedError) and error.hint:  # the answer has no other place for who grants it
        message = with_hint(error)
        log.warning("%s %s failed: %s", method, path, redact(message))
        return 500, redact(message)
    if isinstance(error, UnreachableError | TimedOutError):  # a system around us, which a trace of ours says nothing of
        log.warning("%s %s failed: %s", method, path, redact(str(error)))
    elif is_failed_start(str(error)):  # the connector's trace is in the log already
        log.error("%s %s failed: %s: %s", method, path, plain_words(str(error)).sentence, getattr(error, "hint", ""))
    else:
        log.error("%s %s failed", method, path, exc_info=error)
    return 500, redact(str(error)) or type(error).__name__


def error_body(status: int, message: str) -> bytes:
    return json_bytes({"error_code": status, "message": message})
