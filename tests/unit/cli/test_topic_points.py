"""--at and --until as people write them, and text of a topic on a terminal."""

from __future__ import annotations

import pytest

from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.topic_points import milliseconds_of, offsets_of
from kconnect_cli.screen.topic_pages import safe


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:01:00Z", 60_000),
        ("1970-01-01T01:01:00+01:00", 60_000),
        ("-10m", 400_000),
        (" -500ms", 999_500),
    ],
)
def test_a_time_is_iso_8601_or_how_long_ago(text, milliseconds):
    assert milliseconds_of(text, "--until", 1000.0) == milliseconds


def test_a_time_without_a_zone_is_local(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "UTC-2")  # POSIX: two hours east
    time.tzset()
    try:
        assert milliseconds_of("1970-01-01T02:01", "--until", 0.0) == 60_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["yesterday", "-10x", "-", "", "2026-13-01"])
def test_what_is_no_time_is_refused_with_the_option(text):
    with pytest.raises(UsageProblem, match="--until"):
        milliseconds_of(text, "--until", 1000.0)


def test_offsets_name_their_partition_where_there_are_several():
    assert offsets_of(["12"], "--at", has_one_partition=True) == {0: 12}
    assert offsets_of(["3:12", "0:7"], "--at", has_one_partition=False) == {3: 12, 0: 7}


@pytest.mark.parametrize("texts", [["12"], ["x:1"], ["1:2:3"], ["-1:2"], ["1:2", "1:3"]])
def test_wrong_offsets_are_refused(texts):
    with pytest.raises(UsageProblem, match="--at"):
        offsets_of(texts, "--at", has_one_partition=False)


def test_control_characters_do_not_reach_a_terminal():
    assert safe("a\x1b[31m\tb\u202e\ud800 \u00e9 c") == "a\\x1b[31m\\tb\\u202e\\ud800 \u00e9 c"
