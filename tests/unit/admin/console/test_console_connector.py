"""A connector's page, and what can be done to it: asked first, with the state before and after."""

from __future__ import annotations

import re
from html import unescape

import pytest

from kconnect.client.connect_client import ConnectClient
from kconnect.errors import ConnectError, NotFoundError, TimedOutError
from kconnect.model import Condition, ConnectorOffset, TargetState, TaskCondition, TaskId
from kit.console_pages import SAME_SITE
from kit.memory_herder import MemoryHerder, file_source

TRACE = "org.X: wrapped\n\tat a.b(C.java:1)\nCaused by: java.sql.SQLException: the table <orders> is gone\n"


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector("orders", file_source(pin="1234", password="hunter2", token="${env:TOKEN}"), replace=True)
    return herder


def test_the_root_cause_comes_before_the_trace(console, herder):
    herder.traces["orders"] = TRACE
    html = console.page("/ui/connectors/orders")
    cause = html.index("java.sql.SQLException: the table &lt;orders&gt; is gone")
    assert html.index("Task 0 failed") < cause < html.index("at a.b(C.java:1)")


def test_secrets_are_masked_by_name_and_by_type_and_references_are_shown(console):
    html = console.page("/ui/connectors/orders")
    assert "hunter2" not in html
    assert "1234" not in html  # declared as PASSWORD; its name does not give it away
    assert html.count("[hidden]") == 2
    assert "${env:TOKEN}" in html


@pytest.mark.parametrize("error", [TimedOutError("It takes too long"), ConnectError("The disk is full")])
def test_a_secret_is_not_shown_while_nobody_says_which_settings_are_secret(console, herder, monkeypatch, error):
    def fail(*_arguments):
        raise error

    monkeypatch.setattr(herder, "plugin_config", fail)
    found = console.ask("GET", "/ui/connectors/orders")
    assert found.status >= 500
    assert str(error) in found.body.decode()
    assert "1234" not in found.body.decode()


def test_offsets_topics_and_conditions_are_shown(console, herder):
    herder.known["orders"].offsets["x"] = ConnectorOffset({"filename": "/in.txt"}, {"position": 77})
    herder.topics["orders"] = ["t"]
    stuck = TaskCondition(Condition.STUCK, 1_700_000_000_000, cause="poll() does not return", stack="File <x>, line 3")
    herder.conditions[TaskId("orders", 0)] = stuck
    html = console.page("/ui/connectors/orders")
    assert "{&#34;position&#34;: 77}" in html
    assert '<a href="/ui/connectors/orders/topics?topic=t">t</a>' in html
    assert "poll() does not return" in html
    assert "File &lt;x&gt;, line 3" in html


def test_the_rest_of_the_page_is_there_while_offsets_cannot_be_read(console, herder):
    herder.failures["connector_offsets"] = ConnectError("the group's coordinator is away")
    html = console.page("/ui/connectors/orders")
    assert "the group&#39;s coordinator is away" in html
    assert "connector.<wbr>class" in html


def test_a_page_says_that_its_config_is_from_the_memory_of_a_worker_that_is_held_up(console, monkeypatch):
    def late(*_arguments):
        raise TimedOutError("http://java:8083 did not answer within 4 s")

    monkeypatch.setattr(ConnectClient, "tagged_connector", late)
    monkeypatch.setattr(ConnectClient, "connector", late)
    html = console.page("/ui/connectors/orders")
    assert "http://java:8083 did not answer within 4 s: its config is shown as the worker has it in memory." in html
    assert "connector.<wbr>class" in html
    assert "hunter2" not in html


def test_an_unknown_connector_is_a_page_that_says_so(console):
    found = console.ask("GET", "/ui/connectors/nobody")
    assert found.status == 404
    assert "nobody" in found.body.decode()


def test_a_failure_of_a_part_is_a_message_on_the_page_that_is_open(console):
    found = console.fragment("/ui/connectors/nobody")
    assert found.status == 404
    assert found.body.decode().startswith('<p class="banner bad">')


def test_the_state_is_sent_again_only_when_it_changed(console, herder):
    target = re.search(r'hx-get="(/ui/connectors/orders/state\?v=\w+)"', console.page("/ui/connectors/orders"))[1]
    assert console.fragment(target).status == 204
    herder.traces["orders"] = TRACE
    update = console.fragment(target)
    assert update.status == 200
    assert "Task 0 failed" in update.body.decode()
    assert re.search(r'id="actions" hx-swap-oob="true">\s*<a [^>]*>Restart what failed</a>', update.body.decode())


