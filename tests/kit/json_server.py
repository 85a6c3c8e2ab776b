"""An HTTP server of a test's own that answers what the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Server:
    """Answers what `answer(path, query, headers)` says: (status, headers, body)."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Mapping[str, str]]] = []
        self.bodies: list[str] = []
        """What was sent with each POST."""
        self.answer: Callable[[str, dict[str, str], Mapping[str, str]], tuple[int, dict[str, str], Any]]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                outer.requests.append((parts.path, query, dict(self.headers.items())))
                status, headers, body = outer.answer(parts.path, query, self.headers)
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def do_POST(self) -> None:
                outer.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())
                self.do_GET()

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/items"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
