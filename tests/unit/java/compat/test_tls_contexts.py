"""Java's TLS settings as contexts of Python's: what a client checks, shows and agrees on."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kconnect.errors import ConfigError
from kconnect.java.compat.tls_contexts import client_context, openssl_ciphers
from kit.certificates import Authority

PASSWORD = "store-pass"


def test_cipher_suites_are_translated_to_openssls_names():
    java = [
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA256",
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_AES_128_GCM_SHA256",
    ]
    assert openssl_ciphers(java) == [
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "AES256-SHA256",
        "DHE-RSA-AES256-GCM-SHA384",
    ]


def test_without_settings_the_systems_authorities_are_trusted_and_names_compared():
    made = client_context({})
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize(("algorithm", "compares"), [("https", True), ("HTTPS", True), ("", False), (" none ", False)])
def test_names_are_compared_unless_the_setting_is_empty(algorithm, compares):
    made = client_context({"ssl.endpoint.identification.algorithm": algorithm})
    assert (made.check_hostname, made.verify_mode) == (compares, ssl.CERT_REQUIRED)


def test_an_anchor_need_not_be_a_root(tmp_path: Path):
    leaf = Authority().sign("server").certificate_pem.decode()
    made = client_context({"ssl.truststore.certificates": leaf})
    assert made.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert made.cert_store_stats()["x509"] == 1


def test_the_key_stores_certificates_are_trusted_only_where_jetty_would(tmp_path: Path):
    own = Authority().sign("worker")
    store = own.p12_file(tmp_path / "own.p12", PASSWORD)
    settings = {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    made = {trusts: client_context(settings, trusts_key_store=trusts).cert_store_stats() for trusts in (True, False)}
    assert made[True]["x509"] == 1
    assert made[False] == client_context({}).cert_store_stats()


def test_only_suites_of_tls_1_3_mean_tls_1_3():
    assert client_context({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}).minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, r"my\.ssl\.enabled\.protocols"),
        ({"ssl.cipher.suites": "TLS_NO_WITH_NOTHING"}, r"my\.ssl\.cipher\.suites"),
        ({"ssl.truststore.location": "/no/such.jks"}, r"my\.ssl\.truststore\.location"),
        ({"ssl.keystore.location": "/no/such.jks"}, r"my\.ssl\.keystore\.location"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_setting(settings, named):
    with pytest.raises(ConfigError, match=named):
        client_context(settings, "my.")
