"""PEM, PKCS12 and JKS stores, as keytool and OpenSSL write them."""

from __future__ import annotations

import ssl

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kconnect.errors import ConfigError
from kconnect.java.compat.key_stores import key_store, trust_store
from kit.certificates import Authority
from kit.places import GOLDEN

RECORDED = GOLDEN / "keystores"
SERVER = (RECORDED / "server.pem").read_bytes().replace(b"\r\n", b"\n")  # keytool writes CRLF


def store(location, password=None, key_password=None):
    given = {
        "ssl.keystore.location": str(location),
        "ssl.keystore.password": password,
        "ssl.key.password": key_password,
        "ssl.keystore.type": "JKS",  # what the worker's default says; the file knows better
    }
    return key_store({key: value for key, value in given.items() if value is not None}, "listeners.https.")


@pytest.fixture(scope="module")
def authority():
    return Authority()


def test_a_jks_store_gives_its_key_and_certificate():
    found = store(RECORDED / "server.jks", "store-pass", "key-pass")
    assert found.chain == (SERVER,)
    assert found.key.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert b"PRIVATE KEY" not in repr(found).encode()


def test_a_pkcs12_store_of_keytool_gives_its_key_and_certificate():
    found = store(RECORDED / "server.p12", "store-pass")
    assert (found.key[:27], len(found.chain)) == (b"-----BEGIN PRIVATE KEY-----", 1)


@pytest.mark.parametrize("name", ["trust.jks", "trust.p12", "server.pem"])
def test_trust_stores_of_all_kinds_give_their_certificates(name):
    given = {"ssl.truststore.location": str(RECORDED / name), "ssl.truststore.password": "store-pass"}
    assert trust_store(given) == (SERVER,)
    assert trust_store({}) is None


def test_the_keys_own_certificate_comes_first_however_the_pem_file_is_ordered(tmp_path, authority):
    server = authority.sign("s")
    file = tmp_path / "s.pem"
    file.write_bytes(authority.pem + server.key_pem("secret") + server.certificate_pem)
    assert store(file, key_password="secret").chain == (server.certificate_pem, authority.pem)


def test_key_and_chain_may_stand_in_the_settings_themselves(authority):
    server = authority.sign("s")
    given = {
        "ssl.keystore.key": server.key_pem().decode(),
        "ssl.keystore.certificate.chain": (server.certificate_pem + authority.pem).decode(),
        "ssl.truststore.certificates": authority.pem.decode(),
    }
    assert key_store(given).chain == (server.certificate_pem, authority.pem)
    assert trust_store(given) == (authority.pem,)
    del given["ssl.keystore.certificate.chain"]
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.certificate\.chain is missing"):
        key_store(given)


@pytest.mark.parametrize(
    ("name", "password", "key_password", "message"),
    [
        ("server.jks", "wr0ng", None, r"^listeners\.https\.ssl\.keystore\.password does not open"),
        ("server.jks", "store-pass", "wr0ng", r"^listeners\.https\.ssl\.key\.password does not open"),
        ("server.p12", "wr0ng", None, r"^listeners\.https\.ssl\.keystore\.password does not open"),
        ("server.p12", None, None, r"^listeners\.https\.ssl\.keystore\.password does not open"),
        ("server.jceks", "wr0ng", None, "JCEKS"),
        ("trust.jks", "store-pass", None, "holds no private key"),
        ("README.md", None, None, "is not a key store"),
        ("none", None, None, "No such file"),
    ],
)
def test_what_can_not_be_opened_is_reported_by_its_setting_and_never_with_a_password(
    name, password, key_password, message
):
    with pytest.raises(ConfigError, match=message) as caught:
        store(RECORDED / name, password, key_password)
    assert "wr0ng" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("size", [0, 4, 12, 60, 300, 500])
def test_a_store_that_was_cut_off_is_reported_as_damaged(tmp_path, size):
    file = tmp_path / "cut.jks"
    file.write_bytes((RECORDED / "server.jks").read_bytes()[:size])
    for password in ("store-pass", None):
        with pytest.raises(ConfigError, match=r"cut\.jks"):
            store(file, password, "key-pass")


def test_a_locked_pem_key_needs_its_password_and_a_foreign_certificate_is_refused(tmp_path, authority):
    locked = authority.sign("s").pem_file(tmp_path / "locked.pem", "secret")
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.key\.password may be wrong or missing"):
        store(locked)
    with pytest.raises(ConfigError, match=r"listeners\.https\.ssl\.key\.password may be wrong or missing"):
        store(locked, key_password="wr0ng")
    mixed = tmp_path / "mixed.pem"
    mixed.write_bytes(authority.sign("a").key_pem() + authority.sign("b").certificate_pem)
    with pytest.raises(ConfigError, match=r"no certificate in .*mixed\.pem belongs to the private key"):
        store(mixed)


def test_a_certificate_whose_key_is_damaged_is_a_file_that_cannot_be_read(tmp_path, authority):
    """It parses, and fails when its public key is looked at: a point that is on no curve."""
    own = authority.sign("localhost")
    der = own.certificate.public_bytes(Encoding.DER)
    point = own.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    damaged = der.replace(point, point[:-1] + bytes([point[-1] ^ 1]))
    file = tmp_path / "own.pem"
    file.write_bytes(own.key_pem() + ssl.DER_cert_to_PEM_cert(damaged).encode())
    with pytest.raises(ConfigError, match=f"location: {file} is not readable PEM"):
        key_store({"ssl.keystore.location": str(file)})


def test_a_trust_store_without_a_certificate_is_named_with_its_file(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN")
    with pytest.raises(ConfigError, match=f"ssl.truststore.location={file} holds no certificate"):
        trust_store({"ssl.truststore.location": str(file)})
