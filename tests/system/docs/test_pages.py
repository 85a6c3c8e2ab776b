"""Pages run from their first line to their last, in a shell, as their reader would.

The README always; the pages of docs/ when a run takes the part `pages`. In one file, as they use the same ports.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.pages import PAGES, run_document
from kit.part_choice import is_chosen

# A page has a limit of its own; this one allows for another run that has the ports
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

# What a page must have printed, beside the screens it shows: words, and how often.
_PRINTED = {
    "README.md": {"The broker is stopped": 1},
    "repair.md": {"The broker is stopped": 1},
    "write-a-connector.md": {"transform wrap": 2, 'value={"text": "first"}': 2, "8 passed": 1},
}


@pytest.mark.parametrize("page", [page for page in PAGES if page == "README.md" or is_chosen("pages")])
def test_the_page_runs_from_its_first_line_to_its_last(page: str, tmp_path: Path, home: Path) -> None:
    printed = run_document(page, tmp_path, home)
    for word, times in _PRINTED.get(page, {}).items():
        assert "".join(printed).count(word) == times, "".join(printed)
    if page == "README.md":
        assert (tmp_path / "try" / "out.txt").read_text().splitlines()[0] == "hello, Connect"
