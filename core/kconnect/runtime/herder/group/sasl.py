"""SASL logins of a group member: PLAIN, SCRAM-SHA-256 and -512, OAUTHBEARER. Bytes in, bytes out; no sockets here.

Source: RFC 4616, RFC 5802, RFC 7628.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kconnect.errors import ConnectError

# Java's clients refuse fewer. Source: ScramMechanism
_MIN_ITERATIONS: Final = 4096


class SaslLogin(Protocol):
    """One login, used once: send `first()` to the broker, and pass each of its answers to `answer_to`."""

    mechanism: str

    def first(self) -> bytes: ...

    def answer_to(self, challenge: bytes) -> bytes | None:
        """The next message; None when the login is complete. Errors: ConnectError if the broker is not genuine."""
        ...


class PlainLogin:
    """User and password in clear text; use it over TLS."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def answer_to(self, challenge: bytes) -> bytes | None:
        return None


class ScramLogin:
    """Proves that both sides know the password, without sending it."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str | None = None) -> None:
        """`mechanism` is SCRAM-SHA-256 or SCRAM-SHA-512."""
        self.mechanism = mechanism
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._password = password.encode()
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._opening = f"n={name},r={self._nonce}"
        self._server_proof: bytes | None = None

    def first(self) -> bytes:
        return f"n,,{self._opening}".encode()

    def answer_to(self, challenge: bytes) -> bytes | None:
        text = challenge.decode("utf-8", "replace")
        if self._server_proof is None:
            return self._proof(text)
        found = re.fullmatch(r"v=([^,]+)(?:,.*)?", text)
        if found is None or not hmac.compare_digest(_unbase64(found[1]), self._server_proof):
            raise self._not_genuine()
        return None

    def _proof(self, server_first: str) -> bytes:
        found = re.fullmatch(r"r=([^,]+),s=([^,]+),i=(\d+)(?:,.*)?", server_first)
        if found is None or not found[1].startswith(self._nonce) or int(found[3]) < _MIN_ITERATIONS:
            raise self._not_genuine()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _unbase64(found[2]), int(found[3]))
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        final = f"c=biws,r={found[1]}"
        signed = f"{self._opening},{server_first},{final}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), signed, self._hash)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_proof = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), signed, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _not_genuine(self) -> ConnectError:
        return ConnectError(
            f"The broker's part of the {self.mechanism} login is wrong: it does not know the password itself.",
            hint="Check bootstrap.servers: something else may answer there.",
        )


class OAuthBearerLogin:
    """Shows a token."""

    mechanism = "OAUTHBEARER"

    def __init__(self, token: Callable[[], str], extensions: Mapping[str, str] | None = None) -> None:
        """`token` is called once; it may take as long as a request to a token endpoint takes."""
        self._token = token
        self._extensions = dict(extensions or {})

    def first(self) -> bytes:
        extensions = "".join(f"\x01{key}={value}" for key, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token()}{extensions}\x01\x01".encode()

    def answer_to(self, challenge: bytes) -> bytes | None:
        return b"\x01" if challenge else None  # the broker refuses: ask it to say so


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
