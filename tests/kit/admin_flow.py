"""The life of a connector as an operator sees it on the command line, beside any worker: Java's or ours."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from kit.cli import CliResult, cli_run
from kit.pace import ample_text
from kit.ports import free_port
from kit.topics import consume_values, end_offset, produce_lines
from kit.waiting import eventually

__all__ = ["Operator", "sink_from_create_to_delete", "source_from_create_to_delete", "what_is_not_there"]

log = logging.getLogger(__name__)

# Slots start as slowly as the machine is busy
_WITHIN_S = 90.0


class Operator:
    """Runs `connect` against one worker, and logs how long each call took (pytest --log-cli-level=INFO)."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self._home = home

    def run(self, *args: str, expect: int = 0, stdin: str | None = None, url: str | None = None) -> CliResult:
        began = time.monotonic()
        env = {"KCONNECT_URL": url or self._url, "KCONNECT_COMPLETE_TIMEOUT": ample_text(2)}
        done = cli_run(*args, home=self._home, env=env, expect=expect, stdin=stdin)
        log.info("%.2f s: connect %s", time.monotonic() - began, " ".join(args[:2]))
        return done

    def connect(self, *args: str, expect: int = 0, stdin: str | None = None) -> str:
        """What the command prints on stdout."""
        return self.run(*args, expect=expect, stdin=stdin).stdout

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return json.loads(self.connect("offsets", "show", name, "-o", "json"))["offsets"]

    def row(self, name: str) -> dict[str, Any]:
        rows = json.loads(self.connect("connectors", "list", "-o", "json"))
        assert name in [row["name"] for row in rows], rows
        return next(row for row in rows if row["name"] == name)

    def await_state(self, name: str, state: str) -> None:
        """Wait until the connector and its one task are in a state; a stopped one has no task."""

        def seen() -> bool:
            row = self.row(name)
            tasks = [task["state"] for task in row["tasks"]]
            assert (row["state"], tasks) == (state, [] if state == "STOPPED" else [state]), row
            return True

        eventually(seen, _WITHIN_S, f"{name} {state}")

    def await_offset(self, name: str, partition: dict[str, Any], offset: dict[str, Any]) -> None:
        def seen() -> bool:
            found = self.offsets(name)
            assert found == [{"partition": partition, "offset": offset}], found
            return True

        eventually(seen, _WITHIN_S, f"{name} commits {offset}")


def what_is_not_there(operator: Operator) -> None:
    """Exit codes and sentences for connectors nobody knows, and for a URL where nobody answers."""
    for args in (
        ("connectors", "show", "nobody"),
        ("connectors", "pause", "nobody"),
        ("connectors", "stop", "nobody"),
        ("connectors", "restart", "nobody"),
        ("connectors", "delete", "nobody", "--yes"),
        ("offsets", "show", "nobody"),
        ("offsets", "reset", "nobody", "--yes"),
    ):
        reported = operator.run(*args, expect=3).stderr
        assert "nobody" in reported, reported
        assert "Traceback" not in reported
    url = f"http://127.0.0.1:{free_port()}"
    reported = operator.run("connectors", "list", url=url, expect=5).stderr
    assert url in reported
    assert "Traceback" not in reported


def source_from_create_to_delete(operator: Operator, bootstrap: str, topic: str, folder: Path, name: str) -> None:
    """A file source: created, paused, resumed, restarted, its offsets altered and reset, deleted, created again."""
    source = _Source(operator, bootstrap, topic, folder, name)
    source.is_created_once()
    source.is_paused_and_restarted()
    source.goes_on_from_altered_and_reset_offsets()
    source.is_made_again_as_it_was_shown()


