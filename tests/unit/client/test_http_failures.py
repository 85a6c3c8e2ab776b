"""Failures of an exchange as sentences and hints, here with the advice for workers."""

from __future__ import annotations

import ssl
from http.client import RemoteDisconnected

import pytest

from kconnect.client.http_failures import (
    Advice,
    BrokenOffError,
    CertificateError,
    LateError,
    NotConnectedError,
    broken_off,
    late,
    not_connected,
)
from kconnect.client.transport import ADVICE


def alert(reason, **more):
    """An error as OpenSSL's module raises it."""
    err = ssl.SSLError(1, f"[SSL: {reason}] words for developers (_ssl.c:2580)")
    err.reason = reason
    for name, value in more.items():
        setattr(err, name, value)
    return err


@pytest.mark.parametrize(
    ("err", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Nobody answers at http://w (connection refused)"),
        (TimeoutError("timed out"), "Nobody answers at http://w (no connection within 3 s)"),
        (OSError(-2, "Name or service not known"), "Nobody answers at http://w (Name or service not known)"),
    ],
)
def test_nobody_there_names_the_url_and_what_to_do(err, said):
    found = not_connected("http://w", err, 3.0, ADVICE)
    assert (type(found), str(found)) == (NotConnectedError, said)
    assert "connect standalone" in (found.hint or "")


def test_a_late_answer_names_the_deadline():
    found = late("http://w", "GET /connectors", 7.0, ADVICE)
    assert (type(found), str(found)) == (LateError, "http://w did not answer GET /connectors within 7 s")


def test_a_broken_connection_is_no_trace():
    found = broken_off("http://w", "GET /connectors", RemoteDisconnected("peer closed"), ADVICE)
    assert (type(found), str(found)) == (BrokenOffError, "http://w broke off GET /connectors: peer closed")


def test_a_connection_closed_before_the_first_answer_over_https_is_about_our_certificate():
    closed = RemoteDisconnected("closed")
    assert "requires a client certificate: none was shown" in str(broken_off("https://w", "GET /", closed, ADVICE))
    assert str(broken_off("https://w", "GET /", closed, ADVICE, first=False)) == "https://w broke off GET /: closed"


@pytest.mark.parametrize(
    ("err", "said", "hint"),
    [
        (
            alert("CERTIFICATE_VERIFY_FAILED", verify_message="self-signed certificate in certificate chain"),
            "shows a certificate that is not trusted: self-signed certificate in certificate chain",
            "--ca FILE",
        ),
        (
            alert("CERTIFICATE_VERIFY_FAILED", verify_message="certificate has expired"),
            "shows a certificate that is not trusted: certificate has expired",
            "ssl.keystore.location",
        ),
        (
            alert("CERTIFICATE_VERIFY_FAILED", verify_message="IP address mismatch, certificate is not valid for 'w'."),
            "shows a certificate that is not trusted: IP address mismatch, certificate is not valid for 'w'",
            "Use the name",
        ),
        (alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), "requires a client certificate, and none was shown", "--cert"),
        (alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), "rejects our client certificate: it has expired", "--cert"),
        (alert("TLSV1_ALERT_UNKNOWN_CA"), "rejects our client certificate: it does not trust who signed", "--cert"),
        (alert("WRONG_VERSION_NUMBER"), "does not speak https", "Is it http there?"),
    ],
)
def test_certificates_of_either_side_are_distinguished_while_connecting_and_later(err, said, hint):
    for found in (not_connected("https://w", err, 3.0, ADVICE), broken_off("https://w", "GET /", err, ADVICE)):
        assert isinstance(found, CertificateError)
        assert str(found).startswith(f"https://w {said}")
        assert hint in (found.hint or "")


def test_a_deadline_is_named_by_its_setting_and_the_reason_stands_by_itself():
    advice = Advice(deadline="read.ms", connect_deadline="connect.ms")
    found = late("http://w", "", 0.5, advice, began=True)
    assert str(found) == "http://w did not end its answer within 0.5 s (read.ms)"
    assert found.why == "it did not end its answer within 0.5 s (read.ms)"
    away = not_connected("http://w", TimeoutError(), 2, advice)
    assert away.why == "nobody answers (no connection within 2 s (connect.ms))"


def test_a_closed_connection_is_put_down_to_our_certificate_only_where_that_is_known_to_happen():
    closed = RemoteDisconnected("closed")
    assert str(broken_off("https://w", "GET /", closed, Advice())) == "https://w broke off GET /: closed"
