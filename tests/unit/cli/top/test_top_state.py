"""What the live screen decides: events in, state and requests out."""

from __future__ import annotations

import pytest

from kconnect.client.outage import Outage
from kconnect.model import Condition, TaskCondition, TaskId
from kconnect_cli.top.events import (
    Action,
    Fetch,
    Fetched,
    LookNow,
    Made,
    Make,
    Part,
    Prepare,
    Prepared,
    Quit,
    Refused,
    Resized,
    Ticked,
    Verb,
)
from kconnect_cli.top.facts import StatusLook
from kconnect_cli.top.rows import View
from kconnect_cli.top.screen_state import Confirm
from kit.top_world import Driven, connector, look, worker

BOOM = "Task b-0 failed: x. Root cause: ConnectionRefusedError: db:5432\nTraceback\n  ..\nConnectionRefusedError: db"


def seen(*, lines: int = 24, columns: int = 100) -> Driven:
    screen = Driven(columns, lines)
    return screen.take(
        look(
            connector("a", "RUNNING"),
            connector("b", "FAILED", "RUNNING", trace=BOOM),
            connector("c", own="STOPPED"),
            connector("d", "UNASSIGNED"),
        ),
        worker(rates={TaskId("a", 0): 5.0, TaskId("b", 1): 70.0}),
    )


def test_the_worst_come_first_and_the_rest_by_name():
    assert seen().names == ["b", "d", "a", "c"]


def test_a_task_that_does_not_get_on_comes_before_those_that_do():
    slow = TaskCondition(Condition.RETRYING, 0, 3, "no route")
    screen = Driven().take(look(connector("a", "RUNNING"), connector("z", "RUNNING", condition=slow)))
    assert screen.names == ["z", "a"]


def test_the_cursor_stays_with_its_row_when_rows_move_and_at_the_top_until_it_was_moved():
    screen = seen()
    assert screen.under_cursor == "b"
    screen.take(look(connector("a", "RUNNING"), connector("b", "RUNNING"), connector("d", "FAILED", trace="x")))
    assert screen.under_cursor == "d", "nobody has moved it: it shows the worst"
    screen.press("down", "down")
    assert screen.under_cursor == "b"
    screen.take(look(connector("a", "RUNNING"), connector("b", "FAILED"), connector("d", "RUNNING")))
    assert (screen.names, screen.under_cursor) == (["b", "a", "d"], "b")
    screen.take(look(connector("a", "RUNNING"), connector("d", "RUNNING")))
    assert screen.under_cursor == "a", "it is gone: what is in its place"


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ((">",), ["a", "b", "c", "d"]),
        ((">", "i"), ["d", "c", "b", "a"]),
        ((">",) * 5, ["b", "a", "c", "d"]),
        ((">",) * 5 + ("i",), ["a", "b", "c", "d"]),
        ((">", "w"), ["b", "d", "a", "c"]),
    ],
)
def test_columns_are_sorted_by_in_both_directions_and_what_is_not_known_comes_last(keys, names):
    assert seen().press(*keys).names == names


def test_a_filter_needs_all_its_words_and_is_of_its_list_only():
    screen = seen().press("/").type("failed refused")
    assert screen.names == ["b"]
    screen.press("enter", "2")
    assert len(screen.names) == 4
    screen.press("1")
    assert screen.names == ["b"]
    screen.press("escape")
    assert len(screen.names) == 4


def test_keys_of_actions_are_letters_while_a_filter_is_typed():
    screen = seen().press("/").type("qpsR")
    assert screen.asked == []
    assert screen.state.listing.filter == "qpsR"
    screen.press("backspace", "ctrl+u", "escape")
    assert screen.state.listing.filter == ""


@pytest.mark.parametrize(("key", "verb"), [("p", Verb.PAUSE), ("r", Verb.RESUME), ("s", Verb.STOP)])
def test_a_change_is_prepared_shown_and_made_after_a_yes(key, verb):
    action = Action(verb, "b")
    screen = seen().press(key)
    assert screen.asked == [Prepare(action)]
    assert screen.press("y").asked == [], "what it would write is not known yet"
    screen.take(Prepared(action, ("target-state-b: STARTED -> PAUSED",), ("a worker runs",)))
    assert "target-state-b: STARTED -> PAUSED" in screen.text
    assert "Warning: a worker runs" in screen.text
    assert screen.press("y").asked == [Make(action)]
    screen.take(Made(action, ["done b"]))
    assert screen.asked == [LookNow()]
    assert screen.text.splitlines()[-1] == "done b"


