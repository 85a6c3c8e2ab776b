"""The JKS file format of Java, read only. Source: sun.security.provider.JavaKeyStore, KeyProtector (JDK 8 and later).

A library exists (pyjks), but it has had no release since 2020.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

MAGIC: Final = bytes.fromhex("feedfeed")
MAGIC_OF_JCEKS: Final = bytes.fromhex("cececece")
_WHITENER: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20
_KEY, _CERTIFICATE = 1, 2


class WrongPasswordError(Exception):
    """The password of the store or of its key is wrong, or the file was changed: the format cannot tell which."""

    def __init__(self, *, of_store: bool) -> None:
        super().__init__("wrong password")
        self.of_store = of_store


@dataclass(slots=True)
class Entries:
    """Keys as pairs of the protected key and its chain; certificates that are trusted. All are DER."""

    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    certificates: list[bytes] = field(default_factory=list)


def read(data: bytes, password: str | None) -> Entries:
    """The entries of a store; its integrity is checked only with a password, as in Java. Errors: WrongPasswordError."""
    body, digest = data[:-_SHA1_BYTES], data[-_SHA1_BYTES:]
    if password is not None and not hmac.compare_digest(_sha1(_chars(password), _WHITENER, body), digest):
        raise WrongPasswordError(of_store=True)
    entries = Entries()
    reader = _Reader(body, len(MAGIC))
    version, count = reader.number(4), reader.number(4)
    for _ in range(count):
        tag = reader.number(4)
        reader.block(2)  # alias
        reader.take(8)  # creation time
        if tag == _KEY:
            protected = reader.block(4)
            chain = [reader.certificate(version) for _ in range(reader.number(4))]
            entries.keys.append((protected, chain))
        elif tag == _CERTIFICATE:
            entries.certificates.append(reader.certificate(version))
        else:
            raise WrongPasswordError(of_store=True)
    return entries


def unlocked(protected: bytes, password: str) -> bytes:
    """The PKCS8 key in an EncryptedPrivateKeyInfo of JKS. Errors: WrongPasswordError."""
    secret = _chars(password)
    info = _Reader(_Reader(protected).der())
    info.der()  # the algorithm: JKS has only one
    octets = info.der()
    salt, locked, check = octets[:_SHA1_BYTES], octets[_SHA1_BYTES:-_SHA1_BYTES], octets[-_SHA1_BYTES:]
    stream = bytearray()
    block = salt
    while len(stream) < len(locked):
        block = _sha1(secret, block)
        stream += block
    plain = bytes(left ^ right for left, right in zip(locked, stream, strict=False))
    if not hmac.compare_digest(_sha1(secret, plain), check):
        raise WrongPasswordError(of_store=False)
    return plain


class _Reader:
    """Reads big-endian numbers and blocks from bytes; too few bytes mean a damaged file."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise WrongPasswordError(of_store=True)
        return self._data[start : self._position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def block(self, size_bytes: int) -> bytes:
        return self.take(self.number(size_bytes))

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.block(2)  # X.509
        return self.block(4)

    def der(self) -> bytes:
        """Content of one DER element."""
        self.take(1)
        length = self.number(1)
        return self.take(self.number(length & 0x7F) if length & 0x80 else length)


def _sha1(*parts: bytes) -> bytes:
    digest = hashlib.sha1(usedforsecurity=False)  # the format's own; it offers no other
    for part in parts:
        digest.update(part)
    return digest.digest()


def _chars(password: str) -> bytes:
    return password.encode("utf-16-be")
