"""Every recorded start of Java's connect-standalone, replayed: same exit codes, and errors that a person understands.

A refusal is one sentence and one hint on stderr below the log: it names the file, the setting and its value, leaves no
process, and comes at once. The runs that Java ended by a signal share workers here (each costs seconds).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import tempfile
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.java.compat.serialized_map import dump_map
from kconnect.java.devbroker import DevBroker
from kconnect.runtime.config import load_connector_file, read_properties
from kconnect.worker import StandaloneWorker, StartupError
from kit.cli import cli_run
from kit.differences import hold_alike
from kit.golden import load
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s
from kit.ports import free_port
from kit.runs import Ended, Run
from kit.topics import create_topic, end_offset
from kit.waiting import eventually, wait_http

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(120)]

_RECORDED = load("standalone/cases.json")["cases"]
_CASES = {case["name"]: case for case in _RECORDED}
_FOLDER = "/data/connect-x/w/standalone"
_WITHIN_S = 15.0
# Of the processor's time, which is the same on a busy machine: Java alone takes more before Spark is up
_BEFORE_SPARK_CPU_S = 3.0

# Where we answer differently on purpose, and why; each has a test of its own below.
_DIFFERENT = {
    "20-no-args": "it runs: defaults for the worker, connectors.d for its connectors",
    "21-help": "--help was asked for and given, so 0",
}
# Recorded runs that lived until a signal, and the test that replays them.
_LIVED = {
    "test_every_form_of_file_runs_as_in_java": [
        "01-source",
        "03-source-sink-rest",
        "10-json-name-config",
        "11-json-flat",
        "12-json-initial-stopped",
        "13-json-initial-paused",
        "14-json-extra-field",
        "19-json-in-properties-extension",
        "1a-json-other-extension",
        "1b-json-flat-numeric",
        # the second worker of that test, on the same files
        "02-source-again",
        "37-unknown-worker-property",
    ],
    "test_ctrl_c_ends_a_worker_whose_file_uses_every_syntax": ["04-sigint", "38-properties-syntax", "41-empty-offsets"],
    "test_a_killed_worker_takes_its_processes_with_it": ["05-sigkill", "42-offset-dir-missing"],
    "test_a_worker_without_connectors_runs_until_sigterm": ["22-worker-only"],
    "test_sigterm_during_the_start_ends_it": ["45-sigterm-during-start"],
}
# What the refusal of each recorded start must say.
_REPORTED = {
    "15-json-malformed": ["/bad1.json", "not valid JSON", "line 1 column 10"],
    "16-json-array": ["/bad2.json", "JSON object", '{"name": .., "config": {..}}'],
    "17-json-flat-noname": ["/bad3.json", "'name'"],
    "18-json-no-config": ["/bad4.json", "`config`"],
    "1c-json-name-mismatch": ["/form9.json", "'name'", "'other'", "'j12'"],
    "1d-json-initial-bad": ["/form10.json", "initial_state", "'NOPE'", "RUNNING, PAUSED, STOPPED"],
    "23-missing-worker-file": ["/none.properties", "does not exist"],
    "24-missing-connector-file": ["/none-conn.properties", "does not exist"],
    "25-duplicate-connector": ["/src-dup.properties", "/src.properties", "Connector fsrc already exists"],
    "26-bad-connector-config": ["/badconn.properties", '"topic"', "Set topic=.. in "],
    "27-unknown-class": ["/badclass.properties", "no.Such", "FileStreamSource"],
    "28-no-name": ["/noname.properties", "'name'"],
    "29-good-then-bad-connector": ["/badconn.properties", '"topic"', "Set topic=.. in "],
    "30-no-bootstrap": ["/nobs.properties", "Set bootstrap.servers=.. in "],
    "31-no-offset-file": ["/nooff.properties", "Set offset.storage.file.filename=.. in "],
    "32-no-converter": ["/nokc.properties", "Set key.converter=.. in "],
    "33-bad-converter": ["/badkc.properties", "key.converter", "no.Such", "ByteArray", "Json", "String"],
    "34-bad-flush-interval": ["/badfl.properties", "offset.flush.interval.ms", "abc", "Not a number"],
    "35-bad-listener": ["/badli.properties", "listeners", "banana", "protocol://hostname:port"],
    "36-bad-discovery": ["/baddi.properties", "plugin.discovery", "banana", "SERVICE_LOAD"],
    "40-corrupt-offsets": ["/corrupt.dat", "offset.storage.file.filename", "/corrupt.dat.damaged-", "Restore a backup"],
    "43-port-in-use": ["/port.properties", "listeners=http://127.0.0.1:{taken}", "taken by another process"],
    "44-broker-down": ["/down.properties", "bootstrap.servers=127.0.0.1:1 ", "kconnect.bootstrap.timeout.ms"],
}
# Refusals that need no plugin, port, broker or file of offsets come before Spark is thought of.
_AFTER_SPARK_BEGAN = ("26", "27", "29", "33", "35", "40", "43", "44")


class Case:
    """Recorded files in a folder of this test's, with our broker, a free port, and names nobody else has."""

    def __init__(self, folder: Path, bootstrap: str, taken_port: int = 0) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        mark = uuid.uuid4().hex[:6]
        self.topic, self.sink = f"orc-{mark}", f"fsnk-{mark}"
        self._changes = {
            _FOLDER: str(folder),
            "/data/connect-x/plug": str(folder / "plug"),
            "/nonexistent-dir": str(folder / "nonexistent-dir"),  # a root user would create that
            "127.0.0.1:19092": bootstrap,
            "28088": str(self.port),
            "28089": str(taken_port),
            "orc-s-t": self.topic,
            "name=fsnk": f"name={self.sink}",
        }
        (folder / "plug").mkdir(exist_ok=True)
        (folder / "plug" / "connect-file-4.3.0.jar").touch()  # a Java worker's plugin.path
        (folder / "in.txt").write_text("line 1\nline 2\n")  # 14 bytes, as recorded
        (folder / "corrupt.dat").write_bytes(b"these are no offsets")

    def here(self, text: str) -> str:
        for recorded, ours in self._changes.items():
            text = text.replace(recorded, ours)
        return text

    def write(self, case: dict[str, Any], more: str = "") -> list[str]:
        """Write the files of a recorded case, `more` behind the worker's; gives the arguments."""
        args = [self.here(arg) for arg in case["args"]]
        for path, text in case["files"].items():
            if not text.startswith("FileNotFoundError"):  # how it was recorded that there was none
                Path(self.here(path)).write_text(self.here(text) + (more if self.here(path) == args[0] else ""))
        return args

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=ample_s(10)) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


