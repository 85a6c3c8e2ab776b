"""TLS towards the registry, from Java's key and trust stores."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kconnect.errors import ConfigError
from kconnect.java.compat.key_stores import key_store, trust_store


def tls_context(settings: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """`settings` are `ssl.*` as Kafka's clients have them. Errors: ConfigError that names the setting."""
    anchors = trust_store(settings, prefix)
    try:
        context = ssl.create_default_context(cadata=None if anchors is None else b"".join(anchors).decode())
    except ssl.SSLError as err:
        raise ConfigError(f"{prefix}ssl.truststore.* cannot be used: {err.reason or err}.") from err
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an anchor need not be a root, as in Java
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if settings.get("ssl.endpoint.identification.algorithm", "https") != "https":
        context.check_hostname = False
    store = key_store(settings, prefix)
    if store is not None:
        passphrase = secrets.token_hex(32).encode()
        with tempfile.TemporaryDirectory(prefix="kconnect-") as folder:  # 0700
            file = Path(folder) / "client.pem"
            file.write_bytes(store.locked_key(passphrase) + b"".join(store.chain))
            try:
                context.load_cert_chain(file, password=passphrase)
            except ssl.SSLError as err:
                raise ConfigError(f"{prefix}ssl.keystore.* cannot be used: {err.reason or err}.") from err
    return context
