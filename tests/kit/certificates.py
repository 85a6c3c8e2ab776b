"""Certificates made for a test: an authority, and what it signs for a server or a client."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import struct
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Identity"]

_NOW = datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class Identity:
    """A key and the certificate of it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, passphrase: str | None = None) -> bytes:
        lock = (
            serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
        )
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)

    def pem_file(self, path: Path, passphrase: str | None = None) -> Path:
        """Key and certificate in one file."""
        path.write_bytes(self.key_pem(passphrase) + self.certificate_pem)
        return path

    def p12_file(self, path: Path, passphrase: str, authority: Authority | None = None) -> Path:
        """A PKCS12 store, as keytool would write it."""
        others = [authority.identity.certificate] if authority else None
        lock = serialization.BestAvailableEncryption(passphrase.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"x", self.key, self.certificate, others, lock))
        return path


class Authority:
    """Signs certificates; what it signs is valid for localhost and 127.0.0.1."""

    def __init__(self, name: str = "test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.identity = Identity(key, _signed(name, key, name, key, is_authority=True, valid_days=1))

    @property
    def pem(self) -> bytes:
        return self.identity.certificate_pem

    def file(self, path: Path) -> Path:
        path.write_bytes(self.pem)
        return path

    def p12_file(self, path: Path, passphrase: str) -> Path:
        """A PKCS12 trust store."""
        lock = serialization.BestAvailableEncryption(passphrase.encode())
        others = [self.identity.certificate]
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"x", None, None, others, lock))
        return path

    def jks_file(self, path: Path, passphrase: str) -> Path:
        """A JKS trust store. Source: sun.security.provider.JavaKeyStore."""
        der = self.identity.certificate.public_bytes(serialization.Encoding.DER)
        entry = (
            struct.pack(">I", 2) + _utf("ca") + struct.pack(">Q", 0) + _utf("X.509") + struct.pack(">I", len(der)) + der
        )
        body = struct.pack(">III", 0xFEEDFEED, 2, 1) + entry
        salted = passphrase.encode("utf-16-be") + b"Mighty Aphrodite" + body
        path.write_bytes(body + hashlib.sha1(salted, usedforsecurity=False).digest())
        return path

    def sign(self, name: str, *, valid_days: float = 1) -> Identity:
        """A new key with its certificate; negative days make one that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.identity.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        return Identity(key, _signed(name, key, str(issuer), self.identity.key, valid_days=valid_days))


def _signed(name, key, issuer, issuer_key, *, is_authority=False, valid_days) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - datetime.timedelta(days=3))
        .not_valid_after(_NOW + datetime.timedelta(days=valid_days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
