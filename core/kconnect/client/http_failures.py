"""What kept an answer from coming, as a sentence and a hint: for every HTTP exchange that kconnect makes.

A sentence says what failed, where, and by which deadline; `Advice` has what the one who asked can do about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from http.client import BadStatusLine
from typing import Final

from kconnect.errors import BadRequestError, ConnectError, TimedOutError, UnreachableError


class HttpFailure(ConnectError):
    """There is no answer, or no whole one. `why` is the reason without the address: "it broke off: ..."."""

    def __init__(self, message: str, why: str = "", *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.why = why


class NotConnectedError(HttpFailure, UnreachableError):
    """There is no connection: the request was never sent."""


class BrokenOffError(HttpFailure, UnreachableError):
    """The connection ended before the answer did: the request may have been carried out."""


class LateError(HttpFailure, TimedOutError):
    """A deadline passed after the request was sent: it may have been carried out."""


class CertificateError(HttpFailure, UnreachableError):
    """A certificate of either side, or TLS as such: asking again changes nothing."""


class TooLargeError(HttpFailure):
    """The answer has more bytes than were allowed."""


class RedirectError(HttpFailure):
    """The server leads where nobody follows: too often elsewhere, or to an address of this network."""


class BadAddressError(HttpFailure, BadRequestError):
    """No request can be sent to this URL, or with these headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to do about a failure, each one or two sentences, and the settings that are its deadlines."""

    nobody: str | None = None
    """Nobody answers at the address."""
    late: str | None = None
    broken: str | None = None
    url: str | None = None
    """No URL at all."""
    trust: str | None = None
    """We do not trust the server's certificate."""
    expired: str | None = "The server needs another certificate, or a clock is wrong."
    own_certificate: str | None = None
    """The server does not trust ours."""
    closing_is_refusal: bool = False
    """Whether a connection over https that ends before any answer is put down to our certificate."""
    plain: str | None = "Is it http there?"
    """The server does not speak https."""
    connect_deadline: str | None = None
    """Name of the setting: how long connecting may take."""
    deadline: str | None = None
    """Name of the setting: how long the answer may take."""
    large: str | None = None


# Alerts with which a server rejects our certificate, in OpenSSL's spelling, and their meanings
_TURNED_DOWN: Final = {
    "CERTIFICATE_REQUIRED": "requires a client certificate, and none was shown",
    "CERTIFICATE_EXPIRED": "rejects our client certificate: it has expired",
    "UNKNOWN_CA": "rejects our client certificate: it does not trust who signed it",
    "BAD_CERTIFICATE": "rejects our client certificate",
    "CERTIFICATE_UNKNOWN": "rejects our client certificate",
    "CERTIFICATE_REVOKED": "rejects our client certificate: it was revoked",
    "HANDSHAKE_FAILURE": "ends the TLS handshake; it may want a client certificate",
}
_NOT_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")


def not_connected(where: str, err: Exception, timeout_s: float, advice: Advice) -> HttpFailure:
    """There is no connection: refused, timed out, unknown host, or bad certificates."""
    if tls := _tls_failure(where, err, advice):
        return tls
    if not isinstance(err, OSError):  # the name's encoding refuses invalid hosts
        return bad_address(where, advice)
    if isinstance(err, TimeoutError):
        reason = f"no connection within {timeout_s:g} s{_of(advice.connect_deadline)}"
    elif isinstance(err, ConnectionRefusedError):
        reason = "connection refused"
    else:
        reason = err.strerror or str(err) or type(err).__name__
    return NotConnectedError(f"Nobody answers at {where} ({reason})", f"nobody answers ({reason})", hint=advice.nobody)


def bad_address(where: str, advice: Advice) -> BadAddressError:
    """What is no URL, or a header with signs that HTTP does not allow; it is not repeated, it may be secret."""
    said = "cannot be asked: the URL or a header has signs that HTTP does not allow"
    return BadAddressError(f"{where} {said}", f"it {said}", hint=advice.url)