def refused(folder: Path, args: list[str], env: dict[str, str | None] | None = None) -> tuple[Ended, str]:
    """Run what cannot run; how it ended, and the sentence with its hint."""
    with Run(folder, args, env) as run:
        ended = run.end()
        left = run.left_running()
    assert not left, f"left running: {left}"
    assert len(ended.reported) in (1, 2), f"not one sentence (and a hint):\n{ended.stderr}"
    assert ended.stderr.splitlines()[-len(ended.reported) :] == ended.reported, f"not at the end:\n{ended.stderr}"
    assert all(line.startswith("Hint: ") for line in ended.reported[1:]), ended.reported
    assert not any(word in ended.reported[0] for word in ("org.apache", "Exception", "PluginDesc")), ended.reported
    return ended, "\n".join(ended.reported)


def test_every_recorded_case_is_replayed() -> None:
    lived = [name for names in _LIVED.values() for name in names]
    assert sorted([*_REPORTED, *_DIFFERENT, *lived]) == sorted(_CASES)
    assert all(test in globals() for test in _LIVED)


@pytest.mark.parametrize("name", _REPORTED)
def test_what_java_refuses_is_refused_with_its_exit_code_and_a_sentence(
    name: str, broker: DevBroker, tmp_path: Path, taken_port: int
) -> None:
    case = Case(tmp_path, broker.bootstrap, taken_port)
    args = case.write(_CASES[name], "kconnect.bootstrap.timeout.ms=2000\n" if name.startswith("44") else "")

    ended, reported = refused(tmp_path, args)

    assert ended.code == _CASES[name]["exit_code"], ended.stderr
    for words in _REPORTED[name]:
        assert words.replace("{taken}", str(taken_port)) in reported
    assert ended.seconds < _WITHIN_S
    assert name.startswith(_AFTER_SPARK_BEGAN) or ended.cpu_s < _BEFORE_SPARK_CPU_S
    assert (tmp_path / "corrupt.dat").read_bytes() == b"these are no offsets"


