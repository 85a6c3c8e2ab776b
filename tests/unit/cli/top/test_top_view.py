"""What the live screen shows: lines that fit, names that cannot harm, only rows that are seen."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kconnect.model import TaskId
from kconnect_cli.top.lines import clean, fitted, padded
from kconnect_cli.top.screen_state import Message
from kconnect_cli.top.view import draw
from kit.pace import ample_s
from kit.top_world import Driven, connector, look, worker


def many(count: int = 1_000) -> list:
    return [connector(f"orders-{number:04}", "RUNNING", "RUNNING") for number in range(count)]


@pytest.mark.parametrize(("columns", "lines"), [(60, 15), (80, 24), (200, 50), (20, 6)])
@pytest.mark.parametrize("keys", ["", "2", "3", "4", "\n", "\n2", "?", "R", "s", "/abc"])
def test_the_screen_is_filled_and_never_overflows(columns, lines, keys):
    trace = "ConnectException: " + "x" * 300
    screen = Driven(columns, lines).take(look(*many(30), connector("bad", "FAILED", trace=trace)))
    screen.take(worker(rates={TaskId("orders-0001", 0): 123456.0}), worker("w2:8083", problem="no route to host"))
    screen.press(*("enter" if key == "\n" else key for key in keys))
    drawn = draw(screen.state).lines
    assert len(drawn) == lines
    widths = [sum(cell_len(text) for text, _ in line) for line in drawn]
    assert max(widths) <= columns, screen.text


def test_a_small_terminal_keeps_name_and_state_and_drops_what_matters_least():
    screen = Driven(60, 15).take(look(connector("orders", "FAILED", trace="boom")), worker(rates={}))
    head = next(line for line in screen.text.splitlines() if line.startswith("NAME"))
    assert head.split() == ["NAME", "STATE", "TASKS", "RECORDS/S", "LAG", "ERRORS"]
    assert head.split()[:2] == ["NAME", "STATE"]


def test_all_keys_are_explained_on_a_small_terminal():
    text = Driven(60, 15).take(look(connector("orders", "RUNNING"))).press("?").text
    assert "│ 1 2 3 4 Tab" in text
    assert "│ q             quit" in text
    assert "Any key closes this." in text


def test_a_connectors_parts_are_named_on_a_small_terminal():
    text = Driven(60, 15).take(look(connector("orders", "RUNNING"))).press("enter").text
    assert "1 Tasks  2 Trace  3 Config" in text
    assert "on w1:8083" not in text


def test_rows_that_are_not_seen_are_not_made_so_that_keys_answer_at_once():
    screen = Driven(120, 40).take(look(*many()), worker(rates={TaskId(f"orders-{n:04}", 0): n for n in range(1_000)}))
    began = time.thread_time()  # of this thread's own work: others may have the core meanwhile
    for _ in range(20):
        screen.press("down")
        draw(screen.state)
    assert (time.thread_time() - began) / 20 < ample_s(0.02), "a key of a list of 1,000 is on the screen in 20 ms"


@pytest.mark.parametrize("name", ["a\x1b[31mred", "a\rb", "a\x9b2J", "\u202eevil", "a\nb"])
def test_names_and_traces_cannot_send_control_characters_to_the_terminal(name):
    screen = Driven().take(look(connector(name, "FAILED", trace=f"boom {name}")))
    for keys in ((), ("enter",), ("2",), ("escape", "s")):
        text = screen.press(*keys).text
        assert not any(character in text for character in "\x1b\r\x9b\u202e"), keys


@given(st.text(), st.integers(1, 40))
def test_text_is_padded_to_exactly_its_width(text, width):
    assert cell_len(padded(clean(text), width)) == width


@given(st.lists(st.text(max_size=10), max_size=6), st.integers(0, 30))
def test_a_line_never_gets_wider_than_the_screen(texts, width):
    line = fitted([(clean(text), "plain") for text in texts], width)
    assert sum(cell_len(text) for text, _ in line) <= width


def test_on_a_narrow_screen_what_is_said_is_wrapped_and_counts_and_keys_are_whole():
    screen = Driven(60, 24).take(look(*many(30), connector("bad", "FAILED")))
    words = "http://w answered neither PUT /connectors/c1/pause nor GET /health within 4 s: it may still be done"
    screen.state = replace(screen.state, message=Message(words, True, screen.now_s))
    assert " ".join(screen.text.split()).endswith(words), "the end of a sentence says what is not known"
    screen.press("escape")
    head, foot = screen.text.splitlines()[1], screen.text.splitlines()[-1]
    assert "1 FAILED" in head
    assert re.search(r"\w…", head + foot) is None, "nothing is cut in the midst of a word"
    assert foot.split("  ")[-1] == "p pause"
