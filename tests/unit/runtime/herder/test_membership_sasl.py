"""Logins of a group member: the examples of the RFCs, and brokers that are not genuine."""

from __future__ import annotations

import pytest

from kconnect.errors import ConnectError
from kconnect.runtime.herder.group.sasl import OAuthBearerLogin, PlainLogin, ScramLogin

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_login():
    login = ScramLogin("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert login.first() == f"n,,n=user,r={NONCE}".encode()
    return login


def test_scram_does_what_the_rfc_shows():
    login = rfc_login()
    assert login.answer_to(SERVER_FIRST) == CLIENT_FINAL
    assert login.answer_to(SERVER_FINAL) is None


@pytest.mark.parametrize(
    "challenge",
    [
        SERVER_FIRST.replace(b"rOprNG", b"others"),
        SERVER_FIRST.replace(b"4096", b"1"),
        b"e=other-error",
        b"\xff\xfe",
    ],
    ids=["another nonce", "too few iterations", "an error", "no text"],
)
def test_a_scram_challenge_that_is_not_right_ends_the_login(challenge):
    with pytest.raises(ConnectError, match="does not know the password"):
        rfc_login().answer_to(challenge)


def test_a_broker_that_does_not_know_the_password_is_found_out():
    login = rfc_login()
    login.answer_to(SERVER_FIRST)
    with pytest.raises(ConnectError, match="does not know the password"):
        login.answer_to(b"v=" + b"A" * 43 + b"=")


def test_names_with_commas_and_equal_signs_are_escaped():
    assert b"n=a=2Cb=3Dc,r=" in ScramLogin("SCRAM-SHA-512", "a,b=c", "p").first()


def test_two_logins_use_two_nonces():
    assert ScramLogin("SCRAM-SHA-512", "u", "p").first() != ScramLogin("SCRAM-SHA-512", "u", "p").first()


def test_plain_sends_user_and_password_once():
    login = PlainLogin("u", "pä")
    assert login.first() == b"\0u\0p\xc3\xa4"
    assert login.answer_to(b"") is None


def test_oauth_shows_the_token_and_asks_a_refusing_broker_to_say_so():
    login = OAuthBearerLogin(lambda: "TOKEN", {"logicalCluster": "lc"})
    assert login.first() == b"n,,\x01auth=Bearer TOKEN\x01logicalCluster=lc\x01\x01"
    assert login.answer_to(b"") is None
    assert login.answer_to(b'{"status":"invalid_token"}') == b"\x01"