def test_a_file_of_offsets_that_ends_too_soon_is_reported_with_the_byte_and_kept_aside(
    broker: DevBroker, tmp_path: Path
) -> None:
    """Java takes such a file for an empty one, and overwrites it with its first commit."""
    case = Case(tmp_path, broker.bootstrap)
    args = case.write(_CASES["40-corrupt-offsets"])
    cut = dump_map({b'["fsrc",{"filename":"in.txt"}]': b'{"position":14}'})[:-20]
    (tmp_path / "corrupt.dat").write_bytes(cut)

    ended, reported = refused(tmp_path, args)

    assert ended.code == _CASES["40-corrupt-offsets"]["exit_code"], ended.stderr
    (copy,) = tmp_path.glob("corrupt.dat.damaged-*")
    assert f"the file ends at byte {len(cut)} in the middle of" in reported
    assert str(copy) in reported
    assert (tmp_path / "corrupt.dat").read_bytes() == copy.read_bytes() == cut


def test_help_is_given_with_exit_code_0(home: Path) -> None:
    assert "WORKER.properties" in cli_run("standalone", "--help", home=home, expect=0).stdout


def test_without_arguments_connectors_d_is_run_not_a_usage_line(tmp_path: Path) -> None:
    (tmp_path / "connectors.d").mkdir()
    (tmp_path / "connectors.d" / "orders.toml").write_text("name = \n")
    ended, reported = refused(tmp_path, [])
    assert ended.code == 3
    assert "connectors.d/orders.toml is not valid TOML" in reported


# What Java was not asked: (worker file, connector file, exit code, what is reported). None stands for a good file.
_OURS = {
    "empty-worker": (b"", None, 2, ["/worker.properties", "no settings", "key=value"]),
    "comments-only-worker": (b"# nothing\n", None, 2, ["/worker.properties", "no settings"]),
    "binary-worker": (b"\x7fELF\0\1\2", None, 2, ["/worker.properties", "not a text file"]),
    "broken-escape": (b"a=\\u12\n", None, 2, ["/worker.properties, line 1", "\\u"]),
    "empty-connector": (None, b"", 3, ["/connector.properties", "is empty", "`name`"]),
    "binary-connector": (None, b"\0\1\2\3", 3, ["/connector.properties", "not a text file"]),
    "connector-as-worker": (
        b"name=x\nconnector.class=FileStreamSource\n",
        None,
        2,
        ["/worker.properties is a connector's file", "connect standalone WORKER.properties"],
    ),
}
# Mistakes that a worker finds when it creates the connector: (the connector's file, what is reported).
_MISTAKES = {
    "tasks-max": (
        "name=x\nconnector.class=FileStreamSource\ntopic=t\ntasks.max=many\n",
        ["Invalid value many for configuration tasks.max", "Correct tasks.max in "],
    ),
    "two-mistakes": (
        "name=x\nconnector.class=FileStreamSource\ntasks.max=0\n",
        ["tasks.max", "Set topic=.. in", "Correct tasks.max in "],
    ),
    "class-with-a-typo": (
        "name=x\nconnector.class=FileStreamSuorce\ntopic=t\n",
        ["FileStreamSuorce", "Did you mean FileStreamSource?"],
    ),
    "no-class": ("name=x\ntopic=t\n", ["connector.class"]),
    "unknown-converter": (
        "name=x\nconnector.class=FileStreamSource\ntopic=t\nvalue.converter=Jsonn\n",
        ["value.converter", "Jsonn"],
    ),
}


