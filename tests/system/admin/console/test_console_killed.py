"""A worker process that is killed with pages of its console open, and `connect ui` that goes on with the other one."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack

import pytest
from playwright.sync_api import Page, expect

from kconnect.client import ConnectClient
from kconnect.testing import ThreadLauncher
from kit.connect_ui import connect_ui
from kit.distributed_worker import Distributed, workers
from kit.pace import ample_s
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(240)]

OWN = "/ui/connectors/lines"
# Kinds of pages: read again every two seconds, five, as the log is; and those that only ask whether anybody is there
PATHS = ("/ui", OWN, f"{OWN}/config", f"{OWN}/offsets", "/ui/workers", "/ui/log", "/ui/plugins")
# What the browser says of requests that nobody answers
REFUSED = ["ERR_", "Failed to load", "htmx:", "502", "503", "504"]


def test_pages_of_a_killed_worker_say_so_until_it_is_back_and_connect_ui_goes_on_with_the_other(
    browser, broker, tmp_path, home
):
    create_topic(broker.bootstrap, "killed-console")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "killed-console"}
    (tmp_path / "in.txt").write_text("one\n")
    quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "kconnect.slots": "1"}
    with (
        Distributed(tmp_path / "a", broker.bootstrap, "killed-console", quick) as killed,
        workers(broker.bootstrap, "killed-console", 1, ThreadLauncher, session_timeout_ms="6000") as (other,),
        ExitStack() as stack,
    ):
        killed.start()
        with ConnectClient(other.rest_url, retry_conflicts_s=30) as client:
            client.create_connector("lines", config)
            eventually(lambda: "lines" in client.connector_statuses(), 30, "it has a status")
        urls = ("--url", f"{killed.url},{other.rest_url}")
        laptop = stack.enter_context(connect_ui(home, *urls))
        pages = {path: stack.enter_context(browser.page(killed.url + path, allowed=REFUSED)) for path in PATHS}
        beside = stack.enter_context(browser.page(laptop))
        expect(beside.get_by_role("link", name="lines")).to_be_visible()
        typed = pages[f"{OWN}/config"].get_by_label(re.compile("^topic"))
        typed.fill("other-topic")

        killed.signal(signal.SIGKILL)
        killed.wait()
        for path, page in pages.items():
            says_gone(page, path)
        expect(pages["/ui"].get_by_role("link", name="lines")).to_be_visible()
        # What was typed is still there, and saving says that it was not saved
        pages[f"{OWN}/config"].get_by_role("button", name="Review changes").click()
        expect(pages[f"{OWN}/config"].locator("#gone")).to_be_visible()
        expect(typed).to_have_value("other-topic")

        with ConnectClient(other.rest_url, retry_conflicts_s=30) as client:
            client.pause_connector("lines")
        expect(beside.locator(".paused").get_by_role("link", name="lines")).to_be_visible(timeout=within_ms(20))
        expect(beside.locator("#gone")).to_be_hidden()
        expect(beside.locator(".banner.bad:visible")).to_have_count(0)
        beside.get_by_role("link", name="lines").click()
        beside.get_by_role("button", name="Resume").click()
        beside.get_by_role("dialog").get_by_role("button", name="Resume").click()
        expect(beside.get_by_role("button", name="Pause")).to_be_visible(timeout=within_ms(20))

        killed.start()
        for page in pages.values():
            expect(page.locator("#gone")).to_be_hidden(timeout=within_ms(10))
        pages[f"{OWN}/config"].get_by_role("button", name="Review changes").click()
        expect(pages[f"{OWN}/config"].get_by_role("dialog")).to_contain_text("other-topic")

        killed.signal(signal.SIGSTOP)  # it takes connections and never answers
        try:
            says_gone(pages["/ui"], "/ui")
        finally:
            killed.signal(signal.SIGCONT)
        expect(pages["/ui"].locator("#gone")).to_be_hidden(timeout=within_ms(10))


def says_gone(page: Page, path: str) -> None:
    expect(page.locator("#gone"), path).to_be_visible(timeout=within_ms(8))
    expect(page.locator("#gone"), path).to_contain_text("has not answered since")


def within_ms(seconds: float) -> float:
    return ample_s(seconds) * 1000
