"""`make site`: a site of docs/, which opens from a folder and loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.pace import ample_s
from kit.places import DOCS, ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that was made without a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = ["make", "--no-print-directory", "--silent", "site", f"SITE={folder}"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=ample_s(300))
    assert (made.returncode, made.stderr) == (0, ""), made.stdout + made.stderr
    return folder


def loaded(site: Path) -> Iterator[tuple[Path, str]]:
    """Page and address of all that a browser loads by itself: styles, scripts, pictures, fonts."""
    for page in site.glob("*.html"):
        text = page.read_text("utf-8")
        for found in re.finditer(r'<(?:script|img|source|link)\b[^>]*?\b(?:src|srcset|href)="([^"]+)"', text):
            if not found[1].startswith("#"):  # the page itself
                yield page, found[1].partition("?")[0]


def test_every_page_is_in_the_contents(site: Path) -> None:
    contents = (site / "index.html").read_text("utf-8")
    for page in DOCS.glob("*.md"):
        assert f'href="{page.stem}.html"' in contents, page.name
        assert (site / f"{page.stem}.html").is_file()


def test_all_that_pages_load_is_in_the_folder(site: Path) -> None:
    found = list(loaded(site))
    assert any(address.endswith(".png") for _, address in found)
    missing = [(page.name, address) for page, address in found if not (site / address).is_file()]
    assert missing == []
    styles = "".join(path.read_text("utf-8") for path in site.glob("_static/**/*.css"))
    assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", styles)


def test_search_knows_what_pages_say(site: Path) -> None:
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")  # a script, which browsers load from a folder too
    assert "debezium" in index