def good_worker(bootstrap: str, folder: Path) -> str:
    settings = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": str(folder / "offsets"),
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def write_inputs(broker: DevBroker, folder: Path, worker: bytes | None = None, connector: bytes | None = None):
    (folder / "worker.properties").write_bytes(worker or good_worker(broker.bootstrap, folder).encode())
    (folder / "connector.properties").write_bytes(
        connector if connector is not None else b"name=x\nconnector.class=FileStreamSource\nfile=in.txt\ntopic=t\n"
    )
    if worker is not None:
        (folder / "worker.properties").write_bytes(worker)
    return [str(folder / "worker.properties"), str(folder / "connector.properties")]


@pytest.mark.parametrize("name", _OURS)
def test_other_bad_files_are_reported_with_the_file_and_what_to_do(
    name: str, broker: DevBroker, tmp_path: Path
) -> None:
    worker, connector, code, words = _OURS[name]
    ended, reported = refused(tmp_path, write_inputs(broker, tmp_path, worker, connector))
    assert ended.code == code, ended.stderr
    for text in words:
        assert text in reported
    assert "Hint: " in reported


def test_mistakes_in_a_connector_are_reported_with_its_file_and_what_to_do(broker: DevBroker, tmp_path: Path) -> None:
    """By one worker: how a start ends by them is seen above (26, 27 and 29)."""
    (tmp_path / "worker.properties").write_text(good_worker(broker.bootstrap, tmp_path))
    settings = read_properties(tmp_path / "worker.properties")

    def compare(mistake: tuple[str, tuple[str, list[str]]]) -> None:
        name, (text, words) = mistake
        file = tmp_path / f"{name}.properties"
        file.write_text(text)
        with pytest.raises(StartupError) as refused:
            worker.create_connectors([load_connector_file(file)])
        sentence, hint = str(refused.value), refused.value.hint
        assert refused.value.exit_code == 3
        assert not any(word in sentence for word in ("\n", "org.apache", "Exception", "PluginDesc"))
        assert hint
        assert [word for word in (str(file), *words) if word not in f"{sentence} {hint}"] == []

    with StandaloneWorker(settings, launcher=lambda _: MemoryLauncher()) as worker:
        hold_alike([(name, (name, mistake)) for name, mistake in _MISTAKES.items()], compare)
        assert worker.herder.connectors() == []


@pytest.mark.parametrize(("position", "code"), [(0, 2), (1, 3)])
def test_a_folder_in_place_of_a_file_is_reported(position: int, code: int, broker: DevBroker, tmp_path: Path) -> None:
    args = write_inputs(broker, tmp_path)
    args[position] = str(tmp_path)
    ended, reported = refused(tmp_path, args)
    assert ended.code == code
    assert f"{tmp_path} is a folder" in reported
    assert ended.seconds < _WITHIN_S
    assert ended.cpu_s < _BEFORE_SPARK_CPU_S


def test_without_a_worker_file_a_home_that_can_not_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no-folder").touch()
    ended, reported = refused(tmp_path, [], {"HOME": str(tmp_path / "no-folder" / "home")})
    assert ended.code == 2
    assert f"folder {tmp_path}/no-folder/home/.local/share/kconnect cannot be created: Not a directory" in reported
    assert "Set HOME to a folder of yours" in reported


