"""`connect standalone` on a terminal: the live view, and connectors that follow their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kit.cli import cli_env, connect_command
from kit.ports import free_port
from kit.screen import Terminal
from kit.standalone import STRING_CONVERTERS, write_properties
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(120)]


def test_a_terminal_shows_records_and_errors_and_files_are_followed(
    broker: DevBroker, topic: str, tmp_path: Path, home: Path
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "listeners": url,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }
    write_properties(tmp_path / "worker.properties", settings | STRING_CONVERTERS)
    (tmp_path / "in.txt").write_text("line\n" * 12_345)
    source = {"name": "lines-in", "connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt")}
    files = tmp_path / "connectors.d"
    files.mkdir()
    write_properties(files / "in.properties", source | {"topic": topic})
    command = [*connect_command(), "standalone", "worker.properties", "--watch"]
    with Terminal(command, cli_env(home), cwd=str(tmp_path), columns=110) as screen, ConnectClient(url) as client:
        screen.until("12,345", 60)
        assert "\x1b[?1049h" in screen.text
        assert "lines-in" in screen.text

        (files / "broken.json").write_text("{")
        screen.until("broken.json is ignored")
        sink = {"name": "to-nowhere", "connector.class": "FileStreamSink", "topics": topic}
        write_properties(files / "out.properties", sink | {"file": "/no/such/folder/out.txt"})
        screen.until("FAILED", 30)
        write_properties(files / "out.properties", sink | {"file": str(tmp_path / "out.txt")})
        eventually(lambda: (tmp_path / "out.txt").exists(), 20, "the corrected sink writes")
        (files / "out.properties").unlink()
        eventually(lambda: client.connectors() == ["lines-in"], 20, "the sink goes with its file")

        screen.interrupt()
        assert screen.wait(30) == 130
        plain = screen.text.rpartition("\x1b[?1049l")[2]
        assert "Deleted connector to-nowhere" in plain
        assert "Worker stopped" in plain
