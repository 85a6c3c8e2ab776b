"""The error of a request, as a sentence and a hint: no connection, TLS, a refused login, an error from Connect."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kconnect.client.http_messages import Response
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
_CLIENT_CERTIFICATE_HINT = (
    "It has to be signed by an authority that the worker trusts, and still valid: "
    "--cert and --key, KCONNECT_CERT_FILE and KCONNECT_KEY_FILE, or those of the context."
)
# Alerts with which a worker rejects our certificate, in OpenSSL's spelling, and their meanings
_TURNED_DOWN = {
    "CERTIFICATE_REQUIRED": "requires a client certificate, and none was shown",
    "CERTIFICATE_EXPIRED": "rejects our client certificate: it has expired",
    "UNKNOWN_CA": "rejects our client certificate: it does not trust who signed it",
    "BAD_CERTIFICATE": "rejects our client certificate",
    "CERTIFICATE_UNKNOWN": "rejects our client certificate",
    "CERTIFICATE_REVOKED": "rejects our client certificate: it was revoked",
    "HANDSHAKE_FAILURE": "ends the TLS handshake; it may want a client certificate",
}


_NOBODY_HINT = "Is the worker running? `connect standalone` starts one; --url or KCONNECT_URL names another."


class NotConnectedError(UnreachableError):
    """There is no connection: the request was never sent."""


class BrokenOffError(UnreachableError):
    """The connection ended before the answer: the request may have been carried out."""


def nobody_of(failures: Sequence[ConnectError]) -> UnreachableError:
    """None of several workers answers: the failure of each, which begins with or contains its URL."""
    reasons = "; ".join(str(failure).removeprefix("Nobody answers at ") for failure in failures)
    return UnreachableError(f"None of {len(failures)} workers answers: {reasons}", hint=_NOBODY_HINT)


def not_connected(url: str, err: Exception, timeout_s: float) -> ConnectError:
    """There is no connection: refused, timed out, unknown host, or bad certificates."""
    if tls := _tls_failure(url, err):
        return tls
    if not isinstance(err, OSError):  # http.client and the name's encoding refuse invalid hosts
        return BadRequestError(f"{url} is not the URL of a worker", hint="It looks like http://localhost:8083.")
    if isinstance(err, TimeoutError):
        reason = f"no connection within {timeout_s:g} s"
    elif isinstance(err, ConnectionRefusedError):
        reason = "connection refused"
    else:
        reason = err.strerror or str(err)
    return NotConnectedError(f"Nobody answers at {url} ({reason})", hint=_NOBODY_HINT)


def late(url: str, request: str, timeout_s: float) -> TimedOutError:
    """The answer did not arrive in time."""
    return TimedOutError(
        f"{url} did not answer {request} within {timeout_s:g} s",
        hint="The worker may still carry it out: look at its state and its log before you try again.",
    )


def broken_off(url: str, request: str, err: Exception, cert: str | None = None, *, first: bool = True) -> ConnectError:
    """The connection broke, or the answer was not HTTP. `first`: before any answer arrived on it.

    A worker may check `cert`, our certificate, as late as here, and some, including ours, then close the connection
    without the alert that gives the reason.
    """
    if tls := _tls_failure(url, err):
        return tls
    if first and url.startswith("https:") and isinstance(err, OSError):
        expired = None if cert is None else _expired_on(cert)
        if cert is None:
            said = f"{url} closed the connection, possibly because it requires a client certificate: none was shown"
        elif expired:
            said = f"{url} closed the connection: our client certificate {cert} has expired on {expired}"
        else:
            said = f"{url} closed the connection, possibly because it does not trust our client certificate {cert}"
        return UnreachableError(said, hint=_CLIENT_CERTIFICATE_HINT)
    return BrokenOffError(
        f"{url} broke off {request}: {_line(err)}",
        hint="Is it a Kafka Connect worker that speaks http there, and does it still run?",
    )


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
    if response.status != 429:
        return None
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and 0 < int(text) <= _LONGEST_WAIT_S else 1.0


# What is worth waiting for in a command; a longer one is told instead, as 429
_LONGEST_WAIT_S = 3600


_KIND_OF: dict[int, type[ConnectError]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: NotFoundError,
    413: BadRequestError,
    415: BadRequestError,
}


def _tls_failure(url: str, err: Exception) -> UnreachableError | None:
    """The problem with either side's certificates, or with TLS as such; None if it is something else."""
    reason = str(getattr(err, "reason", None) or "")  # only errors of OpenSSL have one
    if reason == "CERTIFICATE_VERIFY_FAILED":
        why = str(getattr(err, "verify_message", "")).rstrip(".")
        return UnreachableError(f"{url} shows a certificate that is not trusted: {why}", hint=_trust_hint(why))
    for alert, said in _TURNED_DOWN.items():
        if reason.endswith(f"ALERT_{alert}"):
            return UnreachableError(f"{url} {said}", hint=_CLIENT_CERTIFICATE_HINT)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return UnreachableError(f"{url} does not speak https", hint="Is it http there? See `listeners` of the worker.")
    return None


def _trust_hint(why: str) -> str:
    if "expired" in why or "not yet valid" in why:
        return "The worker needs another one (ssl.keystore.location of its settings), or a clock is wrong."
    if "mismatch" in why:
        return "Use the name that the certificate is for, or have one made for this name."
    return "Name the authority that signed it: --ca FILE, KCONNECT_CA_FILE, or ca of the context."


def _expired_on(cert: str) -> str | None:
    """The day on which our certificate expired; None if it has not."""
    from datetime import UTC, datetime
    from pathlib import Path

    from cryptography import x509

    ends = x509.load_pem_x509_certificate(Path(cert).read_bytes()).not_valid_after_utc
    return f"{ends:%Y-%m-%d}" if ends < datetime.now(UTC) else None


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


def _line(err: Exception) -> str:
    return " ".join(str(err).split()) or type(err).__name__
