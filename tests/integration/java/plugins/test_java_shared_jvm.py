"""One JVM of Java's plugins for a worker and its slots (kconnect.java.host=worker), each slot a process of its own.

What a slot leaves behind, and what befalls the JVM, without Kafka and Spark.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import psutil
import pytest

from kconnect.java.door import DOOR
from kconnect.java.plugins import JavaIndex, JavaSettings
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.java_error import JavaHostDiedError
from kit.java_plugin_folder import java_plugin_folder
from kit.pace import ample_s
from kit.processes import below, command, lives
from kit.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

# A slot: a task for each line that asks for one, and an answer to each
_SLOT = """
import json, sys, threading
from contextlib import closing
from kconnect.java.plugins import JavaIndex, JavaSettings, JavaSourceTask, java_class
from kconnect.java.plugins.host import HostProcess
from kconnect.logs.log_context import log_context
from kconnect.runtime.metrics import PluginMetricsRegistry

class Context:
    def transaction_context(self): return None
    def plugin_metrics(self): return PluginMetricsRegistry().of_plugin(connector="c", task="0")

def poll(task):
    try:
        return {"polled": task.poll().value.to_pylist()}
    except Exception as error:
        return {"error": str(error), "kind": type(error).__name__, "hint": getattr(error, "hint", None)}

host = HostProcess(JavaIndex(), JavaSettings.of(json.loads(sys.argv[1])))
tasks = {}
for line in sys.stdin:
    asked = json.loads(line)
    name = asked["name"]
    match asked["do"]:
        case "start":
            with log_context(name, 0):
                tasks[name] = java_class(asked["class"], sys.argv[2], JavaSourceTask, host)()
                tasks[name].context = Context()
                tasks[name].start(asked["config"])
            said = {"pid": host.pid, "ports": host.ports}
        case "poll":
            said = poll(tasks[name])
        case "wait in poll":
            threading.Thread(target=poll, args=(tasks[name],), daemon=True).start()
            said = {}
        case "let go":
            host.stop()
            said = {}
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(java_plugin_folder(tmp_path_factory.mktemp("plugins")) / "kit")


class Slot:
    def __init__(self, settings: Mapping[str, str], folder: str, journal: Path) -> None:
        self._journal = journal
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SLOT, json.dumps(settings), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, do: str, name: str, **more: Any) -> dict[str, Any]:
        stdin, stdout = cast(IO[bytes], self.process.stdin), cast(IO[bytes], self.process.stdout)
        stdin.write(json.dumps({"do": do, "name": name, **more}).encode() + b"\n")
        stdin.flush()
        return cast(dict[str, Any], json.loads(stdout.readline()))

    def start(self, name: str, java: str = "kit.Lasting", **config: str) -> int:
        """Start a task; gives the process id of its JVM."""
        config = {"name": name, "journal": str(self._journal), **config}
        return int(self.ask("start", name, **{"class": java}, config=config)["pid"])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            cast(IO[bytes], stream).close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(ample_s(10))


