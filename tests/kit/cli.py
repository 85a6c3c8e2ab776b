"""Run the installed `connect` command as a user would: another process, a HOME of its own, a deadline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kconnect.java.devbroker import cache_folder
from kit.pace import ample_s
from kit.run_processes import RUN, WORKER

__all__ = ["CliResult", "Command", "cli_env", "cli_run", "connect_command", "without_waits"]

# A change that takes more than two seconds is reported, as everything does on a busy machine
_WAITS = re.compile(r"^Waiting for \S+ to carry out .* \.\.\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CliResult:
    """What a command printed and how it ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The standard output, parsed."""
        return json.loads(self.stdout)


def without_waits(stderr: str) -> str:
    """What a command said, without the lines that a busy machine adds."""
    return _WAITS.sub("", stderr)


Command = Callable[..., CliResult]
"""Runs `connect` with the words that it is given."""


def connect_command() -> list[str]:
    """The `connect` of the environment these tests run in."""
    return [str(Path(sys.executable).with_name("connect"))]


def cli_env(home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user with an empty HOME, who shares only the cache of Kafka's jars.

    The marks of the run stay in it: by them what a run has started is found.
    """
    strangers = ("XDG_", "KCONNECT_", "COLUMNS", "PYTEST_", "PYTHONUNBUFFERED")
    kept = {key: value for key, value in os.environ.items() if key in (RUN, WORKER) or not key.startswith(strangers)}
    ours = {"HOME": str(home), "KCONNECT_CACHE": str(cache_folder()), "KCONNECT_MAKE_CLASS_ARCHIVE": "no"}
    return kept | ours | {"NO_COLOR": "1"} | dict(env or {})


def cli_run(
    *args: str,
    home: Path,
    timeout_s: float = 60.0,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    expect: int | Sequence[int] | None = None,
) -> CliResult:
    """Run `connect ARGS`; with `expect`, another exit code fails with all that was printed."""
    done = subprocess.run(
        [*connect_command(), *args],
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=ample_s(timeout_s),
        env=cli_env(home, env),
        cwd=cwd or home,
        check=False,
    )
    result = CliResult(done.returncode, done.stdout, without_waits(done.stderr))
    allowed = [expect] if isinstance(expect, int) else expect
    assert allowed is None or result.code in allowed, (
        f"connect {' '.join(args)} ended with {result.code}, not {expect}\n{result.stdout}\n{result.stderr}"
    )
    return result
