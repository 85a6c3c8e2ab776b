"""TLS, SCRAM, PLAIN, tokens and client certificates at a real broker; authorities, certificates and stores made on the
spot. The broker that tests share has all of it (`secure`); `secure_broker` is for what it has not.

Stores are written in Java's formats: PKCS12 by `cryptography`, JKS by the keytool of the Java that runs the broker.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kconnect.java.installed import find_java
from kit.brokers import PatientBroker
from kit.pace import ample_s
from kit.ports import free_port

__all__ = [
    "Authority",
    "Identity",
    "SecureBroker",
    "add_user",
    "jks_of",
    "sasl_listener",
    "scram",
    "secure_broker",
    "store_settings",
]

USER, PASSWORD = "orders", "s3cret-of-orders"
STORE_PASSWORD = "store-pass"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass(frozen=True)
class Identity:
    """A key with its certificate and the chain above it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    chain: tuple[x509.Certificate, ...] = ()

    def key_pem(self, password: str | None = None) -> str:
        locked = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked).decode()

    def chain_pem(self) -> str:
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in (self.certificate, *self.chain))

    def pem(self, path: Path) -> Path:
        path.write_text(self.key_pem() + self.chain_pem())
        return path

    def pkcs12(self, path: Path) -> Path:
        locked = BestAvailableEncryption(STORE_PASSWORD.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, self.chain or None, locked)
        )
        return path


class Authority:
    """A certificate authority: its own certificate, and those it signs."""

    def __init__(self, name: str = "test authority", above: Authority | None = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.above = above
        signer = above or self
        subject = _name(name)
        self.certificate = (
            _builder(subject, signer.certificate.subject if above else subject, self.key, days=365)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(signer.key, hashes.SHA256())
        )

    def issue(self, name: str, days: int = 30) -> Identity:
        """A certificate for this machine's loopback; one of negative days has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(
            [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        )
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(_name(name), self.certificate.subject, key, days)
            .add_extension(names, critical=False)
            .add_extension(usages, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return Identity(key, certificate, (self.certificate,) if self.above else ())

    def pem(self, path: Path) -> Path:
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        return path

    def pkcs12(self, path: Path) -> Path:
        """A trust store as keytool makes it."""
        anchor = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        locked = BestAvailableEncryption(STORE_PASSWORD.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([anchor], locked))
        return path


def jks_of(store: Path) -> Path:
    """The same store in Java's own format, converted by Java's own tool; passwords by environment."""
    target = store.with_suffix(".jks")
    keytool = find_java("the tests").executable.parent / "keytool"
    command = [str(keytool), "-importkeystore", "-noprompt", "-srckeystore", str(store), "-srcstoretype", "PKCS12"]
    command += ["-srcstorepass:env", "STORE", "-destkeystore", str(target), "-deststoretype", "JKS"]
    command += ["-deststorepass:env", "STORE"]
    env = {**os.environ, "STORE": STORE_PASSWORD}
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=ample_s(60))
    return target


@dataclass(frozen=True)
class SecureBroker:
    """Where it listens: `plain` for the tests themselves, `scram` over TLS, `mutual` for client certificates.

    `brief` is as `scram`, but a login is over after 1.5 s; only the shared broker has it.
    """

    plain: str
    scram: str
    mutual: str
    authority: Authority
    folder: Path
    brief: str = ""


def scram(user: str = USER, password: str = PASSWORD) -> str:
    """A JAAS entry."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f'{module} required username="{user}" password="{password}";'


def store_settings(folder: Path, server: Identity, authority: Authority) -> dict[str, str]:
    """A broker's settings of TLS; its listener of the name `ssl` wants certificates that the authority has signed."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server.pem(folder / "server.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.pem(folder / "authority.pem")),
        "listener.name.ssl.ssl.client.auth": "required",
    }


def sasl_listener(name: str) -> dict[str, str]:
    """A broker's settings of a listener where the user `orders` logs in, in any way, and who has a token."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    listener = f"listener.name.{name}."
    return {
        f"{listener}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{listener}scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        f"{listener}oauthbearer.sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="broker";',
        f"{listener}plain.sasl.jaas.config": f'{plain} required user_{USER}="{PASSWORD}";',
    }


@contextmanager
def secure_broker(folder: Path, server: Identity, authority: Authority) -> Iterator[SecureBroker]:
    """A broker with the server certificate given; the user `orders` has SCRAM credentials of both strengths."""
    scram_port, mutual_port = free_port(), free_port()
    settings = {**store_settings(folder, server, authority), **sasl_listener("sasl_ssl")}
    broker = PatientBroker(
        free_port(), folder / "data", settings=settings, listeners={"SASL_SSL": scram_port, "SSL": mutual_port}
    )
    with broker:
        add_user(broker.bootstrap, f"127.0.0.1:{scram_port}")
        yield SecureBroker(broker.bootstrap, f"127.0.0.1:{scram_port}", f"127.0.0.1:{mutual_port}", authority, folder)


def add_user(bootstrap: str, scram_address: str) -> None:
    """SCRAM credentials of both strengths for the user `orders`.

    The controller answers before the broker knows the user: until then it refuses the login, which is final."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(ample_s(20))
        login = {"sasl.mechanism": mechanism.name.replace("_", "-"), "sasl.username": USER, "sasl.password": PASSWORD}
        asks = AdminClient(
            {
                "bootstrap.servers": scram_address,
                "security.protocol": "SASL_SSL",
                "enable.ssl.certificate.verification": False,  # some tests give the broker a bad one
                "log_level": 0,
                **login,
            }
        )
        asks.list_topics(timeout=ample_s(20))  # refused, the client tries again


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=90))
        .not_valid_after(now + timedelta(days=days))
    )
