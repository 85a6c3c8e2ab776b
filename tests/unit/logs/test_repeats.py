"""Equal messages are counted instead of repeated."""

from __future__ import annotations

import logging

import pytest

from kconnect.logs.repeats import RepeatCounts, Repeated, RepeatedMessages


def test_the_first_is_reported_at_once_and_the_rest_at_growing_intervals():
    counts = RepeatCounts()
    reported = [(step / 10, counts.note("no route", step / 10)) for step in range(1001)]
    seen = [(at_s, found.times) for at_s, found in reported if found is not None]
    assert seen == [(0.0, 0), (10.0, 100), (30.0, 200), (70.0, 400)]


def test_another_message_is_not_held_back_by_one_that_repeats():
    counts = RepeatCounts()
    assert counts.note("no route", 0.0) == Repeated(0, 0.0)
    assert counts.note("no disk", 0.1) == Repeated(0, 0.0)
    assert counts.note("no route", 0.2) is None


def test_a_message_that_was_away_for_long_is_new_again():
    counts = RepeatCounts()
    counts.note("no route", 0.0)
    assert counts.note("no route", 60.0) == Repeated(1, 60.0), "as with the longest pause between retries"
    assert counts.note("no route", 200.0) == Repeated(0, 0.0)


def test_texts_that_differ_each_time_do_not_fill_the_memory():
    counts = RepeatCounts()
    for number in range(10_000):
        counts.note(f"attempt {number}", number / 100)
    assert len(counts._seen) <= 32


def test_the_interval_grows_to_ten_minutes_and_no_further():
    counts = RepeatCounts()
    reported = [at_s for at_s in range(6000) if counts.note("no route", float(at_s)) is not None]
    assert reported[-1] - reported[-2] == 600


def test_the_log_says_how_often_and_where_it_was_called(caplog: pytest.LogCaptureFixture):
    now_s = [0.0]
    messages = RepeatedMessages(logging.getLogger("kconnect.test"), lambda: now_s[0])
    for _ in range(165):
        messages.log(logging.WARNING, "%s failed: %s", "poll()", "no route")
        now_s[0] += 0.0625
    assert [record.getMessage() for record in caplog.records] == [
        "poll() failed: no route",
        "poll() failed: no route (repeated 160 times in the last 10 s)",
    ]
    assert {record.filename for record in caplog.records} == {"test_repeats.py"}
