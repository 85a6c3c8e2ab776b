"""TLS of https listeners: `listeners.https.ssl.*`, else `ssl.*`, as a context for the server.

Source: SSLUtils.createServerSideSslContextFactory, AbstractConfig.valuesWithPrefixAllOrNothing (Kafka 4.3).
Differs: PEM stores work too, which Java's REST server does not know.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import tempfile
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.java.compat.key_stores import KeyStore, key_store, trust_store
from kconnect.runtime.config.tls_ciphers import openssl_ciphers

log = logging.getLogger(__name__)

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_DEFAULT_VERSIONS: Final = "TLSv1.2,TLSv1.3"
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# Time enough to get another certificate made
_EXPIRY_WARNING_DAYS = 14


def tls_settings(worker: Mapping[str, str], prefix: str) -> tuple[dict[str, str], str]:
    """`ssl.*` settings of one kind of listener, and the prefix they were found under.

    All or nothing: one setting under the prefix, and the ones without it no longer count.
    """
    own = {key[len(prefix) :]: value for key, value in worker.items() if key.startswith(prefix)}
    if own:
        return own, prefix
    return {key: value for key, value in worker.items() if key.startswith("ssl.")}, ""


def server_context(worker: Mapping[str, str], prefix: str = "listeners.https.") -> ssl.SSLContext:
    """What https listeners show, trust and agree on. Errors: ConfigError that names the setting."""
    settings, found = tls_settings(worker, prefix)
    store = key_store(settings, found)
    if store is None:
        raise ConfigError(
            f"An https listener needs a certificate: {prefix}ssl.keystore.location is not set.",
            hint=f"Set {prefix}ssl.keystore.location and {prefix}ssl.keystore.password; PEM, PKCS12 and JKS work.",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    _limit_versions(context, settings, found)
    _load(context, store, f"{found}ssl.keystore")
    _verify_clients(context, settings, found, store)
    _warn_of_expiry(store, f"{found}ssl.keystore")
    return context


def peer_context(worker: Mapping[str, str], prefix: str = "listeners.https.") -> ssl.SSLContext:
    """How other workers of the cluster are spoken to over https. Errors: ConfigError that names the setting.

    What https listeners show is shown to them too. Source: SSLUtils.createClientSideSslContextFactory.
    """
    settings, found = tls_settings(worker, prefix)
    store, anchors = key_store(settings, found), trust_store(settings, found)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm", "https").strip() != ""
    _limit_versions(context, settings, found)
    if store is not None:
        _load(context, store, f"{found}ssl.keystore")
    if anchors is None and store is not None:
        anchors = store.anchors  # without a trust store Jetty takes the key store
    if anchors is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=b"".join(anchors).decode("ascii"))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an anchor need not be a root, as in Java
    return context


def _limit_versions(context: ssl.SSLContext, settings: Mapping[str, str], prefix: str) -> None:
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


def _load(context: ssl.SSLContext, store: KeyStore, setting: str) -> None:
    """Hand key and chain over by a file, the only way there is: under a passphrase nobody keeps."""
    passphrase = secrets.token_hex(32).encode()
    with tempfile.TemporaryDirectory(prefix="kconnect-") as folder:  # 0700
        file = Path(folder) / "server.pem"
        file.write_bytes(store.locked_key(passphrase) + b"".join(store.chain))
        try:
            context.load_cert_chain(file, password=passphrase)
        except ssl.SSLError as err:
            raise ConfigError(f"{setting}.* cannot be used for https: {err.reason or err}.") from err


def _verify_clients(context: ssl.SSLContext, settings: Mapping[str, str], prefix: str, store: KeyStore) -> None:
    wanted = settings.get("ssl.client.auth") or "none"
    if wanted not in _CLIENT_AUTH:
        raise ConfigError.invalid(f"{prefix}ssl.client.auth", wanted, f"expected one of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[wanted]
    if context.verify_mode is ssl.CERT_NONE:
        return
    anchors = trust_store(settings, prefix) or store.anchors  # without a trust store Jetty takes the key store
    context.load_verify_locations(cadata=b"".join(anchors).decode("ascii"))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an anchor need not be a root, as in Java


def _warn_of_expiry(store: KeyStore, setting: str) -> None:
    from cryptography.x509 import load_pem_x509_certificate

    if not store.chain:
        return
    end = load_pem_x509_certificate(store.chain[0]).not_valid_after_utc
    left = end - datetime.now(UTC)
    if left.days < 0:
        log.warning("The certificate in %s expired on %s: clients will refuse it", setting, end.date())
    elif left.days < _EXPIRY_WARNING_DAYS:
        log.warning("The certificate in %s expires on %s", setting, end.date())


def _list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
