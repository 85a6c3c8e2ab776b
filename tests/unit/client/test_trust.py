"""What clients trust over TLS: certificates that Java takes, on each Python."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from kconnect.client.trust import trusting
from kit.certificates import Authority

_DEFAULT = ssl.create_default_context


def as_from_python_3_13_on(*, cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    context = _DEFAULT(cafile=cafile, cadata=cadata)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Errors: what the client finds wrong."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:  # the client says why
            theirs.close()

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        client.wrap_socket(ours, server_hostname="localhost").close()
    finally:
        ours.close()
        answering.join()


def test_an_authority_without_identifiers_is_trusted_as_java_does_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python 3.13 said "Missing Authority Key Identifier" to workers that all other clients reached."""
    authority = Authority()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.sign("localhost").pem_file(tmp_path / "server.pem"))
    monkeypatch.setattr(ssl, "create_default_context", as_from_python_3_13_on)
    file = str(authority.file(tmp_path / "ca.pem"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, as_from_python_3_13_on(cafile=file))
    shake_hands(server, trusting(file))
    shake_hands(server, trusting(cadata=authority.pem.decode()))
    with pytest.raises(ssl.SSLCertVerificationError, match=r"self-signed|unable to get local issuer"):
        shake_hands(server, trusting())
