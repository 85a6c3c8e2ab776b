"""A Maven repository for tests, on this machine: what is asked for is counted, and it can be ill."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kconnect.java.maven import Jar

__all__ = ["NO_CLASSES", "Repository", "jar_path", "tarred", "use_repositories"]

NO_CLASSES = b"PK\x05\x06" + bytes(18)
"""A jar without entries."""


class Repository:
    """A Maven repository on 127.0.0.1 that counts what is asked for: `files` by path."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.connections: set[object] = set()
        self.cut_short: set[str] = set()
        self.asked_too_much: set[str] = set()
        self.refusal = 404
        repository = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                repository.asked.append(self.path)
                repository.connections.add(self.client_address)
                if self.path in repository.asked_too_much:
                    repository.asked_too_much.remove(self.path)
                    self.send_response(429)
                    self.send_header("Retry-After", "1")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                data = repository.files.get(self.path)
                if data is None:
                    self.send_response(repository.refusal)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.path in repository.cut_short:
                    repository.cut_short.remove(self.path)
                    self.wfile.write(data[: len(data) // 2])
                    self.close_connection = True
                else:
                    self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: pytest shows what matters."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="repository")
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, name: str, data: bytes) -> Jar:
        self.files[jar_path(name)] = data
        return Jar(f"org.example:{name}:1.0", hashlib.sha256(data).hexdigest(), len(data), frozenset({"broker"}))

    def count(self, name: str) -> int:
        return self.asked.count(jar_path(name))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def jar_path(name: str) -> str:
    return f"/org/example/{name}/1.0/{name}-1.0.jar"


def use_repositories(urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "jgo.conf"
    lines = "".join(f"local{number} = {url}\n" for number, url in enumerate(urls))
    settings.write_text(f"[repositories]\n{lines}")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))


def tarred(path: Path, *entries: str | tarfile.TarInfo) -> Path:
    """A tar.gz file with empty files and jars, or what entries say."""
    with tarfile.open(path, "w:gz") as made:
        for entry in entries:
            data = NO_CLASSES if isinstance(entry, str) and entry.endswith(".jar") else b""
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return path
