"""Java's key and trust stores converted to PEM: PEM, PKCS12 and JKS files, recognised by their content.

Python and librdkafka need PEM. The bytes of the file decide, as since Java 8: `ssl.keystore.type=JKS` also opens a
PKCS12 file, which is what keytool has written since Java 9 whatever the file is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kconnect.errors import ConfigError
from kconnect.java.compat import jks

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
        raise ConfigError(f"{prefix}ssl.truststore.* holds no certificate that could be trusted.")
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
        if data[:4] == jks.MAGIC:
            return _read_jks(data, password, key_password)
        if data[:4] == jks.MAGIC_OF_JCEKS:
            raise ConfigError(f"{group}location={location} is a JCEKS store, which is not read here.", hint=_CONVERT)
        if data[:1] == b"\x30":
            return _read_pkcs12(data, password)
    except jks.WrongPasswordError as err:
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
    except (ValueError, TypeError) as err:
        why = f"; {source.key_password} may be wrong or missing" if b"PRIVATE KEY" in data else ""
        raise ConfigError(f"{source.setting}: {source.text} is not readable PEM{why}.") from err
    if key is None:
        return KeyStore(None, (), tuple(_pem(certificate) for certificate in certificates))
    return _with_chain(key, certificates, source)


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
        raise jks.WrongPasswordError(of_store=True) from err
    others = tuple(_pem(entry.certificate) for entry in store.additional_certs)
    if store.key is None:
        return KeyStore(None, (), others)
    own = (_pem(store.cert.certificate),) if store.cert is not None else ()
    return KeyStore(_key_pem(store.key), (*own, *others), ())


def _read_jks(data: bytes, password: str | None, key_password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    entries = jks.read(data, password)
    trusted = tuple(_pem(load_der_x509_certificate(der)) for der in entries.certificates)
    if not entries.keys:
        return KeyStore(None, (), trusted)
    protected, chain = entries.keys[0]
    secret = key_password if key_password is not None else password
    key = load_der_private_key(jks.unlocked(protected, secret or ""), None)
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
