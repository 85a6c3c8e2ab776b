"""The console in a real browser: seen, heard, by keyboard, on a phone, behind a login, with bad names and dead workers.

Whatever a page complains about, such as a violation of its content security policy, fails the test (kit.browser).
"""

from __future__ import annotations

import logging
import re

import pytest
from playwright.sync_api import Page, expect

from kconnect.admin.direct.access import InternalTopic
from kconnect.client import ConnectClient
from kconnect.model import ConnectorOffset, RunState
from kconnect.runtime.rest.jaas import Login
from kconnect.runtime.storage import commit_source_offsets
from kit.browser import PHONE, axe_findings, wider_than_the_window
from kit.certificates import Authority
from kit.connect_ui import connect_ui
from kit.console_world import console_world
from kit.pace import ample_s
from kit.rest_cluster import https_options
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

NASTY = '<img src=x onerror="alert(1)"> {{7*7}} \'"&/%2F'
SINK_CLASS = "org.apache.kafka.connect.file.FileStreamSinkConnector"
PAGES = (
    "/ui",
    "/ui?state=failed",
    "/ui/connectors/orders-source",
    "/ui/connectors/mail-export",
    "/ui/connectors/orders-source/config",
    "/ui/connectors/orders-source/offsets",
    "/ui/connectors/orders-source/topics",
    "/ui/create",
    f"/ui/create?plugin={SINK_CLASS}",
    "/ui/workers",
    "/ui/plugins",
    f"/ui/plugins/{SINK_CLASS}",
    "/ui/loggers",
    "/ui/log",
    "/ui/doctor",
    "/ui/connectors/orders-source/do/stop",
)
# A page that is not there is one as well, and the browser reports its status
GONE = "/ui/connectors/nothing-of-this-name"


def settled(page: Page) -> None:
    """What a page fetches as it opens is there."""
    if page.locator("#activity").count():
        expect(page.locator("#activity h2")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_screen_reader_and_weak_eyes_find_nothing_wrong_on_any_page(browser, world, dark):
    with browser.page(dark=dark, allowed=["404"]) as page:
        for path in (*PAGES, GONE):
            page.goto(world.url + path)
            settled(page)
            assert axe_findings(page) == [], path


def test_no_page_is_wider_than_a_phone(browser, world):
    with browser.page(size=PHONE) as page:
        for path in PAGES:
            page.goto(world.url + path)
            settled(page)
            assert wider_than_the_window(page) == 0, path


def test_an_hour_is_plotted_and_its_metrics_can_be_read(browser, world):
    with browser.page(f"{world.url}/ui/connectors/payments-sink") as page:
        expect(page.locator(".plot h3").first).to_have_text("Records")
        expect(page.locator(".plot canvas")).to_have_count(page.locator(".plot").count())
        first = page.locator(".plot canvas").first
        drawn = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
        eventually(lambda: first.evaluate(drawn), 5, "the plot is drawn")
        page.get_by_text("In numbers").click()
        expect(page.get_by_role("row", name=re.compile("^Records, out"))).to_contain_text("/s")


def test_a_connector_is_created_paused_changed_and_its_offsets_reset_by_keyboard_alone(browser, world):
    with browser.page(f"{world.url}/ui/create") as page:
        press(page, "org.apache.kafka.connect.file.FileStreamSourceConnector")
        expect(page.locator("#name")).to_be_focused()
        page.keyboard.type("typed")
        tab_to(page, "file")
        page.keyboard.type("/in.txt")
        tab_to(page, "topic")
        page.keyboard.type("letters")
        press(page, "Review changes")
        expect(page.get_by_role("dialog")).to_contain_text("Create typed?")
        press(page, "Create")
        expect(page.locator(".title h1")).to_have_text("typed")
        commit_source_offsets(
            world.workers[0].offsets, "typed", [ConnectorOffset({"filename": "/in.txt"}, {"position": 7})]
        )
        press(page, "Pause")
        expect(page.get_by_role("dialog")).to_be_visible()
        press(page, "Pause")
        expect(page.get_by_role("button", name="Resume")).to_be_visible()
        press(page, "Edit config")
        expect(page.get_by_label(re.compile("^topic"))).to_have_value("letters")
        tab_to(page, "topic")
        page.keyboard.press("Control+A")
        page.keyboard.type("words")
        press(page, "Review changes")
        expect(page.get_by_role("dialog")).to_contain_text("letters")
        press(page, "Save")
        expect(page.locator("p.note")).to_contain_text("typed")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        press(page, "Stop")
        expect(page.get_by_role("dialog")).to_contain_text("Stop typed?")
        press(page, "Stop")
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)
        press(page, "Offsets")
        expect(page.locator("#h-now")).to_be_visible()
        press(page, "Reset all offsets")
        expect(page.get_by_role("dialog")).to_contain_text("Reset all offsets of typed?")
        press(page, "Reset")
        expect(page.get_by_text("No committed offsets.")).to_be_visible()
    with ConnectClient(world.url) as client:
        assert client.connector("typed").config["topic"] == "words"
        assert client.connector_offsets("typed") == []
        client.delete_connector("typed")


