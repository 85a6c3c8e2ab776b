"""Pictures of the console for README and docs: `make screenshots`. A real cluster, looked at after minutes of work.

Each is a PNG below 150 kB in docs/images. Names and states are the same each time; rates and times are what they were.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Page, expect

from kit.browser import PHONE, TestBrowser
from kit.places import DOCS, ROOT
from kit.shop_world import shop_world

_IMAGES = DOCS / "images"
_SIZE = (1180, 720)
_MOST_BYTES = 150_000
# Samples are taken every ten seconds: enough of them for a plot
_AT_WORK_S: Final = 240.0
_LETTERS = "/ui/connectors/orders-to-lake/dead-letters"
PICTURES: Final[Mapping[str, str]] = {
    "console-connectors": "/ui",
    "console-connector": "/ui/connectors/orders-to-lake",
    "console-workers": "/ui/workers",
    "console-letters": f"{_LETTERS}/replay?at=0@0",
}
# For the eyes of who works on the console; not in the docs
_OTHERS: Final[Mapping[str, str]] = {
    "failed": "/ui/connectors/payments-to-archive",
    "config": "/ui/connectors/orders-to-lake/config",
    "offsets": "/ui/connectors/orders-to-lake/offsets",
    "topics": "/ui/connectors/orders-to-lake/topics",
    "history": "/ui/connectors/orders-to-lake/history",
    "dead-letters": _LETTERS,
    "letters": f"{_LETTERS}/letters",
    "letter": f"{_LETTERS}/letters/0@0",
    "stop": "/ui/connectors/orders-to-lake/do/stop",
    "create": "/ui/create",
    "create-sink": "/ui/create?plugin=FileStreamSink",
    "plugins": "/ui/plugins",
    "loggers": "/ui/loggers",
    "log": "/ui/log",
    "doctor": "/ui/doctor",
    "gone": "/ui/connectors/nobody",
}
_PATCH: Final = '[{"op": "replace", "path": "/value", "value": {"id": 200, "kind": "orders", "amount": 0}}]'


def main() -> int:
    """Make all; exit code 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", metavar="FOLDER", type=Path, help="every page there too, also as on a phone")
    parser.add_argument("--seconds", type=float, default=_AT_WORK_S, help="how long the cluster works before")
    given = parser.parse_args()
    _IMAGES.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.ERROR)
    with _folder() as folder, shop_world(folder) as shop:
        time.sleep(given.seconds)
        with TestBrowser() as browser:
            made = [
                _picture(browser, shop.url + path, _IMAGES / f"{name}-{'dark' if dark else 'light'}.png", dark=dark)
                for name, path in PICTURES.items()
                for dark in (False, True)
            ]
            if given.all is not None:
                _all(browser, shop.url, given.all)
    for file in made:
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")  # noqa: T201  # what was made
    return int(any(file.stat().st_size > _MOST_BYTES for file in made))


@contextmanager
def _folder() -> Iterator[Path]:
    """Always the same one, as it is in the pictures. Errors: FileExistsError while another run uses it."""
    folder = Path(tempfile.gettempdir()) / "shop"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _all(browser: TestBrowser, url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in {**PICTURES, **_OTHERS}.items():
        for dark in (False, True):
            _picture(browser, url + path, folder / f"{name}-{'dark' if dark else 'light'}.png", dark=dark, whole=True)
        _picture(browser, url + path, folder / f"{name}-phone.png", size=PHONE, whole=True)


def _picture(
    browser: TestBrowser,
    url: str,
    file: Path,
    *,
    dark: bool = False,
    size: tuple[int, int] = _SIZE,
    whole: bool = False,
) -> Path:
    with browser.page(url, dark=dark, size=size, allowed=["404", "503"]) as page:
        _settle(page)
        page.screenshot(path=file, animations="disabled", full_page=whole)
    return file


def _settle(page: Page) -> None:
    if page.locator("#activity").count():
        page.wait_for_selector(".plot canvas")
    if page.locator("#patch").count():
        page.locator("summary", has_text=re.compile("^Change records")).click()
        page.locator("#patch").fill(_PATCH)
        page.get_by_role("button", name="Preview").click()
        expect(page.locator("td.new").first).to_be_visible()
    page.wait_for_timeout(500)


if __name__ == "__main__":
    sys.exit(main())
