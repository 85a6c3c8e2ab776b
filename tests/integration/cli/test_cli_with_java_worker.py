"""`connect connectors` and `connect offsets` manage a real Java worker as they manage ours."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import psutil
import pytest

from kconnect.client import ConnectClient
from kconnect.errors import TimedOutError
from kconnect.java.devbroker import DevBroker
from kit.admin_flow import Operator, sink_from_create_to_delete, source_from_create_to_delete, what_is_not_there
from kit.cli import CliResult, cli_env, cli_run, connect_command
from kit.connect_ui import connect_ui_pages
from kit.distributed_worker import cluster_settings
from kit.freezing import freeze, wake
from kit.java_connect import JavaConnect
from kit.pace import now
from kit.picture import Picture
from kit.screen import Terminal
from kit.topics import create_topic
from kit.waiting import eventually


@pytest.mark.broker
@pytest.mark.java
def test_the_command_line_manages_a_java_worker(broker: DevBroker, topic: str, tmp_path: Path, home: Path) -> None:
    create_topic(broker.bootstrap, f"{topic}-sink")
    with JavaConnect(tmp_path / "java", broker.bootstrap, worker={"offset.flush.interval.ms": "500"}) as java:
        operator = Operator(java.url, home)
        what_is_not_there(operator)
        reported = operator.run("slots", expect=3).stderr
        assert f"The worker at {java.url} has no slots: it is one of Java's, whose tasks are threads" in reported
        source_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, "a b")
        name = f"out-{uuid.uuid4().hex[:6]}"
        sink_from_create_to_delete(operator, broker.bootstrap, f"{topic}-sink", tmp_path, name)
        top_shows_what_java_tells(java, home, topic, tmp_path)


def rows(text: str) -> list[list[str]]:
    """The lines of the connector, by words."""
    return [line.split() for line in text.splitlines() if line.startswith("watched")]


def top_shows_what_java_tells(java: JavaConnect, home: Path, topic: str, folder: Path) -> None:
    """States and what keys do; neither rates nor slots, which are shown as absent."""
    (folder / "watched.txt").write_text("a\n")
    config = {"connector.class": "FileStreamSource", "file": str(folder / "watched.txt"), "topic": topic}
    assert java.request("PUT", "/connectors/watched/config", config)[0] == 201
    java.await_running("watched")
    command = [*connect_command(), "top", "watched", "--interval", "500ms", "--url", java.url]
    with Terminal(command, cli_env(home), cwd=str(home)) as terminal:
        screen = Picture(terminal)
        screen.until("no rates: Java's workers do not tell them")
        # What is below it is drawn after it
        screen.until(lambda text: rows(text) == [["watched", "source", "RUNNING", "1/1", "-", "-", "-"]])
        screen.press("3")
        screen.until("No slots: Java's workers run tasks in threads of their own.")
        screen.press("4")
        screen.until(lambda text: "LAST ANSWER" in text and "up     Java" in text)
        screen.press("1p")
        screen.until(lambda text: "Pause watched?" in text and "y: yes" in text)
        screen.press("y")
        screen.until("1 PAUSED")
        screen.press("r")
        screen.until(lambda text: "Resume watched?" in text and "y: yes" in text)
        screen.press("y")
        screen.until("1 task: 1 RUNNING")
        screen.press("R")
        screen.press("a")
        screen.until(lambda text: "Restart watched and all its tasks?" in text and "y: yes" in text)
        screen.press("y")
        screen.until("restarted watched")
        screen.press("\r5")
        screen.until("keeps no lines of its log: it is Java's")
        screen.press("q")
        assert terminal.wait() == 0


@pytest.mark.broker
@pytest.mark.java
def test_while_kafka_is_frozen_a_cluster_of_javas_is_shown_from_what_its_worker_has_in_memory(
    own_broker: DevBroker, tmp_path: Path, home: Path
) -> None:
    name = f"held-{uuid.uuid4().hex[:6]}"
    (tmp_path / "lines.txt").write_text("a\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": name}
    settings = cluster_settings(name)
    broker = psutil.Process(own_broker.pid)
    with JavaConnect(tmp_path / "java", own_broker.bootstrap, mode="distributed", worker=settings) as java:
        java.order("PUT", f"/connectors/{name}/config", config, expect=201)
        java.await_running(name)
        freeze([broker])
        try:

            def is_held_up() -> bool:
                with ConnectClient(java.url, timeout_s=2) as client:
                    try:
                        client.connector(name)
                    except TimedOutError:
                        return True
                return False

            eventually(is_held_up, 60, "its herder waits for Kafka")
            status = cli_run("status", "--url", java.url, home=home, expect=7)
            page = cli_run("describe", name, "--url", java.url, home=home, expect=0)
            shown = cli_run("connectors", "show", name, "-o", "json", "--url", java.url, home=home, expect=0)
            task = cli_run("tasks", "show", name, "0", "--url", java.url, home=home, expect=0)
            with Terminal([*connect_command(), "top", "--url", java.url], cli_env(home), cwd=str(home)) as terminal:
                screen = Picture(terminal)
                top = screen.until("is unhealthy: ")
                screen.press("q")
                assert terminal.wait() == 0
            with connect_ui_pages(home, "--url", java.url) as console:
                overview = console("/ui")
            changes = [
                timed_change(*words, "--url", java.url, home=home)
                for words in (("connectors", "pause", name, "-o", "json"), ("connectors", "delete", name, "--yes"))
            ]
        finally:
            wake([broker])
    assert status.stdout.startswith(f"UNHEALTHY  {java.url}")
    assert f"{java.url} did not answer GET /health within 4 s (--request-timeout)" in status.stdout
    assert "1 connector: 1 RUNNING" in status.stdout
    assert f"{java.url} did not answer GET /health within" in top
    assert f"{java.url} did not answer GET /health within" in overview
    assert name in overview
    assert f"topic = {name}" in page.stdout
    assert "Its offsets are not known" in page.stderr
    assert json.loads(shown.stdout)["config"] == {**config, "name": name}
    assert "its config is shown as the worker has it in memory" in shown.stderr
    assert "RUNNING" in task.stdout
    assert "config: not known" in task.stdout
    assert f"did not answer GET /connectors/{name}/tasks" in task.stderr
    for words, change in zip((f"PUT /connectors/{name}/pause", f"DELETE /connectors/{name}"), changes, strict=True):
        assert not change.stdout
        assert f"{java.url} answered neither {words} nor GET /health within 4 s (--request-timeout)" in change.stderr
        assert "it is not known whether this was done, and it may still be done" in change.stderr


def timed_change(*words: str, home: Path) -> CliResult:
    """A change that ends in time without an answer."""
    began = now()
    changed = cli_run(*words, home=home, expect=6)
    assert now() - began < 5, changed.stderr
    return changed
