"""The README's make targets, its length and chart, the drawing of the architecture, and the links of all documents;
test_pages runs its blocks.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.chart import charts
from kit import architecture_drawing
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


def test_the_readme_fits_three_screens() -> None:
    assert len(_README.splitlines()) <= 220


def test_the_charts_show_the_metrics_of_their_page() -> None:
    for file, drawn in charts((ROOT / "docs/benchmarks.md").read_text("utf-8")).items():
        assert file.read_text("utf-8") == drawn, f"`python tests/bench/chart.py` makes {file.name} anew"


@pytest.mark.parametrize("page", architecture_drawing.COLOURS)
def test_the_drawing_of_the_architecture_is_as_its_script_makes_it(page: str) -> None:
    file = ROOT / "docs" / architecture_drawing.path_of(page)
    made = architecture_drawing.drawn(architecture_drawing.COLOURS[page])
    assert file.read_text("utf-8") == made, f"`python -m kit.architecture_drawing` makes {file.name} anew"


def test_every_document_that_is_linked_is_there() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text("utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"
