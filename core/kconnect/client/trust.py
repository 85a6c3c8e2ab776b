"""What a client trusts over TLS: the system's authorities or those of a file, alike on every Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def trusting(cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """A context that checks certificate and host; without arguments against what the system trusts.

    Python from 3.13 on refuses certificates that lack what RFC 5280 asks of authorities, such as an Authority Key
    Identifier. Those that companies and `openssl req` make often do; Java, librdkafka and older Pythons take them, and
    so does every client here. Trusted certificates need not be roots, as in Java.
    Errors: OSError, ssl.SSLError for what holds no certificates.
    """
    import ssl

    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
