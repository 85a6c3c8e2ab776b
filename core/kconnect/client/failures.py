"""The error of a worker's answer, as a sentence and a hint: a refused login, an error from Connect, or none of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kconnect.client.http_exchange import Response
from kconnect.client.transport import ADVICE
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    PreconditionFailedError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)

_LOGIN_HINT = (
    "A user it knows and the password: --user and KCONNECT_PASSWORD, or connect contexts add NAME --user USER .."
)


def nobody_of(failures: Sequence[ConnectError]) -> UnreachableError:
    """None of several workers answers: the failure of each, which begins with or contains its URL."""
    reasons = "; ".join(str(failure).removeprefix("Nobody answers at ") for failure in failures)
    return UnreachableError(f"None of {len(failures)} workers answers: {reasons}", hint=ADVICE.nobody)


def refusal(url: str, user: str | None, request: str, response: Response) -> ConnectError:
    """The error for a status of 300 and above, with the worker's own message if it is Connect's."""
    status, message = response.status, _message_of(response)
    if status == 401 or (status == 403 and message is None):
        who = f"user {user}" if user else "a caller without a user"
        return ConnectError(f"{url} refuses {who} ({status})", hint=_LOGIN_HINT)
    if message is None:
        return foreign(url, request, response)
    if status == 409:
        return AlreadyExistsError(message) if _is_taken(message) else ConflictError(message)
    if status == 429:
        return RetriableError(message, retry_after_s=retry_after_s(response))
    if status == 412:
        return PreconditionFailedError(message, etag=response.headers.get("etag"))
    if status == 500 and message.startswith("Request timed out"):
        return TimedOutError(message)
    return _KIND_OF.get(status, ConnectError)(message)


def foreign(url: str, request: str, response: Response) -> ConnectError:
    """An answer that is not Connect's."""
    return ConnectError(
        f"{url} answered {request} with {response.status} and something that Kafka Connect does not say",
        hint="Is that the URL of a Kafka Connect worker?",
    )


def is_passing_conflict(response: Response) -> bool:
    """Whether it is a 409 that the end of a rebalance clears; a taken name remains taken."""
    return response.status == 409 and not _is_taken(_message_of(response))


def retry_after_s(response: Response) -> float | None:
    """How long a worker asks us to wait that we asked too often (429); None for any other answer."""
    return None if response.status != 429 else response.retry_after_s or 1.0


_KIND_OF: dict[int, type[ConnectError]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: NotFoundError,
    413: BadRequestError,
    415: BadRequestError,
}


def _message_of(response: Response) -> str | None:
    """The `message` of an error body, or None if it is not an error body of Connect."""
    try:
        body = json.loads(response.body)
    except ValueError:
        return None
    if not isinstance(body, dict) or "error_code" not in body:
        return None
    return str(body.get("message"))


def _is_taken(message: str | None) -> bool:
    return message is not None and message.endswith("already exists")