class World:
    """A worker, which is this process, and slots."""

    def __init__(self, folder: str, journal: Path, **settings: str) -> None:
        self.journal = journal
        self.settings = {
            "kconnect.java.host": "worker",
            "kconnect.java.heap": "128m",
            "kconnect.java.timeout.ms": "6000",
            **settings,
        }
        self._folder = folder
        self.worker = HostProcess(JavaIndex(), JavaSettings.of(self.settings).of_worker())
        self.door = self.worker.share()
        self._stack = ExitStack()

    def slot(self) -> Slot:
        made = Slot({**self.settings, DOOR: self.door}, self._folder, self.journal)
        self._stack.callback(made.close)
        return made

    def noted(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def jvms(self) -> set[int]:
        """Of this process and all that it has started."""
        return {child.pid for child in below(os.getpid()) if "kconnect.host.Main" in command(child)}

    def stop(self) -> None:
        self.worker.stop()
        self._stack.close()


@contextmanager
def world(folder: str, tmp_path: Path, **settings: str) -> Iterator[World]:
    made = World(folder, tmp_path / "journal", **settings)
    try:
        yield made
    finally:
        made.stop()


def test_slots_and_worker_have_one_jvm_which_the_first_that_needs_it_starts(
    folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with world(folder, tmp_path) as w:
        assert not w.jvms(), "nobody needs one"
        first, second = w.slot(), w.slot()
        pids = {first.start("one"), second.start("two"), second.start("three")}
        assert pids == w.jvms() == {w.worker.pid}
        # Their answers do not cross, and a line of the log goes to the slot whose task says it
        assert [slot.ask("poll", name)["polled"] for slot, name in ((first, "one"), (second, "two"), (second, "three"))]
        assert first.ask("poll", "one") == {"polled": ["one"]}
        assert second.ask("poll", "two") == {"polled": ["two"]}
        assert not [line for line in caplog.messages if line.startswith("starts ")]
        assert len([line for line in caplog.messages if "runs plugins" in line]) == 1
        # Who lets go of it leaves it to the others
        first.ask("let go", "")
        assert second.ask("poll", "three") == {"polled": ["three"]}
        (pid,) = pids
        assert lives(psutil.Process(pid))
    assert not w.jvms()


@pytest.mark.parametrize("waits", ["no", "until interrupted", "deaf"])
def test_a_slot_that_is_killed_leaves_no_task_running_and_the_others_go_on(
    folder: str, tmp_path: Path, waits: str
) -> None:
    with world(folder, tmp_path) as w:
        killed, other = w.slot(), w.slot()
        pid = killed.start("dies", waits=waits)
        other.start("lasts")
        if waits != "no":
            killed.ask("wait in poll", "dies")
            eventually(lambda: "wait dies" in w.noted(), 10, "it waits")
        killed.kill()
        eventually(lambda: "stop dies" in w.noted(), 10, "its task is stopped")
        assert other.ask("poll", "lasts") == {"polled": ["lasts"]}
        again = w.slot()
        assert again.start("dies") == pid, "it runs again in the same JVM"
        assert again.ask("poll", "dies") == {"polled": ["dies"]}
        waited = [] if waits == "no" else ["wait dies"]
        assert w.noted() == ["start dies", "start lasts", *waited, "stop dies", "start dies"]


def test_a_task_that_a_killed_slot_leaves_hanging_ends_the_jvm_once_nobody_else_is_in_it(
    folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with world(folder, tmp_path) as w:
        killed, other = w.slot(), w.slot()
        jvm = psutil.Process(killed.start("hangs", waits="forever"))
        other.start("lasts")
        killed.ask("wait in poll", "hangs")
        eventually(lambda: "wait hangs" in w.noted(), 10, "it waits")
        killed.kill()
        eventually(lambda: "stop hangs" in w.noted(), 10, "it was stopped")
        assert other.ask("poll", "lasts") == {"polled": ["lasts"]}
        assert lives(jvm)
        other.ask("let go", "")
        eventually(lambda: not lives(jvm), 60, "the JVM is killed")
        eventually(lambda: "did not return" in caplog.text and "hangs-0" in caplog.text, 10, "and it is said why")


def test_the_jvms_death_is_reported_to_all_slots_in_the_same_words_and_one_is_started_again(
    folder: str, tmp_path: Path
) -> None:
    with world(folder, tmp_path) as w:
        slots = {name: w.slot() for name in ("one", "two")}
        (pid,) = {slot.start(name) for name, slot in slots.items()}
        os.kill(pid, signal.SIGKILL)
        answers = [slot.ask("poll", name) for name, slot in slots.items()]
        why = "killed by signal 9: by somebody, or by the kernel when memory ran out"
        assert answers == 2 * [
            {
                "error": f"The JVM that runs Java's plugins ended ({why})",
                "kind": JavaHostDiedError.__name__,
                "hint": "Its tasks can be restarted; the next start begins with a new JVM.",
            }
        ]
        (again,) = {slot.start(name) for name, slot in slots.items()}
        assert again != pid
        assert w.jvms() == {again}


def test_a_frozen_jvm_is_killed_at_its_deadline(folder: str, tmp_path: Path) -> None:
    with world(folder, tmp_path) as w:
        slot = w.slot()
        pid = slot.start("frozen")
        os.kill(pid, signal.SIGSTOP)
        said = slot.ask("poll", "frozen")
        assert said["kind"] == JavaHostDiedError.__name__
        assert "it has not answered for" in said["error"]
        assert "kconnect.java.timeout.ms" in said["error"]
        assert slot.start("frozen") != pid


def test_a_jvm_that_does_not_start_is_reported_to_the_slot_with_its_setting(folder: str, tmp_path: Path) -> None:
    from kconnect.errors import EnvironmentProblemError

    with world(folder, tmp_path, **{"kconnect.java.opts": "-XX:+NoSuchOption"}) as w:
        settings = JavaSettings.of({**w.settings, DOOR: w.door})
        with pytest.raises(EnvironmentProblemError, match="NoSuchOption") as raised:
            HostProcess(JavaIndex(), settings).connect()
        assert "kconnect.java.opts" in (raised.value.hint or "")


def test_who_has_no_token_gets_nothing_and_nobody_else_reaches_the_door(folder: str, tmp_path: Path) -> None:
    with world(folder, tmp_path) as w:
        _, _, path = w.door.partition(" ")
        assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(path)
            stranger.sendall(b'{"token": "guessed"}\n')
            assert stranger.recv(100) == b""
        assert not w.jvms()
        assert w.door not in repr(JavaSettings.of({DOOR: w.door}))
    assert not Path(path).parent.exists()


def test_a_slot_whose_worker_has_stopped_says_so(folder: str, tmp_path: Path) -> None:
    with world(folder, tmp_path) as w:
        slot = w.slot()
        slot.start("left")
        w.worker.stop()
        assert slot.ask("poll", "left")["error"] == (
            "The JVM that runs Java's plugins ended with the worker that had started it"
        )
