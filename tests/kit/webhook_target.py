"""A real HTTP server that webhooks are posted to: it answers as the test wants, also not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class WebhookTarget:
    """What came. `answers`: statuses of the next requests, then 204; `hang`: silence; `drip`: a byte at a time."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)
    drip: bool = False
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]

    def events(self) -> list[tuple[str, str | None]]:
        return [(body["event"], body["connector"]) for body in self.bodies]


@contextmanager
def webhook_target() -> Iterator[WebhookTarget]:
    target = WebhookTarget()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            target.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            if target.hang.is_set():
                target.over.wait(30)
                return
            if target.drip:
                try:
                    for byte in b"HTTP/1.1 204 No Content\r\n":
                        self.wfile.write(bytes([byte]))
                        if target.over.wait(0.05):
                            return
                except OSError:  # the other side has had enough
                    return
            self.send_response(target.answers.pop(0) if target.answers else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="webhook-target")
    thread.start()
    target.url = f"http://127.0.0.1:{server.server_address[1]}/hooks/t0ken?key=v4lue"
    try:
        yield target
    finally:
        target.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