@pytest.mark.parametrize(
    ("verb", "after"), [("pause", "PAUSED"), ("stop", "STOPPED"), ("delete", "gone"), ("restart", "RUNNING")]
)
def test_the_question_shows_before_and_after_and_changes_nothing(console, herder, verb, after):
    herder.calls.clear()
    html = console.page(f"/ui/connectors/orders/do/{verb}")
    row = re.search(r'<tr><th scope="row">Connector</th><td>(\w+)</td><td>(\w+)</td>', html)
    assert row.groups() == ("RUNNING", after)
    assert not {call[0] for call in herder.calls} & {"set_target_state", "delete_connector", "restart_by_plan"}


def test_agreeing_carries_it_out(console, herder):
    found = console.post("/ui/connectors/orders/do/pause", {"seen": "RUNNING"})
    assert found.status == 303
    assert found.headers["location"].startswith("/ui/connectors/orders?note=paused%20orders")
    assert herder.known["orders"].state is TargetState.PAUSED
    assert "Resume" in console.page("/ui/connectors/orders")


def test_after_a_change_the_overview_is_read_again(console):
    assert "paused" not in console.page("/ui")
    console.post("/ui/connectors/orders/do/pause", {"seen": "RUNNING"})
    assert "paused" in console.page("/ui")


def test_after_the_restart_of_a_task_the_overview_is_read_again(console, herder):
    herder.traces["orders"] = TRACE
    assert "java.sql.SQLException" in console.page("/ui")
    del herder.traces["orders"]
    assert console.post("/ui/connectors/orders/tasks/0/restart", {}).status == 303  # a button alone: no fields
    assert "java.sql.SQLException" not in console.page("/ui")


def test_after_a_change_that_was_not_answered_in_time_the_overview_is_read_again(console, herder, monkeypatch):
    assert "paused" not in console.page("/ui")
    change = herder.set_target_state

    def late(name, state):
        change(name, state)
        raise TimedOutError("It takes too long")

    monkeypatch.setattr(herder, "set_target_state", late)
    assert console.post("/ui/connectors/orders/do/pause", {"seen": "RUNNING"}).status >= 500
    assert "paused" in console.page("/ui")


def test_what_was_asked_about_another_state_is_not_done(console, herder):
    herder.set_target_state("orders", TargetState.PAUSED)
    found = console.post("/ui/connectors/orders/do/delete", {"seen": "RUNNING"})
    assert found.status == 409
    assert "orders is PAUSED now, and was RUNNING when you were asked" in found.body.decode()
    assert "orders" in herder.known


def test_a_connector_whose_config_was_changed_since_is_not_deleted_until_that_is_seen(console, herder):
    asked = form_of(console.page("/ui/connectors/orders/do/delete"))
    herder.patch_connector("orders", {"topic": "<theirs>", "pin": "5678"})
    again = console.post("/ui/connectors/orders/do/delete", asked)
    reported = again.body.decode()
    assert (again.status, "orders" in herder.known) == (412, True)
    assert re.search(r'topic</th><td class="old">t</td><td class="new">&lt;theirs&gt;</td>', reported)
    assert "5678" not in reported
    assert console.post("/ui/connectors/orders/do/delete", form_of(reported)).status == 303
    assert "orders" not in herder.known


def form_of(html):
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html)
    return {key: unescape(value) for key, value in found}


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}])
def test_another_sites_form_does_nothing(console, herder, headers):
    form = {"content-type": SAME_SITE["content-type"], **headers}
    assert console.ask("POST", "/ui/connectors/orders/do/delete", b"seen=RUNNING", headers=form).status == 403
    assert "orders" in herder.known


def test_what_failed_is_restarted_and_nothing_else(console, herder):
    herder.traces["orders"] = TRACE
    assert "Restart what failed" in console.page("/ui/connectors/orders")
    assert console.post("/ui/connectors/orders/do/restart-failed", {"seen": "RUNNING"}).status == 303
    assert ("restart_by_plan", "orders", True, True) in herder.calls


def test_one_task_is_restarted(console, herder):
    assert console.post("/ui/connectors/orders/tasks/0/restart", {"x": ""}).status == 303
    assert ("restart_task", TaskId("orders", 0)) in herder.calls
    assert console.post("/ui/connectors/orders/tasks/x/restart", {"x": ""}).status == 404


def test_names_with_slashes_and_percent_signs_work_in_every_link(console, herder):
    name = "a/b%c .."
    herder.put_connector(name, file_source(), replace=True)
    html = console.page("/ui")
    link = next(found for found in re.findall(r'href="(/ui/connectors/[^"]+)"', html) if "%" in found)
    page = console.page(link)
    assert "<h1>a/b%c ..</h1>" in page
    action = re.search(r'hx-get="([^"]+/do/pause)"', page)[1]
    assert console.post(action, {"seen": "RUNNING"}).status == 303
    assert herder.known[name].state is TargetState.PAUSED


def test_a_connector_that_has_no_status_yet_is_unassigned(console, herder):
    herder.failures["connector_status"] = NotFoundError("No status found for connector orders")
    assert "UNASSIGNED" in console.page("/ui/connectors/orders")