def test_a_secret_that_was_typed_stays_when_other_settings_appear_and_a_conflict_is_reported_in_the_dialog(
    browser, world
):
    world.create("edited")
    with browser.page(f"{world.url}/ui/create?plugin=HttpJsonSource") as page, ConnectClient(world.url) as client:
        page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
        secret = page.locator("[name='s:auth.password']")
        secret.fill("hunter2")
        page.locator("#name").fill("x")
        page.locator("#others").fill("own.password=hunter3\nplain=1\n")
        page.locator("[name='s:transforms']").fill("mask")
        expect(page.locator("[name='s:transforms.mask.type']")).to_have_count(1)
        expect(secret).to_have_value("hunter2")
        expect(page.locator("#others")).to_have_value("own.password=hunter3\nplain=1\n")

        page.goto(f"{world.url}/ui/connectors/edited/config")
        page.get_by_label(re.compile("^topic")).fill("mine")
        page.get_by_role("button", name="Review changes").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Change the config of edited?")
        client.patch_config("edited", {"file": "/theirs"})
        dialog.get_by_role("button", name="Save").click()
        expect(dialog).to_contain_text("Somebody else has changed the config since")
        expect(dialog).to_contain_text("/theirs")
        assert axe_findings(page) == []
        dialog.get_by_role("button", name="Save").click()
        expect(page.locator("p.note")).to_contain_text("updated edited")
        config = client.connector_config("edited")
        assert (config["topic"], config["file"]) == ("mine", "/theirs")
        client.delete_connector("edited")


def test_a_check_of_what_was_typed_does_not_end_the_review_that_was_asked_for_meanwhile(browser, world):
    world.create("reviewed")
    held = []
    with browser.page(f"{world.url}/ui/connectors/reviewed/config") as page, ConnectClient(world.url) as client:
        page.route("**/config/review", lambda route: held.append(route))
        with page.expect_response("**/config/check"):
            page.get_by_label(re.compile("^topic")).fill("mine")
            page.get_by_role("button", name="Review changes").click()
        held[0].continue_()
        expect(page.get_by_role("dialog")).to_contain_text("Change the config of reviewed?")
        client.delete_connector("reviewed")


def test_an_error_goes_once_the_same_request_succeeds(browser, world):
    with browser.page(f"{world.url}/ui/connectors/quiet", allowed=["503", "htmx:"]) as page:
        page.route("**/state?*", lambda route: route.fulfill(status=503, content_type="text/html", body="Not now."))
        expect(page.locator("#message")).to_have_text("Not now.")
        page.unroute("**/state?*")
        expect(page.locator("#message")).to_be_empty()


def test_times_have_24_hours_in_every_language_and_the_zone_is_said(browser, world):
    def with_time(route):
        found = route.fetch()
        route.fulfill(response=found, body=found.text().replace("<h1>", '<time data-ms="79200000">79200000</time><h1>'))

    with browser.page(locale="en-US", zone="America/New_York") as page:
        page.route("**/ui/plugins", with_time)
        page.goto(f"{world.url}/ui/plugins")
        expect(page.locator("time[title^='1970-01-01']")).to_have_text("1970-01-01 17:00:00")
        expect(page.locator("#zone")).to_have_text(re.compile(r"^(GMT-[45]|E[SD]T)$"))


def test_a_page_that_has_nothing_beside_its_title_has_it_at_the_left(browser, world):
    with browser.page(f"{world.url}/ui/create") as page:
        title = page.get_by_role("heading", name="New connector").bounding_box()
        assert title is not None
        assert title["x"] < 40


def test_a_time_beyond_all_calendars_is_a_number_and_the_rest_of_the_page_works(browser, world):
    def in_nanoseconds(route):
        found = route.fetch()
        times = '<time data-ms="1700000000000000000">1700000000000000000</time><time data-ms="0">0</time>'
        route.fulfill(response=found, body=found.text().replace("<h1>", f"{times}<h1>"))

    with browser.page() as page:
        page.route("**/ui/plugins", in_nanoseconds)
        page.goto(f"{world.url}/ui/plugins")
        expect(page.locator("time[title^='1970-01-01']")).to_have_count(1)
        expect(page.get_by_text("1700000000000000000")).to_have_count(1)
        page.locator("#theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", re.compile("dark|light"))


