"""TLS of https listeners: `listeners.https.ssl.*`, else `ssl.*`, as a context for the server.

Source: SSLUtils.createServerSideSslContextFactory, AbstractConfig.valuesWithPrefixAllOrNothing (Kafka 4.3).
Differs: PEM stores work too, which Java's REST server does not know.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.files.reread import Reread
from kconnect.java.compat.key_stores import KeyStore, key_store, trust_store
from kconnect.java.compat.tls_contexts import client_context, limit, show, trust

log = logging.getLogger(__name__)

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
    """What https listeners show, trust and agree on. Errors: ConfigError that names the setting.

    Its files are read again when they change: each handshake is made with what they hold then.
    Differs: Java's server shows what it read at its start.
    """
    current = _reread(worker, prefix, lambda: _read_context(worker, prefix), "https listeners", "shown")
    context = current.value()

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = current.value()

    context.sni_callback = choose  # it is called for connections without a name too
    return context


def _reread(
    worker: Mapping[str, str], prefix: str, read: Callable[[], ssl.SSLContext], whose: str, used: str
) -> Reread[ssl.SSLContext]:
    settings, _ = tls_settings(worker, prefix)
    stores = [settings.get(f"ssl.{kind}.location") or "" for kind in ("keystore", "truststore")]
    files = [Path(name) for name in stores if name]
    return Reread(
        read,
        lambda: files,
        reported=lambda _: log.info("The certificates of %s were read again from %s", whose, _named(files)),
        failed=lambda err: log.error("%s The certificates from before are %s (%s)", err, used, _named(files)),
    )


def _named(files: Sequence[Path]) -> str:
    return ", ".join(map(str, files))


def _read_context(worker: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    settings, found = tls_settings(worker, prefix)
    store = key_store(settings, found)
    if store is None:
        raise ConfigError(
            f"An https listener needs a certificate: {prefix}ssl.keystore.location is not set.",
            hint=f"Set {prefix}ssl.keystore.location and {prefix}ssl.keystore.password; PEM, PKCS12 and JKS work.",
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    limit(context, settings, found)
    show(context, store, f"{found}ssl.keystore")
    _verify_clients(context, settings, found, store)
    _warn_of_expiry(store, f"{found}ssl.keystore")
    return context


def peer_context(worker: Mapping[str, str], prefix: str = "listeners.https.") -> Callable[[], ssl.SSLContext]:
    """How other workers of the cluster are spoken to over https, as a function to call for each request.

    What https listeners show is shown to them too. Files are read at the first call and again when they change; while
    one cannot be read, perhaps since it is being written, what it held before is used.

    Threads: any. Errors of a call: ConfigError that names the setting.
    Source: SSLUtils.createClientSideSslContextFactory.
    """
    lock = threading.Lock()
    made: list[Reread[ssl.SSLContext]] = []

    def read() -> ssl.SSLContext:
        settings, found = tls_settings(worker, prefix)
        return client_context(settings, found, trusts_key_store=True)

    def current() -> ssl.SSLContext:
        with lock:
            if not made:
                made.append(_reread(worker, prefix, read, "requests to other workers", "used"))
        return made[0].value()

    return current


def _verify_clients(context: ssl.SSLContext, settings: Mapping[str, str], prefix: str, store: KeyStore) -> None:
    wanted = settings.get("ssl.client.auth") or "none"
    if wanted not in _CLIENT_AUTH:
        raise ConfigError.invalid(f"{prefix}ssl.client.auth", wanted, f"expected one of {', '.join(_CLIENT_AUTH)}")
    context.verify_mode = _CLIENT_AUTH[wanted]
    if context.verify_mode is ssl.CERT_NONE:
        return
    anchors = trust_store(settings, prefix) or store.anchors  # without a trust store Jetty takes the key store
    trust(context, anchors, prefix)


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
