"""Translates Java's names of cipher suites to OpenSSL's."""

from __future__ import annotations

from collections.abc import Sequence


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