def test_a_row_is_changed_in_its_place_and_the_table_stays(browser, world):
    with browser.page(f"{world.url}/ui") as page, ConnectClient(world.url) as client:
        last = page.get_by_role("row", name=re.compile(" quiet "))  # so that no state moves it
        expect(last).to_contain_text("running")
        client.pause_connector("quiet")
        expect(last).to_contain_text("paused", timeout=ample_s(8) * 1000)
        expect(page.get_by_role("row", name=re.compile(" clicks "))).to_be_visible()
        client.resume_connector("quiet")
        expect(last).to_contain_text("running", timeout=ample_s(8) * 1000)


def test_chosen_rows_stay_chosen_while_the_table_changes_and_are_paused_together(browser, world):
    with browser.page(f"{world.url}/ui") as page, ConnectClient(world.url) as client:
        paused = page.locator("tr.paused")
        bar = page.get_by_role("form", name="What to do with the chosen connectors")
        expect(bar).to_be_hidden()
        page.get_by_label("Choose clicks").check()
        page.get_by_label("Choose orders-source").check()
        client.pause_connector("quiet")
        expect(paused).to_have_count(1, timeout=ample_s(8) * 1000)
        expect(bar).to_contain_text("2 chosen")
        bar.get_by_role("button", name="Pause").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Pause 2 connectors?")
        assert axe_findings(page) == []
        dialog.get_by_role("button", name="Pause").click()
        expect(page.locator("p.note")).to_have_text("paused clicks; paused orders-source")
        expect(paused).to_have_count(3, timeout=ample_s(8) * 1000)
        page.get_by_label("Choose all that are shown").check()
        bar.get_by_role("button", name="Resume").click()
        expect(dialog).to_contain_text("Left out, as it does not apply:")
        dialog.get_by_role("button", name="Resume").click()
        expect(paused).to_have_count(0, timeout=ample_s(8) * 1000)


def test_a_label_is_a_filter_in_a_wide_window_and_on_a_phone(browser, world):
    with ConnectClient(world.url) as client:
        client.patch_config("clicks", {"kconnect.labels": "team=web"})
        for size in ((1280, 900), PHONE):
            with browser.page(f"{world.url}/ui", size=size) as page:
                page.get_by_role("group", name="Filter by label").get_by_role("link", name="team=web").click()
                expect(page.locator("#rows tr")).to_have_count(1)
                page.get_by_role("link", name="team=web 1").click()
                expect(page.locator("#rows tr")).to_have_count(5)
                assert wider_than_the_window(page) == 0
        client.patch_config("clicks", {"kconnect.labels": None})


def test_keys_lead_to_the_search_and_through_the_connectors(browser, world):
    with browser.page(f"{world.url}/ui") as page:
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("clicks")
        expect(page.locator(".list .name a")).to_have_count(1)
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="clicks")).to_be_focused()


def test_names_settings_and_traces_are_shown_and_never_run(browser, world):
    world.create(NASTY, file=NASTY)
    try:
        world.fail(NASTY, f"java.lang.Exception: {NASTY}\n\tat {NASTY}")
        world.say(0, f"About {NASTY}", logging.ERROR, connector=NASTY)
        with browser.page(f"{world.url}/ui") as page:
            page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
            page.get_by_role("link", name=NASTY, exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(NASTY)
            settled(page)
            expect(page.locator("main")).to_contain_text(f"java.lang.Exception: {NASTY}")
            for path in ("/ui/workers", "/ui/log"):
                page.goto(world.url + path)
                expect(page.locator("main")).to_contain_text(NASTY)
            assert page.locator("main img").count() == 0
    finally:
        with ConnectClient(world.url) as client:
            client.delete_connector(NASTY)


def test_a_level_is_set_and_lines_arrive_without_a_reload(browser, world):
    with browser.page(f"{world.url}/ui/loggers") as page:
        page.get_by_label("Logger", exact=True).fill("kconnect.admin.console")
        page.get_by_label("Level").select_option("DEBUG")
        page.get_by_role("button", name="Set level").click()
        expect(page.get_by_role("status").filter(has_text="kconnect.admin.console logs DEBUG")).to_be_visible()
        page.get_by_role("link", name="Log", exact=True).click()
        expect(page.get_by_role("log")).to_contain_text("Joined group connect-cluster")
        world.say(1, "It came while somebody looked", logging.ERROR)
        expect(page.get_by_role("log")).to_contain_text("It came while somebody looked")
        page.get_by_label("Connector").fill("clicks")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#tail p")).to_have_count(1)
        page.goto(f"{world.url}/ui/loggers?logger=kconnect.admin.console")
        page.get_by_label("Level").select_option("WARN")
        page.get_by_role("button", name="Set level").click()
        expect(page.get_by_role("status").filter(has_text="logs WARN")).to_be_visible()


def test_behind_a_login_over_tls_it_works_and_says_401_without(browser, tmp_path):
    authority = Authority()
    bundle = authority.sign("server").pem_file(tmp_path / "server.pem")
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(bundle)}
    options = https_options(settings, login=Login([("required", {"ann": "secret"})]))
    with (
        console_world({}, workers=1, options=options, settings=settings) as world,
        browser.page(f"{world.url}/ui", login=("ann", "secret"), trusts_any=True) as page,
    ):
        expect(page.get_by_role("heading", level=1)).to_have_text("Connectors")
        page.get_by_role("link", name="Workers").click()
        expect(page.get_by_role("region", name="Workers", exact=True)).to_be_visible()
        with browser.page(trusts_any=True) as stranger:
            assert stranger.request.get(f"{world.url}/ui").status == 401