@pytest.mark.parametrize("key", ["n", "escape", "enter", "q"])
def test_anything_but_yes_changes_nothing(key):
    action = Action(Verb.STOP, "b")
    screen = seen().press("s").take(Prepared(action))
    assert screen.asked == [Prepare(action)]
    assert screen.press(key).asked == []
    assert screen.state.dialog is None
    assert "Nothing was changed." in screen.text


def test_the_question_stays_about_its_connector_while_the_list_moves_beneath_it():
    screen = seen().press("s").take(Prepared(Action(Verb.STOP, "b")))
    screen.take(look(connector("a", "FAILED"), connector("b", "RUNNING")))
    assert screen.under_cursor == "a"
    assert screen.press("y").asked[-1] == Make(Action(Verb.STOP, "b"))


def test_a_late_preparation_opens_no_question_again():
    screen = seen().press("s", "n").take(Prepared(Action(Verb.STOP, "b")))
    assert screen.state.dialog is None


def test_a_refusal_takes_the_place_of_the_question_until_it_was_read():
    refused = Refused(Action(Verb.STOP, "b"), "b is owned by live workers " * 10, "Look again.")
    screen = seen().press("s").take(refused).take(Ticked(), now_s=1_000.0)
    assert screen.text.count("live workers") == 10
    assert "Look again." in screen.text
    assert screen.press("y").asked == [Prepare(Action(Verb.STOP, "b")), LookNow()]
    assert "live workers" not in screen.text


def test_a_refusal_that_comes_late_does_not_take_keys_that_are_meant_for_something_else():
    screen = seen().press("/").take(Refused(Action(Verb.STOP, "b"), "no"))
    assert screen.state.dialog is None
    assert "Stop b: no" in screen.text


@pytest.mark.parametrize(
    ("view", "letter", "action"),
    [
        ("1", "f", Action(Verb.RESTART_FAILED, "b")),
        ("1", "c", Action(Verb.RESTART_CONNECTOR, "b")),
        ("1", "a", Action(Verb.RESTART_ALL, "b")),
        ("2", "t", Action(Verb.RESTART_TASK, "b", 0)),
    ],
)
def test_a_restart_asks_what_of_it_and_then_whether(view, letter, action):
    screen = seen().press(view, "R", letter)
    assert screen.asked == [Prepare(action)]
    assert isinstance(screen.state.dialog, Confirm)
    assert screen.take(Prepared(action)).press("y").asked == [Make(action)]


def test_a_restart_without_a_worker_is_refused_with_a_sentence():
    screen = Driven(is_direct=True).take(look(connector("b", "FAILED"))).press("R")
    assert screen.state.dialog is None
    assert "A restart needs a worker" in screen.text


def test_enter_opens_a_connector_and_its_parts_are_asked_for_when_they_are_looked_at():
    screen = seen().press("enter")
    assert screen.asked == []
    assert screen.press("3").asked == [Fetch("b", Part.CONFIG)]
    screen.take(Fetched("b", Part.CONFIG, ("topic = t", "password = [hidden]")))
    assert "password = [hidden]" in screen.text
    assert screen.press("tab").asked == [Fetch("b", Part.OFFSETS)]
    screen.take(Fetched("b", Part.OFFSETS, problem="w1 did not answer within 15 s"))
    assert "did not answer within 15 s" in screen.text
    screen.press("escape", "escape")
    assert screen.state.detail is None


def test_an_answer_for_a_page_that_was_left_is_dropped():
    screen = seen().press("enter", "3", "escape", "down", "enter", "3")
    screen.take(Fetched("b", Part.CONFIG, ("of = b",)))
    assert "of = b" not in screen.text


def test_the_trace_begins_with_the_root_cause_and_names_all_tasks_that_have_it():
    screen = Driven(lines=40).take(look(connector("b", "FAILED", "RUNNING", "FAILED", trace=BOOM)))
    lines = screen.press("enter", "2").text.splitlines()
    assert lines[4] == "task 0, task 2: ConnectionRefusedError: db:5432"
    assert sum("Traceback" in line for line in lines) == 1, "the same trace is shown once"


def test_a_long_trace_is_scrolled_to_its_end_and_no_further():
    trace = "top\n" + "\n".join(f"line {number}" for number in range(60))
    screen = Driven(lines=15).take(look(connector("b", "FAILED", trace=trace))).press("enter", "2", "end")
    assert "line 59" in screen.text
    screen.press("down", "pagedown")
    assert "line 59" in screen.text
    assert "line 59" not in screen.press("home").text


def test_enter_on_a_worker_shows_its_tasks():
    screen = seen().press("4", "enter")
    assert screen.state.view is View.TASKS
    assert screen.state.listing.filter == "w1:8083"
    assert len(screen.names) == 4


