"""docs/write-a-connector.md as a reader follows it: its files are written, its commands and its tests run, in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from kit.cli import cli_env

_ROOT = Path(__file__).parents[2]
_TEXT = (_ROOT / "docs" / "write-a-connector.md").read_text("utf-8")
_BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", _TEXT, re.MULTILINE | re.DOTALL)


def _run(command: list[str], folder: Path, home: Path) -> str:
    env = cli_env(home)
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env.get("PATH", os.defpath)])
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_every_block_of_the_document_runs_in_order(tmp_path: Path, home: Path) -> None:
    outputs = []
    for language, text in _BLOCKS:
        if language == "python":
            name = text.splitlines()[0].removeprefix("# ").strip()
            (tmp_path / name).write_text(text)
            if name.startswith("test_"):
                outputs.append(
                    _run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name], tmp_path, home)
                )
        else:
            outputs.append(_run(["bash", "-euo", "pipefail", "-c", text], tmp_path, home))
    tried, into_table, tests, project = outputs
    assert tried.count("transform wrap") == 2
    assert 'value={"text": "first\\n"}' in tried
    assert into_table.count("put") >= 2
    assert "2 passed" in tests
    assert "8 passed" in project
    assert (tmp_path / "files.db").stat().st_size > 0


def test_the_whole_source_is_shorter_than_forty_lines() -> None:
    language, text = _BLOCKS[0]
    assert language == "python"
    code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert 20 < len(code) < 40
