"""Offsets in the console: changed one by one, reset, taken back; never behind somebody else's back."""

from __future__ import annotations

import html as html_text
import json
import re

import pytest

from kconnect.model import ConnectorOffset, TargetState
from kit.console_pages import PageCaller
from kit.memory_herder import MemoryHerder, file_source

URL = "/ui/connectors/orders/offsets"
AT = {"filename": "/in.txt"}
FIELD = 'o:{"filename":"/in.txt"}'


@pytest.fixture
def herder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    herder = MemoryHerder()
    herder.put_connector("orders", file_source(), replace=True)
    put(herder, 5)
    herder.set_target_state("orders", TargetState.STOPPED)
    return herder


@pytest.fixture
def console(herder):
    caller = PageCaller(herder)
    yield caller
    caller.close()


def put(herder, position):
    herder.known["orders"].offsets = {tuple(sorted(AT.items())): ConnectorOffset(AT, {"position": position})}


def position(herder):
    return [item.offset["position"] for item in herder.known["orders"].offsets.values()]


def review(console, **form):
    found = console.post(f"{URL}/review", form, **{"hx-request": "true"})
    assert found.status == 200, found.body.decode()
    return found.body.decode()


def agree(console, reviewed):
    """Send the form of a review."""
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', reviewed))
    return console.post(URL, {key: html_text.unescape(value) for key, value in hidden.items()})


def alter(console, value):
    return review(console, **{"action": "alter", FIELD: value})


def test_offsets_of_a_running_connector_are_shown_and_not_changed(console, herder):
    herder.set_target_state("orders", TargetState.STARTED)
    html = console.page(URL)
    assert "{&#34;position&#34;:5}" in html
    assert "stop it</a> first" in html
    assert "Review" not in html


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
    found = console.post(f"{URL}/review", {"action": "alter", FIELD: "{oops"}, **{"hx-request": "true"})
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
    found = console.post(f"{URL}/review", {"action": "undo"}, **{"hx-request": "true"})
    assert found.status == 409
    assert "{&#34;position&#34;:12}" in found.body.decode()
    assert position(herder) == [12]


def test_offsets_that_moved_since_the_review_are_not_overwritten(console, herder):
    shown = alter(console, '{"position": 9}')
    put(herder, 7)
    assert agree(console, shown).status == 409
    assert position(herder) == [7]


def test_a_reset_forgets_all_and_can_be_taken_back(console, herder):
    agree(console, review(console, action="reset"))
    assert herder.known["orders"].offsets == {}
    agree(console, review(console, action="undo"))
    assert position(herder) == [5]


def test_a_sinks_offset_is_a_number(console, herder):
    at = {"kafka_topic": "t", "kafka_partition": 0}
    herder.put_connector("orders", file_source(**{"connector.class": "FileStreamSink"}), replace=True)
    herder.known["orders"].offsets = {tuple(sorted(at.items())): ConnectorOffset(at, {"kafka_offset": 5})}
    html = console.page(URL)
    assert re.search(r't-0</td><td><input [^>]*value="5"', html)
    name = html_text.unescape(re.search(r'name="(o:[^"]+)"', html)[1])
    agree(console, review(console, **{"action": "alter", name: "3"}))
    (found,) = herder.known["orders"].offsets.values()
    assert found.offset == {"kafka_offset": 3}


def test_a_partition_that_the_form_made_up_is_not_written(console, herder):
    shown = review(console, **{"action": "alter", "o:" + json.dumps({"filename": "/etc/passwd"}): '{"position": 1}'})
    assert "Nothing would change" in shown