def test_a_worker_that_dies_is_reported_with_the_age_of_what_is_known_and_its_rates_are_gone():
    screen = seen()
    assert "75 records/s" in screen.text
    screen.take(worker(problem="Nobody answers at http://w1:8083 (connection refused)"), now_s=112.0)
    assert "(1 unreachable)" in screen.text
    assert "Worker w1:8083 does not answer (last answer 12 s ago): Nobody answers" in screen.text
    assert "75 records/s" not in screen.text
    assert "unreachable" in screen.press("4").text
    screen.take(worker(at_s=113.0, rates={TaskId("a", 0): 5.0}), now_s=113.0)
    assert "does not answer" not in screen.text


def test_a_worker_that_answers_and_is_not_well_is_reported_until_kafka_is_said_to_be_away():
    screen = seen().take(worker(rates={TaskId("a", 0): 5.0}, unwell="w1 did not answer GET /health within 4 s"))
    assert "Worker w1:8083 is unhealthy: w1 did not answer GET /health within 4 s" in screen.text
    assert "5 records/s" in screen.text
    away = Outage(1_700_000_000_000, 83.0, "kafka:9092", "kafka:9092: Connection refused", 5)
    screen.take(look(connector("a", "RUNNING"), outage=away))
    assert "is unhealthy" not in screen.text
    screen.press("4")
    (row,) = [line.split() for line in screen.text.splitlines() if line.startswith("w1:8083")]
    assert row[1] == "unhealthy"


def test_what_a_healthy_worker_has_to_say_stands_above_the_list():
    said = "The certificate of the listener expires in 3 days"
    screen = seen().take(worker(rates={TaskId("a", 0): 5.0}, notices=(said,)))
    assert f"Worker w1:8083 says: {said}." in screen.text
    screen.take(worker(at_s=113.0, rates={TaskId("a", 0): 5.0}), now_s=113.0)
    assert said not in screen.text


def test_when_nobody_answers_what_was_known_stays_with_its_age():
    screen = seen().take(StatusLook(at_s=130.0, problem="Nobody answers at http://w1:8083"), now_s=131.0)
    assert "Nobody answers at http://w1:8083. What is shown is 31 s old." in screen.text
    assert len(screen.names) == 4
    screen.take(look(connector("a", "RUNNING"), at_s=132.0), now_s=132.0)
    assert "Nobody answers" not in screen.text


def test_before_any_answer_the_hint_is_shown():
    screen = Driven().take(StatusLook(at_s=100.0, problem="Nobody answers", hint="Is the worker running?"))
    assert "Is the worker running?" in screen.text
    assert "no answer yet" in screen.text


def test_an_outage_of_kafka_is_a_banner_with_since_when():
    away = Outage(1_700_000_000_000, 83.0, "kafka:9092", "kafka:9092: Connection refused", 5)
    screen = seen().take(look(connector("a", "RUNNING"), outage=away))
    assert "Kafka has been away since" in screen.text
    assert "(83 s)" in screen.text


def test_what_nobody_tells_is_a_dash_and_not_a_zero():
    screen = Driven().take(look(connector("a", "RUNNING")), worker(kind="Java"))
    (row,) = [line for line in screen.text.splitlines() if line.startswith("a ")]
    assert row.split() == ["a", "source", "RUNNING", "1/1", "-", "-", "-"]
    assert "no rates: Java's workers do not tell them" in screen.text
    assert "Java's workers run tasks in threads of their own" in screen.press("3").text


def test_a_forgotten_worker_leaves_the_screen():
    screen = seen().take(worker(problem="gone"), now_s=101.0)
    screen.take(look(connector("a", "RUNNING", worker="w2:8083"), at_s=500.0), now_s=500.0)
    assert "w1:8083" not in screen.press("4").names


def test_quit_and_look_now():
    assert seen().press(" ", "q").asked == [LookNow(), Quit()]


def test_the_cursor_stays_on_the_screen_also_when_it_shrinks():
    screen = Driven(lines=40).take(look(*(connector(f"c{number:03}", "RUNNING") for number in range(1_000))))
    screen.press("pagedown", "pagedown")
    assert screen.under_cursor in screen.text
    screen.take(Resized(60, 12))
    assert screen.under_cursor in screen.text
    assert screen.press("end").under_cursor == "c999"
    assert "c999" in screen.text
    assert screen.press("home").under_cursor == "c000"


def test_no_key_breaks_an_empty_screen():
    screen = Driven()
    keys = [
        "up",
        "down",
        "enter",
        "p",
        "R",
        "s",
        "<",
        "i",
        "w",
        "2",
        "3",
        "enter",
        "4",
        "pagedown",
        "G",
        "escape",
        "tab",
    ]
    for key in keys:
        assert len(screen.press(key).text.splitlines()) <= 24
