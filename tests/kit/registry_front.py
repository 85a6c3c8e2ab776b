"""A MemoryRegistry over the network, so that the client's own requests, TLS and logins are tried."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kconnect.builtin.schema_registry.registry.registry_http import RegistryRefusal
from kit.certificates import Authority, Identity
from kit.memory_registry import MemoryRegistry

__all__ = ["served", "server_side"]


@contextmanager
def served(
    registry: MemoryRegistry,
    tls: ssl.SSLContext | None = None,
    *,
    host: str = "127.0.0.1",
    authorization: str | None = None,
) -> Iterator[str]:
    """The URL. With `authorization` requests need this header, else they are refused with 401."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = self._answer()
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def _answer(self) -> tuple[int, object]:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if authorization is not None and self.headers.get("Authorization") != authorization:
                return 401, {"error_code": 401, "message": "Unauthorized"}
            try:
                return 200, registry.answer(self.command, self.path, json.loads(sent) if sent else None)
            except RegistryRefusal as refusal:
                return refusal.status, {"error_code": refusal.code, "message": refusal.said}

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Quiet: clients that TLS refuses are what some tests want."""

    with Server((host, 0), Handler) as server:
        if tls is not None:
            # The handshake is the client's thread's work, at its first read
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="registry-front")
        thread.start()
        try:
            yield f"{'http' if tls is None else 'https'}://{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


def server_side(folder: Path, identity: Identity, clients: Authority | None = None) -> ssl.SSLContext:
    """Shows this certificate; with `clients` asks for one that they have signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.pem_file(folder / "registry.pem"))
    if clients is not None:
        context.load_verify_locations(cadata=clients.pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context
