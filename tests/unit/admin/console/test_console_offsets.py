"""Offsets in the console: changed one by one, reset, taken back; never behind somebody else's back."""

from __future__ import annotations

import html as html_text
import json
import re

import pytest

from kconnect.admin.console.pages.offsets import target_of
from kconnect.errors import BadRequestError
from kconnect.model import ConnectorOffset, TargetState
from kit.memory_herder import MemoryHerder, file_source

URL = "/ui/connectors/orders/offsets"
AT = {"filename": "/in.txt"}
FIELD = 'o:{"filename":"/in.txt"}'
HTMX = {"hx-request": "true"}


@pytest.fixture
def herder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    herder = MemoryHerder()
    herder.put_connector("orders", file_source(), replace=True)
    put(herder, 5)
    herder.set_target_state("orders", TargetState.STOPPED)
    return herder


def put(herder, position):
    herder.known["orders"].offsets = {tuple(sorted(AT.items())): ConnectorOffset(AT, {"position": position})}


def position(herder):
    return [item.offset["position"] for item in herder.known["orders"].offsets.values()]


def hidden(html):
    return {
        key: html_text.unescape(value)
        for key, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', html)
    }


def seen(console):
    """What a page's forms carry along."""
    return {key: value for key, value in hidden(console.page(URL)).items() if key in ("based", "base")}


def review(console, page=None, **form):
    found = console.post(f"{URL}/review", {**(page or seen(console)), **form}, **HTMX)
    assert found.status == 200, found.body.decode()
    return found.body.decode()


def agree(console, reviewed, **headers):
    """Send the form of a review."""
    return console.post(URL, hidden(reviewed), **headers)


def alter(console, value):
    return review(console, **{"action": "alter", FIELD: value})


def test_offsets_of_a_connector_that_runs_are_changed_in_one_step(console, herder):
    herder.set_target_state("orders", TargetState.STARTED)
    assert "stops it, changes its offsets, reads them back, and has it RUNNING again" in console.page(URL)
    herder.calls.clear()
    shown = alter(console, '{"position": 9}')
    assert "orders is stopped: it is RUNNING now." in shown
    assert ("set_target_state", "orders", TargetState.STOPPED) not in herder.calls
    done = agree(console, shown, **HTMX)
    assert (done.status, position(herder)) == (204, [9])
    assert "was%20stopped%2C%20its%20offsets%20were%20changed%20and%20read%20back" in done.headers["hx-redirect"]
    assert states(herder) == [TargetState.STOPPED, TargetState.STARTED]
    assert "console alter" in console.page(URL)


def test_a_paused_connector_is_paused_again_after_its_move(console, herder):
    herder.set_target_state("orders", TargetState.PAUSED)
    herder.calls.clear()
    assert agree(console, review(console, action="reset")).status == 303
    assert (position(herder), states(herder)) == ([], [TargetState.STOPPED, TargetState.PAUSED])


def test_offsets_that_are_not_there_after_the_change_are_put_back_and_the_connector_runs_on(console, herder):
    herder.set_target_state("orders", TargetState.STARTED)
    shown = alter(console, '{"position": 9}')
    herder.calls.clear()
    change = herder.alter_connector_offsets
    given = []

    def wrong(name, offsets, **more):
        given.append(offsets)
        return change(name, [ConnectorOffset(AT, {"position": 77})] if len(given) == 1 else offsets, **more)

    herder.alter_connector_offsets = wrong
    failed = agree(console, shown, **HTMX)
    reported = html_text.unescape(failed.body.decode())
    assert failed.status == 409
    assert 'is at {"position":77} and not at {"position":9}' in reported
    assert "the offsets are as before. resumed orders." in reported
    assert (position(herder), states(herder)) == ([5], [TargetState.STOPPED, TargetState.STARTED])


def test_what_was_asked_about_a_running_connector_is_asked_again_once_it_is_another_state(console, herder):
    herder.set_target_state("orders", TargetState.STARTED)
    shown = alter(console, '{"position": 9}')
    herder.set_target_state("orders", TargetState.PAUSED)
    again = agree(console, shown, **HTMX).body.decode()
    assert "orders is PAUSED now, and was RUNNING when you were asked." in again
    assert position(herder) == [5]
    assert agree(console, again, **HTMX).status == 204
    assert position(herder) == [9]


def test_a_field_that_nobody_touched_changes_nothing_though_the_offset_went_on(console, herder):
    herder.set_target_state("orders", TargetState.STARTED)
    page = seen(console)
    put(herder, 6)
    shown = review(console, page, **{"action": "alter", FIELD: '{"position":5}'})
    assert "Nothing would change" in shown


def states(herder):
    return [arguments[-1] for method, *arguments in herder.calls if method == "set_target_state"]