class _Source:
    """The steps of one file source; each leaves it running."""

    def __init__(self, operator: Operator, bootstrap: str, topic: str, folder: Path, name: str) -> None:
        self.operator, self.connect = operator, operator.connect
        self.bootstrap, self.topic, self.name, self.folder = bootstrap, topic, name, folder
        self.lines = folder / "in.txt"
        self.partition = {"filename": str(self.lines)}
        self.arrived: list[str] = []

    def comes(self, *more: str) -> None:
        """These lines are in the topic behind those before, and nothing else."""
        self.arrived.extend(more)
        values = consume_values(self.bootstrap, self.topic, len(self.arrived), _WITHIN_S)
        assert [value.decode() for value in values if value] == self.arrived
        assert end_offset(self.bootstrap, self.topic) == len(self.arrived), "nothing came twice"

    def writes(self, line: str) -> None:
        with self.lines.open("a") as more:
            more.write(f"{line}\n")

    def resumes(self) -> None:
        self.connect("connectors", "resume", self.name)

    def stops(self) -> None:
        self.connect("connectors", "stop", self.name)
        self.operator.await_state(self.name, "STOPPED")

    def runs(self) -> None:
        self.operator.await_state(self.name, "RUNNING")

    def is_created_once(self) -> None:
        self.lines.write_text("one\ntwo\n")
        config = {"connector.class": "FileStreamSource", "file": str(self.lines), "topic": self.topic}
        file = self.folder / "source.json"
        file.write_text(json.dumps({"name": self.name, "config": config}))
        self.connect("connectors", "create", str(file))
        assert "already exists" in self.operator.run("connectors", "create", str(file), expect=4).stderr
        self.runs()
        shown = json.loads(self.connect("connectors", "show", self.name, "-o", "json"))
        assert (shown["type"], shown["config"]["topic"]) == ("source", self.topic)
        self.comes("one", "two")

    def is_paused_and_restarted(self) -> None:
        self.connect("connectors", "pause", self.name)
        self.operator.await_state(self.name, "PAUSED")
        self.writes("three")
        self.resumes()
        self.runs()
        self.comes("three")
        self.connect("connectors", "restart", self.name)
        self.connect("connectors", "restart", self.name, "--task", "0")
        self.runs()

    def goes_on_from_altered_and_reset_offsets(self) -> None:
        connect, name = self.connect, self.name
        self.operator.await_offset(name, self.partition, {"position": 14})
        assert "Stop it first" in self.operator.run("offsets", "reset", name, "--yes", expect=1).stderr
        self.stops()
        text = connect("offsets", "show", name, "-o", "json")
        connect("offsets", "alter", name, "-f", "-", "--yes", stdin=text)
        assert connect("offsets", "show", name, "-o", "json") == text
        back = json.loads(text)
        back["offsets"][0]["offset"]["position"] = 8
        connect("offsets", "alter", name, "-f", "-", "--yes", stdin=json.dumps(back))
        assert '{"position":8}' in connect("offsets", "show", name)
        self.resumes()
        self.comes("three")

        self.stops()
        connect("offsets", "reset", name, "--dry-run")
        assert self.operator.offsets(name)
        connect("offsets", "reset", name, "--yes")
        assert self.operator.offsets(name) == []
        self.resumes()
        self.comes("one", "two", "three")

    def is_made_again_as_it_was_shown(self) -> None:
        connect, name = self.connect, self.name
        shown = connect("connectors", "show", name, "-o", "json")
        self.operator.await_offset(name, self.partition, {"position": 14})
        connect("connectors", "delete", name, "--yes")
        connect("connectors", "show", name, expect=3)
        assert connect("connectors", "list", "-o", "json") == "[]\n"
        connect("connectors", "create", "-f", "-", stdin=shown)  # offsets and all
        self.runs()
        self.writes("four")
        self.comes("four")
        connect("connectors", "delete", name, "--yes")


def sink_from_create_to_delete(operator: Operator, bootstrap: str, topic: str, folder: Path, name: str) -> None:
    """A file sink: its offsets are those of its consumer group. `name` must be nobody else's, ever."""
    connect, out, written = operator.connect, folder / "out.txt", ["one", "two", "three"]
    produce_lines(bootstrap, topic, written)
    file = folder / "sink.json"
    file.write_text(
        json.dumps({"name": name, "config": {"connector.class": "FileStreamSink", "file": str(out), "topics": topic}})
    )

    def comes(*more: str) -> None:
        written.extend(more)
        eventually(lambda: out.exists() and len(out.read_text().splitlines()) >= len(written), _WITHIN_S, "lines")
        assert out.read_text().splitlines() == written

    connect("connectors", "create", str(file))
    operator.await_state(name, "RUNNING")
    comes()
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    operator.await_offset(name, partition, {"kafka_offset": 3})
    connect("connectors", "pause", name)
    operator.await_state(name, "PAUSED")
    connect("connectors", "resume", name)
    operator.await_state(name, "RUNNING")
    produce_lines(bootstrap, topic, ["four"])
    comes("four")
    operator.await_offset(name, partition, {"kafka_offset": 4})

    connect("connectors", "stop", name)
    operator.await_state(name, "STOPPED")
    text = connect("offsets", "show", name, "-o", "json")
    connect("offsets", "alter", name, "-f", "-", "--yes", stdin=text)
    assert connect("offsets", "show", name, "-o", "json") == text
    again = {"offsets": [{"partition": partition, "offset": {"kafka_offset": 2}}]}
    connect("offsets", "alter", name, "-f", "-", "--yes", stdin=json.dumps(again))
    assert operator.offsets(name) == again["offsets"]
    connect("connectors", "resume", name)
    comes("three", "four")

    connect("connectors", "stop", name)
    operator.await_state(name, "STOPPED")
    connect("offsets", "reset", name, "--yes")
    assert operator.offsets(name) == []
    connect("connectors", "resume", name)
    comes("one", "two", "three", "four")
    operator.await_offset(name, partition, {"kafka_offset": 4})
    connect("offsets", "move", name, "--shift-by", "-1", "--bootstrap-servers", bootstrap, "--yes")
    comes("four")
    moved = json.loads(connect("offsets", "history", name, "-o", "json"))[-1]
    assert moved["offsets"] == [{"partition": partition, "old": {"kafka_offset": 4}, "new": {"kafka_offset": 3}}]
    connect("connectors", "delete", name, "--yes")
    connect("offsets", "show", name, expect=3)
