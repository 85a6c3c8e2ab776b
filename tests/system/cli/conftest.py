"""`connect` in the process of the tests: for what a command says, where nothing of how it starts and ends matters."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from kconnect_cli.app import run
from kit.cli import CliResult, Command


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> Command:
    """Run `connect ARGS` with a config folder of its own, and this exit code."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))

    def call(*args: str, expect: int, stdin: str = "") -> CliResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        done = CliResult(run(args), *capsys.readouterr())
        assert done.code == expect, done
        assert "This is a bug in connect" not in done.stderr
        return done

    return call
