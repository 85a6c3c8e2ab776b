"""The README's make targets, its table of exit codes, and the links of all documents; test_pages runs its blocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kconnect_cli import exits
from kit.cli import cli_env
from kit.documents import Step, blocks_of, run_page
from kit.places import ROOT

_README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(200)
def test_make_quickstart_runs_the_whole_path_and_ends_by_itself(home: Path) -> None:
    first = blocks_of(ROOT / "README.md")[0]
    (command,) = re.findall(r"^(make quickstart)\b", first.text, re.MULTILINE)
    (output,) = run_page([Step(first, command)], ROOT, cli_env(home), timeout_s=150)
    assert "Hello, Connect!" in output
    assert "nothing is left running" in output  # no class archive is made here


def test_make_knows_every_target_that_the_readme_names() -> None:
    targets = set(re.findall(r"\bmake ([a-z]+)\b", _README))
    known = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
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
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"
