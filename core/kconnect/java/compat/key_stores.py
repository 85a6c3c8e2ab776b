"""Java's key and trust stores converted to PEM: PEM, PKCS12 and JKS files, recognised by their content.

Python and librdkafka need PEM. The bytes of the file decide, as since Java 8: `ssl.keystore.type=JKS` also opens a
PKCS12 file, which is what keytool has written since Java 9 whatever the file is called.

JKS is read here, as pyjks had no release since 2020. Source: sun.security.provider.JavaKeyStore, KeyProtector (JDK
8 and later).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kconnect.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate


_CONVERT: Final = "Convert it: keytool -importkeystore -srckeystore OLD -destkeystore NEW.p12 -deststoretype PKCS12"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The content of a store. `chain` belongs to the key, its own certificate first; `trusted` are other certificates.

    Everything is PEM; the key has no passphrase, so never write it to disk.
    """

    key: bytes | None = field(repr=False)
    chain: tuple[bytes, ...]
    trusted: tuple[bytes, ...]

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """The certificates that this trust store trusts. Source: PKIX parameters of a java.security.KeyStore."""
        return (*self.trusted, *self.chain[:1])

    def locked_key(self, passphrase: bytes) -> bytes:
        """The key in PEM, encrypted with a passphrase, for libraries that only read files."""
        from cryptography.hazmat.primitives import serialization

        assert self.key is not None
        key = serialization.load_pem_private_key(self.key, None)
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(passphrase),
        )


def key_store(settings: Mapping[str, str], prefix: str = "") -> KeyStore | None:
    """The key store in `ssl.keystore.*` and `ssl.key.password`; None if not given.

    `prefix` is only used in messages. Errors: ConfigError that names the setting, never a password.
    """
    password, key_password = settings.get("ssl.keystore.password"), settings.get("ssl.key.password")
    key, chain = settings.get("ssl.keystore.key"), settings.get("ssl.keystore.certificate.chain")
    location = settings.get("ssl.keystore.location")
    if key or chain:
        if not (key and chain):
            missing = "ssl.keystore.key" if chain else "ssl.keystore.certificate.chain"
            raise ConfigError(f"{prefix}{missing} is missing: a key and its certificate chain belong together.")
        source = _Source(f"{prefix}ssl.keystore.key", "the PEM text", f"{prefix}ssl.key.password")
        store = _read_pem(f"{key}\n{chain}".encode(), key_password, source)
    elif location:
        store = _read(location, password, key_password, f"{prefix}ssl.keystore.", f"{prefix}ssl.key.password")
    else:
        return None
    if store.key is None:
        raise ConfigError(
            f"{prefix}ssl.keystore.{'location=' + location if location else 'key'} holds no private key.",
            hint="A server needs its private key and the certificate chain of it in one store.",
        )
    return store


def trust_store(settings: Mapping[str, str], prefix: str = "") -> tuple[bytes, ...] | None:
    """The trusted certificates in `ssl.truststore.*`; None if not given. Errors: as key_store."""
    if certificates := settings.get("ssl.truststore.certificates"):
        source = _Source(f"{prefix}ssl.truststore.certificates", "the PEM text", "")
        anchors = _read_pem(certificates.encode(), None, source).trusted
    elif location := settings.get("ssl.truststore.location"):
        password = settings.get("ssl.truststore.password")
        anchors = _read(location, password, None, f"{prefix}ssl.truststore.", "").anchors
    else:
        return None
    if not anchors:
        where = f"location={settings['ssl.truststore.location']}" if "ssl.truststore.location" in settings else "*"
        raise ConfigError(f"{prefix}ssl.truststore.{where} holds no certificate that could be trusted.")
    return anchors


@dataclass(frozen=True, slots=True)
class _Source:
    """The names of a store and its passwords, for messages."""

    setting: str
    text: str
    key_password: str


def _read(location: str, password: str | None, key_password: str | None, group: str, key_setting: str) -> KeyStore:
    source = _Source(f"{group}location", location, key_setting)
    try:
        data = Path(location).read_bytes()
    except OSError as err:
        raise ConfigError(f"{group}location={location} cannot be read: {err.strerror or err}.") from err
    if b"-----BEGIN" in data[:4096]:
        return _read_pem(data, key_password or password, source)
    try:
        if data[:4] == _JKS_MAGIC:
            return _read_jks(data, password, key_password)
        if data[:4] == _JCEKS_MAGIC:
            raise ConfigError(f"{group}location={location} is a JCEKS store, which is not read here.", hint=_CONVERT)
        if data[:1] == b"\x30":
            return _read_pkcs12(data, password)
    except _JksPasswordError as err:
        setting = f"{group}password" if err.of_store else key_setting or f"{group}password"
        raise ConfigError(
            f"{setting} does not open {group}location={location}, or the file is damaged.",
            hint=f"Correct {setting}; `keytool -list -keystore {location}` tries a password.",
        ) from None
    raise ConfigError(
        f"{group}location={location} is not a key store: neither PEM, PKCS12 nor JKS.",
        hint="Is it a certificate in DER form? Make PEM of it: openssl x509 -inform der -in FILE -out FILE.pem",
    )