def test_a_change_is_shown_first_and_made_when_agreed(console, herder):
    shown = alter(console, '{"position": 9}')
    assert "{&#34;position&#34;:5}</td>" in shown
    assert "{&#34;position&#34;:9}</td>" in shown
    assert position(herder) == [5]
    assert agree(console, shown).status == 303
    assert position(herder) == [9]


def test_an_empty_field_forgets_the_offset_of_its_partition(console, herder):
    agree(console, alter(console, ""))
    assert herder.known["orders"].offsets == {}


def test_what_is_not_json_is_refused_with_its_partition(console):
    found = console.post(f"{URL}/review", {**seen(console), "action": "alter", FIELD: "{oops"}, **HTMX)
    assert found.status == 400
    assert "/in.txt" in found.body.decode()


def test_a_change_and_the_undo_of_it_are_written_down(console, herder):
    agree(console, alter(console, '{"position": 9}'))
    assert "Undo the last change" in console.page(URL)
    assert agree(console, review(console, action="undo")).status == 303
    assert position(herder) == [5]
    assert len(re.findall("console (?:alter|undo)", console.page(URL))) == 2


def test_an_undo_after_somebody_elses_change_is_refused_with_the_difference(console, herder):
    agree(console, alter(console, '{"position": 9}'))
    put(herder, 12)
    found = console.post(f"{URL}/review", {**seen(console), "action": "undo"}, **HTMX)
    assert found.status == 409
    assert "{&#34;position&#34;:12}" in found.body.decode()
    assert position(herder) == [12]


def test_offsets_that_moved_since_the_review_are_shown_and_not_overwritten_until_that_is_agreed(console, herder):
    shown = alter(console, '{"position": 9}')
    put(herder, 7)
    assert agree(console, shown).status == 412
    again = agree(console, shown, **HTMX).body.decode()
    assert position(herder) == [7]
    assert re.search(r'class="old">{&#34;position&#34;:5}</td><td class="new">{&#34;position&#34;:7}</td>', again)
    assert re.search(r'class="old">{&#34;position&#34;:7}</td><td class="new">{&#34;position&#34;:9}</td>', again)
    assert agree(console, again, **HTMX).status == 204
    assert position(herder) == [9]


def test_a_change_between_our_look_and_the_write_is_refused_by_the_worker(console, herder):
    shown = alter(console, '{"position": 9}')
    change = herder.alter_connector_offsets

    def late(name, offsets, **more):
        put(herder, 8)
        herder.alter_connector_offsets = change
        return change(name, offsets, **more)

    herder.alter_connector_offsets = late
    again = agree(console, shown, **HTMX)
    assert (again.status, position(herder)) == (200, [8])
    assert "{&#34;position&#34;:8}" in again.body.decode()


def test_a_reset_forgets_all_and_can_be_taken_back(console, herder):
    agree(console, review(console, action="reset"))
    assert herder.known["orders"].offsets == {}
    agree(console, review(console, action="undo"))
    assert position(herder) == [5]


@pytest.fixture
def sink(herder):
    """The connector is one, with an offset of 5."""
    at = {"kafka_topic": "t", "kafka_partition": 0}
    herder.put_connector("orders", file_source(**{"connector.class": "FileStreamSink"}), replace=True)
    herder.known["orders"].offsets = {tuple(sorted(at.items())): ConnectorOffset(at, {"kafka_offset": 5})}


def field_of(html):
    return html_text.unescape(re.search(r'name="(o:[^"]+)"', html)[1])


@pytest.mark.usefixtures("sink")
def test_a_sinks_offset_is_a_number(console, herder):
    html = console.page(URL)
    assert re.search(r't-0</td><td><input [^>]*value="5"', html)
    agree(console, review(console, **{"action": "alter", field_of(html): "3"}))
    (found,) = herder.known["orders"].offsets.values()
    assert found.offset == {"kafka_offset": 3}


@pytest.mark.usefixtures("sink")
@pytest.mark.parametrize("text", ["--5", "5-", "9" * 5_000, "[" * 100_000], ids=["two signs", "after", "long", "deep"])
def test_what_is_no_number_is_refused_with_its_partition(console, text):
    form = {**seen(console), "action": "alter", field_of(console.page(URL)): text}
    found = console.post(f"{URL}/review", form, **HTMX)
    assert (found.status, "kafka_partition" in found.body.decode()) == (400, True)


@pytest.mark.parametrize("text", ["--5", "+-5", "9" * 5_000, "1" + "0" * 15, ""])
def test_a_shift_by_what_is_no_number_is_refused(text):
    with pytest.raises(BadRequestError, match="Say how many records on"):
        target_of("shift", text)


def test_a_partition_that_the_form_made_up_is_not_written(console, herder):
    shown = review(console, **{"action": "alter", "o:" + json.dumps({"filename": "/etc/passwd"}): '{"position": 1}'})
    assert "Nothing would change" in shown
