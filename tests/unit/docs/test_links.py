"""Links between the pages lead somewhere: the page is there, and has the heading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "tests" / "README.md"])
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub and the site make them of headings."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in found)
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in texts}


def broken(page: Path) -> Iterator[str]:
    for target, anchor in _LINK.findall(prose(page)):
        to = (page.parent / target).resolve() if target else page
        if not to.exists():
            yield f"{target} does not exist"
        elif anchor and to.suffix == ".md" and anchor not in anchors(to):
            yield f"{to.name} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_to_a_page_and_to_a_heading_of_it(page: Path) -> None:
    assert list(broken(page)) == []


def test_a_heading_that_was_renamed_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One\n[b](b.md#two), [c](c.md), [here](#one), [d](b.md#three-and-four)\n")
    (tmp_path / "b.md").write_text("# Three, and `four`\n```\n# two\n```\n")
    assert list(broken(tmp_path / "a.md")) == ["b.md has no heading #two", "c.md does not exist"]
