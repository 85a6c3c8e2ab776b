"""A real browser for tests: Debian's Chromium, driven by Playwright. Whatever a page complains about is a failure.

A page that breaks the content security policy, raises, or logs an error on its console fails the test that opened it,
and so does a request that fails, unless the test says that it may.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from kit.pace import ample_s

__all__ = ["PHONE", "TestBrowser", "axe_findings", "chromium_path", "wider_than_the_window"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PHONE = (360, 740)
"""Width and height of a small phone."""
_DESKTOP = (1280, 900)
# A page that is open and shows nothing for so long on a quiet machine is broken
_PATIENCE_S = 5.0
_ABORTED = "htmx:sendAbort"
_ENDED = "htmx:afterRequest"
# Reported where the browser says it late or not at all
_REPORT_VIOLATIONS = """
document.addEventListener('securitypolicyviolation', event =>
  console.error(`content security policy: ${event.violatedDirective} refuses ${event.blockedURI} ${event.sample}`));
"""


def chromium_path() -> str:
    """The browser, found by its name. Errors: AssertionError that says what to install."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found is not None, "Tests of the console need Chromium: make browser, or apt-get install chromium"
    return found


class TestBrowser:
    """One browser; each page has a profile of its own. Also a context manager."""

    __test__ = False  # nothing for pytest to collect

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._browser: Browser | None = None

    def start(self) -> None:
        playwright = self._stack.enter_context(sync_playwright())
        # A sandbox needs rights that containers do not give; pages are our own
        self._browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        self._stack.callback(self._browser.close)

    def stop(self) -> None:
        """Idempotent."""
        self._stack.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @contextmanager
    def page(
        self,
        url: str | None = None,
        *,
        dark: bool = False,
        size: tuple[int, int] = _DESKTOP,
        login: tuple[str, str] | None = None,
        trusts_any: bool = False,
        scale: float = 1.0,
        locale: str = "en-GB",
        zone: str = "UTC",
        allowed: Sequence[str] = (),
    ) -> Iterator[Page]:
        """A page at a URL. `allowed`: expressions of complaints that the test expects.

        Errors: AssertionError at the end with everything that the page complained about.
        """
        assert self._browser is not None, "start() first"
        more: dict[str, Any] = {"http_credentials": {"username": login[0], "password": login[1]}} if login else {}
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            ignore_https_errors=trusts_any,
            device_scale_factor=scale,
            timezone_id=zone,
            locale=locale,
            **more,
        )
        context.set_default_timeout(ample_s(_PATIENCE_S) * 1000)
        expect.set_options(timeout=ample_s(_PATIENCE_S) * 1000)  # which has a patience of its own
        context.add_init_script(_REPORT_VIOLATIONS)
        page = context.new_page()
        complaints = _listen(page)
        try:
            if url is not None:
                page.goto(url)
            yield page
        finally:
            context.close()
        left = [text for text in complaints if not any(re.search(pattern, text) for pattern in allowed)]
        assert not left, "the page complains:\n" + "\n".join(left)


def axe_findings(page: Page) -> list[str]:
    """What axe finds wrong with the page as it is now: a rule and the elements, a line each."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {[node['html'] for node in each['nodes']][:3]}"
        for each in found
    ]


def wider_than_the_window(page: Page) -> int:
    """By how many pixels the page must be scrolled sideways; 0 as it should be."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return max(0, width)


def _listen(page: Page) -> list[str]:
    complaints: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        if message.text.startswith(_ABORTED):
            # A page that is left has a poll on its way now and then: it is aborted, which htmx logs as two errors
            if complaints and complaints[-1].startswith(f"console: {_ENDED}"):
                complaints.pop()
            return
        complaints.append(f"console: {message.text} ({message.location.get('url', '')})")

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"raised: {error}"))
    page.on("crash", lambda _page: complaints.append("the page crashed"))
    return complaints