def test_a_dead_worker_is_named_and_a_page_of_a_dead_one_keeps_what_it_knew(browser):
    with console_world({"alive": 1.0}, workers=2) as world:
        asked, other = world.workers
        with browser.page(f"{world.url}/ui/workers", allowed=["ERR_", "Failed to load", "htmx:"]) as page:
            expect(page.get_by_role("row", name=re.compile("does not answer"))).to_have_count(0)
            other.server.stop(1.0)
            page.reload()
            expect(page.get_by_role("row", name=re.compile("does not answer"))).to_have_count(1)
            page.goto(f"{world.url}/ui")
            expect(page.get_by_role("link", name="alive")).to_be_visible()
            asked.server.stop(1.0)
            expect(page.locator("#gone")).to_be_visible(timeout=ample_s(10) * 1000)
            expect(page.get_by_role("link", name="alive")).to_be_visible()


@pytest.mark.broker
def test_with_no_worker_at_all_the_topics_are_shown_and_the_doctor_repairs_them(browser, broker, tmp_path, home):
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster:
        config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/data/in", "topic": "t"}
        cluster.add_connector("src", config, [{"file": "/data/in"}], state=RunState.UNASSIGNED)
        gone = b'{"state":"FAILED","worker_id":"w:1","generation":1}'
        cluster.put_raw(InternalTopic.STATUS, b"status-task-gone-1", gone, partition=-1)
        arguments = ("--direct", "--worker", str(cluster.worker_file))
        with connect_ui(home, *arguments) as url, browser.page(url) as page:
            expect(page.get_by_role("link", name="src")).to_be_visible()
            expect(page.get_by_text("No worker is asked")).to_be_visible()
            page.get_by_role("link", name="Doctor").click()
            finding = page.get_by_role("region", name="orphan-status")
            expect(finding).to_contain_text("status-task-gone-1")
            assert axe_findings(page) == []
            fits_a_phone(page)
            finding.get_by_role("link", name="Repair").click()
            expect(page.locator(".change")).to_contain_text('"worker_id":"w:1"')
            expect(page.locator(".change")).to_contain_text("deleted")
            assert axe_findings(page) == []
            fits_a_phone(page)
            page.locator("button.danger").click()
            expect(page.get_by_role("status").filter(has_text="written and read back")).to_be_visible()
            expect(page.get_by_role("region", name="orphan-status")).to_have_count(0)


def fits_a_phone(page: Page) -> None:
    wide = page.viewport_size
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert wider_than_the_window(page) == 0
    page.set_viewport_size(wide)


def press(page: Page, name: str) -> None:
    """Find it with Tab, and press Enter. Before scripts have run, that leads to a page instead of a dialog."""
    page.wait_for_load_state()
    tab_to(page, name)
    page.keyboard.press("Enter")


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what has this name, which it begins with; through the whole page once."""
    for _ in range(150):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const at = document.activeElement; if (!at) return '';"  # between two pages
            " const label = at.labels && at.labels[0];"
            " return (label ? label.textContent : at.getAttribute('aria-label') || at.textContent).trim() }"
        )
        if found.split("\n")[0].strip() == name or found.startswith(f"{name} "):
            return
    raise AssertionError(f"no Tab leads to {name}")
