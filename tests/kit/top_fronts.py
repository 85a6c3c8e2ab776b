"""Workers as `connect top` asks them: recorded from real ones, or played back, over HTTP on this machine.

A recording is a JSON file of scenes. Each scene has what each worker answered to each path; a worker without answers
is away: nobody listens. Workers are named `127.0.0.1:10001` and so on in it, as long as the names in the play.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kit.pace import ample_s
from kit.ports import free_port

Answer = dict[str, Any]
"""status, type, and body: JSON, or text."""
Scene = dict[str, dict[str, Answer] | None]
"""By worker's name, by path; None: it is away."""


def worker_name(number: int) -> str:
    """The name of a worker in a recording."""
    return f"127.0.0.1:{10_001 + number}"


class Fronts:
    """A server for each worker of a recording. A context manager. Threads: the servers' own; `show` from one.

    `real`: the workers to ask, by name; without it everything is played. `tidy`: makes a real answer's text fit for a
    recording.
    """

    def __init__(
        self,
        names: list[str],
        real: Mapping[str, str] | None = None,
        tidy: Callable[[str, str], str] = lambda _path, text: text,
    ) -> None:
        ports: set[int] = set()
        while len(ports) < len(names):
            ports.add(free_port())
        self.ports = dict(zip(sorted(names), sorted(ports), strict=True))  # screens sort by them
        self._real = dict(real or {})
        self._tidy = tidy
        self._servers: dict[str, ThreadingHTTPServer] = {}
        self._lock = threading.Lock()  # guards all below
        self.scene: Scene = {}
        self.unknown: list[str] = []
        """Paths that were asked for and are in no recording."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._servers):
            self._end(name)

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def show(self, scene: Scene) -> None:
        """From now on this is what workers answer; to record, a scene of empty answers."""
        with self._lock:
            self.scene = scene
        for name in self.ports:
            if scene[name] is None:
                self._end(name)
            elif name not in self._servers:
                self._begin(name)

    def played(self, text: str) -> str:
        """A recording's text with the names of the play."""
        for name, port in self.ports.items():
            text = text.replace(name, f"127.0.0.1:{port}")
        return text

    def recorded(self, text: str) -> str:
        """The other way: what a screen of the play shows, or a real worker answers."""
        for name, port in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", name)
            if name in self._real:
                text = text.replace(self._real[name].removeprefix("http://"), name)
        return text

    def answer(self, name: str, path: str) -> Answer:
        with self._lock:
            answers = self.scene[name]
            found = None if answers is None else answers.get(path)
        if found is not None:
            return found
        if name not in self._real:
            with self._lock:
                self.unknown.append(f"{name} {path}")
            return {"status": 500, "type": "application/json", "body": {"error_code": 500, "message": "not recorded"}}
        found = self._asked(name, path)
        with self._lock:
            if answers is not None:
                answers[path] = found
        return found

    def _asked(self, name: str, path: str) -> Answer:
        connection = http.client.HTTPConnection(self._real[name].removeprefix("http://"), timeout=ample_s(20))
        try:
            connection.request("GET", path, headers={"accept": "application/json, text/plain"})
            response = connection.getresponse()
            text = self._tidy(path, self.recorded(response.read().decode()))
            kind = response.getheader("content-type") or ""
            is_json = "json" in kind or text.startswith("{")
            return {"status": response.status, "type": kind, "body": json.loads(text) if is_json else text}
        finally:
            connection.close()

    def _begin(self, name: str) -> None:
        fronts = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                found = fronts.answer(name, self.path)
                body = found["body"]
                data = fronts.played(body if isinstance(body, str) else json.dumps(body)).encode()
                self.send_response(found["status"])
                if found["type"]:  # Java's 404 have none
                    self.send_header("content-type", found["type"])
                self.send_header("content-length", str(len(data)))
                self.send_header("connection", "close")  # or one that goes away would answer on
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", self.ports[name]), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), name=f"front-{name}", daemon=True).start()
        self._servers[name] = server

    def _end(self, name: str) -> None:
        server = self._servers.pop(name, None)
        if server is not None:
            server.shutdown()
            server.server_close()


def load_scenes(path: Path) -> dict[str, Scene]:
    found: dict[str, Scene] = json.loads(path.read_text())["scenes"]
    return found
