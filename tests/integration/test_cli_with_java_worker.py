"""`connect connectors` and `connect offsets` manage a real Java worker as they manage ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.cli import cli_run
from kit.java_connect import JavaConnect
from kit.waiting import eventually


@pytest.mark.broker
@pytest.mark.java
def test_the_command_line_manages_a_java_worker(broker: DevBroker, topic: str, tmp_path: Path, home: Path) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("one\ntwo\n")
    source = tmp_path / "src.json"
    source.write_text(
        json.dumps(
            {"name": "a b", "config": {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}}
        )
    )
    with JavaConnect(tmp_path / "java", broker.bootstrap, worker={"offset.flush.interval.ms": "500"}) as java:

        def connect(*args: str, expect: int = 0) -> str:
            return cli_run(*args, home=home, env={"KCONNECT_URL": java.url}, expect=expect).stdout

        connect("connectors", "create", str(source))
        connect("connectors", "create", str(source), expect=4)
        rows = eventually(lambda: _running(connect("connectors", "list", "-o", "json")), 20, "a task RUNNING")
        assert [row["name"] for row in rows] == ["a b"]
        shown = json.loads(connect("connectors", "show", "a b", "-o", "json"))
        assert (shown["type"], shown["config"]["topic"]) == ("source", topic)
        for verb in ("pause", "resume", "restart"):
            connect("connectors", verb, "a b")
        offsets = eventually(lambda: json.loads(connect("offsets", "show", "a b", "-o", "json"))["offsets"], 20)
        assert offsets == [{"partition": {"filename": str(lines)}, "offset": {"position": 8}}]
        connect("connectors", "stop", "a b")
        altered = tmp_path / "offsets.json"
        altered.write_text(json.dumps({"offsets": [{**offsets[0], "offset": {"position": 4}}]}))
        connect("offsets", "alter", "a b", "-f", str(altered), "--yes")
        assert '{"position":4}' in connect("offsets", "show", "a b")
        connect("offsets", "reset", "a b", "--yes")
        assert json.loads(connect("offsets", "show", "a b", "-o", "json")) == {"offsets": []}
        connect("connectors", "delete", "a b", "--yes")
        connect("connectors", "show", "a b", expect=3)
        assert connect("connectors", "list", "-o", "json") == "[]\n"


def _running(text: str) -> list[dict]:
    rows = json.loads(text)
    return rows if rows and [task["state"] for task in rows[0]["tasks"]] == ["RUNNING"] else []
