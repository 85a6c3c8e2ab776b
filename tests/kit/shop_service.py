"""A web service of a shop, which gives its orders as JSON, and a test changes them."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

__all__ = ["Shop"]


class Shop:
    """A service that gives its orders changed after `since`, the way such services do."""

    def __init__(self) -> None:
        self.orders: dict[int, dict[str, Any]] = {}
        self.asked_since: list[int] = []
        self._lock = threading.Lock()  # guards both: requests come in threads of their own
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                since = int(parse_qs(urlsplit(self.path).query).get("since", ["0"])[-1])
                body = json.dumps({"orders": outer.changed_after(since)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/orders"

    def put(self, order: int, version: int, item: str) -> None:
        with self._lock:
            self.orders[order] = {"id": order, "version": version, "item": item}

    def changed_after(self, version: int) -> list[dict[str, Any]]:
        with self._lock:
            self.asked_since.append(version)
            return [order for order in self.orders.values() if order["version"] > version]

    def asked(self) -> list[int]:
        with self._lock:
            return list(self.asked_since)

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
