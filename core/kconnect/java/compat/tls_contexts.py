"""Java's `ssl.*` settings as TLS contexts of Python's: stores, versions, cipher suites, comparison of host names.

Every client of ours that Java would give such settings has its context from here: connections to the group, requests to
other workers and to schema registries; https listeners share the parts. Errors of all: ConfigError that names the
setting, never a password.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.java.compat.key_stores import KeyStore, key_store, trust_store

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_DEFAULT_VERSIONS: Final = "TLSv1.2,TLSv1.3"
# Java's word for: any name; librdkafka's
_NO_NAMES: Final = ("", "none")


def client_context(settings: Mapping[str, str], prefix: str = "", *, trusts_key_store: bool = False) -> ssl.SSLContext:
    """What a client checks, shows and agrees on. `prefix` stands before the settings' names in messages.

    `trusts_key_store`: without a trust store the certificates of the key store are trusted, as by Jetty; else the
    system's authorities.
    """
    store, anchors = key_store(settings, prefix), trust_store(settings, prefix)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    context.check_hostname = algorithm not in _NO_NAMES
    limit(context, settings, prefix)
    if store is not None:
        show(context, store, f"{prefix}ssl.keystore")
    if anchors is None and store is not None and trusts_key_store:
        anchors = store.anchors
    if anchors is None:
        context.load_default_certs()
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        trust(context, anchors, prefix)
    return context


def trust(context: ssl.SSLContext, anchors: Sequence[bytes], prefix: str) -> None:
    """Trust certificates of PEM, which need not be roots, as in Java."""
    try:
        context.load_verify_locations(cadata=b"".join(anchors).decode("ascii"))
    except ssl.SSLError as err:
        raise ConfigError(f"{prefix}ssl.truststore.* cannot be used: {err.reason or err}.") from err
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def show(context: ssl.SSLContext, store: KeyStore, setting: str) -> None:
    """Hand key and chain over by a file, the only way there is: under a passphrase nobody keeps."""
    passphrase = secrets.token_hex(32).encode()
    with tempfile.TemporaryDirectory(prefix="kconnect-") as folder:  # 0700
        file = Path(folder) / "own.pem"
        file.write_bytes(store.locked_key(passphrase) + b"".join(store.chain))
        try:
            context.load_cert_chain(file, password=passphrase)
        except ssl.SSLError as err:
            raise ConfigError(f"{setting}.* cannot be used: {err.reason or err}.") from err


def limit(context: ssl.SSLContext, settings: Mapping[str, str], prefix: str) -> None:
    """Allow the versions of `ssl.enabled.protocols` and the suites of `ssl.cipher.suites`."""
    names = _list(settings.get("ssl.enabled.protocols") or _DEFAULT_VERSIONS)
    if unknown := [name for name in names if name not in _VERSIONS]:
        raise ConfigError.invalid(
            f"{prefix}ssl.enabled.protocols", unknown[0], f"expected some of {', '.join(_VERSIONS)}"
        )
    versions = sorted(_VERSIONS[name] for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TLS 1.0 and 1.1, if someone asks for them by name
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
    suites = _list(settings.get("ssl.cipher.suites") or "")
    if not suites:
        return
    older = openssl_ciphers(suites)
    try:
        if older:
            context.set_ciphers(":".join(older))
        else:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
    except (ssl.SSLError, ValueError) as err:
        raise ConfigError.invalid(f"{prefix}ssl.cipher.suites", suites, "none of them is known here") from err


def openssl_ciphers(names: Sequence[str]) -> list[str]:
    """OpenSSL's names of Java's cipher suites, without those of TLS 1.3, all of which OpenSSL offers."""
    return [_openssl_name(name) for name in names if "_WITH_" in name or not name.startswith("TLS_")]


def _openssl_name(name: str) -> str:
    if "_WITH_" not in name:
        return name  # OpenSSL's own spelling
    exchange, cipher = name.removeprefix("TLS_").removeprefix("SSL_").split("_WITH_")
    words = cipher.replace("AES_", "AES").replace("_CBC", "").split("_")
    if words[-1] == "SHA256" and "CHACHA20" in words:
        words.pop()
    kind = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return kind + "-".join(words)


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