def _read_pem(data: bytes, password: str | None, source: _Source) -> KeyStore:
    """A key, and certificates in any order; without a key all are trusted."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        certificates = load_pem_x509_certificates(data) if b"BEGIN CERTIFICATE" in data else []
        key = _pem_key(data, password)
        if key is not None:
            return _with_chain(key, certificates, source)  # looks at public keys, which may be damaged too
    except (ValueError, TypeError) as err:
        why = f"; {source.key_password} may be wrong or missing" if b"PRIVATE KEY" in data else ""
        raise ConfigError(f"{source.setting}: {source.text} is not readable PEM{why}.") from err
    return KeyStore(None, (), tuple(_pem(certificate) for certificate in certificates))


def _pem_key(data: bytes, password: str | None) -> PrivateKeyTypes | None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    start = data.find(b"-----BEGIN", 0)
    while start >= 0:
        line = data[start : data.find(b"\n", start)]
        if b"PRIVATE KEY" in line:
            locked = b"ENCRYPTED" in data[start : data.find(b"-----END", start)]
            return load_pem_private_key(data[start:], password.encode() if locked and password else None)
        start = data.find(b"-----BEGIN", start + 1)
    return None


def _with_chain(key: PrivateKeyTypes, certificates: list[Certificate], source: _Source) -> KeyStore:
    """Puts the key's own certificate first, as servers must send it."""
    own = [certificate for certificate in certificates if _public(certificate) == _public(key)]
    if not own:
        raise ConfigError(
            f"{source.setting}: no certificate in {source.text} belongs to the private key.",
            hint="Put the certificate that was made for this key, and those that signed it, beside the key.",
        )
    others = [certificate for certificate in certificates if certificate is not own[0]]
    return KeyStore(_key_pem(key), tuple(_pem(certificate) for certificate in (own[0], *others)), ())


def _read_pkcs12(data: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        store = load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError as err:
        raise _JksPasswordError(of_store=True) from err
    others = tuple(_pem(entry.certificate) for entry in store.additional_certs)
    if store.key is None:
        return KeyStore(None, (), others)
    own = (_pem(store.cert.certificate),) if store.cert is not None else ()
    return KeyStore(_key_pem(store.key), (*own, *others), ())


def _read_jks(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    entries = _jks_entries(data, password)
    trusted = tuple(_pem(load_der_x509_certificate(der)) for der in entries.certificates)
    if not entries.keys:
        return KeyStore(None, (), trusted)
    protected, chain = entries.keys[0]
    secret = key_password if key_password is not None else password
    key = load_der_private_key(_unlocked(protected, secret or ""), None)
    return KeyStore(_key_pem(key), tuple(_pem(load_der_x509_certificate(der)) for der in chain), trusted)


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: PrivateKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(owner: Certificate | PrivateKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return owner.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_JCEKS_MAGIC: Final = bytes.fromhex("cececece")
_WHITENER: Final = b"Mighty Aphrodite"
_SHA1_BYTES: Final = 20
_KEY, _CERTIFICATE = 1, 2


class _JksPasswordError(Exception):
    """The password of the store or of its key is wrong, or the file was changed: the format cannot tell which."""

    def __init__(self, *, of_store: bool) -> None:
        super().__init__("wrong password")
        self.of_store = of_store


@dataclass(slots=True)
class _JksEntries:
    """Keys as pairs of the protected key and its chain; certificates that are trusted. All are DER."""

    keys: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    certificates: list[bytes] = field(default_factory=list)


def _jks_entries(data: bytes, password: str | None) -> _JksEntries:
    """The entries of a store; its integrity is checked only with a password, as in Java. Errors: _JksPasswordError."""
    body, digest = data[:-_SHA1_BYTES], data[-_SHA1_BYTES:]
    if password is not None and not hmac.compare_digest(_sha1(_chars(password), _WHITENER, body), digest):
        raise _JksPasswordError(of_store=True)
    entries = _JksEntries()
    reader = _Reader(body, len(_JKS_MAGIC))
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
            raise _JksPasswordError(of_store=True)
    return entries


def _unlocked(protected: bytes, password: str) -> bytes:
    """The PKCS8 key in an EncryptedPrivateKeyInfo of JKS. Errors: _JksPasswordError."""
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
        raise _JksPasswordError(of_store=False)
    return plain


class _Reader:
    """Reads big-endian numbers and blocks from bytes; too few bytes mean a damaged file."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        if self._position > len(self._data):
            raise _JksPasswordError(of_store=True)
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