def path_with(folder: Path, **programs: str) -> str:
    """A PATH of one folder that holds only these scripts, and the tools that scripts use."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(stat.S_IRWXU)
    for tool in ("bash", "sh", "env", "dirname", "ps", "nice"):
        for place in os.defpath.split(os.pathsep):
            if place and (Path(place) / tool).exists() and not (folder / tool).exists():
                (folder / tool).symlink_to(Path(place) / tool)
    return str(folder)


def test_without_java_it_says_which_one_to_install(broker: DevBroker, tmp_path: Path) -> None:
    args = write_inputs(broker, tmp_path)
    ended, reported = refused(tmp_path, args, {"PATH": path_with(tmp_path / "bin"), "JAVA_HOME": None})
    assert ended.code == 2
    assert "Java 17 or newer is needed for Spark; none was found on the PATH" in reported
    assert "Install a JDK or JRE of version 17 or newer, or set JAVA_HOME" in reported


def test_an_old_java_is_reported_with_its_version_and_place(broker: DevBroker, tmp_path: Path) -> None:
    old = "#!/bin/sh\necho 'openjdk version \"11.0.22\" 2024-01-16' >&2\n"
    path = path_with(tmp_path / "bin", java=old)
    ended, reported = refused(tmp_path, write_inputs(broker, tmp_path), {"PATH": path, "JAVA_HOME": None})
    assert ended.code == 2
    assert f"found 11.0.22 at {tmp_path}/bin/java" in reported
    assert "Install a JDK or JRE of version 17" in reported


def test_every_form_of_file_runs_as_in_java(broker: DevBroker, tmp_path: Path) -> None:
    case = Case(tmp_path, broker.bootstrap)
    create_topic(broker.bootstrap, case.topic)
    recorded = [_CASES[name] for name in _LIVED["test_every_form_of_file_runs_as_in_java"][:-2]]
    arguments = list(dict.fromkeys(arg for one in recorded for arg in case.write(one)))
    names = {"fsrc", case.sink, "j9"} | {name for one in recorded for name in json.loads(one.get("expand", "{}"))}

    with Run(tmp_path, arguments) as run:
        wait_http(f"{case.url}/health")
        eventually(lambda: _all_up(case, names), 40, "every connector is where its file wants it")

        def as_recorded() -> bool:
            shown = case.get("/connectors?expand=status&expand=info")
            for one in recorded:
                for name, expected in json.loads(case.here(one.get("expand", "{}"))).items():
                    assert shown[name] == expected
            return True

        eventually(as_recorded, 40, "all is shown as by Java")
        wanted = 2 * len([name for name in names if name not in (case.sink, "j3", "j4")])
        # A task that is RUNNING may not have read its file yet
        eventually(lambda: end_offset(broker.bootstrap, case.topic) == wanted, 40, "all lines are in the topic")
        run.signal(signal.SIGTERM)
        assert run.end().code == 143
        assert not run.left_running()
    assert end_offset(broker.bootstrap, case.topic) == wanted

    # and once more, from the file of offsets; with a setting nobody knows
    with Run(tmp_path, case.write(_CASES["37-unknown-worker-property"])) as run:
        wait_http(f"{case.url}/health")
        eventually(lambda: _all_up(case, {"fsrc"}), 40, "fsrc runs again")
        assert case.get("/connectors/fsrc/offsets") == json.loads(case.here(_CASES["02-source-again"]["offsets"]))
        _await_status(case, "37-unknown-worker-property")
        run.signal(signal.SIGTERM)
        ended = run.end()
    assert ended.code == 143
    assert "WARNING Unknown worker setting foo.bar has no effect" in ended.stderr
    assert end_offset(broker.bootstrap, case.topic) == wanted, "nothing came twice"


def test_ctrl_c_ends_a_worker_whose_file_uses_every_syntax(broker: DevBroker, tmp_path: Path) -> None:
    """And whose HOME cannot be written, whose offsets file is empty."""
    case = Case(tmp_path, broker.bootstrap)
    args = case.write(_CASES["38-properties-syntax"])
    (tmp_path / "offx.dat").touch()
    (tmp_path / "no-folder").touch()
    with Run(tmp_path, args, {"HOME": str(tmp_path / "no-folder" / "home")}) as run:
        wait_http(f"{case.url}/health")
        eventually(lambda: _all_up(case, {"fsrc"}), 40, "fsrc runs")
        _await_status(case, "38-properties-syntax")
        eventually(lambda: end_offset(broker.bootstrap, case.topic) == 2, 20, "both lines are in the topic")
        run.signal(signal.SIGINT)
        ended = run.end()
        assert not run.left_running()
    assert ended.code == _CASES["04-sigint"]["exit_code"]
    assert not ended.reported, "a stop is no error, and a HOME that cannot be written none either"
    assert (tmp_path / "offx.dat").stat().st_size > 0


def test_a_killed_worker_takes_its_processes_with_it(broker: DevBroker, tmp_path: Path) -> None:
    case = Case(tmp_path, broker.bootstrap)
    (tmp_path / "nonexistent-dir").mkdir()
    with Run(tmp_path, case.write(_CASES["42-offset-dir-missing"])) as run:
        wait_http(f"{case.url}/health")
        eventually(lambda: _all_up(case, {"fsrc"}), 40, "fsrc runs")
        _await_status(case, "42-offset-dir-missing")
        run.signal(signal.SIGKILL)
        assert run.end().code == _CASES["05-sigkill"]["exit_code"]
        eventually(lambda: not run.left_running(), 15, "nothing of it lives")
        folders = f"kconnect-spark-{run.process.pid}-*"
        eventually(lambda: not [*Path(tempfile.gettempdir()).glob(folders)], 15, "its folder goes along")


def test_a_folder_of_the_offsets_file_that_does_not_exist_is_refused_at_the_start(
    broker: DevBroker, tmp_path: Path
) -> None:
    """Java's worker runs, and tells at its first flush that no offset can be kept."""
    case = Case(tmp_path, broker.bootstrap)
    with Run(tmp_path, case.write(_CASES["42-offset-dir-missing"])) as run:
        ended = run.end()
        assert not run.left_running()
    assert ended.code == 3
    assert f"The folder {tmp_path}/nonexistent-dir of offset.storage.file.filename does not exist." in ended.stderr
    assert f"mkdir -p {tmp_path}/nonexistent-dir" in ended.stderr


