"""Every page of docs/ runs from its first line to its last, in a shell, as its reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.pages import PAGES, run_document

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

# What a page must have printed, beside the screens it shows: words, and how often.
_PRINTED = {"write-a-connector.md": {"transform wrap": 2, 'value={"text": "first"}': 2, "8 passed": 1}}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"])  # test_readme runs that
def test_the_page_runs_from_its_first_line_to_its_last(page: str, tmp_path: Path, home: Path) -> None:
    printed = run_document(page, tmp_path, home)
    for word, times in _PRINTED.get(page, {}).items():
        assert "".join(printed).count(word) == times, "".join(printed)
