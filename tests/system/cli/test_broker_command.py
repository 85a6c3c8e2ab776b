"""`connect broker`: start, find, stop; its errors are a sentence and a hint."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from kconnect.java.devbroker import DevBroker
from kit.cli import cli_env, cli_run, connect_command
from kit.pace import ended
from kit.ports import free_port, is_listening
from kit.processes import lives
from kit.topics import consume_values, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


def _status_of_running(home: Path) -> Any:
    status = cli_run("broker", "status", "-o", "json", home=home, expect=0).json
    assert status["state"] == "RUNNING", status
    return status


def test_a_detached_broker_is_shown_used_and_stopped_by_later_commands(home: Path) -> None:
    port = free_port()
    cli_run("broker", "start", "--detach", "--port", str(port), home=home, expect=0)
    try:
        # A broker that takes more than two seconds for its answer is shown as STARTING
        status = eventually(lambda: _status_of_running(home), 30, "the broker is shown")
        process = psutil.Process(status["pid"])
        assert status["bootstrap"] == f"127.0.0.1:{port}"
        assert status["data_dir"].startswith(str(home)), "the default data folder is the user's"
        produce_lines(status["bootstrap"], "t", ["x"])
        assert consume_values(status["bootstrap"], "t", 1) == [b"x"]

        again = cli_run("broker", "start", "--port", str(free_port()), home=home, expect=4)
        assert again.stderr.startswith(
            f"A broker already runs on the data folder {status['data_dir']} (pid {status['pid']}"
        )
        assert "Hint: " in again.stderr
    finally:
        stopped = cli_run("broker", "stop", home=home, expect=0)
    assert "stopped" in stopped.stderr
    assert not lives(process)
    assert not is_listening(port)
    assert cli_run("broker", "status", home=home, expect=3).stdout.splitlines()[1].startswith("STOPPED")
    assert "No broker runs" in cli_run("broker", "stop", home=home, expect=0).stderr


def started_in_the_foreground(home: Path, port: int) -> subprocess.Popen[bytes]:
    """`connect broker start`, once the broker is ready."""
    with (home / "out").open("wb") as out:
        command = subprocess.Popen(
            [*connect_command(), "broker", "start", "--port", str(port)],
            env=cli_env(home),
            stdout=out,
            stderr=subprocess.STDOUT,
        )

    def is_ready() -> bool:
        has_ended, text = command.poll() is not None, (home / "out").read_text()
        assert not has_ended, f"it ended with {command.returncode}: {text}"
        return "Ctrl-C stops it" in text

    try:
        eventually(is_ready, 30, "the broker is ready")
    except AssertionError:
        command.kill()
        ended(command, 10)
        raise
    return command


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_broker_in_the_foreground_ends_with_its_command(home: Path, number: signal.Signals, code: int) -> None:
    """SIGHUP takes the way of SIGTERM: unit/cli/test_signals.py."""
    port = free_port()
    command = started_in_the_foreground(home, port)
    try:
        command.send_signal(number)
        assert ended(command, 30) == code
    finally:
        command.kill()
        ended(command, 10)
    assert not is_listening(port)
    assert cli_run("broker", "status", "-o", "json", home=home, expect=3).json["state"] == "STOPPED"


def test_a_broker_stopped_from_elsewhere_ends_the_command_in_peace(home: Path) -> None:
    command = started_in_the_foreground(home, free_port())
    try:
        cli_run("broker", "stop", home=home, expect=0)
        assert ended(command, 30) == 0
    finally:
        command.kill()
        ended(command, 10)
    assert "stopped by another command" in (home / "out").read_text()


def test_errors_are_a_sentence_and_a_hint_without_a_trace(home: Path, broker: DevBroker) -> None:
    def lines(*args: str, env: dict[str, str] | None = None) -> list[str]:
        if "--port" not in args:
            args = (*args, "--port", str(free_port()))
        return cli_run("broker", "start", *args, home=home, env=env, expect=1).stderr.splitlines()

    def reported_of_a_taken_port() -> list[str]:
        reported = lines("--port", str(broker.port))
        assert reported[0] == f"Port {broker.port} on 127.0.0.1 is taken: a Kafka broker answers there."
        return reported

    # One that does not answer within two seconds is not reported as a broker
    taken = eventually(reported_of_a_taken_port, 30, "the broker is reported")
    foreign = lines("--data", str(Path(__file__).parent))
    assert "is not empty and no data folder of this broker" in foreign[0]
    no_java = lines(env={"JAVA_HOME": "/no/such/jdk"})
    assert no_java[0].startswith("Java 17 or newer is needed for the Kafka broker; JAVA_HOME is /no/such/jdk")
    for shown in (taken, foreign, no_java):
        assert len(shown) == 2, shown
        assert shown[1].startswith("Hint: ")
