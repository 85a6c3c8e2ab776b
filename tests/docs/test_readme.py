"""What the README shows is run as it stands: its commands in one shell, in an empty folder with an empty HOME."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from kconnect_cli import exits
from kit.cli import cli_env
from kit.ports import is_listening

_ROOT = Path(__file__).parents[2]
_README = (_ROOT / "README.md").read_text("utf-8")
_BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", _README, re.MULTILINE | re.DOTALL)
_MAKE = _BLOCKS[0][1]


def _session() -> str:
    """All blocks after the first as one script; a Python block is a file whose name is its first line."""
    steps = []
    for language, text in _BLOCKS[1:]:
        name = text.splitlines()[0].removeprefix("# ").strip()
        steps.append(text if language == "bash" else f"cat > {name} <<'END-OF-PYTHON'\n{text}END-OF-PYTHON\n")
    return "\n".join(steps)


def _run(script: str, folder: Path, home: Path, timeout_s: float) -> str:
    """Run a script in bash, in a process group of its own that is ended with it; gives all that it printed."""
    shell = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-m", "-c", script],
        cwd=folder,
        env=cli_env(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        output, _ = shell.communicate(timeout=10)
        raise AssertionError(f"not done in {timeout_s:g} s:\n{output}") from None
    assert shell.returncode == 0, f"exit code {shell.returncode}:\n{output}"
    return output


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(200)
def test_the_session_of_the_readme_runs_from_its_first_line_to_its_last(tmp_path: Path, home: Path) -> None:
    taken = [port for port in (9092, 8083) if is_listening(port)]
    assert not taken, f"the README's session needs the usual ports; taken: {taken}"
    (tmp_path / ".venv").symlink_to(_ROOT / ".venv")
    output = _run(_session(), tmp_path, home, timeout_s=150)
    assert "lines-in" in output
    assert "The broker is stopped" in output
    assert output.count("transform wrap") == 2
    assert (tmp_path / "try" / "out.txt").read_text().splitlines()[0] == "hello, Connect"
    assert not is_listening(8083)
    assert not is_listening(9092)


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(200)
def test_make_quickstart_runs_the_whole_path_and_ends_by_itself(home: Path) -> None:
    (command,) = re.findall(r"^(make quickstart)\b", _MAKE, re.MULTILINE)
    output = _run(command, _ROOT, home, timeout_s=150)
    assert "Hello, Connect!" in output
    assert "nothing is left running" in output


def test_make_knows_every_target_that_the_readme_names() -> None:
    targets = set(re.findall(r"\bmake ([a-z]+)\b", _README))
    known = set(re.findall(r"^([a-z-]+):.*##", (_ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"quickstart", "test", "install", "bench"} <= targets
    assert targets <= known


def test_the_exit_codes_of_the_readme_are_those_of_the_code() -> None:
    assert exits.__doc__ is not None
    rows = [line for line in exits.__doc__.splitlines() if re.match(r"\| +\d", line)]
    assert len(rows) == 9
    shown = _README.replace("\\|", "|")
    for row in rows:
        assert row in shown


def test_every_document_that_is_linked_is_there() -> None:
    for document in [_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *(_ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"
