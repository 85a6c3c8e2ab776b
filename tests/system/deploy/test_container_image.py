"""The Dockerfile's own commands, as far as they run without Docker: install what is copied, start, ask, end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import site
import subprocess
import sys
from pathlib import Path

import pytest

from kconnect.java.devbroker import KAFKA_VERSION, DevBroker, find_java
from kit.cli import cli_env
from kit.dockerfiles import Instruction, instructions_of
from kit.pace import ample_s
from kit.places import ROOT
from kit.ports import free_port
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]

IMAGE = instructions_of(ROOT / "Dockerfile")


def the(name: str) -> Instruction:
    (found,) = [one for one in IMAGE if one.name == name and one.stage == 1]
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/opt/kconnect of the image, with the locked packages of this environment beside what is installed."""
    folder = tmp_path_factory.mktemp("image")
    source, target = folder / "src", folder / "kconnect"
    source.mkdir()
    for copy in (one for one in IMAGE if one.name == "COPY" and one.stage == 0):
        *names, _ = copy.words.split()
        for name in names:
            place = source / name
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, place)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True, timeout=ample_s(60))
    (packages,) = target.glob("lib/python*/site-packages")
    (packages / "locked.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    pip = target / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {target}/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    (install,) = [
        one.words for one in IMAGE if one.name == "RUN" and one.stage == 0 and "--no-build-isolation" in one.words
    ]
    command = install.replace("/opt/kconnect", str(target))
    subprocess.run(["bash", "-ec", command], cwd=source, check=True, timeout=ample_s(120), capture_output=True)
    return target


def test_the_entrypoint_starts_a_worker_from_variables_which_is_healthy_and_ends_by_the_stop_signal(
    installed: Path, broker: DevBroker, home: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    port, name = free_port(), "container-image"
    connect = {
        "BOOTSTRAP_SERVERS": broker.bootstrap,
        "GROUP_ID": name,
        **{f"{kind}_STORAGE_TOPIC": f"{name}-{kind.lower()}" for kind in ("CONFIG", "OFFSET", "STATUS")},
        **{f"{kind}_STORAGE_REPLICATION_FACTOR": "1" for kind in ("CONFIG", "OFFSET", "STATUS")},
        "KEY_CONVERTER": "StringConverter",
        "VALUE_CONVERTER": "StringConverter",
        "LISTENERS": f"http://127.0.0.1:{port}",
        "KCONNECT_SLOTS": "1",
        "KCONNECT_LOG_FORMAT": "json",
        "LOG4J_LOGGERS": "org.apache.kafka.connect=DEBUG",
        "SSL_KEY_PASSWORD_FILE": str(home / "secret"),
    }
    (home / "secret").write_text("opensesame-7\n")
    env = cli_env(home, {f"CONNECT_{key}": value for key, value in connect.items()})
    env |= {
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "KCONNECT_HEALTH_URL": f"http://127.0.0.1:{port}/health",
    }
    tini, dashes, *entrypoint = the("ENTRYPOINT").command
    assert (tini, dashes) == ("tini", "--")  # Debian's, which is not on this machine
    log = tmp_path / "log"
    with log.open("w") as lines:
        worker = subprocess.Popen(
            [str(installed / "bin" / entrypoint[0]), *entrypoint[1:], *the("CMD").command],
            cwd=home,
            env=env,
            stderr=lines,
            stdin=subprocess.DEVNULL,
        )
        try:
            check = the("HEALTHCHECK").command
            eventually(
                lambda: subprocess.run(check, env=env, capture_output=True, timeout=ample_s(10)).returncode == 0,
                60,
                "the image's own check says healthy",
            )
            worker.send_signal(getattr(signal, the("STOPSIGNAL").words))
            assert worker.wait(ample_s(30)) == 128 + signal.SIGTERM
        finally:
            worker.kill()
            worker.wait()
    reported = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    odd = [line for line in log.read_text().splitlines() if not line.startswith("{")]
    assert odd == []
    assert len(reported) > 5
    assert any(line["logger"].startswith("kconnect.") and line["level"] == "DEBUG" for line in reported)
    assert any("Settings from the environment" in line["message"] for line in reported)
    assert "opensesame-7" not in log.read_text()


def test_an_installed_wheel_runs_javas_plugins_without_a_compiler(installed: Path, home: Path, tmp_path: Path) -> None:
    (packages,) = installed.glob("lib/python*/site-packages")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "java").symlink_to(find_java("tests").executable)
    program = (
        "from kconnect.runtime.plugins import PluginRegistry\n"
        "made = PluginRegistry.load()\n"
        "print(made.connector_class('java:org.apache.kafka.connect.file.FileStreamSourceConnector')().version())\n"
        "print(*open(f'/proc/{made._java.pid}/cmdline').read().split('\\0'), sep='\\n')\n"
        "made.close()\n"
    )
    done = subprocess.run(
        [str(installed / "bin" / "python"), "-c", program],
        cwd=home,
        env={**cli_env(home), "PATH": str(tools)},
        capture_output=True,
        text=True,
        timeout=ample_s(60),
    )
    assert done.returncode == 0, done.stderr
    version, *command = done.stdout.splitlines()
    assert version == KAFKA_VERSION
    assert command[command.index("-cp") + 1].startswith(str(packages / "kconnect" / "java" / "plugins" / "host.jar"))
