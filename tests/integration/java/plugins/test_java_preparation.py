"""What Java's plugins need is fetched while a worker starts: it says how far it is, and ends when the worker does."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kconnect.files.folders import cache_folder
from kconnect.java.installed import find_java
from kconnect.java.kafka_jars import JarSet
from kconnect.java.plugins import Preparation
from kconnect.java.plugins.program import HostProgram
from kit.pace import ample_s
from kit.ports import free_port
from kit.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(120)]

_LAST = "connect-json-4.3.0.jar"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that lacks one of Kafka's jars; the jar itself lies beside it."""
    HostProgram.find(find_java("tests"))
    found, made = cache_folder(), tmp_path / "cache"
    for path in (*JarSet("connect").fetch(), *found.glob("java/host-*.jar")):
        target = made / path.relative_to(found)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(path, target)
    (last,) = made.rglob(_LAST)
    last.rename(tmp_path / _LAST)
    monkeypatch.setenv("KCONNECT_CACHE", str(made))
    return made


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A Maven repository that gives the first half of a jar, and the other once this is set."""
    may_end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = (tmp_path / _LAST).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            may_end.wait(60)
            self.wfile.write(data[len(data) // 2 :])

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: pytest shows what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="repository")
    thread.start()
    repository(tmp_path, monkeypatch, server.server_address[1])
    yield may_end
    may_end.set()
    server.shutdown()
    server.server_close()
    thread.join(5)


def repository(folder: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    settings = folder / "jgo.conf"
    settings.write_text(f"[repositories]\nlocal = http://127.0.0.1:{port}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))


def test_it_says_how_much_is_there_until_all_is(cache: Path, slow: threading.Event) -> None:
    preparation = Preparation(None, cache)
    assert preparation.waits_for() is None
    preparation.start()

    def reported() -> str:
        return (preparation.waits_for() or ("", 0))[0]

    eventually(lambda: reported().endswith(" of 55 MB of Kafka's jars are fetched"), 20, "it says how far it is")
    assert reported().startswith("Java's plugins are being prepared: 5"), "all but one were there"
    assert not preparation.wait(0.0)
    slow.set()
    assert preparation.wait(ample_s(20))
    assert not JarSet("connect").missing()
    preparation.stop()


def test_what_cannot_be_fetched_is_a_warning_that_says_why(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    repository(tmp_path, monkeypatch, free_port())
    preparation = Preparation(None, cache)
    with caplog.at_level(logging.WARNING):
        preparation.start()
        eventually(lambda: preparation.waits_for() is None, 40, "it gives up")
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("preparation")]
    assert line.startswith(f"Java's plugins cannot run yet: {_LAST} cannot be fetched from the Maven repository http:")
    assert ": nobody answers (connection refused). " in line
    assert "check the network and HTTPS_PROXY" in line


def test_it_ends_with_the_worker(cache: Path, slow: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    preparation = Preparation(None, cache)
    preparation.start()
    eventually(lambda: preparation.waits_for() is not None, 20, "it has begun")
    preparation.stop(0.0)
    slow.set()
    eventually(lambda: preparation.waits_for() is None, 20, "it has ended")
    assert JarSet("connect").missing(), "it does not take what comes late"
    assert not [record for record in caplog.records if record.name.endswith("preparation")]
