"""Beside a real Java worker the command line warns of misspelt settings and tells errors as beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.cli import CliResult, cli_run
from kit.java_connect import JavaConnect

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.timeout(300)]


def test_misspelt_settings_and_errors_of_a_java_worker(
    broker: DevBroker, topic: str, tmp_path: Path, home: Path
) -> None:
    data = tmp_path / "in.txt"
    data.write_text("one\n")

    with JavaConnect(tmp_path / "java", broker.bootstrap) as java:

        def connect(*words: str, expect: int) -> CliResult:
            return cli_run(*words, home=home, env={"KCONNECT_URL": java.url}, expect=expect)

        def file(name: str, **settings: str) -> str:
            path = tmp_path / f"{name}.properties"
            lines = {"connector.class": "FileStreamSource", "topic": topic, "file": str(data)}
            lines |= {key.replace("__", "."): value for key, value in settings.items()}
            path.write_text(f"name={name}\n" + "".join(f"{key}={value}\n" for key, value in lines.items()))
            return str(path)

        slips = file("slips", task__max="2", error__tolerance="all", producer__override__linger__ms="5", tenant="x")
        reported = [
            "slips: Unknown setting: task.max. Did you mean tasks.max?",
            "slips: Unknown setting: error.tolerance. Did you mean errors.tolerance?",
        ]
        refused = connect("connectors", "create", "--strict", slips, expect=1)
        assert refused.stderr.splitlines()[:-1] == [*reported, "slips: Unknown setting: tenant"]
        assert connect("connectors", "list", "-o", "name", expect=0).stdout == ""
        done = connect("connectors", "create", slips, expect=0)
        assert done.stderr.splitlines() == [*(f"Warning: {line}" for line in reported), "created slips"]
        assert "task.max" in connect("config", "get", "slips", expect=0).stdout

        unknown = connect("connectors", "create", file("unknown", connector__class="FileStreamSorce"), expect=1)
        assert unknown.stderr.splitlines()[0] == "Unknown connector class: FileStreamSorce"
        assert "Did you mean FileStreamSource? `connect plugins list`" in unknown.stderr

        wrong = connect("connectors", "create", file("wrong", tasks__max="many", batch__size="x"), expect=1)
        assert wrong.stderr.splitlines() == [
            "The connector's settings are wrong:",
            "  tasks.max: must be a whole number, not many",
            "  batch.size: must be a whole number, not x",
        ]
        running = connect("offsets", "reset", "slips", "--yes", expect=1)
        assert running.stderr.splitlines()[-2:] == [
            "Connector slips must be stopped before its offsets can be changed",
            "Hint: Stop it first: connect connectors stop slips",
        ]
        version = file("version", connector__plugin__version="9.9")
        for _ in range(2):  # the second time Java 4.3 answers with the text of a NullPointerException
            asked = connect("connectors", "create", version, expect=1)
            assert "version" in asked.stderr
            assert "null" not in asked.stderr
