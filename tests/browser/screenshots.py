"""Pictures of the console for README and docs: `make screenshots`. Made-up connectors, the real pages.

Each is a PNG below 150 kB in docs/images.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_TESTS))

from playwright.sync_api import Page  # noqa: E402  # after the path is set, as all below

from kit.browser import TestBrowser  # noqa: E402
from kit.console_world import ConsoleWorld, console_world  # noqa: E402

_IMAGES = _TESTS.parent / "docs" / "images"
_RATES = {
    "orders-to-lake": 1200.0,
    "payments-from-postgres": 800.0,
    "clickstream": 24000.0,
    "customers-cdc": 90.0,
    "inventory-to-search": 410.0,
    "invoices-archive": 3.0,
    "mail-export": 12.0,
    "shipping-events": 45.0,
}
_SIZE = (1180, 640)
_MOST_BYTES = 150_000
PICTURES = {
    "console-connectors": "/ui",
    "console-connector": "/ui/connectors/payments-from-postgres",
    "console-workers": "/ui/workers",
    "console-log": "/ui/log",
}


def main() -> int:
    """Make all; exit code 1 when one is too large."""
    _IMAGES.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.ERROR)
    code = 0
    with console_world(_RATES) as world, TestBrowser() as browser:
        _live(world)
        for dark in (False, True):
            for name, path in PICTURES.items():
                file = _IMAGES / f"{name}-{'dark' if dark else 'light'}.png"
                with browser.page(world.url + path, dark=dark, size=_SIZE) as page:
                    _settle(page)
                    page.screenshot(path=file, animations="disabled")
                size = file.stat().st_size
                print(f"{file.relative_to(_TESTS.parent)}: {size:,} bytes")  # noqa: T201  # what was made
                code |= int(size > _MOST_BYTES)
    return code


def _live(world: ConsoleWorld) -> None:
    world.live_an_hour()
    world.fail("mail-export")
    lines: list[tuple[int, str, int, str | None]] = [
        (0, "Joined group connect-cluster at generation 18, leader of 2 workers", logging.INFO, None),
        (1, "Reading changes of public.payments from LSN 0/1A2B3C8", logging.INFO, "payments-from-postgres"),
        (0, "poll() failed and will be retried in 0.4 s: connection reset by peer", logging.WARNING, "customers-cdc"),
        (0, "poll() works again after 3 failed attempts in 1.7 s", logging.INFO, "customers-cdc"),
        (1, "Task mail-export-0 is FAILED: connection to server at db.internal failed", logging.ERROR, "mail-export"),
        (1, "Task mail-export-0 is restarted, attempt 1 of 5", logging.INFO, None),
    ]
    for number, text, level, connector in lines:
        world.say(number, text, level, connector=connector)


def _settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    if page.locator("#activity").count():
        page.wait_for_selector(".plot canvas")


if __name__ == "__main__":
    sys.exit(main())