def late(
    where: str, request: str, timeout_s: float, advice: Advice, *, began: bool = False, setting: str | None = None
) -> LateError:
    """The answer did not arrive in time. `began`: its first bytes did."""
    done, limit = (
        ("end its answer to" if began else "answer"),
        f"within {timeout_s:g} s{_of(setting or advice.deadline)}",
    )
    shown = f"{done} {request}".removesuffix(" ").removesuffix(" to")
    return LateError(
        f"{where} did not {shown} {limit}", f"it did not {done.removesuffix(' to')} {limit}", hint=advice.late
    )


def idle(where: str, idle_s: float, advice: Advice) -> LateError:
    """The server stopped in the midst of the exchange, before its deadline."""
    said = f"sent nothing for {idle_s:g} s"
    return LateError(f"{where} {said}", f"it {said}", hint=advice.late)


def too_large(where: str, most_bytes: int, advice: Advice) -> TooLargeError:
    """The answer has more bytes than we take."""
    said = f"answers with more than {most_bytes} bytes"
    return TooLargeError(f"{where} {said}", f"it {said}", hint=advice.large)


def broken_off(
    where: str, request: str, err: Exception, advice: Advice, cert: str | None = None, *, first: bool = True
) -> HttpFailure:
    """The connection broke, or the answer was not HTTP. `first`: before any answer arrived on it.

    A server may check `cert`, our certificate, as late as here, and some, including ours, then close the connection
    without the alert that gives the reason.
    """
    if tls := _tls_failure(where, err, advice):
        return tls
    if first and where.startswith("https:") and isinstance(err, OSError) and advice.closing_is_refusal:
        expired = None if cert is None else _expired_on(cert)
        if cert is None:
            said = "closed the connection, possibly because it requires a client certificate: none was shown"
        elif expired:
            said = f"closed the connection: our client certificate {cert} has expired on {expired}"
        else:
            said = f"closed the connection, possibly because it does not trust our client certificate {cert}"
        return CertificateError(f"{where} {said}", f"it {said}", hint=advice.own_certificate)
    line = " ".join(str(err).split())[:200] or type(err).__name__
    if isinstance(err, BadStatusLine) and not isinstance(err, OSError):  # its text is what came
        line = f"this is not HTTP: {line!r}"
    shown = f"broke off {request}".rstrip()
    return BrokenOffError(f"{where} {shown}: {line}", f"it broke off: {line}", hint=advice.broken)


def _tls_failure(where: str, err: Exception, advice: Advice) -> CertificateError | None:
    """The problem with either side's certificates, or with TLS as such; None if it is something else."""
    reason = str(getattr(err, "reason", None) or "")  # only errors of OpenSSL have one
    if reason == "CERTIFICATE_VERIFY_FAILED":
        why = str(getattr(err, "verify_message", "")).rstrip(".")
        said, hint = f"shows a certificate that is not trusted: {why}", _trust_hint(why, advice)
    elif alert := next((alert for alert in _TURNED_DOWN if reason.endswith(f"ALERT_{alert}")), None):
        said, hint = _TURNED_DOWN[alert], advice.own_certificate
    elif reason in _NOT_TLS:
        said, hint = "does not speak https", advice.plain
    else:
        return None
    return CertificateError(f"{where} {said}", f"it {said}", hint=hint)


def _trust_hint(why: str, advice: Advice) -> str | None:
    if "expired" in why or "not yet valid" in why:
        return advice.expired
    if "mismatch" in why:
        return "Use the name that the certificate is for, or have one made for this name."
    return advice.trust


def _expired_on(cert: str) -> str | None:
    """The day on which our certificate expired; None if it has not."""
    from datetime import UTC, datetime
    from pathlib import Path

    from cryptography import x509

    ends = x509.load_pem_x509_certificate(Path(cert).read_bytes()).not_valid_after_utc
    return f"{ends:%Y-%m-%d}" if ends < datetime.now(UTC) else None


def _of(setting: str | None) -> str:
    return f" ({setting})" if setting else ""