def test_a_worker_without_connectors_runs_until_sigterm(broker: DevBroker, tmp_path: Path) -> None:
    case = Case(tmp_path, broker.bootstrap)
    with Run(tmp_path, case.write(_CASES["22-worker-only"])) as run:
        wait_http(f"{case.url}/connectors")
        run.log_has("No connectors yet")
        run.signal(signal.SIGTERM)
        ended = run.end()
        assert not run.left_running()
    assert (ended.code, ended.reported) == (143, [])


@pytest.mark.parametrize("after", ["plugin.path", "REST server listening", "Created connector"])
def test_sigterm_during_the_start_ends_it(after: str, broker: DevBroker, tmp_path: Path) -> None:
    case = Case(tmp_path, broker.bootstrap)
    with Run(tmp_path, case.write(_CASES["45-sigterm-during-start"])) as run:
        run.log_has(after)
        run.signal(signal.SIGTERM)
        ended = run.end()
        assert not run.left_running()
    assert (ended.code, ended.reported) == (143, [])


def _all_up(case: Case, names: set[str]) -> bool:
    shown = case.get("/connectors?expand=status")
    assert set(shown) == names
    for name, each in shown.items():
        status = each["status"]
        if status["connector"]["state"] == "RUNNING":
            assert [task["state"] for task in status["tasks"]] == ["RUNNING"], f"{name}: {status}"
    return True


def _await_status(case: Case, name: str) -> None:
    """Wait until fsrc is as in the recording: connector and task may come to run one after the other."""
    wanted = _here(case, _CASES[name]["status"])

    def as_recorded() -> bool:
        assert case.get("/connectors/fsrc/status") == wanted
        return True

    eventually(as_recorded, 40, "fsrc is as by Java")


def _here(case: Case, recorded: Any) -> Any:
    return json.loads(case.here(json.dumps(recorded)))
